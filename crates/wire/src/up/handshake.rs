//! The first words: `server/discover` without a session, `initialize` with one, and a lost session begun again.
//!
//! Which of the two to say is decided in [`super::probe`].

use std::{sync::Arc, time::Duration};

use http::StatusCode;

use super::{
    call, listen,
    router::{HandshakeReply, Router},
    transport::{LaneEnd, Link, Outbound, LinkKind},
};
use crate::{
    error::{TimeoutKind, WireError},
    exchange::{Outcome, Request, ExchangeTimeouts},
    header,
    json::{Kind, Raw},
    limit::Limits,
    message::{
        ClientCapabilities, Envelope, Id, RpcError, ServerCapabilities, compose, meta,
        splice::{self, Edit},
    },
    notice::Notice,
    revision::{Era, Revision},
};

/// What we say of ourselves.
#[derive(Clone, Debug)]
pub(crate) struct ClientProfile {
    /// `{name, version, …}`
    pub(crate) info: Raw,
    pub(crate) capabilities: ClientCapabilities,
    /// Offered first to a stateful server.
    pub(crate) legacy: Revision,
    /// How long a handshake may take.
    pub(crate) patience: Duration,
}

/// What a server says of itself.
#[derive(Clone, Debug)]
pub struct ServerProfile {
    /// The revision agreed on.
    pub revision: Revision,
    /// `{name, version, …}`, for display.
    pub info: Raw,
    /// What it offers.
    pub capabilities: ServerCapabilities,
    /// How it wants to be used.
    pub instructions: Option<String>,
    /// The whole first answer.
    pub raw: Raw,
}

/// What every request to a stateless server says of us in `_meta`, beside what our side can be asked.
pub(super) fn client_meta(client: &ClientProfile, revision: Revision) -> Raw {
    splice::object([(meta::PROTOCOL_VERSION, &revision.raw()), (meta::CLIENT_INFO, &client.info)])
}

/// The request a stateless server is greeted with.
pub(crate) fn discover(client: &ClientProfile, id: u64, revision: Revision) -> Outbound {
    let capabilities = Edit::Add(meta::CLIENT_CAPABILITIES, client.capabilities.0.clone());
    let meta = Edit::Set("_meta", splice::edited(&client_meta(client, revision), &[capabilities]));
    let message = compose::request(&Id::number(id), "server/discover", None, &[meta]);
    Outbound { message, request: Some(id), headers: header::standard(revision, "server/discover", None) }
}

/// What a discover result says; `None` when it is no discover result at all.
pub(crate) fn parse_discover_result(result: &Raw, revision: Revision) -> Option<ServerProfile> {
    result.get("supportedVersions").filter(|list| list.kind() == Kind::Array)?;
    let info = meta::value(Some(result), meta::SERVER_INFO).or_else(|| result.get("serverInfo"));
    Some(profile(result, info, revision))
}

/// The handshake of a stateful server on an open link.
pub(crate) async fn initialize(router: &Router) -> Result<ServerProfile, WireError> {
    parse_initialize_response(send_initialize(router).await?)
}

/// Says `initialize`; gives what comes back.
pub(crate) async fn send_initialize(router: &Router) -> Result<HandshakeReply, WireError> {
    router.link()?.begin();
    let id = router.new_id();
    let client = &router.client;
    let params = splice::object([
        ("protocolVersion", &client.legacy.raw()),
        ("capabilities", &client.capabilities.0),
        ("clientInfo", &client.info),
    ]);
    let message = compose::request(&Id::number(id), "initialize", Some(&params), &[]);
    let reply = router.handshake(id, Outbound::plain(message, Some(id)))?;
    let reply = within(client.patience, reply).await.inspect_err(|_| drop(router.forget(id)))?;
    Ok(reply.unwrap_or_else(|_| HandshakeReply::Closed(router.why_closed())))
}

/// What a step of the handshake gives, unless its clock runs out first.
pub(crate) async fn within<T>(limit: Duration, step: impl Future<Output = T>) -> Result<T, WireError> {
    tokio::time::timeout(limit, step).await.map_err(|_| WireError::TimedOut { kind: TimeoutKind::Handshake, limit })
}

/// Says that the handshake is over, and that the link may rely on its revision.
pub(crate) async fn confirm(link: &dyn Link, revision: Revision, patience: Duration) -> Result<(), WireError> {
    link.set_revision(revision);
    let confirmation = compose::notification("notifications/initialized", None, &[]);
    within(patience, link.deliver(Outbound::plain(confirmation, None))).await??;
    link.open_standing_stream().await;
    Ok(())
}

