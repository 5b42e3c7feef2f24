//! The skills extension at the path of all servers: one list of all skills, and URIs that name their server.
//!
//! A skill is identified by its server and its URI, so that every URI of a skill names its server here, whether or not
//! another server has the same. Digests, sizes and frontmatter pass unchanged.

use std::{
    fmt,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::join_all;
use serde_json::json;
use toolway_config::ServerName;
use toolway_host::{
    Host,
    call::{CallRequest, CallerContext, Target},
    catalog::{
        PublicUri,
        skills::{SkillSupport, support},
        uri::split_owned,
    },
};
use toolway_wire::{
    exchange::{Exchange, ExchangeEvent, ExchangeInterceptor, Outcome, Request},
    json::{JsonKind, Raw},
    message::{
        RpcError,
        splice::{self, Edit},
    },
};

use super::{
    HostService, Requester, invalid, lists::DeferredOutcome, relayed_call::RelayedCall, tasks, unknown_method,
};

/// Maximum number of skills of one server in the list.
const MAX_SKILLS: usize = 1000;
/// Maximum number of pages that are requested from one server.
const MAX_PAGES: usize = 50;
/// How long the list waits for one server; without its skills the others are still listed.
const LIST_PATIENCE: Duration = Duration::from_secs(10);
/// Maximum size of the list of one server in bytes.
const MAX_LIST_BYTES: usize = 4 * 1024 * 1024;
/// Nesting to which URIs are looked for in results: a list, its entries, their files.
const MAX_NESTING: usize = 6;
/// Members that are data of a skill's author, in which nothing is changed.
const VERBATIM: [&str; 2] = ["frontmatter", "_meta"];

/// A method of the extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SkillMethod {
    /// `skills/list`
    List,
    /// `skills/get` or `resources/directory/read`: about one URI.
    OfUri,
}

impl SkillMethod {
    pub(super) fn of(method: &str) -> Option<Self> {
        match method {
            "skills/list" => Some(Self::List),
            "skills/get" | "resources/directory/read" => Some(Self::OfUri),
            _ => None,
        }
    }
}

/// What is declared of the extension at the path of all servers, if these servers are visible; `None` if none has it.
pub(super) fn declared(host: &Host, servers: impl Iterator<Item = ServerName>) -> Option<Raw> {
    let catalog = host.catalog();
    let admitted = servers.filter(|server| host.admits_method(server, "skills/list"));
    let supports: Vec<SkillSupport> = admitted.map(|server| support(&catalog, &server)).collect();
    match supports.contains(&SkillSupport::EntriesAndFolders) {
        true => Some(Raw::of(&json!({ "directoryRead": true }))),
        false => supports.contains(&SkillSupport::Entries).then(Raw::empty_object),
    }
}

impl HostService {
    /// Answers a request of the extension.
    pub(super) fn skills(
        &self,
        method: SkillMethod,
        request: Request,
        who: Requester<'_>,
    ) -> Result<Exchange, RpcError> {
        let caller_context = tasks::caller_context(who);
        let servers = self.host.servers().into_iter().map(|status| status.server);
        let has_method = |server: &ServerName| who.0.sees(server) && self.host.admits_method(server, request.method());
        let servers: Vec<ServerName> = servers.filter(has_method).collect();
        if servers.is_empty() {
            return Err(unknown_method(request.method()));
        }
        match method {
            SkillMethod::List => {
                let lister = SkillLister { host: self.host.clone(), caller_context };
                Ok(Exchange::through(DeferredOutcome::new(async move { lister.list(&servers).await })))
            }
            SkillMethod::OfUri => {
                let uri = request.param("uri").ok_or_else(|| invalid("`uri` is missing"))?;
                let uri = uri.as_str().ok_or_else(|| invalid("`uri` is not a string"))?;
                let owned = split_owned(&uri).filter(|(server, _)| servers.contains(server));
                let Some((server, raw)) = owned else {
                    return Err(invalid(&format!(
                        "no skill has the URI `{}`",
                        uri.chars().take(200).collect::<String>()
                    )));
                };
                let raw = Raw::of(raw.as_ref());
                let target = Target::Method { server: server.clone(), method: request.method().to_owned() };
                Ok(self.relay_owned(target, server, request.with_param("uri", raw), caller_context))
            }
        }
    }

    /// Opens a call whose result has URIs that name the server.
    pub(super) fn relay_owned(
        &self,
        target: Target,
        server: ServerName,
        request: Request,
        caller_context: CallerContext,
    ) -> Exchange {
        let exchange = open(&self.host, target, request, caller_context);
        Exchange::through(OwnedUris { exchange, server })
    }
}

/// Lists the skills of all servers for one caller.
struct SkillLister {
    host: Host,
    caller_context: CallerContext,
}

