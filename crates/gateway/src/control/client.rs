//! The client side of the control socket, used by commands.

use std::{io, path::PathBuf};

use serde::de::DeserializeOwned;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
};
use toolway_host::{keeper::Descent, private_file};

use super::{ControlError, ControlRequest, ControlResponse, ControlSocket, Greeting, MAX_RESPONSE_BYTES, VERSION};

/// A connection to a running gateway.
#[derive(Debug)]
pub struct ControlConnection {
    read: BufReader<OwnedReadHalf>,
    write: OwnedWriteHalf,
    socket: PathBuf,
    /// Greeting received from the gateway.
    pub greeting: Greeting,
}

impl ControlConnection {
    /// Connects to the gateway; fails with [`ControlError::NoGateway`] if none is running.
    pub async fn open(control: &ControlSocket) -> Result<Self, ControlError> {
        let socket = control.socket();
        if !socket.exists() {
            return Err(ControlError::NoGateway);
        }
        control.check()?;
        let stream = UnixStream::connect(&socket).await.map_err(|problem| match problem.kind() {
            // Stale socket of a gateway that was killed.
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => ControlError::NoGateway,
            _ => ControlError::Broken { socket: socket.clone(), problem },
        })?;
        let broken = |problem| ControlError::Broken { socket: socket.clone(), problem };
        let peer = stream.peer_cred().map_err(broken)?;
        if peer.uid() != private_file::user() {
            return Err(ControlError::OtherUser(socket));
        }
        if peer.pid().is_some_and(|pid| is_of_server(pid.unsigned_abs())) {
            return Err(ControlError::OfServer(socket));
        }
        let (read, write) = stream.into_split();
        let mut read = BufReader::new(read);
        let greeting: Greeting = read_message(&mut read).await.map_err(broken)?;
        if greeting.control != VERSION {
            return Err(ControlError::Version(greeting.toolway));
        }
        Ok(Self { read, write, socket, greeting })
    }

    /// Sends a request and waits for its response.
    pub async fn request(&mut self, request: &ControlRequest) -> Result<ControlResponse, ControlError> {
        let broken = |problem| ControlError::Broken { socket: self.socket.clone(), problem };
        let mut text = serde_json::to_vec(request).map_err(|error| broken(error.into()))?;
        text.push(b'\n');
        self.write.write_all(&text).await.map_err(broken)?;
        read_message(&mut self.read).await.map_err(broken)
    }
}

/// Whether the process that listens is one of a server, and this process is not.
fn is_of_server(listening: u32) -> bool {
    matches!(Descent::of(listening), Descent::Marked | Descent::Ancestor { .. }) && !Descent::own().is_of_server()
}

async fn read_message<T: DeserializeOwned>(read: &mut BufReader<OwnedReadHalf>) -> io::Result<T> {
    let mut text = Vec::new();
    read.take(MAX_RESPONSE_BYTES as u64).read_until(b'\n', &mut text).await?;
    if text.last() != Some(&b'\n') {
        return Err(io::Error::other("connection closed"));
    }
    serde_json::from_slice(&text).map_err(io::Error::other)
}
