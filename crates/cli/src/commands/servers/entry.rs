//! Converts the options of `add` and `update` to members of an entry.

use std::path::{Component, Path};

use clap::ValueEnum;
use serde_json::Value;
use toolway_config::{Secret, edit::NewValue, schema};

use crate::{app::App, args::EraArg, report::Report, suggestion};

/// Members by key, `env.NAME` for one inside `env`; `None` removes the member.
pub(super) type Members = Vec<(String, Option<NewValue>)>;

/// Members that are removed with the stdio transport.
const OF_PROCESS: [&str; 5] = ["command", "args", "env", "envFile", "cwd"];
/// Members that are removed with the HTTP transport.
const OF_HTTP: [&str; 4] = ["url", "headers", "type", "allowInsecureHttp"];

/// Further keys of an entry.
#[derive(Debug, clap::Args)]
pub(super) struct KeyArgs {
    /// Set another key of the entry, e.g. `description=Tickets`, `timeouts.total=2m`, `excludeTools=["delete_*"]`; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Which clients of a gateway share a process of the server, if it keeps sessions
    #[arg(long, value_enum, value_name = "WHOSE")]
    pub(super) sharing: Option<SharingArg>,

    /// The command and its arguments, instead of --stdio
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Which clients share a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SharingArg {
    /// One for each client (the default of an entry)
    Caller,
    /// One for all clients that cannot answer server requests: one sees what another one changes in it
    Shared,
    /// One for each session of a client
    Session,
}

/// The members given on the command line.
pub(super) fn members(args: &KeyArgs, app: &App) -> Result<Members, Report> {
    let mut members = transport(args, app)?;
    for given in &app.reach.env {
        let (name, value) = match given.expose().split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => (given.expose(), format!("${{{}}}", given.expose())),
        };
        if name.is_empty() {
            return Err(wrong("--env needs the form `NAME=value` or `NAME`"));
        }
        members.push((format!("env.{name}"), Some(NewValue::Text(value))));
    }
    for header in &app.reach.header {
        let split = header.expose().split_once(':').ok_or_else(|| wrong("--header needs the form `Name: value`"))?;
        let (name, value) = (split.0.trim(), split.1.trim());
        members.push((format!("headers.{name}"), Some(NewValue::Text(value.to_owned()))));
    }
    if let Some(folder) = &app.reach.cwd {
        members.push(("cwd".to_owned(), Some(NewValue::Text(absolute(folder)?))));
    }
    match app.reach.era {
        EraArg::Auto => {}
        EraArg::Legacy => members.push(("era".to_owned(), Some(NewValue::Text("legacy".to_owned())))),
        EraArg::Modern => members.push(("era".to_owned(), Some(NewValue::Text("modern".to_owned())))),
    }
    if let Some(sharing) = args.sharing.and_then(|sharing| sharing.to_possible_value()) {
        members.push(("sharing".to_owned(), Some(NewValue::Text(sharing.get_name().to_owned()))));
    }
    for setting in &args.set {
        members.push(set(setting)?);
    }
    Ok(members)
}

/// A word of the command that is a path relative to the current directory. The server would look for it in its own.
pub(super) fn relative_path(args: &KeyArgs, app: &App) -> Option<String> {
    let words = command_words(args, app).ok()?;
    let is_relative = |word: &&String| {
        let path = Path::new(word.as_str());
        let named = matches!(path.components().next(), Some(Component::CurDir | Component::ParentDir));
        named || path.is_relative() && !word.is_empty() && path.exists()
    };
    // The program itself is found in `PATH`, unless it is a path.
    let (program, arguments) = words.split_first()?;
    let program = Some(program).filter(|program| program.contains('/'));
    program.into_iter().chain(arguments).find(is_relative).cloned()
}

/// The current directory as a value of `cwd`.
pub(super) fn current_folder() -> Result<String, Report> {
    absolute(Path::new(""))
}

