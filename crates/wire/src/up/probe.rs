//! The era probe: detects whether a server is stateless or stateful. The result is stored, and corrected when it turns out
//! wrong.
//!
//! A stateless server answers `server/discover`; a stateful one answers with an error, not at all, with an empty success,
//! or ends. 401, 403, 408, 429, 5xx and network failures prove nothing: a temporary failure must not downgrade a server.
//! The rules are those of `docs/decisions/0003-era-probe.md`.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;

use super::{
    handshake::{self, ServerProfile, status_indicates_era},
    modern,
    router::{HandshakeReply, Router},
    transport::{HttpMode, LaneEnd, Link, LinkKind, Transport},
};
use crate::{
    error::{TimeoutKind, WireError},
    json::Raw,
    message::RpcError,
    revision::{Era, Revision},
};

/// Detected protocol of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetectedProtocol {
    /// Stateful or stateless.
    pub era: Era,
    /// HTTP mode; has no meaning for other transports.
    pub http_mode: HttpMode,
}

/// Era to use with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EraChoice {
    /// Detect it, and store the result.
    #[default]
    Auto,
    /// Stateful revisions only.
    Legacy,
    /// Stateless revisions only.
    Modern,
}

/// HTTP transports to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HttpTransportChoice {
    /// Streamable HTTP, then HTTP+SSE if the server does not support it.
    #[default]
    Any,
    /// Streamable HTTP only.
    Streamable,
    /// HTTP+SSE of 2024-11-05 only.
    EventStream,
}

impl DetectedProtocol {
    /// The choice of this era, which skips detection.
    pub fn choice(self) -> EraChoice {
        match self.era {
            Era::Legacy => EraChoice::Legacy,
            Era::Modern => EraChoice::Modern,
        }
    }
}

/// How a server that speaks both eras is reached if the era is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum BothEras {
    /// Without a session.
    #[default]
    Stateless,
    /// With a session, which carries requests of the server.
    Session,
}

/// Whether a stateless server has sessions too, in which it can send requests of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SessionSupport {
    /// Not tried yet.
    #[default]
    Unknown,
    /// It has.
    Offered,
    /// It refuses `initialize`, or accepts it without a way back to the client.
    Absent,
}

/// Port: stores detected protocols, by a digest of the command or URL.
pub trait EraMemory: Send + Sync {
    /// Returns the stored protocol, if any.
    fn recall(&self, key: &str) -> Option<DetectedProtocol>;
    /// Stores a protocol that the server's answers showed.
    fn remember(&self, key: &str, protocol: DetectedProtocol);
    /// Stores a protocol that works but was not shown to be the right one: the server was silent, or no era was detected.
    /// It must expire. By default it is not stored.
    fn suppose(&self, _key: &str, _protocol: DetectedProtocol) {}
    /// Whether a server known as stateless has sessions too.
    fn session_support(&self, _key: &str) -> SessionSupport {
        SessionSupport::Unknown
    }
    /// Stores that for a server known as stateless. [`SessionSupport::Absent`] must expire.
    fn remember_sessions(&self, _key: &str, _support: SessionSupport) {}
    /// The tools that can ask the client only without a session, by their results.
    fn tools_asking_by_result(&self, _key: &str) -> Vec<String> {
        Vec::new()
    }
    /// Adds a tool to them.
    fn remember_asking_by_result(&self, _key: &str, _tool: &str) {}
    /// Removes a protocol that turned out wrong.
    fn forget(&self, key: &str);
}

/// A server after its handshake.
pub(crate) struct ConnectedServer {
    pub(crate) link: Arc<dyn Link>,
    pub(crate) profile: ServerProfile,
    pub(crate) protocol: DetectedProtocol,
    pub(crate) evidence: Evidence,
    /// What was found out about sessions of a stateless server.
    pub(crate) sessions: SessionSupport,
}

/// What the detected era is concluded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// An answer of the server.
    Answer,
    /// No answer within the probe timeout: the server may only have been slow.
    Silence,
}

