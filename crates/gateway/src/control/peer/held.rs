//! The process at the other end on Linux.
//!
//! The process that has connected is held by a pidfd, and the kernel attaches the credentials of the sender to every message.
//! A message is accepted only from the process that is held, and only while it runs: a descriptor that was passed on or
//! inherited is useless to another process, and so is a process id that is used again. A message that was sent before the
//! process was held is refused, because its sender may have ended since.

use std::{
    fs, io,
    io::IoSliceMut,
    mem::MaybeUninit,
    os::fd::{AsRawFd, OwnedFd},
};

use rustix::{
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recv, recvmsg,
        sockopt::{set_socket_passcred, socket_passcred},
    },
    process::{Pid, PidfdFlags, pidfd_open},
};
use tokio::{io::Interest, net::UnixStream};
use toolway_host::keeper::Descent;

use super::PeerOrigin;

/// Bytes read at a time.
const CHUNK: usize = 16 * 1024;

/// The process that has connected.
pub(in crate::control) struct PeerProcess {
    pid: i32,
    /// Refers to this process only, also after its id is used again.
    held: OwnedFd,
    origin: PeerOrigin,
}

/// What was read at once: bytes of one sender.
struct Received {
    bytes: Vec<u8>,
    /// Process id of the sender; absent at the end of the stream.
    sender: Option<i32>,
}

impl PeerProcess {
    /// Examines the process that has connected; fails if it has ended, or has sent something already.
    pub(in crate::control) fn accept(stream: &UnixStream) -> io::Result<Self> {
        // Inherited from the listener, so that no message comes without credentials.
        if !socket_passcred(stream)? {
            return Err(io::Error::other("the socket does not report credentials"));
        }
        let pid = stream.peer_cred()?.pid().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("the client is not visible in this pid namespace"))?;
        let held = pidfd_open(pid, PidfdFlags::empty())?;
        if has_message(stream)? {
            return Err(io::Error::other("the client sent a request before it was greeted"));
        }
        let pid = pid.as_raw_nonzero().get();
        let origin = match Descent::of(pid.unsigned_abs()) {
            Descent::Independent => PeerOrigin::User,
            Descent::Marked | Descent::Ancestor { .. } | Descent::Unknown => PeerOrigin::Server,
        };
        let process = Self { pid, held, origin };
        process.check_alive()?;
        Ok(process)
    }

    pub(in crate::control) fn origin(&self) -> PeerOrigin {
        self.origin
    }

    /// Reads some bytes, which must come from this process; 0 at the end of the stream.
    pub(super) async fn receive(&self, stream: &UnixStream, into: &mut Vec<u8>) -> io::Result<usize> {
        let Received { bytes, sender } = stream.async_io(Interest::READABLE, || receive(stream)).await?;
        if bytes.is_empty() {
            return Ok(0);
        }
        if sender != Some(self.pid) {
            tracing::warn!(connected = self.pid, sender, "refused a control request of a process that did not connect");
            return Err(io::Error::other("the request comes from another process than the one that connected"));
        }
        self.check_alive()?;
        into.extend_from_slice(&bytes);
        Ok(bytes.len())
    }

    /// Fails if the process has ended, reaped or not.
    fn check_alive(&self) -> io::Result<()> {
        let held = fs::read_to_string(format!("/proc/self/fdinfo/{}", self.held.as_raw_fd()))?;
        let is_held = held.lines().any(|line| line.strip_prefix("Pid:").map(str::trim) == Some(&self.pid.to_string()));
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
        if is_held && state.is_some_and(|state| !matches!(state, 'Z' | 'X')) {
            return Ok(());
        }
        tracing::warn!(pid = self.pid, "refused a control connection whose process has ended");
        Err(io::Error::other("the process that connected has ended"))
    }
}

/// Makes the kernel attach the credentials of the sender to each message of accepted connections.
pub(in crate::control) fn require_credentials(listener: &tokio::net::UnixListener) -> io::Result<()> {
    Ok(set_socket_passcred(listener, true)?)
}

/// Whether something can be read now.
fn has_message(stream: &UnixStream) -> io::Result<bool> {
    let mut byte = [0; 1];
    match recv(stream, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((length, _)) => Ok(length > 0),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn receive(stream: &UnixStream) -> io::Result<Received> {
    // Without space for descriptors: the kernel drops those that a client sends.
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut chunk = vec![0; CHUNK];
    let received = recvmsg(stream, &mut [IoSliceMut::new(&mut chunk)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    chunk.truncate(received.bytes);
    let sender = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmCredentials(credentials) => Some(credentials.pid.as_raw_nonzero().get()),
        _ => None,
    });
    Ok(Received { bytes: chunk, sender })
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        os::{fd::OwnedFd, unix::net::UnixStream as Blocking},
        process::{Command, Stdio},
    };

    use tokio::net::{UnixListener, UnixStream};

    use super::{PeerOrigin, PeerProcess, require_credentials};
    use crate::control::peer::PeerReader;

    /// A listener and its path.
    fn listener(folder: &tempfile::TempDir) -> (UnixListener, std::path::PathBuf) {
        let path = folder.path().join("test.sock");
        let listener = UnixListener::bind(&path).unwrap();
        require_credentials(&listener).unwrap();
        (listener, path)
    }

    async fn accept(listener: &UnixListener) -> UnixStream {
        listener.accept().await.unwrap().0
    }

    #[tokio::test]
    async fn requests_are_read_from_the_process_that_connected() {
        let folder = tempfile::tempdir().unwrap();
        let (listener, path) = listener(&folder);
        let mut client = Blocking::connect(path).unwrap();
        let stream = accept(&listener).await;
        let process = PeerProcess::accept(&stream).unwrap();
        assert_eq!(process.origin(), PeerOrigin::User);
        let mut reader = PeerReader::new(stream.into_split().0, process);
        client.write_all(b"one\ntwo\n").unwrap();
        assert_eq!(reader.next_line().await.unwrap().unwrap(), b"one");
        assert_eq!(reader.next_line().await.unwrap().unwrap(), b"two");
        drop(client);
        assert_eq!(reader.next_line().await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_process_that_got_the_descriptor_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (listener, path) = listener(&folder);
        let client = Blocking::connect(path).unwrap();
        let stream = accept(&listener).await;
        let mut reader = PeerReader::new_for(stream);
        // The child writes to the connection that this process has opened.
        let status = Command::new("echo").arg("approve").stdout(Stdio::from(OwnedFd::from(client))).status().unwrap();
        assert!(status.success());
        let error = reader.next_line().await.unwrap_err();
        assert!(error.to_string().contains("another process than the one that connected"), "{error}");
    }

    #[tokio::test]
    async fn a_request_before_the_greeting_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (listener, path) = listener(&folder);
        let mut client = Blocking::connect(path).unwrap();
        client.write_all(b"approve\n").unwrap();
        let stream = accept(&listener).await;
        assert!(PeerProcess::accept(&stream).is_err());
    }

    impl PeerReader {
        fn new_for(stream: UnixStream) -> Self {
            let process = PeerProcess::accept(&stream).unwrap();
            Self::new(stream.into_split().0, process)
        }
    }
}
