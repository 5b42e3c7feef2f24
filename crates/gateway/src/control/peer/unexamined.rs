//! The process at the other end on systems where processes are not examined; `docs/security.md` says what that means.

use std::io;

use tokio::{
    io::Interest,
    net::{UnixListener, UnixStream},
};

use super::PeerOrigin;

/// Bytes read at a time.
const CHUNK: usize = 16 * 1024;

/// The process that has connected.
pub(in crate::control) struct PeerProcess;

impl PeerProcess {
    #[expect(clippy::unnecessary_wraps, reason = "fails on Linux")]
    pub(in crate::control) fn accept(_stream: &UnixStream) -> io::Result<Self> {
        Ok(Self)
    }

    pub(in crate::control) fn origin(&self) -> PeerOrigin {
        PeerOrigin::User
    }

    /// Reads some bytes; 0 at the end of the stream.
    pub(super) async fn receive(&self, stream: &UnixStream, into: &mut Vec<u8>) -> io::Result<usize> {
        let mut chunk = [0; CHUNK];
        let length = stream.async_io(Interest::READABLE, || stream.try_read(&mut chunk)).await?;
        into.extend_from_slice(&chunk[..length]);
        Ok(length)
    }
}

/// Does nothing.
#[expect(clippy::unnecessary_wraps, reason = "fails on Linux")]
pub(in crate::control) fn require_credentials(_listener: &UnixListener) -> io::Result<()> {
    Ok(())
}