/// The members that a new transport removes.
pub(super) fn replaced(members: &Members) -> Members {
    let says = |key: &str| members.iter().any(|(known, value)| known == key && value.is_some());
    let gone: &[&str] = match (says("command"), says("url")) {
        (true, _) => &OF_HTTP,
        (_, true) => &OF_PROCESS,
        _ => &[],
    };
    gone.iter().map(|key| ((*key).to_owned(), None)).collect()
}

/// The schema of an entry's key; fails if the key is unknown.
pub(super) fn known_key(key: &str) -> Result<Value, Report> {
    let outer = key.split('.').next().unwrap_or_default();
    let schema = schema::schema();
    let keys = &schema["$defs"]["server"]["properties"];
    let names = keys.as_object().into_iter().flatten().filter(|(_, key)| key["deprecated"] != true);
    let names: Vec<&str> = names.map(|(name, _)| name.as_str()).collect();
    if names.contains(&outer) {
        return Ok(keys[outer].clone());
    }
    let near = suggestion::did_you_mean(outer, names.iter().copied());
    let report = wrong(format!("unknown key `{outer}`{near}"));
    Err(if near.is_empty() { report.hint(format!("known keys: {}", names.join(", "))) } else { report })
}

fn transport(args: &KeyArgs, app: &App) -> Result<Members, Report> {
    let words = command_words(args, app)?;
    match (words.split_first(), &app.reach.url) {
        (None, None) => Ok(Vec::new()),
        (None, Some(url)) => Ok(vec![("url".to_owned(), Some(NewValue::Text(url.expose().to_owned())))]),
        (Some(_), Some(_)) => Err(wrong("a server has one transport: use --stdio or --url, not both")),
        (Some((program, arguments)), None) => {
            let arguments = (!arguments.is_empty()).then(|| NewValue::texts(arguments.iter().cloned()));
            let command = Some(NewValue::Text(program.clone()));
            Ok(vec![("command".to_owned(), command), ("args".to_owned(), arguments)])
        }
    }
}

/// The command given with --stdio or after `--`.
fn command_words(args: &KeyArgs, app: &App) -> Result<Vec<String>, Report> {
    match (&app.reach.stdio, args.command.as_slice()) {
        (None, []) => Ok(Vec::new()),
        (None, words) => Ok(words.to_vec()),
        (Some(command), []) => split(command),
        (Some(_), _) => Err(wrong("the command is given twice, with --stdio and after `--`")),
    }
}

fn split(command: &Secret) -> Result<Vec<String>, Report> {
    let words = shlex::split(command.expose()).filter(|words| !words.is_empty());
    words.ok_or_else(|| wrong("--stdio needs a command; check for an unclosed quote"))
}

/// Converts a value to the type of its key: a string for string keys, else JSON if it parses.
fn set(setting: &str) -> Result<(String, Option<NewValue>), Report> {
    let (key, text) = setting.split_once('=').ok_or_else(|| wrong("--set needs the form `KEY=VALUE`"))?;
    let schema = known_key(key)?;
    let wants_text = schema["type"] == "string" || schema["additionalProperties"]["type"] == "string";
    let parsed = serde_json::from_str(text).ok().filter(|_| !wants_text);
    let value = parsed.as_ref().and_then(NewValue::of_json);
    Ok((key.to_owned(), Some(value.unwrap_or_else(|| NewValue::Text(text.to_owned())))))
}

/// An absolute path, because the configuration file may be in another directory.
fn absolute(folder: &Path) -> Result<String, Report> {
    let path = if folder.as_os_str().is_empty() { std::env::current_dir() } else { std::path::absolute(folder) };
    let path = path.map_err(|error| wrong(format!("--cwd: {error}")))?;
    path.into_os_string().into_string().map_err(|_| wrong("--cwd: the path is not valid UTF-8"))
}

pub(super) fn wrong(message: impl Into<String>) -> Report {
    Report::usage("arguments", message)
}