/// One attempt to detect the protocol and perform the handshake.
pub(crate) struct Probe<'a> {
    pub(crate) router: &'a Arc<Router>,
    pub(crate) transport: &'a dyn Transport,
    pub(crate) way: HttpTransportChoice,
    pub(crate) timeout: Duration,
    pub(crate) both_eras: BothEras,
    /// What is known of the sessions of a stateless server.
    pub(crate) sessions: SessionSupport,
}

/// Result of `server/discover`.
enum Discovery {
    Modern(ServerProfile),
    /// Stateful; after a timeout, with the receiver for a late response.
    Legacy(Option<oneshot::Receiver<HandshakeReply>>),
    /// The connection ended on a message the server did not know.
    Ended(WireError),
    Failed(WireError),
}

impl Probe<'_> {
    /// Performs the handshake in the chosen, stored or detected era.
    pub(crate) async fn run(
        &self,
        choice: EraChoice,
        known: Option<DetectedProtocol>,
    ) -> Result<ConnectedServer, WireError> {
        let known = known
            .filter(|known| known.http_mode != HttpMode::EventStream || self.way != HttpTransportChoice::Streamable);
        let event_stream = self.way == HttpTransportChoice::EventStream && self.transport.link_kind() == LinkKind::Http;
        match (choice, known) {
            (EraChoice::Modern, _) if event_stream => Err(sessions_only()),
            (_, _) if event_stream => self.connect_legacy(Some(HttpMode::EventStream)).await,
            (EraChoice::Modern, _) => self.connect_modern().await,
            (EraChoice::Legacy, known) => self.connect_legacy(known.map(|known| known.http_mode)).await,
            (EraChoice::Auto, Some(known)) if known.era == Era::Legacy => {
                self.connect_legacy(Some(known.http_mode)).await
            }
            (EraChoice::Auto, known) if self.both_eras == BothEras::Session => self.prefer_session(known).await,
            (EraChoice::Auto, _) => self.detect().await,
        }
    }

    /// Connects with a session if the server has any, else as detected.
    async fn prefer_session(&self, known: Option<DetectedProtocol>) -> Result<ConnectedServer, WireError> {
        let tried = known.map_or(SessionSupport::Unknown, |_| self.sessions);
        if tried != SessionSupport::Offered {
            let server = self.detect().await?;
            if server.protocol.era == Era::Legacy || tried == SessionSupport::Absent {
                return Ok(server);
            }
        }
        let refusal = match tokio::time::timeout(self.timeout, self.connect_with_back_channel()).await {
            Ok(Ok(server)) => return Ok(ConnectedServer { sessions: SessionSupport::Offered, ..server }),
            Ok(Err(refusal)) => Some(refusal),
            Err(_) => None,
        };
        // The server may have been replaced by one of another era.
        let server = self.detect().await?;
        // A network failure proves nothing.
        let refused = refusal.is_none_or(|error| error_indicates_era(&error));
        let sessions = if refused { SessionSupport::Absent } else { SessionSupport::Unknown };
        Ok(ConnectedServer { sessions, ..server })
    }

    /// Performs the stateful handshake; fails if the server could not send requests after it.
    async fn connect_with_back_channel(&self) -> Result<ConnectedServer, WireError> {
        let link = self.open(HttpMode::Session).await?;
        let profile = handshake::initialize(self.router).await?;
        // Without a session id no answer of ours finds the process that asked.
        if self.transport.link_kind() == LinkKind::Http && link.session().is_none() {
            return Err(WireError::protocol("the server answers `initialize` without a session"));
        }
        let protocol = DetectedProtocol { era: Era::Legacy, http_mode: HttpMode::Session };
        Ok(legacy_server(link, profile, protocol))
    }

    async fn detect(&self) -> Result<ConnectedServer, WireError> {
        let link = self.open(HttpMode::Stateless).await?;
        match self.discover().await {
            Discovery::Modern(profile) => Ok(modern_server(link, profile)),
            Discovery::Failed(error) => Err(error),
            Discovery::Legacy(late) => {
                let silent = late.is_some();
                let mut server = self.initialize_on(link, late).await?;
                if silent && server.protocol.era == Era::Legacy {
                    server.evidence = Evidence::Silence;
                }
                Ok(server)
            }
            Discovery::Ended(why) => match self.transport.link_kind() {
                // Some stateful servers end on an unknown method: open again, without a probe.
                LinkKind::Stream => {
                    tracing::debug!(%why, "the server ended during the era probe");
                    self.connect_legacy(None).await
                }
                LinkKind::Http => Err(why),
            },
        }
    }

    async fn connect_modern(&self) -> Result<ConnectedServer, WireError> {
        let link = self.open(HttpMode::Stateless).await?;
        match self.discover().await {
            Discovery::Modern(profile) => Ok(modern_server(link, profile)),
            Discovery::Failed(error) | Discovery::Ended(error) => Err(error),
            // A timeout proves nothing about the era.
            Discovery::Legacy(Some(_)) => {
                Err(WireError::TimedOut { kind: TimeoutKind::Handshake, limit: self.timeout })
            }
            Discovery::Legacy(None) => Err(sessions_only()),
        }
    }

    /// Performs the stateful handshake: over Streamable HTTP or stdio, otherwise over HTTP+SSE.
    async fn connect_legacy(&self, mode: Option<HttpMode>) -> Result<ConnectedServer, WireError> {
        let first = mode.filter(|mode| *mode == HttpMode::EventStream).unwrap_or(HttpMode::Session);
        let link = self.open(first).await?;
        let reply = handshake::send_initialize(self.router).await?;
        let may_be_older = first == HttpMode::Session && self.may_be_older(&reply);
        match handshake::parse_initialize_response(reply) {
            Ok(profile) => Ok(legacy_server(link, profile, DetectedProtocol { era: Era::Legacy, http_mode: first })),
            Err(refusal) if may_be_older => self.connect_event_stream(refusal).await,
            Err(error) => Err(error),
        }
    }

    async fn connect_event_stream(&self, refusal: WireError) -> Result<ConnectedServer, WireError> {
        let link = match self.open(HttpMode::EventStream).await {
            Ok(link) => link,
            Err(error) => {
                return Err(match (refusal, error) {
                    // A JSON-RPC error is the more precise reason.
                    (refusal @ WireError::Handshake(_), _) => refusal,
                    // Neither a POST nor a GET: there is no endpoint here.
                    (
                        refusal @ WireError::Status { status: http::StatusCode::NOT_FOUND, .. },
                        WireError::Status { .. },
                    ) => refusal,
                    (refusal, error) if error_indicates_era(&error) => WireError::protocol(format!(
                        "no MCP transport recognised: `initialize` failed: {refusal}; HTTP+SSE failed: {error}"
                    )),
                    (_, error) => error,
                });
            }
        };
        let profile = handshake::initialize(self.router).await?;
        let protocol = DetectedProtocol { era: Era::Legacy, http_mode: HttpMode::EventStream };
        Ok(legacy_server(link, profile, protocol))
    }

    /// Continues with a server that did not answer `server/discover` as a stateless one does.
    async fn initialize_on(
        &self,
        link: Arc<dyn Link>,
        late: Option<oneshot::Receiver<HandshakeReply>>,
    ) -> Result<ConnectedServer, WireError> {
        if self.transport.link_kind() == LinkKind::Http {
            return match self.connect_legacy(None).await {
                // The error shows a stateless server: one without `server/discover`, or one being replaced.
                Err(WireError::Handshake(error)) if is_modern(&error) => self.connect_without_discover(&error).await,
                other => other,
            };
        }
        match handshake::initialize(self.router).await {
            Ok(profile) => {
                let protocol = DetectedProtocol { era: Era::Legacy, http_mode: HttpMode::Session };
                Ok(legacy_server(link, profile, protocol))
            }
            Err(refusal) => match self.late_answer(late, &refusal).await {
                // A slow stateless server: its response came after `initialize` was sent.
                Some(Discovery::Modern(profile)) => Ok(modern_server(link, profile)),
                _ if matches!(refusal, WireError::Ended(_)) => self.connect_legacy(None).await.map_err(|_| refusal),
                _ => Err(refusal),
            },
        }
    }

    /// Returns a late response to `server/discover`; waits for it if the refusal shows a stateless server.
    async fn late_answer(
        &self,
        late: Option<oneshot::Receiver<HandshakeReply>>,
        refusal: &WireError,
    ) -> Option<Discovery> {
        let mut late = late?;
        let reply = match refusal {
            WireError::Handshake(error) if is_modern(error) => {
                tokio::time::timeout(self.timeout, late).await.ok()?.ok()?
            }
            _ => late.try_recv().ok()?,
        };
        Some(self.classify(reply))
    }

    async fn connect_without_discover(&self, error: &RpcError) -> Result<ConnectedServer, WireError> {
        let revision = modern::supported(error).unwrap_or(Revision::NEWEST_MODERN);
        let link = self.open(HttpMode::Stateless).await?;
        let empty = Raw::empty_object();
        let profile = ServerProfile {
            revision,
            info: empty.clone(),
            capabilities: crate::message::ServerCapabilities(empty.clone()),
            instructions: None,
            raw: empty,
        };
        Ok(modern_server(link, profile))
    }

    async fn open(&self, mode: HttpMode) -> Result<Arc<dyn Link>, WireError> {
        if let Some(old) = self.router.take_link() {
            old.close().await;
        }
        let opening = self.transport.open(mode, self.router.next_sink());
        let link = handshake::within(self.router.client.handshake_timeout, opening).await??;
        self.router.use_link(Arc::clone(&link));
        Ok(link)
    }

    /// Sends `server/discover`, at most twice: a server may list the revision that it just refused.
    async fn discover(&self) -> Discovery {
        let mut discovery = self.discover_once().await;
        if let Discovery::Failed(WireError::Handshake(error)) = &discovery
            && error.code() == RpcError::UNSUPPORTED_VERSION
            && modern::supported(error).is_some()
        {
            discovery = self.discover_once().await;
        }
        discovery
    }

    async fn discover_once(&self) -> Discovery {
        let id = self.router.new_id();
        let outbound = handshake::discover(&self.router.client, id, Revision::NEWEST_MODERN);
        let mut reply = match self.router.handshake(id, outbound) {
            Ok(reply) => reply,
            Err(error) => return Discovery::Ended(error),
        };
        match tokio::time::timeout(self.timeout, &mut reply).await {
            Ok(Ok(reply)) => self.classify(reply),
            Ok(Err(_)) => Discovery::Ended(self.router.why_closed()),
            Err(_) => Discovery::Legacy(Some(reply)),
        }
    }

    fn classify(&self, reply: HandshakeReply) -> Discovery {
        let envelope = match reply {
            HandshakeReply::Message(envelope) => envelope,
            HandshakeReply::Closed(why) => return Discovery::Ended(why),
            HandshakeReply::Lane(end) => return classify_lane_end(end),
        };
        match (envelope.result(), envelope.error()) {
            (Some(result), _) => classify_result(&result),
            (None, Some(error)) => classify_error(error),
            (None, None) => Discovery::Legacy(None),
        }
    }

    /// Whether the server may support HTTP+SSE after this refusal.
    fn may_be_older(&self, reply: &HandshakeReply) -> bool {
        match reply {
            HandshakeReply::Lane(LaneEnd::Status { status, body }) => {
                let modern = handshake::json_rpc_error(body).is_some_and(|error| is_modern(&error));
                let http = self.transport.link_kind() == LinkKind::Http && self.way != HttpTransportChoice::Streamable;
                http && status_indicates_era(*status) && !modern
            }
            _ => false,
        }
    }
}

