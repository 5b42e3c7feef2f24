//! What the user should do about a server: one command wherever one exists. `variables` finds the variables that a server
//! asks for; how a diagnosis is printed stands in `doctor`.

use toolway_config::{ConfigError, Environment, ServerConfig, interpolate::Unresolved};
use toolway_host::{connection::Phase, whose_move::WhoseMove};

use super::variables::{self, NeededVariable};
use crate::{app::App, multi_server_host::ServerOutcome, suggestion};

/// What the user should do about the server. `withheld` are the user's variables that it does not get.
pub(super) fn advice(outcome: &ServerOutcome, withheld: &[String], app: &App) -> String {
    let status = &outcome.status;
    let place = &status.source;
    if status.phase == Phase::Disabled {
        return format!("none; disabled in {place}");
    }
    if outcome.problem().is_none() {
        return match &status.stray_output {
            Some(_) => "tell the server's developers that logs belong on standard error; it works as it is".to_owned(),
            None => "none; healthy".to_owned(),
        };
    }
    if let Some(unresolved) = unresolved(outcome, app) {
        return unresolved;
    }
    if outcome.target.is_program()
        && let Some(advice) = missing_variables(outcome, withheld, app)
    {
        return advice;
    }
    let longer = || match &outcome.target.entry {
        Some(entry) => format!("`toolway servers update {} --set timeouts.connect=2m`", entry.name),
        None => "`--timeout 2m`".to_owned(),
    };
    let Some(error) = &status.last_error else {
        return format!("give it more time: {}, or find out what the server waits for", longer());
    };
    match (error.code, error.whose_move) {
        ("config", _) => format!("fix its entry in {place}"),
        ("unauthorized", _) if outcome.target.uses_sign_in() => error.message.as_str().to_owned(),
        ("unauthorized", _) => outcome.target.credential_hint(),
        ("unreachable", _) if outcome.target.is_program() => not_found(outcome),
        ("unreachable", _) => format!("start the server, or correct its URL{}", new_url(outcome)),
        ("no_token", _) => {
            "wait if the authorization server is temporarily unavailable, Toolway retries; else check `oauth` in its entry"
                .to_owned()
        }
        ("vault", _) => "check the credential vault: `toolway auth status` shows where it is".to_owned(),
        ("timed_out", _) => format!("give it more time: {}, or run its command by hand to see what it waits for", longer()),
        ("ended", _) => match &outcome.target.entry {
            Some(entry) => format!("read its standard error output: `toolway servers logs {}`", entry.name),
            None => "run its command by hand and check its standard error output".to_owned(),
        },
        ("http_status" | "redirect", _) => format!("give the URL of an MCP endpoint{}", new_url(outcome)),
        (_, WhoseMove::Operator) => format!("fix its entry in {place}"),
        _ => {
            "report it to the server's developers: it violates the protocol; `toolway rpc -v` shows each message".to_owned()
        }
    }
}

/// The command that changes the URL, or where the URL stands.
fn new_url(outcome: &ServerOutcome) -> String {
    match &outcome.target.entry {
        Some(entry) => format!(": `toolway servers update {} --url URL`", entry.name),
        None => format!(" in {}", outcome.status.source),
    }
}

/// The variables that the server asks for on standard error and that the user's shell has.
pub(super) fn wanted_and_withheld(outcome: &ServerOutcome, withheld: &[String]) -> Vec<String> {
    if outcome.problem().is_none() {
        return Vec::new();
    }
    let needed = variables::needed(&outcome.status.stderr, |name| withheld.iter().any(|known| known == name));
    needed.into_iter().filter(|needed| needed.is_known).map(|needed| needed.name).collect()
}

