//! The socket between us and the keeper: bytes, and descriptors beside them.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd},
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

use super::order::Inbox;

/// Descriptors that may come with one piece: several orders can be read at once.
const DESCRIPTORS: usize = 3;
/// Bytes read at a time.
const CHUNK: usize = 16 * 1024;

/// Writes all of a message on a socket that waits; the descriptors go with its first byte.
pub(super) fn send(socket: impl AsFd, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut sent = send_some(&socket, message, descriptors)?;
    while sent < message.len() {
        sent += send_some(&socket, &message[sent..], &[])?;
    }
    Ok(())
}

/// Writes what the socket takes of it.
pub(super) fn send_some(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many streams"));
    }
    loop {
        match sendmsg(&socket, &[IoSlice::new(bytes)], &mut beside, SendFlags::NOSIGNAL) {
            Ok(sent) => return Ok(sent),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reads once; 0 is the end.
pub(super) fn receive(socket: impl AsFd, inbox: &mut Inbox) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let mut chunk = [0; CHUNK];
    let came = loop {
        match recvmsg(&socket, &mut [IoSliceMut::new(&mut chunk)], &mut beside, RecvFlags::CMSG_CLOEXEC) {
            Ok(came) => break came,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    };
    for message in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            inbox.descriptors.extend(descriptors);
        }
    }
    inbox.bytes.extend_from_slice(&chunk[..came.bytes]);
    Ok(came.bytes)
}
