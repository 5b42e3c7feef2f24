//! Which era does this server speak? Asked once, remembered, and corrected when it turns out wrong.
//!
//! A stateless server answers `server/discover`; a stateful one answers with some error, with nothing, with an empty
//! success, or ends. What never counts as an answer: 401, 403, 408, 429, 5xx and a broken network, for a healthy
//! server must not be downgraded by a bad moment. The rules are those of `docs/decisions/0003-era-probe.md`.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;

use super::{
    handshake::{self, ServerProfile, status_indicates_era},
    modern,
    router::{HandshakeReply, Router},
    transport::{LaneEnd, Link, HttpMode, LinkKind, Transport},
};
use crate::{
    error::{TimeoutKind, WireError},
    json::Raw,
    message::RpcError,
    revision::{Era, Revision},
};

/// What was found out about a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetectedProtocol {
    /// Its era.
    pub era: Era,
    /// How it wants HTTP.
    pub manner: HttpMode,
}

/// Which era to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EraChoice {
    /// Find out, and remember.
    #[default]
    Auto,
    /// Only with a session.
    Legacy,
    /// Only without one.
    Modern,
}

/// Which of the transports over HTTP may be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HttpTransportChoice {
    /// Streamable HTTP, and the oldest where that is not understood.
    #[default]
    Any,
    /// Streamable HTTP alone.
    Streamable,
    /// HTTP+SSE of 2024-11-05, at once.
    EventStream,
}

impl DetectedProtocol {
    /// The choice that says the same, so that nobody has to find out again.
    pub fn choice(self) -> EraChoice {
        match self.era {
            Era::Legacy => EraChoice::Legacy,
            Era::Modern => EraChoice::Modern,
        }
    }
}

/// Keeps what was found out, under a digest of command or address; a port.
pub trait EraMemory: Send + Sync {
    /// What is known.
    fn recall(&self, key: &str) -> Option<DetectedProtocol>;
    /// Keeps it.
    fn remember(&self, key: &str, found: DetectedProtocol);
    /// It was wrong.
    fn forget(&self, key: &str);
}

/// A server that has shaken hands.
pub(crate) struct ConnectedServer {
    pub(crate) link: Arc<dyn Link>,
    pub(crate) profile: ServerProfile,
    pub(crate) found: DetectedProtocol,
}

/// One attempt to find out.
pub(crate) struct Probe<'a> {
    pub(crate) router: &'a Arc<Router>,
    pub(crate) transport: &'a dyn Transport,
    pub(crate) way: HttpTransportChoice,
    pub(crate) patience: Duration,
}

/// What `server/discover` brought to light.
enum Discovery {
    Modern(ServerProfile),
    /// It is stateful; perhaps a late answer will still come.
    Legacy(Option<oneshot::Receiver<HandshakeReply>>),
    /// It ended on a message it did not know.
    Ended(WireError),
    Failed(WireError),
}

