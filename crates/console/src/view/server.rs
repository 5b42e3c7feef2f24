//! A server, its tools and its failure.

use serde::Serialize;
use serde_json::value::RawValue;
use toolway_config::{Secret, ServerName};
use toolway_host::{
    Host,
    catalog::{Catalog, SetAsideItem, ToolEntry},
    connection::{
        CallerConnectionStatus, Phase, RootsOffer, ServerStatus, TransportKind, process_memory::ProcessMemory,
        view::ServerAssessment,
    },
    policy::Annotations,
    roots::{GivenRoot, RootOrigin},
    whose_move::WhoseMove,
};
use toolway_wire::json::Raw;

use super::{cut, icon::icon, moment};
use crate::backend::SetAside;

/// Bytes of the icons of all tools of a server.
const MAX_ICONS: usize = 2 * 1024 * 1024;
/// Bytes of the instructions of a server that are shown.
const MAX_INSTRUCTIONS: usize = 16 * 1024;
/// Capabilities that are listed.
const MAX_CAPABILITIES: usize = 60;
/// Items that are set aside and listed.
const MAX_SET_ASIDE: usize = 20;
/// Lines of stderr output of a failed server.
const STDERR: usize = 50;

/// One server.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerView {
    name: String,
    /// Its key in the configuration, as the user wrote it.
    label: String,
    /// What it calls itself.
    title: Option<String>,
    description: Option<String>,
    icon: Option<String>,
    state: &'static str,
    /// Whether it is not usable until a person does something.
    needs_person: bool,
    detail: Option<String>,
    era: Option<String>,
    revision: Option<String>,
    transport: &'static str,
    session_id: Option<String>,
    sign_in: SignInView,
    trust: Option<&'static str>,
    enabled: bool,
    counts: CountsView,
    error: Option<ErrorView>,
    address: String,
    source: String,
}

#[derive(Debug, Serialize)]
struct SignInView {
    required: bool,
    /// Why the last attempt from the page failed.
    failure: Option<String>,
}

#[derive(Debug, Serialize)]
struct CountsView {
    tools: usize,
    prompts: usize,
    resources: usize,
}

#[derive(Debug, Serialize)]
struct ErrorView {
    code: &'static str,
    message: String,
    hint: Option<String>,
    stderr: Vec<String>,
}

/// One server with its tools.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerDetails {
    #[serde(flatten)]
    server: ServerView,
    /// The command with its arguments, or the whole URL, without secrets; `None` if it is not configured.
    command: Option<String>,
    tools: Vec<ToolView>,
    /// Items and lists of it that could not be read.
    set_aside: Vec<SetAside>,
    callers: Vec<CallerView>,
    /// Memory of all its processes in bytes; `None` where the system does not tell.
    memory: Option<u64>,
    roots: Vec<RootView>,
    capabilities: Vec<String>,
    instructions: Option<String>,
    /// The version that it gives itself.
    version: Option<String>,
    connected_at: Option<String>,
    stderr: Vec<String>,
}

/// A connection to the server, with its process.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CallerView {
    /// The caller that it is reserved for; `None`: the one for lists and for all others.
    caller: Option<String>,
    process: Option<u32>,
    /// Resident memory with all that it started; `None` where the system does not tell.
    bytes: Option<u64>,
    session_id: Option<String>,
    /// Calls under way; `None` for the shared connection.
    calls: Option<usize>,
    /// What the server is told that this caller can do.
    declares: Vec<&'static str>,
}

