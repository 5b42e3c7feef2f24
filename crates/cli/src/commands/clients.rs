//! `toolway clients`: manages the keys of gateway clients.

mod change;
mod list;
mod show;
mod snippet;

use std::{collections::BTreeSet, time::Duration};

use clap::{Subcommand, ValueEnum};
use serde_json::json;
use toolway_config::{Config, Loaded, ServerName, ToolPattern, Warning, clients::unknown_clients, parse_duration};
use toolway_gateway::{
    access::{ANONYMOUS, KeyError, KeyFile, KeyRights, KeyScope, KnownClient},
    control::ControlRequest,
};
use toolway_host::{call::Selection, record::kind};
use toolway_wire::json::Raw;

use change::{RotateArgs, UpdateArgs};
use show::ShowArgs;
use snippet::SnippetArgs;

use super::{serve::DEFAULT_LISTEN, servers};
use crate::{
    app::App,
    client_setup,
    effect::Effect,
    exit_code::ExitCode,
    exposure,
    gateway_control::GatewayReply,
    output::{Format, Output},
    report::Report,
};

/// Add, list, change and revoke clients of the gateway
///
/// A client sends its key as `Authorization: Bearer <key>`. A key is shown once, when it is created; only its digest is
/// stored. A running gateway accepts a new key as soon as `add` returns; `revoke` reports that it refuses the key.
#[derive(Debug, clap::Args)]
pub(crate) struct ClientsArgs {
    #[command(subcommand)]
    command: ClientsCommand,
}

/// Name of the embedded server.
const SAMPLE: &str = "sample";

#[derive(Debug, Subcommand)]
enum ClientsCommand {
    /// Create a key for a new client, and print it
    Add(AddArgs),
    /// List the clients: servers, creation, last use and expiry of their keys
    List,
    /// Show what is in effect for one client, where that comes from, and what is used of its limits
    ///
    /// The key file and the configuration (`gateway.clients.<name>`) both bound a client: the stricter one counts. Calls per
    /// minute and calls at the same time are counted by the running gateway, calls per day in the store.
    Show(ShowArgs),
    /// Replace the key of a client, and print the new one
    ///
    /// The client keeps its name, rights and sessions. The key before is accepted for the overlap, so that the client can be
    /// changed meanwhile; `clients list` shows whether it is still used. The new key lasts as long as the one before did.
    Rotate(RotateArgs),
    /// Change what a client can use, or how long its key lasts
    ///
    /// A running gateway applies it at once, and the sessions of the client begin anew.
    Update(UpdateArgs),
    /// Print what to paste into a client, or to run for it
    Snippet(SnippetArgs),
    /// Revoke the key of a client
    Revoke {
        /// The client
        name: String,
    },
}

#[derive(Debug, clap::Args)]
struct AddArgs {
    /// Name of the client in logs; letters, digits, `.`, `_` and `-`
    name: String,

    /// Lifetime of the key, e.g. `12h` or `90d` [default: until revoked]
    #[arg(long, value_name = "TIME", value_parser = parse_lifetime)]
    expires: Option<Duration>,

    /// The servers that the client can use, separated by commas [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    servers: Vec<String>,

    /// The tools that the client can use, e.g. `files.read_*`, separated by commas [default: all]
    #[arg(long, value_name = "SERVER.TOOL", value_delimiter = ',')]
    tools: Vec<ToolPattern>,

    /// What the key opens [default: all]
    #[arg(long, value_enum, value_name = "SCOPE", conflicts_with_all = ["servers", "tools"])]
    scope: Option<ScopeArg>,
}

/// What a key opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ScopeArg {
    /// Everything that clients use
    All,
    /// `/metrics`, `/ready` and `/health` only, for monitoring
    Metrics,
}

impl ClientsArgs {
    pub(crate) fn effect(&self) -> Effect {
        match &self.command {
            ClientsCommand::Add(_) | ClientsCommand::Rotate(_) | ClientsCommand::Update(_) => Effect::Widens,
            ClientsCommand::List
            | ClientsCommand::Show(_)
            | ClientsCommand::Snippet(_)
            | ClientsCommand::Revoke { .. } => Effect::Ordinary,
        }
    }
}

