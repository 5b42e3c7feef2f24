//! Sessions that several gateways share: the id is sealed with the key of the cluster, and a row has what another gateway
//! needs to rebuild the session.
//!
//! The id on the wire opens only with that key, so an id that was made up asks no database. The row says whose session it
//! is; an id alone opens nothing. Requests in progress and their streams stay at their gateway.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use futures_util::future::BoxFuture;
use http::HeaderMap;

use super::Caller;
use crate::{
    cluster_key::{ClusterKey, ClusterKeys, KeyUse},
    exchange::LogLevel,
    header as mcp,
    json::{JsonKind, Raw},
    message::ClientCapabilities,
    revision::Revision,
    seal::{NoRandomness, Purpose, Sealer},
};

/// The sessions of a cluster. Clones share them.
#[derive(Clone)]
pub struct SharedSessions {
    rows: Arc<dyn SessionRows>,
    current: Arc<Sealer>,
    /// Opens ids that were sealed before the key was changed.
    accepted: Option<Arc<Sealer>>,
}

/// Stores the rows of sessions. The id of a row is 128 random bits in hexadecimal.
pub trait SessionRows: Send + Sync + fmt::Debug {
    /// Stores the row of a new session.
    fn begin(&self, id: &str, row: SessionRow) -> SessionReply<'_, ()>;

    /// The row of a session that was seen within `idle`; it is seen now. `None` if it has ended or was never stored.
    fn find(&self, id: &str, idle: Duration) -> SessionReply<'_, Option<SessionRow>>;

    /// Writes what the client has set, and leaves what it has set at other gateways; the session is seen now. Returns whether
    /// the session goes on.
    fn change(&self, id: &str, changes: SessionChanges) -> SessionReply<'_, bool>;

    /// Ends a session everywhere.
    fn end(&self, id: &str) -> SessionReply<'_, ()>;
}

/// An answer of the store that is waited for.
pub type SessionReply<'a, T> = BoxFuture<'a, Result<T, SessionRowsUnavailable>>;

/// The store of sessions cannot be used now. The details are for the operator, and logged where they arise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sessions of the cluster are not available")]
pub struct SessionRowsUnavailable;

/// What another gateway needs to rebuild a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// The principal that began it.
    pub principal: Arc<str>,
    /// Negotiated revision.
    pub revision: Revision,
    /// JSON of the capabilities that the client declared, at most [`MAX_CAPABILITIES`] bytes.
    pub capabilities: String,
    /// Least level of the logs that it wants; `None`: it has set none.
    pub log_level: Option<LogLevel>,
    /// URIs of the resources that it has subscribed to.
    pub subscriptions: BTreeSet<String>,
}

/// What a client has set at one gateway since its row was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionChanges {
    /// The log level, if it has set one.
    pub log_level: Option<LogLevel>,
    /// Subscriptions that it has made or ended, by URI.
    pub subscriptions: BTreeMap<String, SubscriptionChange>,
}

/// What became of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionChange {
    /// The client subscribed.
    Added,
    /// The client unsubscribed.
    Removed,
}

/// Largest declaration of capabilities in a shared session, in bytes.
pub const MAX_CAPABILITIES: usize = 2 * 1024;

impl SharedSessions {
    /// Sessions in these rows, under the keys of the cluster.
    pub fn new(rows: Arc<dyn SessionRows>, keys: &ClusterKeys) -> Result<Self, NoRandomness> {
        let sealer = |key: &ClusterKey| Sealer::with_key(&key.derive(KeyUse::Sessions)).map(Arc::new);
        let accepted = keys.accepted.as_ref().map(sealer).transpose()?;
        Ok(Self { rows, current: sealer(&keys.current)?, accepted })
    }

    /// The id of the row that the headers of a request name; `None` if they name no session of the cluster, or more than one.
    pub fn named(&self, headers: &HeaderMap) -> Option<String> {
        let mut names = headers.get_all(mcp::SESSION_ID).iter();
        let name = names.next().filter(|_| names.next().is_none())?;
        self.open(name.to_str().ok()?)
    }

    pub(super) fn rows(&self) -> &dyn SessionRows {
        &*self.rows
    }

    /// The id on the wire for the id of a row.
    pub(super) fn seal(&self, row: &str) -> Result<String, NoRandomness> {
        self.current.seal(Purpose::Session, row.as_bytes())
    }

    /// The id of the row; `None` for an id that no gateway of the cluster has sealed.
    pub(super) fn open(&self, id: &str) -> Option<String> {
        let opened = self.current.open(Purpose::Session, id);
        let opened = opened.or_else(|| self.accepted.as_ref()?.open(Purpose::Session, id))?;
        String::from_utf8(opened).ok()
    }
}

impl SessionChanges {
    pub(super) fn is_empty(&self) -> bool {
        self.log_level.is_none() && self.subscriptions.is_empty()
    }
}

impl SessionRow {
    /// The row of a session that begins; `None` if its capabilities are too large.
    pub(super) fn of(caller: &Caller) -> Option<Self> {
        let capabilities = caller.capabilities.0.to_string();
        (capabilities.len() <= MAX_CAPABILITIES).then(|| Self {
            principal: Arc::clone(&caller.principal),
            revision: caller.revision,
            capabilities,
            log_level: None,
            subscriptions: BTreeSet::new(),
        })
    }

    /// The caller of the session with this id; `None` if its capabilities cannot be read.
    pub(super) fn caller(&self, id: &str) -> Option<Caller> {
        let capabilities = Raw::parse(self.capabilities.clone()).ok()?;
        (capabilities.kind() == JsonKind::Object).then(|| Caller {
            revision: self.revision,
            capabilities: ClientCapabilities(capabilities),
            info: None,
            principal: Arc::clone(&self.principal),
            session: Some(Arc::from(id)),
        })
    }
}

impl fmt::Debug for SharedSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedSessions(..)")
    }
}
