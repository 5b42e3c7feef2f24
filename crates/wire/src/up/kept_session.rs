//! A session that outlives a connection: written down by whoever leaves, taken up by whoever comes next.
//!
//! A stateful server over HTTP keeps a session until it is given back or forgotten. [`super::Peer::leave`] ends a
//! connection without giving it back; with what [`super::Peer::kept_session`] gave, a later connection goes on in it. One
//! sign of life decides: a server that has forgotten the session gets an ordinary handshake.

use std::sync::Arc;

use super::{
    RouterGuard, call,
    handshake::{self, ServerProfile},
    probe::{ConnectedServer, DetectedProtocol},
    router::Router,
    transport::{HttpMode, LinkKind, Transport},
};
use crate::{
    error::WireError,
    exchange::{Outcome, Request, ExchangeTimeouts},
    json::Raw,
    revision::{Era, Revision},
};

/// What a later connection needs to know of a session. The id lets whoever holds it speak as us: keep it as a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct KeptSession {
    /// The id.
    pub id: String,
    /// The revision agreed on.
    pub revision: Revision,
    /// The server's answer to `initialize`.
    pub hello: Raw,
}

/// Goes on in a kept session; nothing where the server has forgotten it.
pub(super) async fn resume(
    transport: &dyn Transport,
    opening: &RouterGuard,
    kept: &KeptSession,
) -> Result<Option<ConnectedServer>, WireError> {
    if transport.link_kind() != LinkKind::Http || kept.revision.era() != Era::Legacy {
        return Ok(None);
    }
    let router = &opening.router;
    let link = handshake::within(router.client.patience, transport.open(HttpMode::Session, router.next_sink())).await??;
    if !link.resume(&kept.id, kept.revision) {
        return Ok(None);
    }
    router.use_link(Arc::clone(&link));
    router.set_accent(kept.revision, LinkKind::Http);
    link.open_standing_stream().await;
    match ping(router).await? {
        Outcome::Answered(_) => {
            let found = DetectedProtocol { era: Era::Legacy, manner: HttpMode::Session };
            let profile = ServerProfile::of_initialize(&kept.hello, kept.revision);
            Ok(Some(ConnectedServer { link, profile, found }))
        }
        other => {
            tracing::debug!(?other, "the session was forgotten");
            link.leave();
            Ok(None)
        }
    }
}

async fn ping(router: &Arc<Router>) -> Result<Outcome, WireError> {
    let request = Request::trusted(router.accent()?.ping_method(), None);
    let patience = router.client.patience;
    let terms = ExchangeTimeouts { idle: Some(patience), total: Some(patience) };
    Ok(call::start_in_new_session(router, request, terms).outcome().await)
}

/// The id is as good as a password.
impl std::fmt::Debug for KeptSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptSession").field("revision", &self.revision).finish_non_exhaustive()
    }
}
