//! Which era does this server speak? One row for each way in which servers answer that badly.

mod lines;
mod memory;
mod over_http;

use toolway_wire::{
    error::WireError,
    revision::Revision,
    up::{Peer, transport::Manner},
};

/// What comes of meeting a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Met {
    /// It speaks this revision, over HTTP in this manner.
    Speaks(Revision, Manner),
    /// It cannot be spoken to; the error's code.
    Fails(&'static str),
}

/// With a session, in the newest revision that has one.
pub(crate) const WITH_SESSION: Met = Met::Speaks(Revision::V2025_11_25, Manner::Session);
/// Without one.
pub(crate) const WITHOUT_SESSION: Met = Met::Speaks(Revision::V2026_07_28, Manner::Stateless);

impl Met {
    pub(crate) fn of(met: &Result<Peer, WireError>) -> Self {
        match met {
            Ok(peer) => Self::Speaks(peer.profile().revision, peer.found().manner),
            Err(error) => Self::Fails(error.code()),
        }
    }
}
