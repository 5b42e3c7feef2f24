//! Who is at the other end of a control connection: the user, or a process that a server has started. Decided once, when the
//! connection is accepted.

#[cfg(target_os = "linux")]
mod held;
#[cfg(not(target_os = "linux"))]
mod unexamined;

use std::io;

use tokio::net::unix::OwnedReadHalf;

use super::MAX_REQUEST_BYTES;

#[cfg(target_os = "linux")]
pub(super) use held::{PeerProcess, require_credentials};
#[cfg(not(target_os = "linux"))]
pub(super) use unexamined::{PeerProcess, require_credentials};

/// Origin of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerOrigin {
    /// A command of the user.
    User,
    /// A server of any keeper, or a program that one has started.
    Server,
}

/// Reads the requests of one connection, all from the process that has connected.
pub(super) struct PeerReader {
    read: OwnedReadHalf,
    process: PeerProcess,
    unread: Vec<u8>,
}

impl PeerReader {
    pub(super) fn new(read: OwnedReadHalf, process: PeerProcess) -> Self {
        Self { read, process, unread: Vec::new() }
    }

    pub(super) fn origin(&self) -> PeerOrigin {
        self.process.origin()
    }

    /// The next line without its line end; `None` at the end of the stream.
    pub(super) async fn next_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let rest = self.unread.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.unread, rest);
                line.pop();
                return Ok(Some(line));
            }
            if self.unread.len() >= MAX_REQUEST_BYTES {
                return Err(io::Error::other("the request is too long"));
            }
            let received = self.process.receive(self.read.as_ref(), &mut self.unread).await?;
            match received {
                0 if self.unread.is_empty() => return Ok(None),
                0 => return Err(io::Error::other("the request is incomplete")),
                _ => {}
            }
        }
    }
}