/// A root that the server is told of.
#[derive(Debug, Serialize)]
struct RootView {
    uri: String,
    name: Option<String>,
    /// `command`, `all`, `server`, `client` or `supplied`.
    origin: &'static str,
    /// The client of the gateway in whose calls it is given.
    client: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolView {
    name: String,
    public_name: String,
    title: Option<String>,
    description: Option<String>,
    icon: Option<String>,
    read_only: bool,
    destructive: bool,
    idempotent: bool,
    open_world: bool,
    input_schema: Option<Box<RawValue>>,
}

/// One server; `failure`: why the last sign-in from a page failed.
pub(crate) fn view(host: &Host, catalog: &Catalog, status: &ServerStatus, failure: Option<String>) -> ServerView {
    let profile = status.profile.as_ref();
    let info = |key: &str| text(profile?.info.get(key).as_ref());
    let server = &status.server;
    let resources = catalog.resources_of(server).len() + catalog.templates_of(server).len();
    ServerView {
        name: server.to_string(),
        label: status.label.clone(),
        title: info("title").or_else(|| info("name")),
        description: status.description.clone().or_else(|| info("description")),
        icon: profile.and_then(|profile| icon(&profile.info)),
        state: state(status),
        needs_person: needs_person(status),
        detail: ServerAssessment::of(status).reason,
        era: profile.map(|profile| profile.era.to_string()),
        revision: profile.map(|profile| profile.revision.as_str().to_owned()),
        transport: transport(status.transport),
        session_id: profile.and_then(|profile| profile.session_id.as_ref()).map(|id| Secret::expose(id).to_owned()),
        sign_in: SignInView { required: matches!(status.phase, Phase::SignInRequired { .. }), failure },
        trust: host.trust_of(server).map(toolway_config::Trust::as_str),
        enabled: status.phase != Phase::Disabled,
        counts: CountsView {
            tools: catalog.tools_of(server).len(),
            prompts: catalog.prompts_of(server).len(),
            resources,
        },
        error: error(status),
        address: status.target.clone(),
        source: status.source.clone(),
    }
}

/// What the embedding program knows of a server.
#[derive(Debug, Default)]
pub(crate) struct ServerFacts {
    /// Why the last sign-in from the page failed.
    pub(crate) sign_in_failure: Option<String>,
    /// The command with its arguments, or the whole URL, without secrets.
    pub(crate) command: Option<String>,
}

/// One server with its tools.
pub(crate) fn details(host: &Host, status: &ServerStatus, facts: ServerFacts) -> ServerDetails {
    let catalog = host.own_catalog();
    let server = view(host, &catalog, status, facts.sign_in_failure);
    let callers = callers(status);
    let memory: Vec<u64> = callers.iter().filter_map(|caller| caller.bytes).collect();
    let profile = status.profile.as_ref();
    let instructions = profile.and_then(|profile| profile.instructions.as_deref());
    let mut icons_left = MAX_ICONS;
    ServerDetails {
        server,
        command: facts.command,
        tools: catalog.tools_of(&status.server).iter().map(|entry| tool(entry, &mut icons_left)).collect(),
        set_aside: set_aside_of(&catalog, &status.server),
        callers,
        memory: (!memory.is_empty()).then(|| memory.iter().sum()),
        roots: host.roots_of(&status.server).into_iter().map(root).collect(),
        capabilities: profile.map(|profile| capabilities(&profile.capabilities.0)).unwrap_or_default(),
        instructions: instructions.map(|text| text[..text.floor_char_boundary(MAX_INSTRUCTIONS)].to_owned()),
        version: profile
            .and_then(|profile| text(profile.info.get("version").as_ref()))
            .map(|text| cut(&text).to_owned()),
        connected_at: status.last_connected.map(moment),
        stderr: status.stderr.clone(),
    }
}

/// The shared connection first, then those of single callers.
fn callers(status: &ServerStatus) -> Vec<CallerView> {
    let of_callers = status.caller_connections.iter();
    // A client may have taken over the process that was started for the lists.
    let process = status.process.filter(|process| of_callers.clone().all(|one| one.process != Some(*process)));
    let session_id = status.profile.as_ref().and_then(|profile| profile.session_id.as_ref());
    let session_id = session_id.map(|id| Secret::expose(id).to_owned());
    let shared = CallerView { caller: None, process, bytes: None, session_id, calls: None, declares: Vec::new() };
    let is_there = shared.process.is_some() || shared.session_id.is_some();
    let mut callers: Vec<CallerView> = is_there.then_some(shared).into_iter().chain(of_callers.map(caller)).collect();
    if callers.iter().any(|caller| caller.process.is_some()) {
        let memory = ProcessMemory::read();
        for caller in &mut callers {
            caller.bytes = caller.process.and_then(|process| memory.of(process));
        }
    }
    callers
}

fn caller(connection: &CallerConnectionStatus) -> CallerView {
    let profile = connection.profile;
    let declares = [
        ("roots", profile.roots != RootsOffer::Nothing),
        ("sampling", profile.sampling != toolway_host::sampling::SamplingOffer::Nothing),
        ("elicitation", profile.forms || profile.addresses),
    ];
    CallerView {
        caller: Some(connection.caller.label()),
        process: connection.process,
        bytes: None,
        session_id: connection.session_id.as_ref().map(|id| id.expose().to_owned()),
        calls: Some(connection.calls),
        declares: declares.into_iter().filter(|(_, does)| *does).map(|(name, _)| name).collect(),
    }
}

/// What a server lists and is not offered.
pub(crate) fn set_aside_of(catalog: &Catalog, server: &ServerName) -> Vec<SetAside> {
    let of_server = catalog.set_aside().iter().filter(|item| item.server == *server);
    of_server.take(MAX_SET_ASIDE).map(set_aside).collect()
}

fn set_aside(item: &SetAsideItem) -> SetAside {
    let SetAsideItem { kind, name, reason, .. } = item;
    SetAside {
        kind: kind.as_str(),
        name: name.as_deref().map(|name| cut(name).to_owned()),
        reason: cut(reason).to_owned(),
    }
}

fn root(given: GivenRoot) -> RootView {
    let (origin, client) = match given.origin {
        RootOrigin::Command => ("command", None),
        RootOrigin::AllServers => ("all", None),
        RootOrigin::Server => ("server", None),
        RootOrigin::Client(client) => ("client", Some(client)),
        RootOrigin::SuppliedBy(client) => ("supplied", Some(client)),
    };
    RootView { uri: given.root.uri, name: given.root.name, origin, client }
}

/// What a server declares, one word for each: `tools`, `tools.listChanged` …
pub(crate) fn capabilities(declared: &Raw) -> Vec<String> {
    let declared: serde_json::Value = declared.read().unwrap_or_default();
    let mut words = Vec::new();
    for (name, details) in declared.as_object().into_iter().flatten() {
        words.push(cut(name).to_owned());
        let details = details.as_object().into_iter().flatten();
        let on = details.filter(|(_, value)| value.as_bool() == Some(true) || value.is_object());
        words.extend(on.map(|(inner, _)| cut(&format!("{name}.{inner}")).to_owned()));
    }
    words.truncate(MAX_CAPABILITIES);
    words
}

fn tool(entry: &ToolEntry, icons_left: &mut usize) -> ToolView {
    let item = &entry.item;
    let Annotations { read_only, destructive, idempotent, open_world, .. } =
        Annotations::of_tool(item.annotations.as_ref());
    let annotated = item.annotations.as_ref().and_then(|annotations| text(annotations.get("title").as_ref()));
    let icon = icon(&item.raw).filter(|icon| icon.len() <= *icons_left);
    *icons_left -= icon.as_ref().map_or(0, String::len);
    ToolView {
        name: entry.origin.raw_name.clone(),
        public_name: entry.public.to_string(),
        title: item.title.clone().or(annotated),
        description: item.description.clone(),
        icon,
        read_only,
        destructive,
        idempotent,
        open_world,
        input_schema: RawValue::from_string(item.input_schema.to_string()).ok(),
    }
}

fn state(status: &ServerStatus) -> &'static str {
    match &status.phase {
        Phase::Ready => "connected",
        Phase::Connecting { .. } if is_retry(status) => "retrying",
        Phase::Connecting { .. } => "connecting",
        Phase::Waiting { .. } => "retrying",
        Phase::Failed { .. } => "failed",
        Phase::Disabled => "disabled",
        Phase::Stopped(_) => "disconnected",
        Phase::SignInRequired { .. } => "sign-in-required",
    }
}