/// The error for a stateful server where a stateless one is required.
fn sessions_only() -> WireError {
    let (theirs, ours) = ("only session-based revisions".to_owned(), handshake::revision_list(Era::Modern));
    WireError::NoCommonRevision { theirs, ours }
}

fn modern_server(link: Arc<dyn Link>, profile: ServerProfile) -> ConnectedServer {
    let protocol = DetectedProtocol { era: Era::Modern, http_mode: HttpMode::Stateless };
    ConnectedServer { link, profile, protocol, evidence: Evidence::Answer, sessions: SessionSupport::Unknown }
}

fn legacy_server(link: Arc<dyn Link>, profile: ServerProfile, protocol: DetectedProtocol) -> ConnectedServer {
    ConnectedServer { link, profile, protocol, evidence: Evidence::Answer, sessions: SessionSupport::Unknown }
}

fn classify_result(result: &Raw) -> Discovery {
    // Some stateful servers answer any request with an empty result.
    let Some(listed) = result.get("supportedVersions") else { return Discovery::Legacy(None) };
    let listed = listed.elements();
    match (modern::newest(&listed, Era::Modern), modern::newest(&listed, Era::Legacy)) {
        (Some(revision), _) => match handshake::parse_discover_result(result, revision) {
            Some(profile) => Discovery::Modern(profile),
            None => Discovery::Legacy(None),
        },
        (None, Some(_)) => Discovery::Legacy(None),
        (None, None) if listed.is_empty() => Discovery::Legacy(None),
        (None, None) => Discovery::Failed(no_common_revision(&listed)),
    }
}

