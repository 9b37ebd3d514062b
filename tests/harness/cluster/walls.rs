//! Walls in a Cluster. The nodes are reached by doors only, which know by a caller's address on the loopback who it is: while a
//! wall stands, nothing passes between those within and the others. What is on its way waits, as TCP would repeat it, and
//! comes once the wall is gone.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::bus_port;
use crate::harness::redis::Redis;

/// The doors of all nodes, and the wall, if there is one. They end on drop.
pub struct Walls {
    within: watch::Sender<BTreeSet<IpAddr>>,
    doors: Vec<Door>,
    _tasks: JoinSet<()>,
}

/// Where a node is to be found.
struct Door {
    port: u16,
    bus: u16,
}

impl Walls {
    /// Puts doors before these nodes, which do not know of each other yet, and has them name only those.
    pub(super) async fn around(nodes: &[Redis]) -> Walls {
        let (within, tasks) = (watch::Sender::new(BTreeSet::new()), JoinSet::new());
        let mut walls = Walls { within, doors: Vec::new(), _tasks: tasks };
        for (index, node) in nodes.iter().enumerate() {
            let port = walls.door(index, node.port()).await;
            let bus = walls.door(index, bus_port(node).await).await;
            for (name, value) in [
                ("bind-source-addr", address_of(index).to_string()),
                ("cluster-announce-ip", "127.0.0.1".to_owned()),
                ("cluster-announce-port", port.to_string()),
                ("cluster-announce-bus-port", bus.to_string()),
            ] {
                let _: () = node.command(&["CONFIG", "SET", name, &value]).await;
            }
            walls.doors.push(Door { port, bus });
        }
        walls
    }

    /// A door to this port of a node.
    async fn door(&mut self, index: usize, server: u16) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a door's port");
        let port = listener.local_addr().expect("its address").port();
        let within = self.within.subscribe();
        self._tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, caller)) = listener.accept().await {
                let (callers, owner) = (caller.ip(), address_of(index));
                connections.spawn(carry(client, server, Passage(within.clone(), callers, owner)));
                while connections.try_join_next().is_some() {}
            }
        });
        port
    }

    /// The ports of a node's doors: for clients, and for other nodes.
    pub(super) fn ports(&self, index: usize) -> (u16, u16) {
        (self.doors[index].port, self.doors[index].bus)
    }

    /// A wall between these and all others, in the place of the one that stands.
    pub(super) fn raise(&self, within: impl IntoIterator<Item = IpAddr>) {
        self.within.send_replace(within.into_iter().collect());
    }
}

/// The address that a node calls from.
pub(super) fn address_of(index: usize) -> IpAddr {
    Ipv4Addr::new(127, 0, 1, index as u8 + 1).into()
}

/// Between a caller and the owner of a door.
#[derive(Clone)]
struct Passage(watch::Receiver<BTreeSet<IpAddr>>, IpAddr, IpAddr);

impl Passage {
    /// Waits until no wall is between them.
    async fn open(&mut self) {
        let (one, other) = (self.1, self.2);
        let _ = self.0.wait_for(|within| within.contains(&one) == within.contains(&other)).await;
    }
}

/// One connection, until both sides have closed it.
async fn carry(client: TcpStream, server: u16, mut passage: Passage) {
    passage.open().await;
    let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (requests, to_client) = client.into_split();
    let (answers, to_server) = server.into_split();
    tokio::join!(relay(requests, to_server, passage.clone()), relay(answers, to_client, passage));
}

/// One direction of it.
async fn relay(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut passage: Passage) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = from.read(&mut buffer).await.unwrap_or(0);
        passage.open().await;
        if read == 0 || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