/// Whether a dial is in progress after one that failed.
fn is_retry(status: &ServerStatus) -> bool {
    matches!(status.phase, Phase::Connecting { attempt } if 1 < attempt) && status.last_error.is_some()
}

/// A failure that Toolway gets over by itself needs no person.
fn needs_person(status: &ServerStatus) -> bool {
    let is_retried = matches!(status.phase, Phase::Waiting { .. }) || is_retry(status);
    let by_person =
        |error: &toolway_host::connection::LastError| matches!(error.whose_move, WhoseMove::Operator | WhoseMove::User);
    match &status.phase {
        Phase::SignInRequired { .. } | Phase::Failed { .. } => true,
        _ => is_retried && status.last_error.as_ref().is_some_and(by_person),
    }
}

fn transport(kind: TransportKind) -> &'static str {
    match kind {
        TransportKind::Stdio => "stdio",
        TransportKind::Http => "http",
        TransportKind::InProcess => "in-process",
        TransportKind::Custom => "custom",
    }
}

/// The failure of a server that is not usable. It stays while the server is tried again.
fn error(status: &ServerStatus) -> Option<ErrorView> {
    let is_broken = matches!(status.phase, Phase::Waiting { .. } | Phase::Failed { .. } | Phase::SignInRequired { .. })
        || is_retry(status);
    let last = status.last_error.as_ref().filter(|_| is_broken)?;
    let hint = match (&status.phase, last.whose_move) {
        // The page has a button.
        (Phase::SignInRequired { .. }, _) => None,
        (_, WhoseMove::Operator) => Some(format!("fix its entry ({}), then restart it", status.source)),
        (Phase::Failed { .. }, _) => Some("restart it to try again".to_owned()),
        _ => None,
    };
    let stderr = status.stderr[status.stderr.len().saturating_sub(STDERR)..].to_vec();
    let message = last.message.as_str();
    // The lines are shown below the message.
    let message =
        if stderr.is_empty() { message } else { message.split("; last stderr output: ").next().unwrap_or(message) };
    Some(ErrorView { code: last.code, message: message.to_owned(), hint, stderr })
}

fn text(raw: Option<&Raw>) -> Option<String> {
    raw?.as_str().map(std::borrow::Cow::into_owned)
}
