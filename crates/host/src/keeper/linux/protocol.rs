//! What we tell the keeper and what it tells us: JSON, each message after its length.
//!
//! The three streams of a program travel beside its order, as descriptors; [`super::channel`] carries both.

use std::{collections::VecDeque, ffi::OsString, io, os::fd::OwnedFd};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{HowEnded, Patience};

/// What the keeper is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// Start a program; its input, output and error streams come along.
    Start { server: ServerNumber, program: Start },
    /// See a program and everything that descends from it to its end.
    End { server: ServerNumber, patience: Patience },
}

/// A program, as it is executed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) command: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) directory: OsString,
    pub(crate) environment: Vec<(OsString, OsString)>,
}

/// What the keeper has to say.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// It keeps.
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
    /// The process that was started has ended; what it started may go on.
    Ended {
        server: ServerNumber,
        how: HowEnded,
    },
    /// Nothing of it is left.
    Gone {
        server: ServerNumber,
    },
}

/// We number the servers of a keeper, from 1.
pub(super) type ServerNumber = u32;

/// What has come in and was not read yet.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    pub(super) bytes: Vec<u8>,
    pub(super) descriptors: VecDeque<OwnedFd>,
}

/// The system takes no longer arguments and environment than two megabytes; as JSON they are at most this.
const MAX_MESSAGE: usize = 16 * 1024 * 1024;
const LENGTH: usize = size_of::<u32>();

/// A message as it travels.
pub(super) fn framed(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; LENGTH];
    serde_json::to_writer(&mut frame, message)?;
    let length = frame.len() - LENGTH;
    if MAX_MESSAGE < length {
        return Err(io::Error::other("its arguments and variables are too long"));
    }
    let length = u32::try_from(length).map_err(io::Error::other)?;
    frame[..LENGTH].copy_from_slice(&length.to_be_bytes());
    Ok(frame)
}

// === impl Inbox ===

impl Inbox {
    /// The next message, if all of it has come.
    pub(super) fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some(length) = self.bytes.first_chunk::<LENGTH>() else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes(*length)).map_err(io::Error::other)?;
        if MAX_MESSAGE < length {
            return Err(io::Error::other("a message to or from the keeper is too long"));
        }
        let Some(message) = self.bytes.get(LENGTH..LENGTH + length) else { return Ok(None) };
        let message = serde_json::from_slice(message)?;
        drop(self.bytes.drain(..LENGTH + length));
        Ok(Some(message))
    }

    /// The streams that came with the order that was just read.
    pub(super) fn streams(&mut self) -> io::Result<[OwnedFd; 3]> {
        let streams: Vec<OwnedFd> = self.descriptors.drain(..self.descriptors.len().min(3)).collect();
        streams.try_into().map_err(|_| io::Error::other("its streams did not come along"))
    }
}

#[cfg(test)]
mod tests {
    use super::{Inbox, Order, Patience, framed};

    #[test]
    fn messages_are_read_when_all_of_them_has_come() {
        let order = Order::End { server: 7, patience: Patience::LONG_LIVED };
        let frame = [framed(&order).unwrap(), framed(&order).unwrap()].concat();
        let (mut inbox, mut read) = (Inbox::default(), 0);
        for byte in frame {
            inbox.bytes.push(byte);
            while let Some(message) = inbox.next::<Order>().unwrap() {
                assert!(matches!(message, Order::End { server: 7, patience: Patience::LONG_LIVED }));
                read += 1;
            }
        }
        assert_eq!((read, inbox.bytes.len()), (2, 0));
        assert!(inbox.streams().is_err());
    }

    #[test]
    fn a_length_that_cannot_be_is_refused() {
        let mut inbox = Inbox { bytes: vec![0xff; 4], ..Inbox::default() };
        assert!(inbox.next::<Order>().is_err());
    }
}
