//! Sessions of the HTTP downstream: unguessable ids, bound to the principal that began them, limited in number and idle
//! time.
//!
//! A session ends when its client ends it, when it is idle for too long, or when its principal begins more sessions than
//! allowed. It is not idle while a request is in progress or a stream is read.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use http::{HeaderMap, HeaderValue, StatusCode};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    down::{
        Downstream,
        session::{self, DownstreamSession},
    },
    header as mcp,
    limit::Limits,
    message::RpcError,
    revision::Revision,
    seal,
};

#[derive(Debug)]
pub(super) struct SessionRegistry {
    downstream: Arc<Downstream>,
    limits: Limits,
    /// How long a session may be idle.
    idle_timeout: Duration,
    inner: Arc<SessionStore>,
}

/// Sessions of one downstream, or of several that share a limit.
#[derive(Debug, Default)]
pub(crate) struct SessionStore {
    // Nothing awaits under these locks; `sessions` is locked before `http_sse`.
    sessions: Mutex<HashMap<String, Arc<DownstreamSession>>>,
    /// Number of HTTP+SSE sessions of each principal: they end with their connections, and share the limits.
    http_sse: Mutex<HashMap<Arc<str>, usize>>,
    /// Task that ends idle sessions; runs while there are sessions.
    watch: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// The place of an HTTP+SSE session; free again when dropped.
#[derive(Debug)]
pub(super) struct HttpSseSlot {
    store: Arc<SessionStore>,
    principal: Arc<str>,
}

/// Reason why a request has no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoSession {
    /// No session id, or more than one.
    Unnamed,
    /// The session does not exist or belongs to another principal.
    Unknown,
    /// The header names a revision that is not enabled for sessions.
    ForeignVersion,
    /// The session is of the cluster, and its row cannot be read or written now.
    Unavailable,
}

impl SessionRegistry {
    /// Sessions of this downstream in this store.
    pub(super) fn of(downstream: &Arc<Downstream>, store: Arc<SessionStore>) -> Self {
        let (limits, idle_timeout) = (downstream.options.limits.clone(), downstream.options.session_idle);
        Self { downstream: Arc::clone(downstream), limits, idle_timeout, inner: store }
    }

    /// Adds a session and returns its id, which is `shared` if other gateways share the session; `None` if there are too
    /// many. Over the limit, the longest idle session of the same principal is ended; sessions of other principals are not
    /// affected.
    pub(super) fn add(&self, session: Arc<DownstreamSession>, shared: Option<HeaderValue>) -> Option<HeaderValue> {
        let name = match shared {
            Some(name) => name,
            None => HeaderValue::from_str(&seal::random_token().ok()?).ok()?,
        };
        let id = name.to_str().ok()?.to_owned();
        let mut sessions = self.inner.sessions.lock();
        self.make_room(&mut sessions, &session.caller.principal)?;
        sessions.insert(id, session);
        drop(sessions);
        self.keep_watch();
        Some(name)
    }

    /// Adds a session that was rebuilt under its id. Returns whether it was added: another request may have been faster.
    pub(super) fn adopt(&self, id: &str, session: &Arc<DownstreamSession>) -> Result<bool, NoSession> {
        let mut sessions = self.inner.sessions.lock();
        if sessions.contains_key(id) {
            return Ok(false);
        }
        self.make_room(&mut sessions, &session.caller.principal).ok_or(NoSession::Unavailable)?;
        sessions.insert(id.to_owned(), Arc::clone(session));
        drop(sessions);
        self.keep_watch();
        Ok(true)
    }

    fn keep_watch(&self) {
        self.inner.watch.lock().get_or_insert_with(|| watch(&self.inner, self.idle_timeout));
    }

    /// Takes a place for an HTTP+SSE session, under the same limits; `None` if there are too many.
    pub(super) fn add_http_sse(&self, principal: &Arc<str>) -> Option<HttpSseSlot> {
        let mut sessions = self.inner.sessions.lock();
        self.make_room(&mut sessions, principal)?;
        *self.inner.http_sse.lock().entry(Arc::clone(principal)).or_default() += 1;
        Some(HttpSseSlot { store: Arc::clone(&self.inner), principal: Arc::clone(principal) })
    }

    /// Ends the longest idle session of the principal if there is no room for another one; `None` if it has none.
    fn make_room(&self, sessions: &mut HashMap<String, Arc<DownstreamSession>>, principal: &Arc<str>) -> Option<()> {
        let http_sse = self.inner.http_sse.lock();
        let all = sessions.len() + http_sse.values().sum::<usize>();
        let own = sessions.values().filter(|other| other.caller.principal == *principal).count();
        let own = own + http_sse.get(principal).copied().unwrap_or_default();
        drop(http_sse);
        if self.limits.sessions <= all || self.limits.sessions_per_caller <= own {
            let longest = longest_idle(sessions, principal)?;
            sessions.remove(&longest)?.end();
        }
        Some(())
    }

