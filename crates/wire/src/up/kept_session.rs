//! A session that outlives its connection and is resumed by a later one.
//!
//! A stateful server over HTTP keeps a session until it is deleted or expires. [`super::Peer::leave`] closes a connection
//! without deleting the session; with the value of [`super::Peer::kept_session`], a later connection resumes it. A ping
//! shows whether the server still knows the session; if not, a normal handshake follows. A [`SessionObserver`] is told of
//! each session as it is issued, so that it can be stored before it is used.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::{
    RouterGuard, call,
    handshake::{self, ServerProfile},
    probe::{ConnectedServer, DetectedProtocol, Evidence, SessionSupport},
    router::Router,
    transport::{HttpMode, LinkKind, Transport},
};
use crate::{
    error::WireError,
    exchange::{ExchangeTimeouts, Outcome, Request},
    json::Raw,
    revision::{Era, Revision},
};

/// What a later connection needs to resume a session. The id authenticates the session: store it as a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct KeptSession {
    /// Session id.
    pub id: String,
    /// Negotiated revision.
    pub revision: Revision,
    /// The server's `initialize` result.
    pub hello: Raw,
}

/// Is told of the sessions of one connection, so that they can be stored. One session follows another if the server has
/// lost it.
pub trait SessionObserver: Send + Sync {
    /// The server issued a session, which replaces the one before. The caller's requests are sent after this has resolved.
    fn issued(&self, session: KeptSession) -> BoxFuture<'_, ()>;

    /// The session was deleted at the server, or the server no longer has the one that was to be resumed.
    fn ended(&self) -> BoxFuture<'_, ()>;

    /// The connection was closed, and the session stays at the server for a later one.
    fn left(&self) -> BoxFuture<'_, ()>;
}

/// Resumes a session; returns `None` if the server no longer knows it. A server that cannot be reached or requires a
/// sign-in says nothing about the session: that is an error.
pub(super) async fn resume(
    transport: &dyn Transport,
    guard: &RouterGuard,
    kept: &KeptSession,
) -> Result<Option<ConnectedServer>, WireError> {
    if transport.link_kind() != LinkKind::Http || kept.revision.era() != Era::Legacy {
        return Ok(None);
    }
    let router = &guard.router;
    if router.begin_resumed_ids().is_err() {
        return Ok(None);
    }
    let link =
        handshake::within(router.client.handshake_timeout, transport.open(HttpMode::Session, router.next_sink()))
            .await??;
    if !link.resume(&kept.id, kept.revision) {
        return Ok(None);
    }
    router.use_link(Arc::clone(&link));
    router.set_accent(kept.revision, LinkKind::Http);
    link.open_standing_stream().await;
    match ping(router).await? {
        Outcome::Answered(_) => {
            let protocol = DetectedProtocol { era: Era::Legacy, http_mode: HttpMode::Session };
            let profile = ServerProfile::of_initialize(&kept.hello, kept.revision);
            let sessions = SessionSupport::Unknown;
            Ok(Some(ConnectedServer { link, profile, protocol, evidence: Evidence::Answer, sessions }))
        }
        Outcome::Failed(error @ (WireError::Unreachable { .. } | WireError::Unauthorized { .. })) => {
            link.leave();
            Err(error)
        }
        other => {
            tracing::debug!(?other, "the server no longer has the session");
            link.leave();
            if let Some(observer) = &router.session_observer {
                observer.ended().await;
            }
            Ok(None)
        }
    }
}

async fn ping(router: &Arc<Router>) -> Result<Outcome, WireError> {
    let request = Request::trusted(router.accent()?.ping_method(), None);
    let limit = router.client.handshake_timeout;
    let timeouts = ExchangeTimeouts { idle: Some(limit), total: Some(limit) };
    Ok(call::start_in_new_session(router, request, timeouts).outcome().await)
}

/// Hides the id, which authenticates the session.
impl std::fmt::Debug for KeptSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptSession").field("revision", &self.revision).finish_non_exhaustive()
    }
}