impl Probe<'_> {
    /// Shakes hands in the era chosen, remembered or found out.
    pub(crate) async fn run(&self, choice: EraChoice, known: Option<DetectedProtocol>) -> Result<ConnectedServer, WireError> {
        let known = known.filter(|known| known.manner != HttpMode::EventStream || self.way != HttpTransportChoice::Streamable);
        let oldest = self.way == HttpTransportChoice::EventStream && self.transport.link_kind() == LinkKind::Http;
        match (choice, known) {
            (EraChoice::Modern, _) if oldest => Err(sessions_only()),
            (_, _) if oldest => self.connect_legacy(Some(HttpMode::EventStream)).await,
            (EraChoice::Modern, _) => self.connect_modern().await,
            (EraChoice::Legacy, known) => self.connect_legacy(known.map(|known| known.manner)).await,
            (EraChoice::Auto, Some(known)) if known.era == Era::Legacy => self.connect_legacy(Some(known.manner)).await,
            (EraChoice::Auto, _) => self.detect().await,
        }
    }

    async fn detect(&self) -> Result<ConnectedServer, WireError> {
        let link = self.open(HttpMode::Stateless).await?;
        match self.discover().await {
            Discovery::Modern(profile) => Ok(modern_server(link, profile)),
            Discovery::Failed(error) => Err(error),
            Discovery::Legacy(late) => self.initialize_on(link, late).await,
            Discovery::Ended(why) => match self.transport.link_kind() {
                // Some stateful servers end on a method they do not know: open once more, and do not ask again.
                LinkKind::Stream => {
                    tracing::debug!(%why, "the server ended when asked for its era");
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
            // Silence says nothing about the era.
            Discovery::Legacy(Some(_)) => Err(WireError::TimedOut { kind: TimeoutKind::Handshake, limit: self.patience }),
            Discovery::Legacy(None) => Err(sessions_only()),
        }
    }

    /// The stateful handshake: with a session, else over the two endpoints of the oldest revision.
    async fn connect_legacy(&self, manner: Option<HttpMode>) -> Result<ConnectedServer, WireError> {
        let first = manner.filter(|manner| *manner == HttpMode::EventStream).unwrap_or(HttpMode::Session);
        let link = self.open(first).await?;
        let reply = handshake::send_initialize(self.router).await?;
        let may_be_older = first == HttpMode::Session && self.may_be_older(&reply);
        match handshake::parse_initialize_response(reply) {
            Ok(profile) => Ok(ConnectedServer { link, profile, found: DetectedProtocol { era: Era::Legacy, manner: first } }),
            Err(refusal) if may_be_older => self.connect_event_stream(refusal).await,
            Err(error) => Err(error),
        }
    }

    async fn connect_event_stream(&self, refusal: WireError) -> Result<ConnectedServer, WireError> {
        let link = match self.open(HttpMode::EventStream).await {
            Ok(link) => link,
            Err(error) => {
                return Err(match (refusal, error) {
                    // Whoever refuses in JSON-RPC has said what is wrong.
                    (refusal @ WireError::Handshake(_), _) => refusal,
                    (refusal, error) if error_indicates_era(&error) => WireError::protocol(format!(
                        "no MCP transport recognised: `initialize` brought {refusal}, an event stream brought {error}"
                    )),
                    (_, error) => error,
                });
            }
        };
        let profile = handshake::initialize(self.router).await?;
        Ok(ConnectedServer { link, profile, found: DetectedProtocol { era: Era::Legacy, manner: HttpMode::EventStream } })
    }

    /// Goes on with a server that did not answer `server/discover` as a stateless one does.
    async fn initialize_on(
        &self,
        link: Arc<dyn Link>,
        late: Option<oneshot::Receiver<HandshakeReply>>,
    ) -> Result<ConnectedServer, WireError> {
        if self.transport.link_kind() == LinkKind::Http {
            return match self.connect_legacy(None).await {
                // Stateless after all, seen by its error: a server without discover, or one being replaced.
                Err(WireError::Handshake(error)) if is_modern(&error) => self.connect_without_discover(&error).await,
                other => other,
            };
        }
        match handshake::initialize(self.router).await {
            Ok(profile) => {
                Ok(ConnectedServer { link, profile, found: DetectedProtocol { era: Era::Legacy, manner: HttpMode::Session } })
            }
            Err(refusal) => match self.late_answer(late, &refusal).await {
                // A slow stateless server: its answer came while `initialize` was being refused.
                Some(Discovery::Modern(profile)) => Ok(modern_server(link, profile)),
                _ if matches!(refusal, WireError::Ended(_)) => self.connect_legacy(None).await.map_err(|_| refusal),
                _ => Err(refusal),
            },
        }
    }

    /// The answer to `server/discover` that came after its time; waited for where the refusal is a stateless server's.
    async fn late_answer(
        &self,
        late: Option<oneshot::Receiver<HandshakeReply>>,
        refusal: &WireError,
    ) -> Option<Discovery> {
        let mut late = late?;
        let reply = match refusal {
            WireError::Handshake(error) if is_modern(error) => {
                tokio::time::timeout(self.patience, late).await.ok()?.ok()?
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

    async fn open(&self, manner: HttpMode) -> Result<Arc<dyn Link>, WireError> {
        if let Some(old) = self.router.take_link() {
            old.close().await;
        }
        let opening = self.transport.open(manner, self.router.next_sink());
        let link = handshake::within(self.router.client.patience, opening).await??;
        self.router.use_link(Arc::clone(&link));
        Ok(link)
    }

    /// Says `server/discover`, at most twice: a server may list the very revision it just refused.
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
        match tokio::time::timeout(self.patience, &mut reply).await {
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

    /// Whether a refusal leaves the possibility that the server speaks HTTP+SSE.
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

/// A server of the other era than the one that was pinned.
fn sessions_only() -> WireError {
    let (theirs, ours) = ("only revisions with a session".to_owned(), handshake::revision_list(Era::Modern));
    WireError::NoCommonRevision { theirs, ours }
}

fn modern_server(link: Arc<dyn Link>, profile: ServerProfile) -> ConnectedServer {
    ConnectedServer { link, profile, found: DetectedProtocol { era: Era::Modern, manner: HttpMode::Stateless } }
}

fn classify_result(result: &Raw) -> Discovery {
    // An empty success is what some stateful servers answer to anything.
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
        LaneEnd::Status { status, body } => match handshake::json_rpc_error(&body) {
            Some(error) if status.is_client_error() && status_indicates_era(status) => classify_error(error),
            _ if status_indicates_era(status) => Discovery::Legacy(None),
            _ => Discovery::Failed(handshake::lane_error(LaneEnd::Status { status, body })),
        },
        LaneEnd::Failed(WireError::Protocol(_)) => Discovery::Legacy(None),
        LaneEnd::Failed(error) => Discovery::Failed(error),
    }
}

/// Whether a failure says anything about the era: the server answered, but not as one of that era does.
pub(super) fn error_indicates_era(error: &WireError) -> bool {
    match error {
        WireError::Status { status, .. } => status_indicates_era(*status),
        WireError::Handshake(_) | WireError::NoCommonRevision { .. } | WireError::Protocol(_) | WireError::Ended(_) => {
            true
        }
        _ => false,
    }
}

/// The three codes only a stateless server uses.
fn is_modern(error: &RpcError) -> bool {
    matches!(error.code(), RpcError::HEADER_MISMATCH | RpcError::MISSING_CAPABILITY | RpcError::UNSUPPORTED_VERSION)
}

fn no_common_revision(listed: &[Raw]) -> WireError {
    let theirs: Vec<String> = listed.iter().map(ToString::to_string).collect();
    let ours = format!("{}, {}", handshake::revision_list(Era::Legacy), handshake::revision_list(Era::Modern));
    WireError::NoCommonRevision { theirs: theirs.join(", "), ours }
}