pub(crate) async fn run(args: &ClientsArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let file = key_file(app)?;
    match &args.command {
        ClientsCommand::Add(args) => add(args, &file, app, output).await,
        ClientsCommand::List => list::run(&file, app, output).await,
        ClientsCommand::Show(args) => show::run(args, &file, app, output).await,
        ClientsCommand::Rotate(args) => change::rotate(args, &file, app, output).await,
        ClientsCommand::Update(args) => change::update(args, &file, app, output).await,
        ClientsCommand::Snippet(args) => snippet::run(args, &file, app, output),
        ClientsCommand::Revoke { name } => revoke(&file, name, app, output).await,
    }
}

/// The file with the key digests.
pub(crate) fn key_file(app: &App) -> Result<KeyFile, Report> {
    let folder = app.paths.state.as_ref();
    let folder = folder.ok_or_else(|| Report::usage("config", "no home directory, so keys cannot be stored"))?;
    Ok(KeyFile::at(folder.join("clients.json")))
}

/// Warnings about settings of clients that have no key. None if the keys cannot be read, which is reported elsewhere.
pub(crate) fn unknown(config: &Config, app: &App) -> Vec<Warning> {
    let keys = key_file(app).ok().and_then(|file| file.list().ok());
    let names = |keys: Vec<KnownClient>| keys.into_iter().map(|client| client.name).chain([ANONYMOUS.to_owned()]);
    keys.map(|keys| unknown_clients(&config.settings.gateway.clients.value, &names(keys).collect())).unwrap_or_default()
}

async fn add(args: &AddArgs, file: &KeyFile, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let name = &*args.name;
    let loaded = app.load()?;
    let selection = Selection {
        servers: (!args.servers.is_empty()).then(|| find_servers(&args.servers, &loaded)).transpose()?,
        tools: (!args.tools.is_empty()).then(|| args.tools.clone()),
    };
    let scope = match args.scope {
        None | Some(ScopeArg::All) => KeyScope::All,
        Some(ScopeArg::Metrics) => KeyScope::Metrics,
    };
    let details = json!({
        "change": "created",
        "servers": selection.servers.as_ref().map(|servers| servers.iter().map(ToString::to_string).collect::<Vec<_>>()),
        "tools": selection.tools.as_ref().map(|tools| tools.iter().map(ToString::to_string).collect::<Vec<_>>()),
        "scope": scope.as_str(),
        "expiresInSeconds": args.expires.map(|time| time.as_secs()),
    });
    // Those of an earlier client of this name, whose key has expired.
    app.forget_client(name);
    let key = file.add_with(name, args.expires, &KeyRights { selection, scope })?;
    app.audit(kind::KEY, None, Some(name), &details);
    let gateways = GatewayKeys::ask(app, file, name).await?;
    if matches!(output.format, Format::Human | Format::Raw) {
        output.line(key.expose());
        output.notice(&format!(
            "toolway: this key of client `{name}` is shown only once; send it as `Authorization: Bearer <key>`"
        ));
        if output.format == Format::Human && scope == KeyScope::All {
            let settings = &loaded.config.settings.gateway;
            let url = exposure::endpoint(settings, settings.listen.value.unwrap_or(DEFAULT_LISTEN));
            let text = client_setup::text(&url, Some(key.expose()));
            output.notice(&format!("\nSet up a client of the gateway at {url}:\n\n{text}"));
        }
    } else {
        output.json(&Raw::of(&json!({ "name": name, "key": key.expose() })));
    }
    gateways.report_problems("the new key", output);
    Ok(ExitCode::Ok)
}

