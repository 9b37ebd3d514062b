//! A name server that tells lies to order, by hand: a question's name and type in, addresses out, all with a TTL of 0.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;

/// What a name has, given how many questions for A records came before; `None`: there is no such name.
type Answers = dyn Fn(&str, usize) -> Option<Vec<IpAddr>> + Send + Sync;

/// A running name server.
pub struct NameServer {
    /// Where it answers.
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl NameServer {
    /// One that answers so.
    pub async fn start(
        answers: impl Fn(&str, usize) -> Option<Vec<IpAddr>> + Send + Sync + 'static,
    ) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let task = tokio::spawn(serve(socket, Arc::new(answers)));
        Self { address, task }
    }

    /// One whose names are addresses: `127-0-0-1.v4.test`, `--1.v6.test`; any other name is 127.0.0.1.
    pub async fn of_numbers() -> Self {
        Self::start(|name, _| {
            let v4 = name.strip_suffix(".v4.test").map(|text| text.replace('-', "."));
            let v6 = name.strip_suffix(".v6.test").map(|text| text.replace('-', ":"));
            let text = v4.or(v6).unwrap_or_else(|| "127.0.0.1".to_owned());
            Some(vec![text.parse().unwrap()])
        })
        .await
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(socket: UdpSocket, answers: Arc<Answers>) {
    let asked = AtomicUsize::new(0);
    let mut packet = [0; 1_500];
    while let Ok((size, from)) = socket.recv_from(&mut packet).await {
        if let Some(reply) = reply(&packet[..size], &*answers, &asked) {
            let _ = socket.send_to(&reply, from).await;
        }
    }
}

/// RFC 1035: a header of 12 bytes, the question (labels, type, class), then the answers, which point back at its name.
fn reply(packet: &[u8], answers: &Answers, asked: &AtomicUsize) -> Option<Vec<u8>> {
    let (mut at, mut labels) = (12, Vec::new());
    loop {
        let length = usize::from(*packet.get(at)?);
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(packet.get(at + 1..=at + length)?).to_lowercase());
        at += 1 + length;
    }
    let question = packet.get(12..at + 5)?;
    let kind = u16::from_be_bytes([packet[at + 1], packet[at + 2]]);
    let before = if kind == A { asked.fetch_add(1, Ordering::SeqCst) } else { 0 };
    let name = labels.join(".");
    let found = answers(&name, before);
    let mut records: Vec<(u16, Vec<u8>)> = Vec::new();
    if name == "alias.test" {
        records.push((CNAME, b"\x09127-0-0-1\x02v4\x04test\0".to_vec()));
    }
    for ip in found.iter().flatten() {
        match ip {
            IpAddr::V4(ip) if kind == A => records.push((A, Ipv4Addr::octets(ip).to_vec())),
            IpAddr::V6(ip) if kind == AAAA => records.push((AAAA, Ipv6Addr::octets(ip).to_vec())),
            _ => {}
        }
    }
    let code = if found.is_some() { 0 } else { 3 };
    let mut out = packet[..2].to_vec();
    out.extend([0x84 | packet[2] & 1, 0x80 | code, 0, 1, 0, records.len() as u8, 0, 0, 0, 0]);
    out.extend(question);
    // The question's name, or what the alias stands for, whose text begins 12 bytes into the first record.
    let alias = 12 + question.len() as u16 + 12;
    for (place, (kind, data)) in records.iter().enumerate() {
        let name = if place > 0 && records[0].0 == CNAME { alias } else { 12 };
        out.extend((0xc000 | name).to_be_bytes());
        out.extend(kind.to_be_bytes());
        out.extend([0, 1, 0, 0, 0, 0]);
        out.extend((data.len() as u16).to_be_bytes());
        out.extend(data);
    }
    Some(out)
}
