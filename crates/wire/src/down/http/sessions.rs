//! The sessions of the HTTP downstream: unguessable names, bound to whoever began them, bounded in number and in time.
//!
//! A session ends when its caller says so, when it was left alone for too long, or when its own caller begins more than
//! there is room for. What is under way and a stream that is read keep it from being left alone.

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
        session::{self, Session},
    },
    header as mcp,
    limit::Limits,
    message::RpcError,
    revision::Revision,
    seal,
};

#[derive(Debug)]
pub(super) struct Sessions {
    downstream: Arc<Downstream>,
    limits: Limits,
    /// How long a session may be left alone.
    patience: Duration,
    inner: Arc<SessionRoom>,
}

/// Where sessions are kept: those of one downstream, or of several that have one bound.
#[derive(Debug, Default)]
pub(crate) struct SessionRoom {
    // Nothing awaits under these locks.
    sessions: Mutex<HashMap<String, Arc<Session>>>,
    /// Looks for those left alone; there as long as there are sessions.
    watch: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// Why a request has no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoSession {
    /// It names none.
    Unnamed,
    /// It names one that is not there, or not this caller's.
    Unknown,
    /// It names a revision that no session here speaks.
    ForeignVersion,
}

impl Sessions {
    /// The sessions of this downstream, in this room.
    pub(super) fn of(downstream: &Arc<Downstream>, room: Arc<SessionRoom>) -> Self {
        let (limits, patience) = (downstream.options.limits.clone(), downstream.options.session_idle);
        Self { downstream: Arc::clone(downstream), limits, patience, inner: room }
    }

    /// Keeps a new session; gives its name, or nothing when there are too many. Where there are, the caller's own that
    /// was left alone for longest gives way; nobody's session gives way to another caller.
    pub(super) fn keep(&self, session: Arc<Session>) -> Option<HeaderValue> {
        let word = seal::random_token().ok()?;
        let name = HeaderValue::from_str(&word).ok()?;
        let mut sessions = self.inner.sessions.lock();
        let own = sessions.values().filter(|other| other.caller.principal == session.caller.principal).count();
        if self.limits.sessions <= sessions.len() || self.limits.sessions_per_caller <= own {
            let longest = left_alone_longest(&sessions, &session.caller.principal)?;
            sessions.remove(&longest)?.end();
        }
        sessions.insert(word, session);
        drop(sessions);
        self.inner.watch.lock().get_or_insert_with(|| watch(&self.inner, self.patience));
        Some(name)
    }

    /// The session a request belongs to.
    ///
    /// CVE-2026-52869: a name alone authorises nothing, so another caller's session is unknown too.
    pub(super) fn find(&self, downstream: &Downstream, headers: &HeaderMap, principal: &str) -> Result<Arc<Session>, NoSession> {
        let mut names = headers.get_all(mcp::SESSION_ID).iter();
        let name = names.next().filter(|_| names.next().is_none()).ok_or(NoSession::Unnamed)?;
        let name = name.to_str().map_err(|_| NoSession::Unknown)?;
        let session = self.inner.sessions.lock().get(name).cloned();
        let theirs = |session: &Arc<Session>| *session.caller.principal == *principal && session.is_of(&self.downstream);
        let session = session.filter(theirs).ok_or(NoSession::Unknown)?;
        session.touch();
        let Some(version) = headers.get(mcp::PROTOCOL_VERSION) else { return Ok(session) };
        let version = version.to_str().ok().and_then(|version| version.parse::<Revision>().ok());
        let alike = |revision: Revision| revision.era() == session.caller.revision.era();
        let spoken = |revision| alike(revision) && downstream.options.revisions.contains(&revision);
        if version.is_some_and(spoken) { Ok(session) } else { Err(NoSession::ForeignVersion) }
    }

    pub(super) fn end(&self, downstream: &Downstream, headers: &HeaderMap, principal: &str) -> Result<(), NoSession> {
        let session = self.find(downstream, headers, principal)?;
        let name = headers.get(mcp::SESSION_ID).and_then(|name| name.to_str().ok()).unwrap_or_default();
        self.inner.sessions.lock().remove(name);
        session.end();
        Ok(())
    }

    /// Ends all sessions of a caller at this downstream, or of all.
    pub(super) fn expel(&self, principal: Option<&str>) {
        let theirs = |session: &Session| principal.is_none_or(|principal| *session.caller.principal == *principal);
        let mut sessions = self.inner.sessions.lock();
        let own: Vec<_> = sessions.extract_if(|_, session| session.is_of(&self.downstream) && theirs(session)).collect();
        drop(sessions);
        own.iter().for_each(|(_, session)| session.end());
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.inner.sessions.lock().values().filter(|session| session.is_of(&self.downstream)).count()
    }

    /// Ends the streams that stand, for want of anything more to tell.
    pub(super) fn rest(&self) {
        let sessions = self.inner.sessions.lock();
        sessions.values().filter(|session| session.is_of(&self.downstream)).for_each(|session| session.rest());
    }
}

impl NoSession {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::Unknown => StatusCode::NOT_FOUND,
            Self::Unnamed | Self::ForeignVersion => StatusCode::BAD_REQUEST,
        }
    }

    pub(super) fn error(self) -> RpcError {
        match self {
            Self::Unnamed => session::no_session(),
            Self::Unknown => RpcError::new(RpcError::INVALID_REQUEST, "no such session; begin a new one"),
            Self::ForeignVersion => {
                let message = format!("{} names no revision that sessions here speak", mcp::PROTOCOL_VERSION);
                RpcError::new(RpcError::INVALID_REQUEST, &message)
            }
        }
    }
}

/// The session of this caller that can be spared first: nobody reads its streams, and it was left alone for longest.
fn left_alone_longest(sessions: &HashMap<String, Arc<Session>>, principal: &str) -> Option<String> {
    let own = sessions.iter().filter(|(_, session)| *session.caller.principal == *principal);
    let idle = own.filter_map(|(name, session)| Some((session.is_read(), session.idle_since()?, name)));
    idle.min().map(|(_, _, name)| name.clone())
}

/// Ends sessions that were left alone for too long, until there are none.
fn watch(inner: &Arc<SessionRoom>, patience: Duration) -> AbortOnDropHandle<()> {
    let inner = Arc::downgrade(inner);
    AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(async move {
        let mut next = Instant::now() + patience;
        loop {
            tokio::time::sleep_until(next).await;
            match sweep(&inner, patience) {
                Some(until) => next = until,
                None => return,
            }
        }
    }))
}

/// Ends what was left alone; gives the time to look again, or nothing where nobody needs to.
fn sweep(inner: &Weak<SessionRoom>, patience: Duration) -> Option<Instant> {
    let inner = inner.upgrade()?;
    let now = Instant::now();
    let (mut due, mut next) = (Vec::new(), now + patience / 4);
    let mut sessions = inner.sessions.lock();
    sessions.retain(|_, session| match session.idle_since().filter(|_| !session.is_read()) {
        Some(since) if since + patience <= now => {
            due.push(Arc::clone(session));
            false
        }
        Some(since) => {
            next = next.min(since + patience);
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