/// Revokes the key; fails if a running gateway does not confirm that it refuses the key.
async fn revoke(file: &KeyFile, name: &str, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    file.revoke(name)?;
    if let Err(error) = file.forget_old_uses() {
        tracing::debug!(%error, "cannot forget when the key was used");
    }
    app.audit(kind::KEY, None, Some(name), &json!({ "change": "revoked" }));
    app.forget_client(name);
    let gateways = GatewayKeys::ask(app, file, name).await?;
    let accepting =
        gateways.accepting.iter().map(|process| format!("the gateway with PID {process} still accepts the client"));
    let problems: Vec<String> = gateways.problems.iter().cloned().chain(accepting).collect();
    if !problems.is_empty() {
        let message = format!(
            "revoked the key of client `{name}`, but a running gateway did not confirm it: {}",
            problems.join("; ")
        );
        let hint = "stop the gateway if the key must be refused now; a gateway that cannot read its keys refuses all of them after 10 s";
        return Err(Report::new(ExitCode::Unreachable, "clients", message).hint(hint));
    }
    if output.format != Format::Human {
        output.json(&Raw::of(&json!({ "revoked": name, "confirmed": gateways.refusing })));
        return Ok(ExitCode::Ok);
    }
    let confirmed = match gateways.refusing.len() {
        0 => "no gateway with client keys is running".to_owned(),
        1 => "the running gateway refuses it".to_owned(),
        several => format!("the {several} running gateways refuse it"),
    };
    output.line(&format!("Revoked the key of client `{name}`; {confirmed}."));
    for process in &gateways.open {
        output
            .notice(&format!("toolway: the running gateway (PID {process}) needs no key (`gateway.access` is `open`)"));
    }
    Ok(ExitCode::Ok)
}

/// What the running gateways do with one client after they have read the key file again. Process ids.
#[derive(Debug, Default)]
struct GatewayKeys {
    accepting: Vec<u32>,
    refusing: Vec<u32>,
    /// Gateways that need no key.
    open: Vec<u32>,
    /// Why a gateway did not reply.
    problems: Vec<String>,
}

impl GatewayKeys {
    async fn ask(app: &App, file: &KeyFile, client: &str) -> Result<Self, Report> {
        let mut found = Self::default();
        for reply in app.ask_all_gateways(&ControlRequest::Keys { client: client.to_owned() }).await? {
            let GatewayReply { value, process } = match reply {
                Ok(reply) => reply,
                Err(report) => {
                    found.problems.push(report.message);
                    continue;
                }
            };
            match (value["file"].as_str(), value["accepted"].as_bool()) {
                (None, _) => found.open.push(process),
                // It reads the keys of another state directory.
                (Some(other), _) if std::path::Path::new(other) != file.path() => {}
                (Some(_), Some(false)) => found.refusing.push(process),
                (Some(_), _) => found.accepting.push(process),
            }
        }
        Ok(found)
    }

    /// Says which gateways did not confirm what was changed.
    fn report_problems(&self, changed: &str, output: &mut Output) {
        for problem in &self.problems {
            output.notice(&format!("toolway: a running gateway did not confirm {changed}: {problem}"));
        }
    }
}

fn find_servers(names: &[String], loaded: &Loaded) -> Result<BTreeSet<ServerName>, Report> {
    names.iter().map(|name| server(name, loaded)).collect()
}

/// A server that the gateway serves; without any configured one it serves the embedded sample server.
fn server(name: &str, loaded: &Loaded) -> Result<ServerName, Report> {
    if loaded.config.servers.is_empty() && name == SAMPLE {
        return name.parse().map_err(|_| Report::usage("unknown_server", "invalid server name"));
    }
    servers::find(loaded, name).map(|server| server.name.clone())
}

/// Parses days (`30d`) or a duration as in the configuration.
fn parse_lifetime(text: &str) -> Result<Duration, String> {
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u64>().ok());
    let days = days.and_then(|days| days.checked_mul(24 * 60 * 60)).map(Duration::from_secs);
    days.or_else(|| parse_duration(text)).ok_or_else(|| "must be a duration such as `12h` or `90d`".to_owned())
}

impl From<KeyError> for Report {
    fn from(problem: KeyError) -> Self {
        let message = problem.to_string();
        match problem {
            KeyError::Taken(_) | KeyError::Unknown(_) | KeyError::BadName(_) | KeyError::TooMany => {
                Self::usage("clients", message)
            }
            KeyError::NoRandomness
            | KeyError::Unreadable { .. }
            | KeyError::Damaged { .. }
            | KeyError::Unwritable { .. } => Self::new(ExitCode::Internal, "clients", message),
        }
    }
}
