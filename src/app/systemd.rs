//! Tells systemd how far the service is (sd_notify(3)), for units of `Type=notify`. Without systemd nothing happens.

use std::{env, os::unix::net::UnixDatagram};

/// Names the socket at which systemd listens.
const SOCKET: &str = "NOTIFY_SOCKET";

/// Sends a state, such as `READY=1`. A failure is logged: systemd then gives up on the service, and its log should say why.
pub(super) fn notify(state: &str) {
    let Some(socket) = env::var_os(SOCKET) else { return };
    let sent = UnixDatagram::unbound().and_then(|from| from.send_to(state.as_bytes(), socket));
    if let Err(error) = sent {
        tracing::warn!(%error, state, "systemd cannot be notified");
    }
}