/// Advice about variables that the server asks for on standard error.
fn missing_variables(outcome: &ServerOutcome, withheld: &[String], app: &App) -> Option<String> {
    let is_known = |name: &str| withheld.iter().any(|known| known == name);
    let mut needed = variables::needed(&outcome.status.stderr, is_known);
    // A variable that the server gets is not what it misses.
    needed.retain(|needed| needed.is_known || !is_set(&needed.name, outcome, &app.environment));
    let known: Vec<&str> = needed.iter().filter(|needed| needed.is_known).map(|needed| needed.name.as_str()).collect();
    if !known.is_empty() {
        let options: Vec<String> = known.iter().map(|name| format!("--env {name}")).collect();
        let options = options.join(" ");
        let subject = if known.len() == 1 { "it" } else { "them" };
        return Some(match &outcome.target.entry {
            Some(entry) => format!(
                "your shell has {subject}, the server does not: `toolway servers update {} {options}`",
                entry.name
            ),
            None => format!("your shell has {subject}, the server does not; run it again with `{options}`"),
        });
    }
    let NeededVariable { name, .. } = needed.first()?;
    Some(match &outcome.target.entry {
        Some(entry) => format!(
            "give it the variable: `toolway servers update {} --env {name}=VALUE` (a secret goes to the vault)",
            entry.name
        ),
        None => format!("run it again with `--env {name}=VALUE`"),
    })
}

/// Whether the server gets a variable of this name.
fn is_set(name: &str, outcome: &ServerOutcome, ours: &Environment) -> bool {
    super::environment_of(&outcome.target, ours).is_some_and(|given| given.contains_key(std::ffi::OsStr::new(name)))
}

/// Advice about a reference of the entry that cannot be resolved.
fn unresolved(outcome: &ServerOutcome, app: &App) -> Option<String> {
    let entry = outcome.target.entry.as_ref()?;
    let keychain = app.keychain(&outcome.target.settings);
    let Err(ConfigError::Unresolved { key, reason, .. }) = entry.endpoint(&app.environment, &*keychain) else {
        return None;
    };
    match *reason {
        Unresolved::Variable(name) => Some(unset_variable(entry, &key, &name, &app.environment)),
        Unresolved::Secret(name) => Some(format!("store it: `toolway secret set {name}`")),
        Unresolved::Input { name, .. } => Some(format!("store it: `toolway secret set {name}`")),
        _ => None,
    }
}

/// Advice about a variable of the shell that is not set: a similar one that is, else a value for the key.
fn unset_variable(entry: &ServerConfig, key: &str, name: &str, environment: &Environment) -> String {
    let server = &entry.name;
    let names: Vec<String> = environment.keys().map(|known| known.to_string_lossy().into_owned()).collect();
    let near = suggestion::nearest(name, names.iter().map(String::as_str));
    let member = key.split_once(&format!("{}.", entry.label)).map_or(key, |(_, member)| member);
    let option = match member.split_once('.') {
        Some(("env", variable)) => Some(format!("{variable}=")),
        _ => None,
    };
    match (near, option) {
        (Some(near), Some(option)) => {
            format!("your shell has `{near}`: `toolway servers update {server} --env '{option}${{{near}}}'`")
        }
        (Some(near), None) => format!("your shell has `{near}`; refer to it in `{member}` ({})", entry.source.place),
        (None, Some(option)) => format!(
            "set `{name}` in your shell, or store a value: `toolway servers update {server} --env {option}VALUE` (a secret goes to \
             the vault)"
        ),
        (None, None) => format!("set `{name}` in your shell: `export {name}=VALUE`"),
    }
}

/// Advice about a program that is not found.
fn not_found(outcome: &ServerOutcome) -> String {
    let program = outcome.status.target.split_whitespace().next().unwrap_or_default();
    let package = match program {
        "npx" | "npm" | "node" => Some("Node.js"),
        "uvx" | "uv" => Some("uv"),
        "docker" => Some("Docker"),
        "bunx" | "bun" => Some("Bun"),
        _ => None,
    };
    let place = &outcome.status.source;
    match package {
        Some(package) => format!("install {package}, which has `{program}`, or fix `command` in {place}"),
        None => format!("install the program, or fix `command` in {place}; an absolute path is safest"),
    }
}
