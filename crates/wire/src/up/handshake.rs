//! The handshake: `server/discover` for stateless servers, `initialize` for stateful ones, and the renewal of a lost
//! session.
//!
//! [`super::probe`] decides which one to use.

use std::{sync::Arc, time::Duration};

use http::StatusCode;

use super::{
    KeptSession, call, listen,
    router::{HandshakeReply, Router},
    transport::{LaneEnd, Link, LinkKind, Outbound},
};
use crate::{
    error::{TimeoutKind, WireError},
    exchange::{ExchangeTimeouts, Outcome, Request},
    header,
    json::{JsonKind, Raw},
    limit::Limits,
    message::{
        ClientCapabilities, Envelope, Id, RpcError, ServerCapabilities, compose, meta,
        splice::{self, Edit},
    },
    notice::Notice,
    revision::{Era, Revision},
};

/// What this client declares in a handshake.
#[derive(Clone, Debug)]
pub(crate) struct ClientProfile {
    /// `clientInfo`: `{name, version, …}`.
    pub(crate) info: Raw,
    pub(crate) capabilities: ClientCapabilities,
    /// Revision offered to a stateful server.
    pub(crate) legacy: Revision,
    /// Timeout of each handshake step.
    pub(crate) handshake_timeout: Duration,
}

/// What a server declares in the handshake.
#[derive(Clone, Debug)]
pub struct ServerProfile {
    /// Negotiated revision.
    pub revision: Revision,
    /// `{name, version, …}`, for display.
    pub info: Raw,
    /// Server capabilities.
    pub capabilities: ServerCapabilities,
    /// Usage instructions for models.
    pub instructions: Option<String>,
    /// The whole `initialize` or `server/discover` result.
    pub raw: Raw,
}

/// The `_meta` that every request to a stateless server carries, except for the client capabilities.
pub(super) fn client_meta(client: &ClientProfile, revision: Revision) -> Raw {
    splice::object([(meta::PROTOCOL_VERSION, &revision.raw()), (meta::CLIENT_INFO, &client.info)])
}

/// Encodes a `server/discover` request.
pub(crate) fn discover(client: &ClientProfile, id: u64, revision: Revision) -> Outbound {
    let capabilities = Edit::Add(meta::CLIENT_CAPABILITIES, client.capabilities.without_root_changes().0);
    let meta = Edit::Set("_meta", splice::edited(&client_meta(client, revision), &[capabilities]));
    let message = compose::request(&Id::number(id), "server/discover", None, &[meta]);
    let headers = header::standard(revision, "server/discover", None);
    Outbound { message, request: Some(id), headers, mark: None }
}

/// Parses a `server/discover` result; `None` if it is not one.
pub(crate) fn parse_discover_result(result: &Raw, revision: Revision) -> Option<ServerProfile> {
    result.get("supportedVersions").filter(|list| list.kind() == JsonKind::Array)?;
    let info = meta::value(Some(result), meta::SERVER_INFO).or_else(|| result.get("serverInfo"));
    Some(profile(result, info, revision))
}

/// Performs the handshake with a stateful server on an open link.
pub(crate) async fn initialize(router: &Router) -> Result<ServerProfile, WireError> {
    parse_initialize_response(send_initialize(router).await?)
}

/// Sends `initialize` and returns the reply.
pub(crate) async fn send_initialize(router: &Router) -> Result<HandshakeReply, WireError> {
    router.link()?.begin_handshake();
    let id = router.new_id();
    let client = &router.client;
    let params = splice::object([
        ("protocolVersion", &client.legacy.raw()),
        ("capabilities", &client.capabilities.0),
        ("clientInfo", &client.info),
    ]);
    let message = compose::request(&Id::number(id), "initialize", Some(&params), &[]);
    let reply = router.handshake(id, Outbound::plain(message, Some(id)))?;
    let reply = within(client.handshake_timeout, reply).await.inspect_err(|_| drop(router.forget(id)))?;
    Ok(reply.unwrap_or_else(|_| HandshakeReply::Closed(router.why_closed())))
}

/// Returns the output of a handshake step, or a timeout error.
pub(crate) async fn within<T>(limit: Duration, step: impl Future<Output = T>) -> Result<T, WireError> {
    tokio::time::timeout(limit, step).await.map_err(|_| WireError::TimedOut { kind: TimeoutKind::Handshake, limit })
}

/// Sends `notifications/initialized` and opens the standing stream.
pub(crate) async fn confirm(link: &dyn Link, revision: Revision, timeout: Duration) -> Result<(), WireError> {
    link.set_revision(revision);
    let confirmation = compose::notification("notifications/initialized", None, &[]);
    within(timeout, link.deliver(Outbound::plain(confirmation, None))).await??;
    link.open_standing_stream().await;
    Ok(())
}