    /// Finds the session of a request.
    ///
    /// CVE-2026-52869: a session id alone authorises nothing, so a session of another principal is unknown too.
    pub(super) fn find(
        &self,
        downstream: &Downstream,
        headers: &HeaderMap,
        principal: &str,
    ) -> Result<Arc<DownstreamSession>, NoSession> {
        let mut names = headers.get_all(mcp::SESSION_ID).iter();
        let name = names.next().filter(|_| names.next().is_none()).ok_or(NoSession::Unnamed)?;
        let name = name.to_str().map_err(|_| NoSession::Unknown)?;
        let session = self.inner.sessions.lock().get(name).cloned();
        let theirs = |session: &Arc<DownstreamSession>| {
            *session.caller.principal == *principal && session.is_of(&self.downstream)
        };
        let session = session.filter(theirs).ok_or(NoSession::Unknown)?;
        session.touch();
        let Some(version) = headers.get(mcp::PROTOCOL_VERSION) else { return Ok(session) };
        let version = version.to_str().ok().and_then(|version| version.parse::<Revision>().ok());
        let alike = |revision: Revision| revision.era() == session.caller.revision.era();
        let spoken = |revision| alike(revision) && downstream.options.revisions.contains(&revision);
        if version.is_some_and(spoken) { Ok(session) } else { Err(NoSession::ForeignVersion) }
    }

    /// Ends a session here.
    pub(super) fn forget(&self, session: &DownstreamSession) {
        self.inner.sessions.lock().retain(|_, other| !std::ptr::eq(&raw const **other, session));
        session.end();
    }

    /// Ends the sessions of one principal at this downstream, or all of them.
    pub(super) fn expel(&self, principal: Option<&str>) {
        let theirs =
            |session: &DownstreamSession| principal.is_none_or(|principal| *session.caller.principal == *principal);
        let mut sessions = self.inner.sessions.lock();
        let own: Vec<_> =
            sessions.extract_if(|_, session| session.is_of(&self.downstream) && theirs(session)).collect();
        drop(sessions);
        own.iter().for_each(|(_, session)| session.end());
    }

    /// Gives up sessions of this downstream, all or the one of a row, without cancelling their requests.
    pub(super) fn release(&self, row: Option<&str>) {
        let is_meant =
            |session: &DownstreamSession| row.is_none_or(|row| session.caller.session.as_deref() == Some(row));
        let mut sessions = self.inner.sessions.lock();
        let own: Vec<_> =
            sessions.extract_if(|_, session| session.is_of(&self.downstream) && is_meant(session)).collect();
        drop(sessions);
        own.iter().for_each(|(_, session)| session.release());
    }

    /// Number of sessions of this downstream.
    pub(super) fn count(&self) -> usize {
        self.inner.sessions.lock().values().filter(|session| session.is_of(&self.downstream)).count()
    }

    /// Ends subscriptions and standing streams of all sessions.
    pub(super) fn close_streams(&self) {
        let sessions = self.inner.sessions.lock();
        sessions.values().filter(|session| session.is_of(&self.downstream)).for_each(|session| session.close_streams());
    }
}

impl Drop for HttpSseSlot {
    fn drop(&mut self) {
        let mut http_sse = self.store.http_sse.lock();
        if let Some(count) = http_sse.get_mut(&self.principal) {
            *count -= 1;
            if *count == 0 {
                http_sse.remove(&self.principal);
            }
        }
    }
}

impl NoSession {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::Unknown => StatusCode::NOT_FOUND,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unnamed | Self::ForeignVersion => StatusCode::BAD_REQUEST,
        }
    }

    pub(super) fn error(self) -> RpcError {
        match self {
            Self::Unnamed => session::no_session(),
            Self::Unknown => {
                RpcError::new(RpcError::INVALID_REQUEST, "session not found; send `initialize` to begin a new one")
            }
            Self::Unavailable => {
                RpcError::new(RpcError::INTERNAL, "the sessions of the cluster are not available; try again later")
            }
            Self::ForeignVersion => {
                let message =
                    format!("header `{}`: this revision is not supported for sessions", mcp::PROTOCOL_VERSION);
                RpcError::new(RpcError::INVALID_REQUEST, &message)
            }
        }
    }
}

/// The session of this principal to evict: no stream read, idle for the longest time.
fn longest_idle(sessions: &HashMap<String, Arc<DownstreamSession>>, principal: &str) -> Option<String> {
    let own = sessions.iter().filter(|(_, session)| *session.caller.principal == *principal);
    let idle = own.filter_map(|(name, session)| Some((session.is_read(), session.idle_since()?, name)));
    idle.min().map(|(_, _, name)| name.clone())
}

/// Spawns the task that ends idle sessions; it ends when none are left.
fn watch(inner: &Arc<SessionStore>, idle_timeout: Duration) -> AbortOnDropHandle<()> {
    let inner = Arc::downgrade(inner);
    AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(async move {
        let mut next = Instant::now() + idle_timeout;
        loop {
            tokio::time::sleep_until(next).await;
            match sweep(&inner, idle_timeout) {
                Some(until) => next = until,
                None => return,
            }
        }
    }))
}

/// Ends idle sessions; returns the time of the next check, or `None` if there is no store.
fn sweep(inner: &Weak<SessionStore>, idle_timeout: Duration) -> Option<Instant> {
    let inner = inner.upgrade()?;
    let now = Instant::now();
    let (mut due, mut next) = (Vec::new(), now + idle_timeout / 4);
    let mut sessions = inner.sessions.lock();
    sessions.retain(|_, session| match session.idle_since().filter(|_| !session.is_read()) {
        Some(since) if since + idle_timeout <= now => {
            due.push(Arc::clone(session));
            false
        }
        Some(since) => {
            next = next.min(since + idle_timeout);
            true
        }
        None => true,
    });
    if sessions.is_empty() {
        *inner.watch.lock() = None;
    }
    drop(sessions);
    due.iter().for_each(|session| session.end());
    Some(next)
}
