//! The sessions that servers issue, kept beyond the life of a process: the port that stores them.
//!
//! A session is stored when it is issued and removed when it is deleted at the server. After the process was killed, the
//! next one takes it over and resumes it. Its id lets its holder use the session, so it appears in no log.

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use toolway_config::ServerName;
use toolway_wire::{
    json::Raw,
    up::{KeptSession, SessionObserver},
};
use uuid::Uuid;

use crate::record::RecordsError;

/// Whose session it is. A connection resumes only a session of an equal owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionOwner {
    /// The server that issued it.
    pub server: ServerName,
    /// The caller that the connection is reserved for; the word of the host for a connection that callers share.
    pub caller: String,
    /// Digest of the capabilities that were declared and of the sign-in that was used.
    pub profile: String,
    /// Digest of URL, headers and credentials of the server, with references resolved.
    pub entry: String,
}

/// What is stored of a session: all that a later connection needs to resume it.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredSession {
    /// Session id.
    pub id: String,
    /// Negotiated revision.
    pub revision: String,
    /// The server's `initialize` result: its name, capabilities and instructions.
    pub hello: String,
}

/// A stored session that this process has taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedSession {
    /// Its place in the store.
    pub slot: Uuid,
    /// What is needed to resume it.
    pub session: StoredSession,
}

/// Stores sessions. A process uses those that it has put or claimed, and no other process does.
pub trait SessionStore: Send + Sync {
    /// Stores the session of a slot, in place of the one before. Resolves once it survives the end of the process.
    fn put(&self, slot: Uuid, owner: SessionOwner, session: StoredSession) -> BoxFuture<'_, Result<(), RecordsError>>;

    /// Takes over the newest session of this owner that no running process uses. Sessions of the same server, caller and
    /// profile under another entry are removed.
    fn claim(&self, owner: SessionOwner) -> BoxFuture<'_, Result<Option<ClaimedSession>, RecordsError>>;

    /// Lets the next process, or the next connection of this one, claim the session.
    fn release(&self, slot: Uuid) -> BoxFuture<'_, Result<(), RecordsError>>;

    /// Removes a session.
    fn remove(&self, slot: Uuid) -> BoxFuture<'_, Result<(), RecordsError>>;
}

/// The place of one connection's session in the store.
pub(crate) struct SessionSlot {
    store: Arc<dyn SessionStore>,
    owner: SessionOwner,
    id: Uuid,
    /// Nothing awaits under this lock.
    contents: Mutex<Contents>,
}

/// What is stored in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contents {
    Nothing,
    /// The session of an earlier process, which is being resumed.
    Claimed,
    /// The session that the connection uses.
    Used,
}

/// How an attempt to resume a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResumeAttempt {
    /// The connection uses the session.
    Resumed,
    /// The connection uses none, or another one.
    Superseded,
    /// There is no connection.
    Failed,
}

/// Largest handshake result that is stored, in bytes. A server with a larger one gets a new handshake after a restart.
const MAX_HELLO: usize = 256 * 1024;

impl StoredSession {
    fn of(session: &KeptSession) -> Self {
        let KeptSession { id, revision, hello } = session;
        Self { id: id.clone(), revision: revision.as_str().to_owned(), hello: hello.to_string() }
    }

    /// The session to resume; `None` if this release does not know its revision.
    fn kept(self) -> Option<KeptSession> {
        Some(KeptSession { id: self.id, revision: self.revision.parse().ok()?, hello: Raw::parse(self.hello).ok()? })
    }
}

impl SessionSlot {
    /// Claims a session of this owner, to be resumed; without one, a slot for the session that will be issued.
    pub(crate) async fn claim(store: &Arc<dyn SessionStore>, owner: SessionOwner) -> (Arc<Self>, Option<KeptSession>) {
        let claimed = store.claim(owner.clone()).await.unwrap_or_else(|error| {
            tracing::warn!(server = %owner.server, %error, "cannot read the stored session");
            None
        });
        let id = claimed.as_ref().map_or_else(Uuid::now_v7, |claimed| claimed.slot);
        let contents = if claimed.is_some() { Contents::Claimed } else { Contents::Nothing };
        let slot = Arc::new(Self { store: Arc::clone(store), owner, id, contents: contents.into() });
        (slot, claimed.and_then(|claimed| claimed.session.kept()))
    }

    /// After the attempt to connect: a session that was resumed is in use, one that could not be tried is given back.
    pub(crate) async fn settle(&self, attempt: ResumeAttempt) {
        if *self.contents.lock() != Contents::Claimed {
            return;
        }
        match attempt {
            ResumeAttempt::Resumed => {
                *self.contents.lock() = Contents::Used;
                tracing::info!(server = %self.owner.server, caller = self.owner.caller, "session resumed");
            }
            ResumeAttempt::Superseded => self.ended().await,
            ResumeAttempt::Failed => self.left().await,
        }
    }

    fn report(&self, written: Result<(), RecordsError>) {
        if let Err(error) = written {
            tracing::warn!(server = %self.owner.server, %error, "cannot store the session");
        }
    }
}

impl SessionObserver for SessionSlot {
    fn issued(&self, session: KeptSession) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let before = std::mem::replace(&mut *self.contents.lock(), Contents::Used);
            if before == Contents::Used {
                tracing::warn!(server = %self.owner.server, caller = self.owner.caller, "the server has ended its session; a new one has begun");
            }
            let stored = match session.hello.as_bytes().len() <= MAX_HELLO {
                true => self.store.put(self.id, self.owner.clone(), StoredSession::of(&session)).await,
                // The one before must not be resumed.
                false => self.store.remove(self.id).await,
            };
            self.report(stored);
        })
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let before = std::mem::replace(&mut *self.contents.lock(), Contents::Nothing);
            if before == Contents::Claimed {
                tracing::warn!(server = %self.owner.server, caller = self.owner.caller, "the server no longer has the session of the last run; a new one begins");
            }
            self.report(self.store.remove(self.id).await);
        })
    }

    fn left(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            *self.contents.lock() = Contents::Nothing;
            self.report(self.store.release(self.id).await);
        })
    }
}

/// Hides the id, which lets its holder use the session.
impl fmt::Debug for StoredSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredSession").field("revision", &self.revision).finish_non_exhaustive()
    }
}
