//! `toolway servers show`: everything known about one server.

use serde_json::{Map, Value};
use toolway_config::{
    Config, ServerConfig,
    show::{ShownValue, show},
};
use toolway_gateway::control::ControlRequest;
use toolway_host::connection::Lists;
use toolway_wire::json::Raw;

use crate::{
    app::App,
    exit_code::ExitCode,
    lifecycle,
    multi_server_host::{LONGEST, WaitPolicy},
    output::{Format, Output},
    report::Report,
    server_view,
};

/// Show one server: state, session, last connection and configuration
///
/// If a gateway runs for this configuration, shows its connection; otherwise connects. The session id lets its holder use
/// the session; other commands show only its beginning.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ShowServerArgs {
    /// The server
    server: String,
}

const EXAMPLES: &str = "\
Examples:
  toolway servers show files
  toolway servers show files -o json | jq '{lastConnectedAt, sessionId}'";

/// Keys of the text output with their titles, in order.
const LINES: &[(&str, &str)] = &[
    ("state", "state"),
    ("reason", "problem"),
    ("description", "description"),
    ("transport", "transport"),
    ("target", "reached at"),
    ("source", "defined in"),
    ("protocolVersion", "protocol"),
    ("lastConnectedAt", "last connected"),
    ("sessionId", "session"),
    ("process", "process"),
    ("tools", "tools"),
    ("resources", "resources"),
    ("resourceTemplates", "templates"),
    ("prompts", "prompts"),
];

pub(super) async fn run(args: &ShowServerArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let loaded = app.load()?;
    let entry = super::find(&loaded, &args.server)?.clone();
    let mut object = status(entry.name.as_str(), app, output).await?;
    let values = values(&entry, &loaded.config);
    let configured = values.iter().map(|(key, shown)| (key.clone(), shown.value.clone()));
    object.insert("config".to_owned(), Value::Object(configured.collect()));
    match output.format {
        Format::Json | Format::Ndjson => output.json(&Raw::of(&Value::Object(object))),
        Format::Human | Format::Raw => {
            output.entry(entry.name.as_str(), "");
            for (key, title) in LINES {
                if let Some(value) = object.get(*key) {
                    output.line(&format!("    {title:<14} {}", text(value)));
                }
            }
            for (caller, id) in sessions_of_callers(&object) {
                output.line(&format!("    {:<14} {id}, of {caller}", "session"));
            }
            for (key, shown) in &values {
                output.line(&format!("    {key} = {} ({})", shown.value, shown.origin));
            }
        }
    }
    Ok(ExitCode::Ok)
}

/// The status of a server, from the running gateway or by connecting.
async fn status(server: &str, app: &App, output: &mut Output) -> Result<Map<String, Value>, Report> {
    let servers = vec![server.to_owned()];
    if let Some(answer) = app.ask_gateway(&ControlRequest::Status { servers: servers.clone() }).await? {
        return Ok(answer.value["servers"][0].as_object().cloned().unwrap_or_default());
    }
    let targets = app.targets(&servers, output)?;
    let hosts = app.connect_all(targets, Lists::Once, WaitPolicy::Fixed(LONGEST), output).await?;
    let object = hosts.outcomes.first().map(server_view::object_with_session).unwrap_or_default();
    lifecycle::disconnect(&hosts.host).await;
    Ok(object)
}

/// The effective values of an entry, by key below the entry.
pub(crate) fn values(entry: &ServerConfig, config: &Config) -> Vec<(String, ShownValue)> {
    let mut alone = Config { settings: config.settings.clone(), ..Config::default() };
    alone.servers.insert(entry.name.clone(), entry.clone());
    let prefix = format!("mcpServers.{}.", entry.label);
    let own = |shown: ShownValue| Some((shown.key.strip_prefix(&prefix)?.to_owned(), shown));
    show(&alone).into_iter().filter_map(own).collect()
}

/// The command with its arguments, or the whole URL, without secrets.
pub(crate) fn command_of(entry: &ServerConfig, config: &Config) -> String {
    let values = values(entry, config);
    let value = |wanted: &str| values.iter().find(|(key, _)| key == wanted).map(|(_, shown)| &shown.value);
    if let Some(url) = value("url").and_then(Value::as_str) {
        return url.to_owned();
    }
    let arguments = value("args").and_then(Value::as_array).into_iter().flatten();
    let words: Vec<&str> = value("command").into_iter().chain(arguments).filter_map(Value::as_str).collect();
    shlex::try_join(words.iter().copied()).unwrap_or_else(|_| words.join(" "))
}

/// The sessions of callers that have their own connections.
fn sessions_of_callers(object: &Map<String, Value>) -> impl Iterator<Item = (&str, &str)> {
    let connections = object.get("connections").and_then(Value::as_array).into_iter().flatten();
    connections.filter_map(|connection| Some((connection["caller"].as_str()?, connection["sessionId"].as_str()?)))
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
