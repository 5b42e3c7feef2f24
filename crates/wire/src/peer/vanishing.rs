//! Notices on the connections of gateways that the other machine has vanished, as behind a cut cable. Linux only; elsewhere
//! the limits of [`super::PeerSilence`] alone say so.

use std::io;

use tokio::net::TcpStream;

/// Watches a connection on which requests are sent: also while what was written is not acknowledged.
#[cfg(target_os = "linux")]
pub(super) fn watch_responses(stream: &TcpStream) -> io::Result<()> {
    /// In milliseconds.
    const UNACKNOWLEDGED: u32 = 30_000;
    watch_requests(stream)?;
    Ok(rustix::net::sockopt::set_tcp_user_timeout(stream, UNACKNOWLEDGED)?)
}

/// Watches a connection on which requests are received. What is written to it may wait for a slow client of the other
/// gateway, so that it is watched only while nothing is written.
#[cfg(target_os = "linux")]
pub(super) fn watch_requests(stream: &TcpStream) -> io::Result<()> {
    use std::time::Duration;

    use rustix::net::sockopt;

    /// Silence before the first probe.
    const SILENCE: Duration = Duration::from_secs(10);
    /// Time between probes.
    const INTERVAL: Duration = Duration::from_secs(5);
    /// Probes without an answer that end the connection.
    const PROBES: u32 = 4;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, SILENCE)?;
    sockopt::set_tcp_keepintvl(stream, INTERVAL)?;
    Ok(sockopt::set_tcp_keepcnt(stream, PROBES)?)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn watch_responses(_: &TcpStream) -> io::Result<()> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn watch_requests(_: &TcpStream) -> io::Result<()> {
    Ok(())
}
