//! What a person is asked before a project's server runs or is dialled, and what they accepted before.
//!
//! The question shows what would happen; the digest covers all of it, the values of variables and headers included,
//! and what a file of variables holds.
//! Acceptance is bound to the digest, so anything that changes is asked about again, with the difference.

mod ledger;
mod shown;

use std::{
    fmt,
    path::{Path, PathBuf},
};

use ring::digest::{SHA256, digest};

pub use ledger::{Acceptance, Accepted, LedgerError};
pub use shown::{Line, Shown};

use crate::server::{ServerConfig, ServerName};

/// A project's server that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The server; it is not among those of the configuration.
    pub server: ServerConfig,
    /// What a person has to know.
    pub shown: Shown,
    /// What acceptance is bound to.
    pub digest: Digest,
    /// Whether something like it was accepted before.
    pub news: News,
}

/// Whether something was accepted before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Nothing of this name was, in this file.
    New,
    /// Something of this name was; these lines are different now.
    Changed(Vec<Difference>),
}

/// What changed since it was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Which line.
    pub what: String,
    /// What was accepted, if there was anything.
    pub before: Option<String>,
    /// What is there now, if there is anything.
    pub now: Option<String>,
}

/// A SHA-256 of everything that was shown and of the values behind it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

/// Which entry an acceptance is for: a name in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryId {
    /// The project's file.
    pub file: PathBuf,
    /// The server.
    pub name: ServerName,
}

// === impl Proposal ===

impl Proposal {
    /// The question about a server, in the light of what was accepted before; `None` if exactly this was.
    pub fn of(server: &ServerConfig, accepted: &Accepted) -> Option<Self> {
        let shown = Shown::of(server);
        let digest = shown.digest();
        let before = accepted.get(&EntryId::of(server));
        if before.is_some_and(|before| before.digest == digest) {
            return None;
        }
        let news = before.map_or(News::New, |before| News::Changed(before.shown.differences(&shown)));
        Some(Self { server: server.clone(), shown, digest, news })
    }

    /// What to remember when a person says yes.
    pub fn acceptance(&self) -> (EntryId, Acceptance) {
        (EntryId::of(&self.server), Acceptance { digest: self.digest, shown: self.shown.clone() })
    }
}

// === impl EntryId ===

impl EntryId {
    /// The entry a server comes from.
    pub fn of(server: &ServerConfig) -> Self {
        Self { file: server.source.place.file.clone(), name: server.name.clone() }
    }

    /// The file.
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

    /// From the form that [`Display`](fmt::Display) gives.
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
