//! `toolway clients`: manages the keys of gateway clients.

mod snippet;

use std::{
    collections::BTreeSet,
    time::{Duration, SystemTime},
};

use clap::Subcommand;
use serde_json::json;
use toolway_config::{Config, Loaded, ServerName, Warning, clients::unknown_clients, parse_duration};
use toolway_gateway::{
    access::{ANONYMOUS, KeyError, KeyFile, KnownClient},
    control::ControlRequest,
};
use toolway_host::record::kind;
use toolway_wire::json::Raw;

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

/// Add, list and revoke clients of the gateway
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
/// Seconds in an hour.
const HOUR: u64 = 60 * 60;

#[derive(Debug, Subcommand)]
enum ClientsCommand {
    /// Create a key for a new client, and print it
    Add {
        /// Name of the client in logs; letters, digits, `.`, `_` and `-`
        name: String,

        /// Lifetime of the key, e.g. `12h` or `30d` [default: until revoked]
        #[arg(long, value_name = "TIME", value_parser = parse_lifetime)]
        expires: Option<Duration>,

        /// The servers that the client can use, separated by commas [default: all]
        #[arg(long, value_name = "NAME", value_delimiter = ',')]
        servers: Vec<String>,
    },
    /// List the clients
    List,
    /// Print what to paste into a client, or to run for it
    Snippet(SnippetArgs),
    /// Revoke the key of a client
    Revoke {
        /// The client
        name: String,
    },
}

impl ClientsArgs {
    pub(crate) fn effect(&self) -> Effect {
        match &self.command {
            ClientsCommand::Add { .. } => Effect::Widens,
            ClientsCommand::List | ClientsCommand::Snippet(_) | ClientsCommand::Revoke { .. } => Effect::Ordinary,
        }
    }
}

pub(crate) async fn run(args: &ClientsArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let file = key_file(app)?;
    match &args.command {
        ClientsCommand::Add { name, expires, servers } => add(&file, name, *expires, servers, app, output).await,
        ClientsCommand::List => list(&file, output),
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

async fn add(
    file: &KeyFile,
    name: &str,
    expires: Option<Duration>,
    servers: &[String],
    app: &App,
    output: &mut Output,
) -> Result<ExitCode, Report> {
    let loaded = app.load()?;
    let servers = servers.iter().map(|name| server(name, &loaded)).collect::<Result<BTreeSet<_>, _>>()?;
    let seen = (!servers.is_empty()).then(|| servers.iter().map(ToString::to_string).collect::<Vec<_>>());
    let key = file.add(name, expires, (!servers.is_empty()).then_some(servers))?;
    let details =
        json!({ "change": "created", "servers": seen, "expiresInSeconds": expires.map(|time| time.as_secs()) });
    app.audit(kind::KEY, None, Some(name), &details);
    let gateways = GatewayKeys::ask(app, file, name).await?;
    if matches!(output.format, Format::Human | Format::Raw) {
        output.line(key.expose());
        output.notice(&format!(
            "toolway: this key of client `{name}` is shown only once; send it as `Authorization: Bearer <key>`"
        ));
        if output.format == Format::Human {
            let settings = &loaded.config.settings.gateway;
            let url = exposure::endpoint(settings, settings.listen.value.unwrap_or(DEFAULT_LISTEN));
            let text = client_setup::text(&url, Some(key.expose()));
            output.notice(&format!("\nSet up a client of the gateway at {url}:\n\n{text}"));
        }
    } else {
        output.json(&Raw::of(&json!({ "name": name, "key": key.expose() })));
    }
    for problem in &gateways.problems {
        output.notice(&format!("toolway: a running gateway did not confirm the new key: {problem}"));
    }
    Ok(ExitCode::Ok)
}

/// Revokes the key; fails if a running gateway does not confirm that it refuses the key.
async fn revoke(file: &KeyFile, name: &str, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    file.revoke(name)?;
    app.audit(kind::KEY, None, Some(name), &json!({ "change": "revoked" }));
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
}

/// A server that the gateway serves; without any configured one it serves the embedded sample server.
fn server(name: &str, loaded: &Loaded) -> Result<ServerName, Report> {
    if loaded.config.servers.is_empty() && name == SAMPLE {
        return name.parse().map_err(|_| Report::usage("unknown_server", "invalid server name"));
    }
    servers::find(loaded, name).map(|server| server.name.clone())
}

fn list(file: &KeyFile, output: &mut Output) -> Result<ExitCode, Report> {
    let clients = file.list()?;
    if output.format != Format::Human {
        let shown = |client: &KnownClient| {
            json!({
                "name": client.name,
                "made": client.made,
                "expires": client.expires,
                "expired": client.is_expired(),
                "servers": client.servers,
            })
        };
        output.json(&Raw::of(&json!({ "clients": clients.iter().map(shown).collect::<Vec<_>>() })));
        return Ok(ExitCode::Ok);
    }
    if clients.is_empty() {
        output.notice("toolway: no clients; add one with `toolway clients add <name>`");
    }
    for client in &clients {
        let servers = client.servers.as_ref().map(|servers| servers.iter().cloned().collect::<Vec<_>>().join(", "));
        output.line(&format!(
            "{:<24} {}{}",
            client.name,
            servers.as_deref().unwrap_or("all servers"),
            expiry(client, SystemTime::now())
        ));
    }
    Ok(ExitCode::Ok)
}

/// When the key expires, rounded up; empty if it does not.
fn expiry(client: &KnownClient, now: SystemTime) -> String {
    let Some(expires) = client.expires else { return String::new() };
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    match expires.saturating_sub(now) {
        0 => "  (expired)".to_owned(),
        left if left <= 2 * HOUR => format!("  (expires in {} min)", left.div_ceil(60)),
        left if left <= 48 * HOUR => format!("  (expires in {} h)", left.div_ceil(HOUR)),
        left => format!("  (expires in {} days)", left.div_ceil(24 * HOUR)),
    }
}

/// Parses days (`30d`) or a duration as in the configuration.
fn parse_lifetime(text: &str) -> Result<Duration, String> {
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u64>().ok());
    let days = days.and_then(|days| days.checked_mul(24 * 60 * 60)).map(Duration::from_secs);
    days.or_else(|| parse_duration(text)).ok_or_else(|| "must be a duration such as `12h` or `30d`".to_owned())
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
