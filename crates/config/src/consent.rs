//! Acceptance of the servers of a project by the user, before they are started or connected.
//!
//! The summary shows what would happen. The digest covers all of it, including the values of variables and headers and
//! the contents of an `envFile` and of every `${file:…}`. Programs are not covered by content; the summary says so for
//! those inside the project. Acceptance is bound to the digest, so the user is asked again about any change, with the
//! difference.

mod ledger;
mod summary;

use std::{
    fmt,
    path::{Path, PathBuf},
};

use ring::digest::{SHA256, digest};

pub use ledger::{Acceptance, Accepted, LedgerError};
pub use summary::{ConsentSummary, SummaryLine};

use crate::server::{ServerConfig, ServerName};

/// A server of a project that the user has not accepted yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The server; it is not part of the configuration.
    pub server: ServerConfig,
    /// What is shown to the user.
    pub summary: ConsentSummary,
    /// Digest that the acceptance is bound to.
    pub digest: Digest,
    /// Whether the user accepted an earlier version.
    pub status: ProposalStatus,
}

/// Whether the user accepted an earlier version of a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProposalStatus {
    /// No server of this name in this file was accepted.
    New,
    /// An earlier version was accepted; these lines have changed.
    Changed(Vec<Difference>),
}

/// A line that changed since the acceptance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Subject of the line, such as `command`.
    pub what: String,
    /// Accepted text; `None` if the line is new.
    pub before: Option<String>,
    /// Current text; `None` if the line was removed.
    pub now: Option<String>,
}

/// SHA-256 of everything that was shown, including masked values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

/// Key of an acceptance: a server name in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryId {
    /// Path of the file that defines the server.
    pub file: PathBuf,
    /// Server name.
    pub name: ServerName,
}

// === impl Proposal ===

impl Proposal {
    /// The proposal for a server; `None` if the user accepted exactly this server.
    pub fn of(server: &ServerConfig, accepted: &Accepted) -> Option<Self> {
        let summary = ConsentSummary::of(server);
        let digest = summary.digest();
        let before = accepted.get(&EntryId::of(server));
        if before.is_some_and(|before| before.digest == digest) {
            return None;
        }
        let status =
            before.map_or(ProposalStatus::New, |before| ProposalStatus::Changed(before.summary.differences(&summary)));
        Some(Self { server: server.clone(), summary, digest, status })
    }

    /// The acceptance to store when the user accepts.
    pub fn acceptance(&self) -> (EntryId, Acceptance) {
        (EntryId::of(&self.server), Acceptance { digest: self.digest, summary: self.summary.clone() })
    }
}

// === impl EntryId ===

impl EntryId {
    /// The entry a server comes from.
    pub fn of(server: &ServerConfig) -> Self {
        Self { file: server.source.place.file.clone(), name: server.name.clone() }
    }

    /// Path of the file.
    pub fn file(&self) -> &Path {
        &self.file
    }
}

// === impl Digest ===

impl Digest {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
        Self(hash)
    }

    /// Parses the output of [`Display`](fmt::Display).
    pub fn parse(text: &str) -> Option<Self> {
        let mut hash = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (index, byte) in hash.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
        }
        Some(Self(hash))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}
