//! A command's side of a gateway's socket.

use std::{io, path::PathBuf};

use serde::de::DeserializeOwned;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
};
use toolway_host::private_file;

use super::{ControlError, Greeting, Order, Place, REPLY_BYTES, Reply, VERSION};

/// A line to a gateway that runs.
#[derive(Debug)]
pub struct Line {
    read: BufReader<OwnedReadHalf>,
    write: OwnedWriteHalf,
    socket: PathBuf,
    /// What it said of itself.
    pub greeting: Greeting,
}

impl Line {
    /// Calls the gateway at this place; [`ControlError::NoGateway`] where there is none.
    pub async fn open(place: &Place) -> Result<Self, ControlError> {
        let socket = place.socket();
        if !socket.exists() {
            return Err(ControlError::NoGateway);
        }
        place.check()?;
        let stream = UnixStream::connect(&socket).await.map_err(|problem| match problem.kind() {
            // Left behind by one that was killed.
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => ControlError::NoGateway,
            _ => ControlError::Broken { socket: socket.clone(), problem },
        })?;
        let broken = |problem| ControlError::Broken { socket: socket.clone(), problem };
        if stream.peer_cred().map_err(broken)?.uid() != private_file::user() {
            return Err(ControlError::Stranger(socket));
        }
        let (read, write) = stream.into_split();
        let mut read = BufReader::new(read);
        let greeting: Greeting = hear(&mut read).await.map_err(broken)?;
        if greeting.control != VERSION {
            return Err(ControlError::Version(greeting.toolway));
        }
        Ok(Self { read, write, socket, greeting })
    }

    /// Gives an order; what came of it.
    pub async fn ask(&mut self, order: &Order) -> Result<Reply, ControlError> {
        let broken = |problem| ControlError::Broken { socket: self.socket.clone(), problem };
        let mut text = serde_json::to_vec(order).map_err(|error| broken(error.into()))?;
        text.push(b'\n');
        self.write.write_all(&text).await.map_err(broken)?;
        hear(&mut self.read).await.map_err(broken)
    }
}

async fn hear<T: DeserializeOwned>(read: &mut BufReader<OwnedReadHalf>) -> io::Result<T> {
    let mut text = Vec::new();
    read.take(REPLY_BYTES as u64).read_until(b'\n', &mut text).await?;
    if text.last() != Some(&b'\n') {
        return Err(io::Error::other("it hung up"));
    }
    serde_json::from_slice(&text).map_err(io::Error::other)
}
