//! Sessions of a cluster at this gateway: begun with a row, and rebuilt from the row when a request arrives for a session
//! that began at another gateway.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, HeaderValue};

use super::{HttpDownstream, sessions::NoSession};
use crate::{
    down::{SessionRow, SharedSessions, session::DownstreamSession},
    header as mcp,
    message::RpcError,
};

/// Why a session cannot begin or go on here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotShared {
    /// The client declared more than a row has room for.
    TooLarge(RpcError),
    /// The rows cannot be written.
    Unavailable,
}

/// How much of the idle time passes before a session that is used is noted in its row again.
const SEEN_SHARE: u32 = 10;

impl HttpDownstream {
    fn shared(&self) -> Option<&SharedSessions> {
        self.downstream.options.shared_sessions.as_ref()
    }

    /// Stores the row of a session that begins; returns its id on the wire. `None`: sessions are not shared.
    pub(super) async fn begin_shared(&self, session: &DownstreamSession) -> Result<Option<HeaderValue>, NotShared> {
        let Some(shared) = self.shared() else { return Ok(None) };
        let id = session.caller.session.as_deref().ok_or(NotShared::Unavailable)?;
        let row = SessionRow::of(&session.caller).ok_or_else(|| {
            let limit = crate::down::MAX_CAPABILITIES;
            let message = format!("the declared `capabilities` are larger than {limit} bytes; declare fewer");
            NotShared::TooLarge(RpcError::new(RpcError::INVALID_PARAMS, &message))
        })?;
        let sealed = shared.seal(id).ok().and_then(|id| HeaderValue::from_str(&id).ok());
        let sealed = sealed.ok_or(NotShared::Unavailable)?;
        shared.rows().begin(id, row).await.map_err(|_| NotShared::Unavailable)?;
        Ok(Some(sealed))
    }

    /// The session of a request: one that is here, or one of the cluster that is rebuilt.
    pub(super) async fn session(
        &self,
        headers: &HeaderMap,
        principal: &Arc<str>,
    ) -> Result<Arc<DownstreamSession>, NoSession> {
        let found = self.sessions.find(&self.downstream, headers, principal);
        let Some(shared) = self.shared().filter(|_| matches!(found, Err(NoSession::Unknown))) else { return found };
        let name = headers.get(mcp::SESSION_ID).and_then(|name| name.to_str().ok()).ok_or(NoSession::Unknown)?;
        let row = shared.open(name).ok_or(NoSession::Unknown)?;
        self.rebuild(shared, name, &row, principal).await?;
        self.sessions.find(&self.downstream, headers, principal)
    }

    async fn rebuild(
        &self,
        shared: &SharedSessions,
        name: &str,
        id: &str,
        principal: &Arc<str>,
    ) -> Result<(), NoSession> {
        let found = shared.rows().find(id, self.downstream.options.session_idle).await;
        let row = found.map_err(|_| NoSession::Unavailable)?.ok_or(NoSession::Unknown)?;
        // CVE-2026-52869: a session id alone authorises nothing.
        let is_theirs = *row.principal == **principal && self.downstream.options.revisions.contains(&row.revision);
        let caller = row.caller(id).filter(|_| is_theirs).ok_or(NoSession::Unknown)?;
        let session = DownstreamSession::rebuild(&self.downstream, caller, row.log_level);
        let session = session.map_err(|_| NoSession::Unavailable)?;
        for uri in row.subscriptions {
            if let Err(error) = Arc::clone(&session).subscribe_to(uri).await {
                tracing::warn!(error = %error.message(), "a subscription of a rebuilt session is lost");
            }
        }
        // They are in the row already.
        drop(session.take_changes());
        // Another request may have rebuilt it at the same time; then that one is used.
        if self.sessions.adopt(name, &session)? {
            session.resume_lists();
        }
        Ok(())
    }

    /// Writes what the client has set to the row, and now and then that it is still there. A session that has ended at
    /// another gateway ends here.
    pub(super) async fn save_shared(&self, session: &DownstreamSession) {
        let Some(shared) = self.shared() else { return };
        let Some(id) = session.caller.session.as_deref() else { return };
        let seen_again: Duration = self.downstream.options.session_idle / SEEN_SHARE;
        let changes = session.take_changes();
        if changes.is_empty() && !session.is_noted_before(seen_again) {
            return;
        }
        match shared.rows().change(id, changes.clone()).await {
            Ok(true) => session.note(),
            Ok(false) => self.sessions.forget(session),
            Err(error) => {
                session.put_back(changes);
                tracing::warn!(%error, "cannot write what a client has set; it is written with its next request");
            }
        }
    }

    /// Ends the row of a session.
    pub(super) async fn end_shared(&self, session: &DownstreamSession) -> Result<(), NoSession> {
        let Some(shared) = self.shared() else { return Ok(()) };
        let Some(id) = session.caller.session.as_deref() else { return Ok(()) };
        shared.rows().end(id).await.map_err(|_| NoSession::Unavailable)
    }
}
