//! The socket between the host and the keeper: bytes and file descriptors.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd},
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

use super::protocol::FrameBuffer;

/// Descriptors per message.
const DESCRIPTORS: usize = 3;
/// Bytes read at a time.
const CHUNK: usize = 16 * 1024;

/// Writes a whole message to a blocking socket; the descriptors go with its first byte.
pub(super) fn send(socket: impl AsFd, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut sent = send_some(&socket, message, descriptors)?;
    while sent < message.len() {
        sent += send_some(&socket, &message[sent..], &[])?;
    }
    Ok(())
}

/// Writes as much as the socket accepts; returns the number of bytes.
pub(super) fn send_some(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many file descriptors"));
    }
    loop {
        match sendmsg(&socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL) {
            Ok(sent) => return Ok(sent),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reads once; returns 0 at the end of the stream.
pub(super) fn receive(socket: impl AsFd, buffer: &mut FrameBuffer) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut chunk = [0; CHUNK];
    let received = loop {
        match recvmsg(&socket, &mut [IoSliceMut::new(&mut chunk)], &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => break received,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    };
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            buffer.descriptors.extend(descriptors);
        }
    }
    buffer.bytes.extend_from_slice(&chunk[..received.bytes]);
    Ok(received.bytes)
}