/// A new session in the place of a lost one, with log level and subscriptions as they were. Whoever comes second
/// waits for the first and finds it done.
pub(crate) async fn renew_session(router: &Arc<Router>) -> Result<(), WireError> {
    let link = router.link()?;
    let Ok(_turn) = router.renewal.acquire().await else { return Err(router.why_closed()) };
    if !link.has_lost_session() {
        return Ok(());
    }
    let profile = initialize(router).await?;
    // A server that was replaced may agree on another revision.
    if router.accent()?.revision() != profile.revision {
        router.set_accent(profile.revision, LinkKind::Http);
    }
    confirm(&*link, profile.revision, router.client.patience).await?;
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

/// Says again in a new session what was said in the old one. A refusal is noticed and costs nothing else.
async fn repeat_in_new_session(router: &Arc<Router>, request: Request) {
    let method = request.method().to_owned();
    let outcome = call::start_in_new_session(router, request, ExchangeTimeouts::list()).outcome().await;
    if !matches!(outcome, Outcome::Answered(_)) {
        let lost = WireError::Refused(format!("`{method}` could not be repeated in the new session: {outcome:?}"));
        drop(router.notices.send(Notice::Fault(lost)));
    }
}

/// What the answer to `initialize` says.
pub(crate) fn parse_initialize_response(reply: HandshakeReply) -> Result<ServerProfile, WireError> {
    let envelope = match reply {
        HandshakeReply::Message(envelope) => envelope,
        HandshakeReply::Closed(why) => return Err(why),
        HandshakeReply::Lane(end) => return Err(lane_error(end)),
    };
    let result = match (envelope.result(), envelope.error()) {
        (Some(result), _) => result,
        (None, Some(error)) => return Err(WireError::Handshake(error)),
        (None, None) => return Err(WireError::protocol("an empty answer to the handshake")),
    };
    let said = result.get("protocolVersion");
    let said = said
        .as_ref()
        .and_then(Raw::as_str)
        .ok_or_else(|| WireError::protocol("the answer to `initialize` names no protocolVersion"))?;
    match said.parse::<Revision>() {
        Ok(revision) if revision.era() == Era::Legacy => Ok(ServerProfile::of_initialize(&result, revision)),
        _ => Err(WireError::NoCommonRevision { theirs: said.into_owned(), ours: revision_list(Era::Legacy) }),
    }
}

/// A lane that ended in the place of an answer to the handshake.
pub(crate) fn lane_error(end: LaneEnd) -> WireError {
    match end {
        LaneEnd::Failed(error) => error,
        LaneEnd::Over => WireError::Ended("the stream closed during the handshake".to_owned()),
        LaneEnd::Accepted => WireError::protocol("the handshake was accepted but not answered"),
        LaneEnd::SessionGone => WireError::Status { status: StatusCode::NOT_FOUND, body: String::new() },
        LaneEnd::Status { status, body } => match json_rpc_error(&body) {
            Some(error) if status_indicates_era(status) => WireError::Handshake(error),
            _ => WireError::Status { status, body: String::from_utf8_lossy(&body).into_owned() },
        },
    }
}

/// Whether a status says anything about the era: not when it is about credentials, load or a broken server.
pub(crate) fn status_indicates_era(status: StatusCode) -> bool {
    let about_something_else = matches!(
        status,
        StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::PROXY_AUTHENTICATION_REQUIRED
            | StatusCode::REQUEST_TIMEOUT
            | StatusCode::TOO_MANY_REQUESTS
    );
    status.is_client_error() && !about_something_else
}

/// The JSON-RPC error a body holds.
pub(crate) fn json_rpc_error(body: &bytes::Bytes) -> Option<RpcError> {
    json_rpc_answer(body)?.error()
}

/// The bad answer that the body of a status holds. Many have an `error` that is not JSON-RPC's.
pub(crate) fn json_rpc_answer(body: &bytes::Bytes) -> Option<Envelope> {
    let envelope = Envelope::read(body.clone(), &Limits::default()).ok()?;
    let said = Raw::parse(body.clone()).ok()?.get("jsonrpc").is_some();
    let with_code = envelope.error().is_some_and(|error| error.raw().get("code").is_some());
    (said && with_code).then_some(envelope)
}

/// All revisions of an era, for messages.
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
    /// What an answer to `initialize` says.
    pub(super) fn of_initialize(result: &Raw, revision: Revision) -> Self {
        profile(result, result.get("serverInfo"), revision)
    }

    /// The server's own name for itself; for display only.
    pub fn name(&self) -> Option<String> {
        self.info.get("name").as_ref().and_then(Raw::as_str).map(std::borrow::Cow::into_owned)
    }
}
