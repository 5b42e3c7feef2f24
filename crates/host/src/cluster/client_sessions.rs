//! The port for the rows of client sessions, from which another gateway rebuilds a session.
//!
//! The words of the protocol are texts here: a gateway of another release may have written them.

use std::{collections::BTreeSet, fmt, time::Duration};

use futures_util::future::BoxFuture;
use uuid::Uuid;

use crate::record::RecordsError;

/// An answer of the store that is waited for.
pub type ClientSessionReply<'a, T> = BoxFuture<'a, Result<T, RecordsError>>;

/// Keeps the rows. Times are those of the store's own clock.
pub trait ClientSessionStore: Send + Sync + fmt::Debug {
    /// Stores the row of a new session. Sessions that are idle, and the oldest of its principal beyond the limit, end.
    fn begin(&self, id: Uuid, row: ClientSessionRow, limits: ClientSessionLimits) -> ClientSessionReply<'_, ()>;

    /// The row of a session that was seen within `idle`; it is seen now.
    fn find(&self, id: Uuid, idle: Duration) -> ClientSessionReply<'_, Option<ClientSessionRow>>;

    /// Writes what the client has set at one gateway; the session is seen now. Returns whether the session goes on.
    fn change(&self, id: Uuid, changes: ClientSessionChanges) -> ClientSessionReply<'_, bool>;

    /// Ends a session and frees its home. Without effect if it has ended.
    fn end(&self, id: Uuid) -> ClientSessionReply<'_, ()>;
}

/// What is kept about a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSessionRow {
    /// Name of the client that began it.
    pub principal: String,
    /// Fingerprint of its key: a later client of the same name does not get the session.
    pub key: String,
    /// Negotiated revision.
    pub revision: String,
    /// JSON of the capabilities that the client declared.
    pub capabilities: String,
    /// Least level of the logs that it wants; `None`: it has set none.
    pub log_level: Option<String>,
    /// URIs of the resources that it has subscribed to.
    pub subscriptions: BTreeSet<String>,
}

/// What a client has set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientSessionChanges {
    /// The log level, if it has set one.
    pub log_level: Option<String>,
    /// URIs to add.
    pub subscribed: Vec<String>,
    /// URIs to remove.
    pub unsubscribed: Vec<String>,
}

/// Limits of sessions, in the whole cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientSessionLimits {
    /// How long a session may be idle.
    pub idle: Duration,
    /// Sessions of one principal.
    pub per_principal: usize,
}