fn classify_error(error: RpcError) -> Discovery {
    if error.code() == RpcError::UNSUPPORTED_VERSION {
        let listed =
            error.data().and_then(|data| data.get("supported")).map(|list| list.elements()).unwrap_or_default();
        return match (modern::newest(&listed, Era::Modern), modern::newest(&listed, Era::Legacy)) {
            (None, Some(_)) => Discovery::Legacy(None),
            (None, None) => Discovery::Failed(no_common_revision(&listed)),
            (Some(_), _) => Discovery::Failed(WireError::Handshake(error)),
        };
    }
    if is_modern(&error) { Discovery::Failed(WireError::Handshake(error)) } else { Discovery::Legacy(None) }
}

fn classify_lane_end(end: LaneEnd) -> Discovery {
    match end {
        LaneEnd::Accepted | LaneEnd::SessionGone | LaneEnd::Over => Discovery::Legacy(None),
        LaneEnd::Status { status, .. } if status.is_success() => Discovery::Legacy(None),
        LaneEnd::Status { status, body } => match handshake::json_rpc_error(&body) {
            Some(error) if status.is_client_error() && status_indicates_era(status) => classify_error(error),
            _ if status_indicates_era(status) => Discovery::Legacy(None),
            _ => Discovery::Failed(handshake::lane_error(LaneEnd::Status { status, body })),
        },
        LaneEnd::Failed(WireError::Protocol(_)) => Discovery::Legacy(None),
        LaneEnd::Failed(error) => Discovery::Failed(error),
    }
}

/// Whether a failure depends on the era: the server answered, but not as a server of that era does.
pub(super) fn error_indicates_era(error: &WireError) -> bool {
    match error {
        WireError::Status { status, .. } => status_indicates_era(*status),
        WireError::Handshake(_) | WireError::NoCommonRevision { .. } | WireError::Protocol(_) | WireError::Ended(_) => {
            true
        }
        _ => false,
    }
}

/// Whether the error code is one of the three that only stateless servers use.
fn is_modern(error: &RpcError) -> bool {
    matches!(error.code(), RpcError::HEADER_MISMATCH | RpcError::MISSING_CAPABILITY | RpcError::UNSUPPORTED_VERSION)
}

fn no_common_revision(listed: &[Raw]) -> WireError {
    let theirs: Vec<String> = listed.iter().map(ToString::to_string).collect();
    let ours = format!("{}, {}", handshake::revision_list(Era::Legacy), handshake::revision_list(Era::Modern));
    WireError::NoCommonRevision { theirs: theirs.join(", "), ours }
}