impl SkillLister {
    /// The skills of these servers, in one page. If a server fails or is too slow, only its own skills are missing.
    async fn list(&self, servers: &[ServerName]) -> Outcome {
        let lists = join_all(servers.iter().map(async |server| {
            let listed = tokio::time::timeout(LIST_PATIENCE, self.list_server(server)).await;
            listed.unwrap_or_else(|_| {
                tracing::warn!(server = server.as_str(), "a server did not list its skills in time");
                Vec::new()
            })
        }));
        let skills: Vec<Raw> = lists.await.into_iter().flatten().collect();
        let rest = Raw::of(&json!({ "ttlMs": 0, "cacheScope": "private" }));
        Outcome::Answered(splice::edited(&rest, &[Edit::Add("skills", splice::array(&skills))]))
    }

    async fn list_server(&self, server: &ServerName) -> Vec<Raw> {
        let mut skills = Vec::new();
        let mut kept_bytes = 0;
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let Some(page) = self.page(server, cursor.as_ref()).await else { break };
            let Some(entries) = page.get("skills").filter(|entries| entries.kind() == JsonKind::Array) else { break };
            kept_bytes += entries.as_bytes().len();
            let room = MAX_SKILLS - skills.len();
            let entries = entries.elements_within(room);
            if MAX_LIST_BYTES < kept_bytes || room < entries.len() {
                tracing::warn!(server = server.as_str(), "a server has too many skills; the rest is not listed");
                break;
            }
            skills.extend(entries.iter().map(|entry| with_owned_uris(entry, server, 0)));
            cursor = page.get("nextCursor").filter(|cursor| cursor.as_str().is_some_and(|text| !text.is_empty()));
            if cursor.is_none() {
                break;
            }
        }
        skills
    }

    async fn page(&self, server: &ServerName, cursor: Option<&Raw>) -> Option<Raw> {
        let params = cursor.map(|cursor| splice::object([("cursor", cursor)]));
        let request = Request::new("skills/list", params).ok()?;
        let target = Target::Method { server: server.clone(), method: "skills/list".to_owned() };
        match open(&self.host, target, request, self.caller_context.clone()).outcome().await {
            Outcome::Answered(page) => Some(page),
            _ => {
                tracing::warn!(server = server.as_str(), "the skills of a server could not be listed");
                None
            }
        }
    }
}

fn open(host: &Host, target: Target, request: Request, caller_context: CallerContext) -> Exchange {
    let kind = target.kind();
    let CallerContext { caller, session, visible, .. } = caller_context;
    let relay = host.open(CallRequest { session, visible, ..CallRequest::relayed(caller, target, request) });
    Exchange::through(RelayedCall::new(relay, kind, None))
}

/// A call whose result gets URIs that name the server.
struct OwnedUris {
    exchange: Exchange,
    server: ServerName,
}

impl ExchangeInterceptor for OwnedUris {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<ExchangeEvent>> {
        self.exchange.poll_next(context).map(|event| match event {
            Some(ExchangeEvent::Ended(Outcome::Answered(result))) => {
                let result = with_owned_uris(&result, &self.server, 0);
                Some(ExchangeEvent::Ended(Outcome::Answered(result)))
            }
            Some(ExchangeEvent::Ended(Outcome::Refused(error))) => {
                Some(ExchangeEvent::Ended(Outcome::Refused(error_with_owned_uri(error, &self.server))))
            }
            other => other,
        })
    }

    fn cancel(&mut self, reason: &str) {
        self.exchange.cancel(reason);
    }

    fn missed(&self) -> u64 {
        self.exchange.missed()
    }
}

impl fmt::Debug for OwnedUris {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedUris").field("server", &self.server).finish_non_exhaustive()
    }
}

/// The error with the server in the URI of its data.
fn error_with_owned_uri(error: RpcError, server: &ServerName) -> RpcError {
    let Some(data) = error.data() else { return error };
    let data = with_owned_uris(&data, server, MAX_NESTING);
    RpcError::from_raw(splice::edited(error.raw(), &[Edit::Set("data", data)]))
}

/// The value with the server in each `uri` of an object; everything else is unchanged.
fn with_owned_uris(value: &Raw, server: &ServerName, nesting: usize) -> Raw {
    match value.kind() {
        _ if MAX_NESTING < nesting || !value.may_mention("\"uri\"") => value.clone(),
        JsonKind::Array => {
            let elements = value.elements();
            splice::array(&elements.iter().map(|one| with_owned_uris(one, server, nesting + 1)).collect::<Vec<_>>())
        }
        JsonKind::Object => {
            let members = value.members();
            let changed =
                members.iter().filter(|member| !VERBATIM.contains(&member.key.as_ref())).filter_map(|member| {
                    let now = match member.value.as_str().filter(|_| member.key == "uri") {
                        Some(uri) => Raw::of(PublicUri::owned(server, &uri).as_str()),
                        None => with_owned_uris(&member.value, server, nesting + 1),
                    };
                    (now.as_bytes() != member.value.as_bytes()).then_some(Edit::Set(&member.key, now))
                });
            splice::edited(value, &changed.collect::<Vec<_>>())
        }
        _ => value.clone(),
    }
}
