//! `toolway servers list`: every server, where it is defined, and what is known of it.

use serde_json::{Value, json};
use toolway_config::{
    Config, Loaded, ServerConfig,
    consent::{News, Proposal},
    server::{Behind, HttpKind, Transport},
};

use crate::{
    app::App,
    commands::config::place,
    exit_code::ExitCode,
    output::{Format, Output},
    report::Report,
    server_view,
    unused::Unused,
    wiring,
};

/// List the configured servers; the same as `toolway servers` alone
///
/// Nothing is started or dialled for it; what a server offers is what it offered when it was last listed. An entry or a
/// file that is not used, because something in it is wrong, is shown with the reason.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ListArgs {}

const EXAMPLES: &str = "\
Examples:
  toolway servers list
  toolway servers list -o json | jq -r '.servers[] | select(.enabled) | .name'";

/// One row.
struct Row<'a> {
    server: &'a ServerConfig,
    state: State,
    /// How many tools it had when they were last listed.
    tools: Option<usize>,
}

/// What may be done with a server now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Enabled,
    Disabled,
    NotAccepted,
    Changed,
}

pub(super) fn run(ListArgs {}: &ListArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let loaded = app.load()?;
    let rows = rows(&loaded, app);
    let aside = Unused::set_aside(&loaded);
    match output.format {
        Format::Json | Format::Ndjson => server_view::print(rows.iter().map(Row::view).collect(), &aside, output),
        Format::Raw => rows.iter().for_each(|row| output.line(row.server.name.as_str())),
        Format::Human => human(&rows, &aside, output),
    }
    Ok(ExitCode::Ok)
}

fn rows<'a>(loaded: &'a Loaded, app: &App) -> Vec<Row<'a>> {
    let known = loaded.config.servers.values().map(|server| Row { server, state: State::of(server), tools: None });
    let waiting = loaded.proposals.iter().map(|proposal| Row {
        server: &proposal.server,
        state: State::of_proposal(proposal),
        tools: None,
    });
    let mut rows: Vec<Row<'_>> = known.chain(waiting).collect();
    rows.sort_by(|one, other| one.server.name.cmp(&other.server.name));
    for row in &mut rows {
        row.tools = last_listed(row.server, &loaded.config, app);
    }
    rows
}

/// How many tools a server had when they were last listed.
fn last_listed(server: &ServerConfig, config: &Config, app: &App) -> Option<usize> {
    wiring::recalled(&app.paths, config, server).map(|listing| listing.tools.len())
}

fn human(rows: &[Row<'_>], aside: &[Unused], output: &mut Output) {
    if rows.is_empty() && aside.is_empty() {
        output.say("No server is configured. `toolway servers add` makes one, `toolway import` finds those of others.");
        return;
    }
    let row = |row: &Row<'_>| {
        let server = row.server;
        let tools = row.tools.map_or_else(|| "-".to_owned(), |tools| tools.to_string());
        let (name, label) = (server.name.to_string(), server.label.clone());
        let transport = transport(server).to_owned();
        [name, label, transport, row.state.words().to_owned(), tools, server.source.place.to_string()]
    };
    let none = || "-".to_owned();
    let unused = |unused: &Unused| {
        let place = unused.place().to_string();
        [unused.title(), unused.label().unwrap_or("-").to_owned(), none(), unused.state().to_owned(), none(), place]
    };
    let rows: Vec<_> = rows.iter().map(row).chain(aside.iter().map(unused)).collect();
    output.table(["NAME", "LABEL", "TRANSPORT", "STATE", "TOOLS", "DEFINED IN"], &rows);
    for unused in aside {
        output.line(&format!("{} is set aside: {}", unused.title(), unused.reason));
    }
}

impl Row<'_> {
    fn view(&self) -> Value {
        let mut view = view(self.server, self.state);
        if let Some(tools) = self.tools {
            view["tools"] = tools.into();
        }
        view
    }
}

/// One server for programs.
pub(crate) fn view(server: &ServerConfig, state: State) -> Value {
    let mut source = place(&server.source.place);
    source["host"] = server.source.format.word().into();
    source["project"] = (server.source.behind == Behind::Project).into();
    json!({
        "name": server.name.as_str(),
        "label": server.label,
        "transport": transport(server),
        "enabled": server.is_enabled(),
        "state": state.words(),
        "source": source,
    })
}

/// How a server is reached, in one word.
pub(crate) fn transport(server: &ServerConfig) -> &'static str {
    match &server.transport {
        Transport::Process(_) => "stdio",
        Transport::Http(http) if http.kind == HttpKind::Sse => "sse",
        Transport::Http(_) => "http",
    }
}

impl State {
    pub(super) fn of(server: &ServerConfig) -> Self {
        if server.is_enabled() { Self::Enabled } else { Self::Disabled }
    }

    pub(crate) fn of_proposal(proposal: &Proposal) -> Self {
        match proposal.news {
            News::New => Self::NotAccepted,
            News::Changed(_) => Self::Changed,
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
