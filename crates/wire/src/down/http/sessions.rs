//! The sessions of the HTTP face: unguessable names, bound to whoever began them, bounded in number.

use std::{collections::HashMap, sync::Arc};

use http::{HeaderMap, HeaderValue, StatusCode};
use parking_lot::Mutex;

use crate::{
    down::session::Session,
    header as mcp,
    revision::{Era, Revision},
    seal,
};

#[derive(Debug)]
pub(super) struct Sessions {
    limit: usize,
    // Nothing awaits under this lock.
    sessions: Mutex<HashMap<String, Arc<Session>>>,
}

impl Sessions {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, sessions: Mutex::default() }
    }

    /// Keeps a new session; gives its name, or nothing when there are too many. Where there are, the caller's own that
    /// was left alone for longest gives way; nobody's session gives way to another caller.
    pub(super) fn keep(&self, session: Arc<Session>) -> Option<HeaderValue> {
        let word = seal::random_word().ok()?;
        let mut sessions = self.sessions.lock();
        if self.limit <= sessions.len() {
            let own = sessions.iter().filter(|(_, other)| other.caller.principal == session.caller.principal);
            let idle = own.filter_map(|(name, other)| Some((other.is_read(), other.idle_since()?, name.clone())));
            let (_, _, longest) = idle.min()?;
            sessions.remove(&longest)?.end();
        }
        sessions.insert(word.clone(), session);
        HeaderValue::from_str(&word).ok()
    }

    /// The session a request belongs to: 400 without a name or with a foreign version, 404 for an unknown name.
    ///
    /// CVE-2026-52869: a name alone authorises nothing, so another caller's session is unknown too.
    pub(super) fn find(&self, headers: &HeaderMap, principal: &Arc<str>) -> Result<Arc<Session>, StatusCode> {
        let name = headers.get(mcp::SESSION_ID).and_then(|name| name.to_str().ok()).ok_or(StatusCode::BAD_REQUEST)?;
        let session = self.sessions.lock().get(name).cloned().ok_or(StatusCode::NOT_FOUND)?;
        if session.caller.principal != *principal {
            return Err(StatusCode::NOT_FOUND);
        }
        session.touch();
        let Some(version) = headers.get(mcp::PROTOCOL_VERSION) else { return Ok(session) };
        match version.to_str().ok().and_then(|version| version.parse::<Revision>().ok()) {
            Some(revision) if revision.era() == Era::Legacy => Ok(session),
            _ => Err(StatusCode::BAD_REQUEST),
        }
    }

    pub(super) fn end(&self, headers: &HeaderMap, principal: &Arc<str>) -> Result<(), StatusCode> {
        let session = self.find(headers, principal)?;
        let name = headers.get(mcp::SESSION_ID).and_then(|name| name.to_str().ok()).unwrap_or_default();
        self.sessions.lock().remove(name);
        session.end();
        Ok(())
    }
}
