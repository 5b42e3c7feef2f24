//! `toolway servers list`: every server and where it is defined.

use serde_json::{Map, Value, json};
use toolway_config::{
    Config, Loaded, ServerConfig,
    consent::{Proposal, ProposalStatus},
    server::{DefinedBy, HttpKind, Transport},
};
use toolway_gateway::control::ControlRequest;

use crate::{
    app::App,
    commands::config::place,
    exit_code::ExitCode,
    listing_cache,
    output::{Format, Output},
    report::Report,
    server_view,
    unused::Unused,
};

/// List the configured servers; same as `toolway servers`
///
/// Does not connect to servers. State and number of tools come from the running gateway, or else from the configuration and
/// the listing cache. Invalid entries and files are shown with
/// the reason.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ListArgs {}

const EXAMPLES: &str = "\
Examples:
  toolway servers list
  toolway servers list -o json | jq -r '.servers[] | select(.enabled) | .name'";

/// One table row.
struct Row<'a> {
    server: &'a ServerConfig,
    state: EntryState,
    /// Number of tools in the listing cache; `None` if not cached.
    tools: Option<usize>,
    /// State in the running gateway; `None` if none runs or it does not have the server.
    live: Option<String>,
}

/// State of a configured server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryState {
    Enabled,
    Disabled,
    NotAccepted,
    Changed,
}

pub(super) async fn run(ListArgs {}: &ListArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let loaded = app.load()?;
    let mut rows = rows(&loaded, app);
    add_live_state(&mut rows, app).await;
    let aside = Unused::set_aside(&loaded);
    match output.format {
        Format::Json | Format::Ndjson => {
            server_view::print(rows.iter().map(Row::view).collect(), &aside, Map::new(), output)
        }
        Format::Raw => rows.iter().for_each(|row| output.line(row.server.name.as_str())),
        Format::Human => human(&rows, &aside, output),
    }
    Ok(ExitCode::Ok)
}

fn rows<'a>(loaded: &'a Loaded, app: &App) -> Vec<Row<'a>> {
    let known = loaded.config.servers.values().map(|server| Row {
        server,
        state: EntryState::of(server),
        tools: None,
        live: None,
    });
    let waiting = loaded.proposals.iter().map(|proposal| Row {
        server: &proposal.server,
        state: EntryState::of_proposal(proposal),
        tools: None,
        live: None,
    });
    let mut rows: Vec<Row<'_>> = known.chain(waiting).collect();
    rows.sort_by(|one, other| one.server.name.cmp(&other.server.name));
    for row in &mut rows {
        row.tools = last_listed(row.server, &loaded.config, app);
    }
    rows
}

/// Adds the state and the number of tools in the running gateway. A gateway that does not reply is left out.
async fn add_live_state(rows: &mut [Row<'_>], app: &App) {
    let Ok(Some(answer)) = app.ask_gateway(&ControlRequest::Status { servers: Vec::new() }).await else { return };
    let servers = answer.value["servers"].as_array().cloned().unwrap_or_default();
    for row in rows {
        let Some(view) = servers.iter().find(|view| view["name"] == row.server.name.as_str()) else { continue };
        row.live = view["state"].as_str().map(str::to_owned);
        row.tools = view["tools"].as_u64().and_then(|tools| tools.try_into().ok()).or(row.tools);
    }
}

/// Number of a server's tools in the listing cache.
fn last_listed(server: &ServerConfig, config: &Config, app: &App) -> Option<usize> {
    listing_cache::lookup(&app.paths, config, server).map(|listing| listing.tools.len())
}

fn human(rows: &[Row<'_>], aside: &[Unused], output: &mut Output) {
    if rows.is_empty() && aside.is_empty() {
        output.notice("No server is configured. Add one with `toolway servers add`, or find those of other applications with `toolway import`.");
        return;
    }
    let row = |row: &Row<'_>| {
        let server = row.server;
        let tools = row.tools.map_or_else(|| "-".to_owned(), |tools| tools.to_string());
        let (name, label) = (server.name.to_string(), server.label.clone());
        let transport = transport(server).to_owned();
        let state = row.live.clone().unwrap_or_else(|| row.state.words().to_owned());
        [name, label, transport, state, tools, server.source.place.to_string()]
    };
    let none = || "-".to_owned();
    let unused = |unused: &Unused| {
        let place = unused.place().to_string();
        [unused.title(), unused.label().unwrap_or("-").to_owned(), none(), unused.state().to_owned(), none(), place]
    };
    let rows: Vec<_> = rows.iter().map(row).chain(aside.iter().map(unused)).collect();
    output.table(["NAME", "LABEL", "TRANSPORT", "STATE", "TOOLS", "DEFINED IN"], &rows);
    for unused in aside {
        output.line(&format!("{} is not used: {}", unused.title(), unused.reason));
    }
}

impl Row<'_> {
    fn view(&self) -> Value {
        let mut view = view(self.server, self.state);
        if let Some(tools) = self.tools {
            view["tools"] = tools.into();
        }
        if let Some(live) = &self.live {
            view["live"] = live.as_str().into();
        }
        view
    }
}

/// One server as JSON.
pub(crate) fn view(server: &ServerConfig, state: EntryState) -> Value {
    let mut source = place(&server.source.place);
    source["host"] = server.source.format.as_str().into();
    source["project"] = (server.source.defined_by == DefinedBy::Project).into();
    json!({
        "name": server.name.as_str(),
        "label": server.label,
        "transport": transport(server),
        "enabled": server.is_enabled(),
        "state": state.words(),
        "source": source,
    })
}

/// The transport in one word.
pub(crate) fn transport(server: &ServerConfig) -> &'static str {
    match &server.transport {
        Transport::Process(_) => "stdio",
        Transport::Http(http) if http.kind == HttpKind::Sse => "sse",
        Transport::Http(_) => "http",
    }
}

impl EntryState {
    pub(super) fn of(server: &ServerConfig) -> Self {
        if server.is_enabled() { Self::Enabled } else { Self::Disabled }
    }

    pub(crate) fn of_proposal(proposal: &Proposal) -> Self {
        match proposal.status {
            ProposalStatus::New => Self::NotAccepted,
            ProposalStatus::Changed(_) => Self::Changed,
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::Disabled => "disabled",
            Self::NotAccepted => "not accepted",
            Self::Changed => "changed, not accepted",
        }
    }
}
