//! `toolway clients`: who may come in to the gateway.

use std::{collections::BTreeSet, time::Duration};

use clap::Subcommand;
use serde_json::json;
use toolway_config::{ServerName, read_time};
use toolway_gateway::access::{KeyFile, KeyProblem, KnownClient};
use toolway_wire::json::Raw;

use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Format, Output},
    report::Report,
};

/// Make, list and take back the keys of clients of the gateway
///
/// A client brings its key as `Authorization: Bearer <key>`. A key is shown once, when it is made; only its digest is
/// kept. A gateway that runs takes a new key, and refuses one that was taken back, within a second.
#[derive(Debug, clap::Args)]
pub(crate) struct ClientsArgs {
    #[command(subcommand)]
    command: ClientsCommand,
}

#[derive(Debug, Subcommand)]
enum ClientsCommand {
    /// Make a key for a new client, and show it
    Add {
        /// What the client is called in records; letters, digits, `.`, `_` and `-`
        name: String,

        /// How long the key is good, as `12h` or `30d`; until it is taken back where nothing is said
        #[arg(long, value_name = "TIME", value_parser = lasting)]
        expires: Option<Duration>,

        /// The servers the client sees; all where nothing is said
        #[arg(long, value_name = "NAME", value_delimiter = ',')]
        servers: Vec<String>,
    },
    /// List the clients
    List,
    /// Take a client's key back
    Revoke {
        /// The client
        name: String,
    },
}

pub(crate) fn run(args: &ClientsArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let file = file(app)?;
    match &args.command {
        ClientsCommand::Add { name, expires, servers } => add(&file, name, *expires, servers, output),
        ClientsCommand::List => list(&file, output),
        ClientsCommand::Revoke { name } => {
            file.revoke(name)?;
            if output.format == Format::Human {
                output.line(&format!("The key of `{name}` is no longer good."));
            } else {
                output.json(&Raw::of(&json!({ "revoked": name })));
            }
            Ok(ExitCode::Ok)
        }
    }
}

/// Where the keys are.
pub(crate) fn file(app: &App) -> Result<KeyFile, Report> {
    let folder = app.paths.state.as_ref();
    let folder =
        folder.ok_or_else(|| Report::usage("config", "There is no home directory, so keys cannot be kept."))?;
    Ok(KeyFile::at(folder.join("clients.json")))
}

fn add(
    file: &KeyFile,
    name: &str,
    expires: Option<Duration>,
    servers: &[String],
    output: &mut Output,
) -> Result<ExitCode, Report> {
    let servers = servers.iter().map(|name| server(name)).collect::<Result<BTreeSet<_>, _>>()?;
    let key = file.add(name, expires, (!servers.is_empty()).then_some(servers))?;
    if matches!(output.format, Format::Human | Format::Raw) {
        output.line(key.expose());
        output.say(&format!("toolway: this key of `{name}` is shown once; send it as `Authorization: Bearer <key>`"));
    } else {
        output.json(&Raw::of(&json!({ "name": name, "key": key.expose() })));
    }
    Ok(ExitCode::Ok)
}

fn server(name: &str) -> Result<ServerName, Report> {
    ServerName::from_label(name).map_err(|error| Report::usage("unknown_server", format!("{error}.")))
}

fn list(file: &KeyFile, output: &mut Output) -> Result<ExitCode, Report> {
    let clients = file.list()?;
    if output.format != Format::Human {
        let shown = |client: &KnownClient| {
            json!({
                "name": client.name,
                "made": client.made,
                "expires": client.expires,
                "expired": client.is_over(),
                "servers": client.servers,
            })
        };
        output.json(&Raw::of(&json!({ "clients": clients.iter().map(shown).collect::<Vec<_>>() })));
        return Ok(ExitCode::Ok);
    }
    if clients.is_empty() {
        output.say("toolway: there are no clients; make one with `toolway clients add <name>`");
    }
    for client in &clients {
        let servers = client.servers.as_ref().map(|servers| servers.iter().cloned().collect::<Vec<_>>().join(", "));
        let over = if client.is_over() { "  (its time is over)" } else { "" };
        output.line(&format!("{:<24} {}{over}", client.name, servers.as_deref().unwrap_or("all servers")));
    }
    Ok(ExitCode::Ok)
}

/// `30d`, or what the configuration takes for a time.
fn lasting(text: &str) -> Result<Duration, String> {
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u64>().ok());
    let days = days.and_then(|days| days.checked_mul(24 * 60 * 60)).map(Duration::from_secs);
    days.or_else(|| read_time(text)).ok_or_else(|| "a time such as `12h` or `30d`".to_owned())
}

impl From<KeyProblem> for Report {
    fn from(problem: KeyProblem) -> Self {
        let message = format!("{problem}.");
        match problem {
            KeyProblem::Taken(_) | KeyProblem::Unknown(_) | KeyProblem::BadName(_) | KeyProblem::TooMany => {
                Self::usage("clients", message)
            }
            KeyProblem::NoRandomness
            | KeyProblem::Unreadable { .. }
            | KeyProblem::Damaged { .. }
            | KeyProblem::Unwritable { .. } => Self::new(ExitCode::Internal, "clients", message),
        }
    }
}
