//! The protocol between host and keeper: length-prefixed JSON.
//!
//! The three streams of a program are sent as descriptors with its start command; [`super::channel`] carries both.

use std::{collections::VecDeque, ffi::OsString, io, os::fd::OwnedFd};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{ProcessExit, ShutdownTimeouts};

/// A command to the keeper.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum KeeperCommand {
    /// Start a program; its stdin, stdout and stderr descriptors come with the command.
    Start { server: ServerNumber, program: ProgramSpec },
    /// End a program and all its descendants.
    End { server: ServerNumber, timeouts: ShutdownTimeouts },
}

/// A program to start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ProgramSpec {
    pub(crate) command: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) directory: OsString,
    pub(crate) environment: Vec<(OsString, OsString)>,
}

/// A report of the keeper.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum KeeperReport {
    /// The keeper accepts commands.
    Ready,
    Started {
        server: ServerNumber,
        pid: i32,
    },
    NotStarted {
        server: ServerNumber,
        code: Option<i32>,
        reason: String,
    },
    /// The started process has ended; its children may still run.
    Ended {
        server: ServerNumber,
        how: ProcessExit,
    },
    /// No process of the server is left.
    Gone {
        server: ServerNumber,
    },
}

/// Number of a server at its keeper, from 1.
pub(super) type ServerNumber = u32;

/// Received bytes and descriptors that are not read yet.
#[derive(Debug, Default)]
pub(super) struct FrameBuffer {
    pub(super) bytes: Vec<u8>,
    pub(super) descriptors: VecDeque<OwnedFd>,
}

/// Size limit of a message. The system limits arguments and environment to 2 MiB, which is less than this as JSON.
const MAX_MESSAGE: usize = 16 * 1024 * 1024;
const LENGTH: usize = size_of::<u32>();

/// Encodes a message with its length.
pub(super) fn framed(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; LENGTH];
    serde_json::to_writer(&mut frame, message)?;
    let length = frame.len() - LENGTH;
    if MAX_MESSAGE < length {
        return Err(io::Error::other("its arguments and environment variables are too long"));
    }
    let length = u32::try_from(length).map_err(io::Error::other)?;
    frame[..LENGTH].copy_from_slice(&length.to_be_bytes());
    Ok(frame)
}

// === impl FrameBuffer ===

impl FrameBuffer {
    /// The next message, if it is complete.
    pub(super) fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some(length) = self.bytes.first_chunk::<LENGTH>() else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes(*length)).map_err(io::Error::other)?;
        if MAX_MESSAGE < length {
            return Err(io::Error::other("a message to or from the keeper process is too long"));
        }
        let Some(message) = self.bytes.get(LENGTH..LENGTH + length) else { return Ok(None) };
        let message = serde_json::from_slice(message)?;
        drop(self.bytes.drain(..LENGTH + length));
        Ok(Some(message))
    }

    /// The descriptors of the command that was just read.
    pub(super) fn streams(&mut self) -> io::Result<[OwnedFd; 3]> {
        let streams: Vec<OwnedFd> = self.descriptors.drain(..self.descriptors.len().min(3)).collect();
        streams.try_into().map_err(|_| io::Error::other("its stdin, stdout and stderr descriptors are missing"))
    }
}

#[cfg(test)]
mod tests {
    use super::{FrameBuffer, KeeperCommand, ShutdownTimeouts, framed};

    #[test]
    fn messages_are_read_once_complete() {
        let command = KeeperCommand::End { server: 7, timeouts: ShutdownTimeouts::LONG_LIVED };
        let frame = [framed(&command).unwrap(), framed(&command).unwrap()].concat();
        let (mut buffer, mut read) = (FrameBuffer::default(), 0);
        for byte in frame {
            buffer.bytes.push(byte);
            while let Some(message) = buffer.next::<KeeperCommand>().unwrap() {
                assert!(matches!(message, KeeperCommand::End { server: 7, timeouts: ShutdownTimeouts::LONG_LIVED }));
                read += 1;
            }
        }
        assert_eq!((read, buffer.bytes.len()), (2, 0));
        assert!(buffer.streams().is_err());
    }

    #[test]
    fn excessive_length_is_refused() {
        let mut buffer = FrameBuffer { bytes: vec![0xff; 4], ..FrameBuffer::default() };
        assert!(buffer.next::<KeeperCommand>().is_err());
    }
}
