//! Era probing against servers that answer it incorrectly.

mod memory;
mod over_http;
mod stdio;

use toolway_wire::{
    error::WireError,
    revision::Revision,
    up::{Peer, transport::HttpMode},
};

/// Result of connecting to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probed {
    /// Negotiated revision and transport.
    SupportedEras(Revision, HttpMode),
    /// Error code of the failed connection.
    Fails(&'static str),
}

/// Newest revision with sessions.
pub(crate) const WITH_SESSION: Probed = Probed::SupportedEras(Revision::V2025_11_25, HttpMode::Session);
/// Revision without sessions.
pub(crate) const WITHOUT_SESSION: Probed = Probed::SupportedEras(Revision::V2026_07_28, HttpMode::Stateless);

impl Probed {
    pub(crate) fn of(met: &Result<Peer, WireError>) -> Self {
        match met {
            Ok(peer) => Self::SupportedEras(peer.profile().revision, peer.protocol().http_mode),
            Err(error) => Self::Fails(error.code()),
        }
    }
}
