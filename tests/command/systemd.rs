//! Under systemd, in a unit of `Type=notify`, dueq says when it is ready and when it stops.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::harness::{Dueq, Redis, temp_dir};

#[tokio::test]
async fn systemd_is_told_when_dueq_is_ready_and_when_it_stops() {
    let redis = Redis::start().await;
    let path = temp_dir("systemd").join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let told = || {
        let mut state = [0; 64];
        let length = socket.recv(&mut state).unwrap();
        String::from_utf8_lossy(&state[..length]).into_owned()
    };
    let mut dueq = Dueq::on(&redis).env("NOTIFY_SOCKET", &path).start().await;
    assert_eq!(told(), "READY=1");
    assert_eq!(dueq.term().await, 0);
    assert_eq!(told(), "STOPPING=1");

    // Nobody listens: it serves all the same, and says so.
    drop(socket);
    let mut dueq = Dueq::on(&redis).env("NOTIFY_SOCKET", &path).start().await;
    assert!(dueq.log().contains("systemd cannot be notified"), "{}", dueq.log());
    assert_eq!(dueq.term().await, 0);
}
