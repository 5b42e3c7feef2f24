//! A server, its tools and its failure.

use serde::Serialize;
use serde_json::value::RawValue;
use toolway_config::Secret;
use toolway_host::{
    Host,
    catalog::{Catalog, ToolEntry},
    connection::{
        CallerConnectionStatus, Phase, ServerStatus, TransportKind, process_memory::ProcessMemory,
        view::ServerAssessment,
    },
    policy::Annotations,
    whose_move::WhoseMove,
};
use toolway_wire::json::Raw;

use super::image;

/// Largest icon in bytes.
const MAX_ICON: usize = 128 * 1024;
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
pub(crate) struct ServerDetails {
    #[serde(flatten)]
    server: ServerView,
    tools: Vec<ToolView>,
    processes: Vec<ProcessView>,
    sessions: Vec<SessionView>,
    stderr: Vec<String>,
}

/// A process of the server.
#[derive(Debug, Serialize)]
struct ProcessView {
    /// The caller that it is reserved for; `None`: the one for lists and for all others.
    caller: Option<String>,
    process: u32,
    /// Resident memory with all that it started; `None` where the system does not tell.
    bytes: Option<u64>,
}

/// A session that the server issued for one caller.
#[derive(Debug, Serialize)]
struct SessionView {
    caller: String,
    id: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolView {
    name: String,
    public_name: String,
    title: Option<String>,
    description: Option<String>,
    read_only: bool,
    destructive: bool,
    open_world: bool,
    input_schema: Option<Box<RawValue>>,
}

/// One server.
pub(crate) fn view(host: &Host, catalog: &Catalog, status: &ServerStatus) -> ServerView {
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
        state: state(&status.phase),
        detail: ServerAssessment::of(status).reason,
        era: profile.map(|profile| profile.era.to_string()),
        revision: profile.map(|profile| profile.revision.as_str().to_owned()),
        transport: transport(status.transport),
        session_id: profile.and_then(|profile| profile.session_id.as_ref()).map(|id| Secret::expose(id).to_owned()),
        sign_in: SignInView { required: matches!(status.phase, Phase::SignInRequired { .. }), failure: None },
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

/// One server with its tools, and why the last sign-in from the page failed.
pub(crate) fn details(host: &Host, status: &ServerStatus, failure: Option<String>) -> ServerDetails {
    let catalog = host.catalog();
    let mut server = view(host, &catalog, status);
    server.sign_in.failure = failure;
    ServerDetails {
        server,
        tools: catalog.tools_of(&status.server).iter().map(tool).collect(),
        processes: processes(status),
        sessions: sessions(status),
        stderr: status.stderr.clone(),
    }
}

fn sessions(status: &ServerStatus) -> Vec<SessionView> {
    let session = |connection: &CallerConnectionStatus| {
        let id = connection.session_id.as_ref()?.expose().to_owned();
        Some(SessionView { caller: connection.caller.label(), id })
    };
    status.caller_connections.iter().filter_map(session).collect()
}

fn processes(status: &ServerStatus) -> Vec<ProcessView> {
    let of_callers = status.caller_connections.iter();
    // A client may have taken over the process that was started for the lists.
    let shared = status.process.filter(|process| of_callers.clone().all(|one| one.process != Some(*process)));
    let shared = shared.map(|process| (None, process));
    let of_callers = of_callers.filter_map(|connection| Some((Some(connection.caller.label()), connection.process?)));
    let running: Vec<_> = shared.into_iter().chain(of_callers).collect();
    if running.is_empty() {
        return Vec::new();
    }
    let memory = ProcessMemory::read();
    let view = |(caller, process)| ProcessView { caller, process, bytes: memory.of(process) };
    running.into_iter().map(view).collect()
}

fn tool(entry: &ToolEntry) -> ToolView {
    let item = &entry.item;
    let Annotations { read_only, destructive, open_world, .. } = Annotations::of_tool(item.annotations.as_ref());
    let annotated = item.annotations.as_ref().and_then(|annotations| text(annotations.get("title").as_ref()));
    ToolView {
        name: entry.origin.raw_name.clone(),
        public_name: entry.public.to_string(),
        title: item.title.clone().or(annotated),
        description: item.description.clone(),
        read_only,
        destructive,
        open_world,
        input_schema: RawValue::from_string(item.input_schema.to_string()).ok(),
    }
}

fn state(phase: &Phase) -> &'static str {
    match phase {
        Phase::Ready => "connected",
        Phase::Connecting { .. } => "connecting",
        Phase::Waiting { .. } => "retrying",
        Phase::Failed { .. } => "failed",
        Phase::Disabled => "disabled",
        Phase::Stopped(_) => "disconnected",
        Phase::SignInRequired { .. } => "sign-in-required",
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

/// The failure of a server that is not usable.
fn error(status: &ServerStatus) -> Option<ErrorView> {
    let is_broken = matches!(status.phase, Phase::Waiting { .. } | Phase::Failed { .. } | Phase::SignInRequired { .. });
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

/// The first icon that is an image in a data URL. Addresses are never fetched.
fn icon(info: &Raw) -> Option<String> {
    let icons = info.get("icons")?;
    let sources = icons.elements().into_iter().take(16).filter_map(|icon| text(icon.get("src").as_ref()));
    sources.filter(|source| source.len() <= MAX_ICON).find_map(|source| {
        let (kind, data) = source.strip_prefix("data:")?.split_once(";base64,")?;
        image(kind, data)
    })
}

fn text(raw: Option<&Raw>) -> Option<String> {
    raw?.as_str().map(std::borrow::Cow::into_owned)
}
