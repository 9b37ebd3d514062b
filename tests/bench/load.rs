//! The load on other servers: one thread and as many connections as `dueq bench` has, each of which sends its next request as
//! soon as the last one is answered. It shares the cores with what it measures, as `dueq bench` does, so it reads no more of
//! an answer than the next request needs. A request costs both, and wrk, about the same.

use crate::{CONNECTIONS, SECONDS};
use rustix::{
    buffer::spare_capacity,
    event::epoll::{self, CreateFlags, EventData, EventFlags},
};
use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

/// What the bytes of an answer so far are.
pub enum Answer {
    Incomplete,
    /// So many messages are finished. The connection sends what was written for it, or its first request again.
    Finished(u32),
    /// The queue has no more messages, which ends the measurement.
    Empty,
}

/// Messages finished a second, by connections that begin with the request `first`. `read` is given the bytes of an answer
/// and writes the next request unless it is the first one again.
pub fn drive(port: u16, first: &[u8], read: impl Fn(&[u8], &mut Vec<u8>) -> Answer) -> f64 {
    let epoll = epoll::create(CreateFlags::CLOEXEC).expect("epoll");
    let connect = |index| {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        let data = EventData::new_u64(index);
        epoll::add(&epoll, &stream, data, EventFlags::IN).expect("an event");
        (stream, Vec::new())
    };
    let mut connections: Vec<(TcpStream, Vec<u8>)> = (0..CONNECTIONS as u64).map(connect).collect();
    let (start, limit) = (Instant::now(), Duration::from_secs(SECONDS));
    for (stream, _) in &mut connections {
        stream.write_all(first).expect("a request");
    }
    let mut events = Vec::with_capacity(CONNECTIONS);
    let (mut chunk, mut next) = ([0; 16_384], Vec::new());
    let (mut messages, mut last) = (0, Duration::ZERO);
    'load: while last < limit {
        events.clear();
        epoll::wait(&epoll, spare_capacity(&mut events), None).expect("events");
        for event in &events {
            let (stream, answer) = &mut connections[event.data.u64() as usize];
            let length = stream.read(&mut chunk).expect("an answer");
            assert!(length > 0, "the server closed a connection");
            answer.extend_from_slice(&chunk[..length]);
            next.clear();
            match read(answer, &mut next) {
                Answer::Incomplete => continue,
                Answer::Finished(more) => messages += more,
                Answer::Empty => break 'load,
            }
            answer.clear();
            stream.write_all(if next.is_empty() { first } else { &next }).expect("a request");
        }
        last = start.elapsed();
    }
    f64::from(messages) / last.as_secs_f64()
}

/// What an answer has after `mark`, up to the next quotation mark or space.
pub fn after<'a>(answer: &'a [u8], mark: &str) -> &'a str {
    let found = std::str::from_utf8(answer).ok().and_then(|text| text.split_once(mark));
    found.expect(mark).1.split(['"', ' ']).next().unwrap_or_default()
}