/// Replaces a lost session by a new one and restores log level and subscriptions. Concurrent callers wait for the first
/// and then find it done.
pub(crate) async fn renew_session(router: &Arc<Router>) -> Result<(), WireError> {
    let link = router.link()?;
    let Ok(_turn) = router.renewal.acquire().await else { return Err(router.why_closed()) };
    if !link.has_lost_session() {
        return Ok(());
    }
    let profile = initialize(router).await?;
    // A server that was replaced may negotiate another revision.
    if router.accent()?.revision() != profile.revision {
        router.set_accent(profile.revision, LinkKind::Http);
    }
    confirm(&*link, profile.revision, router.client.handshake_timeout).await?;
    if let (Some(observer), Some(id)) = (&router.session_observer, link.session()) {
        observer.issued(KeptSession { id, revision: profile.revision, hello: profile.raw.clone() }).await;
    }
    let (level, subscriptions) = {
        let settings = router.session_settings.lock();
        (settings.log_level, settings.subscriptions.keys().cloned().collect::<Vec<_>>())
    };
    if let Some(request) = level.and_then(|level| router.accent().ok()?.log_level_request(level)) {
        repeat_in_new_session(router, request).await;
    }
    for uri in subscriptions {
        repeat_in_new_session(router, listen::subscription_request("resources/subscribe", &uri)).await;
    }
    Ok(())
}

/// Repeats a request in a new session. A failure is only reported as a notice.
async fn repeat_in_new_session(router: &Arc<Router>, request: Request) {
    let method = request.method().to_owned();
    let outcome = call::start_in_new_session(router, request, ExchangeTimeouts::list()).outcome().await;
    if !matches!(outcome, Outcome::Answered(_)) {
        let lost = WireError::Refused(format!("`{method}` could not be repeated in the new session: {outcome:?}"));
        drop(router.notices.send(Notice::Fault(lost)));
    }
}

/// Parses the reply to `initialize`.
pub(crate) fn parse_initialize_response(reply: HandshakeReply) -> Result<ServerProfile, WireError> {
    let envelope = match reply {
        HandshakeReply::Message(envelope) => envelope,
        HandshakeReply::Closed(why) => return Err(why),
        HandshakeReply::Lane(end) => return Err(lane_error(end)),
    };
    let result = match (envelope.result(), envelope.error()) {
        (Some(result), _) => result,
        (None, Some(error)) => return Err(WireError::Handshake(error)),
        (None, None) => {
            return Err(WireError::protocol("the response to `initialize` has neither `result` nor `error`"));
        }
    };
    let version = result.get("protocolVersion");
    let version = version
        .as_ref()
        .and_then(Raw::as_str)
        .ok_or_else(|| WireError::protocol("the response to `initialize` has no `protocolVersion`"))?;
    match version.parse::<Revision>() {
        Ok(revision) if revision.era() == Era::Legacy => Ok(ServerProfile::of_initialize(&result, revision)),
        _ => Err(WireError::NoCommonRevision { theirs: version.into_owned(), ours: revision_list(Era::Legacy) }),
    }
}

/// The error for a lane that ended without a reply to the handshake.
pub(crate) fn lane_error(end: LaneEnd) -> WireError {
    match end {
        LaneEnd::Failed(error) => error,
        LaneEnd::Over => WireError::Ended("the stream closed during the handshake".to_owned()),
        LaneEnd::Accepted => WireError::protocol("the server accepted the handshake but did not answer it"),
        LaneEnd::SessionGone => WireError::Status { status: StatusCode::NOT_FOUND, body: String::new() },
        LaneEnd::Status { status, body } => match json_rpc_error(&body) {
            Some(error) if status_indicates_era(status) => WireError::Handshake(error),
            _ => WireError::Status { status, body: String::from_utf8_lossy(&body).into_owned() },
        },
    }
}

/// Whether a status depends on the era; credentials, load and server failures do not.
pub(crate) fn status_indicates_era(status: StatusCode) -> bool {
    let unrelated = matches!(
        status,
        StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::PROXY_AUTHENTICATION_REQUIRED
            | StatusCode::REQUEST_TIMEOUT
            | StatusCode::TOO_MANY_REQUESTS
    );
    status.is_client_error() && !unrelated
}

/// Returns the JSON-RPC error in a body, if any.
pub(crate) fn json_rpc_error(body: &bytes::Bytes) -> Option<RpcError> {
    json_rpc_answer(body)?.error()
}

/// Returns the JSON-RPC error response in the body of an HTTP error, if any. Many bodies have an `error` member that is
/// not JSON-RPC.
pub(crate) fn json_rpc_answer(body: &bytes::Bytes) -> Option<Envelope> {
    let envelope = Envelope::read(body.clone(), &Limits::default()).ok()?;
    let json_rpc = Raw::parse(body.clone()).ok()?.get("jsonrpc").is_some();
    let with_code = envelope.error().is_some_and(|error| error.raw().get("code").is_some());
    (json_rpc && with_code).then_some(envelope)
}

/// All revisions of an era, comma-separated, for messages.
pub(crate) fn revision_list(era: Era) -> String {
    Revision::of(era).map(Revision::as_str).collect::<Vec<_>>().join(", ")
}

fn profile(result: &Raw, info: Option<Raw>, revision: Revision) -> ServerProfile {
    ServerProfile {
        revision,
        info: info.unwrap_or_else(Raw::empty_object),
        capabilities: ServerCapabilities(result.get("capabilities").unwrap_or_else(Raw::empty_object)),
        instructions: result.get("instructions").as_ref().and_then(Raw::as_str).map(std::borrow::Cow::into_owned),
        raw: result.clone(),
    }
}

impl ServerProfile {
    /// Parses an `initialize` result.
    pub(super) fn of_initialize(result: &Raw, revision: Revision) -> Self {
        profile(result, result.get("serverInfo"), revision)
    }

    /// The server's name for itself; for display only.
    pub fn name(&self) -> Option<String> {
        self.info.get("name").as_ref().and_then(Raw::as_str).map(std::borrow::Cow::into_owned)
    }
}
