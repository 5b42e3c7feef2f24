//! `toolway servers add | update | remove | enable | disable`: edits one entry of one file.

use std::path::{Path, PathBuf};

use clap::ValueHint;

use toolway_config::{
    Loaded, ServerConfig, ServerName, Warning,
    clear::members_with_secrets,
    document::Document,
    edit::{Edit, NewValue},
    server::{DefinedBy, Format, Source},
};

use super::{
    apply_edit::{PendingEdit, lock, own_file, project_file},
    entry::{self, KeyArgs, Members, wrong},
    find,
};
use crate::{app::App, exit_code::ExitCode, loading, output::Output, pasted_server::PastedServer, report::Report};

/// Add a server
///
/// Writes to your user file, or with --project to the project file. If the command has a path relative to the current
/// folder, such as `.`, the folder is stored as `cwd`. A secret is stored in the vault (`toolway secret list`), and the file
/// gets a reference to it, `${secret:NAME}`. Other values are written as given, so `${NAME}` stays a reference to an
/// environment variable; `--env NAME` alone means `NAME=${NAME}`.
#[derive(Debug, clap::Args)]
#[command(after_help = ADD_EXAMPLES)]
pub(super) struct AddArgs {
    /// Key of the entry; the server name is derived from it
    #[arg(required_unless_present = "snippet")]
    label: Option<String>,

    /// Read the entry from this file, or from standard input with `-`: a snippet of JSON as a README shows it, a command or a
    /// URL
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    snippet: Option<PathBuf>,

    /// Add it to the project file, for all users of the project
    #[arg(long)]
    project: bool,

    #[command(flatten)]
    keys: KeyArgs,
}

const ADD_EXAMPLES: &str = "\
Examples:
  toolway servers add memory -- npx -y @modelcontextprotocol/server-memory
  toolway servers add files --stdio 'npx -y @modelcontextprotocol/server-filesystem .' --cwd ~/notes
  toolway servers add github --stdio github-server --env GITHUB_TOKEN
  toolway servers add tickets --url https://example.com/mcp --header 'Authorization: Bearer ${TICKETS_TOKEN}'
  toolway servers add --snippet - < snippet.json";

/// Change keys of a server
///
/// A server of another application's file is changed by an entry in your own file, which overrides it.
#[derive(Debug, clap::Args)]
#[command(after_help = UPDATE_EXAMPLES)]
pub(super) struct UpdateArgs {
    /// The server
    name: String,

    /// Remove a key, e.g. `description` or `env.TOKEN`; repeatable
    #[arg(long, value_name = "KEY")]
    unset: Vec<String>,

    #[command(flatten)]
    keys: KeyArgs,
}

const UPDATE_EXAMPLES: &str = "\
Examples:
  toolway servers update files --env LOG=debug --set timeouts.total=2m
  toolway servers update files --unset env.LOG
  toolway servers update files --sharing shared
  toolway servers update tickets --url https://example.com/v2/mcp";

/// Remove a server from the file that defines it
#[derive(Debug, clap::Args)]
#[command(after_help = REMOVE_EXAMPLES)]
pub(super) struct RemoveArgs {
    /// The server
    name: String,
}

const REMOVE_EXAMPLES: &str = "\
Examples:
  toolway servers remove files";

/// Enable a server
#[derive(Debug, clap::Args)]
#[command(after_help = ENABLE_EXAMPLES)]
pub(super) struct EnableArgs {
    /// The server
    name: String,
}

const ENABLE_EXAMPLES: &str = "\
Examples:
  toolway servers enable files";

/// Disable a server without removing its entry
#[derive(Debug, clap::Args)]
#[command(after_help = DISABLE_EXAMPLES)]
pub(super) struct DisableArgs {
    /// The server
    name: String,
}

const DISABLE_EXAMPLES: &str = "\
Examples:
  toolway servers disable files";

/// The file for a new server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Destination {
    User,
    Project,
}

pub(super) async fn add(args: &AddArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let pasted = match &args.snippet {
        Some(file) => Some(read_snippet(file, args.label.as_deref(), app).await?),
        None => None,
    };
    if let Some(pasted) = &pasted {
        let gets = pasted.secrets_it_gets().map_err(|problem| wrong(problem.message))?;
        gets.iter().chain(&pasted.warnings).for_each(|text| output.notice(&format!("toolway: warning: {text}")));
    }
    let label = args.label.clone().or_else(|| pasted.as_ref().map(|pasted| pasted.label.clone())).unwrap_or_default();
    let mut members = match &pasted {
        Some(pasted) => snippet_members(pasted)?,
        None => Members::new(),
    };
    for (key, value) in entry::members(&args.keys, app)? {
        members.retain(|(known, _)| *known != key);
        members.push((key, value));
    }
    // A server of a project file runs in the folder of the project.
    if !args.project {
        store_folder(&mut members, &args.keys, app, output)?;
    }
    if !members.iter().any(|(key, _)| key == "command" || key == "url") {
        return Err(wrong("no transport given; use --stdio, --url, or a command after `--`"));
    }
    let name = ServerName::from_label(&label).map_err(|error| wrong(error.to_string()))?;
    let _lock = lock(app)?;
    let loaded = app.load()?;
    let destination = if args.project { Destination::Project } else { Destination::User };
    let file = match destination {
        Destination::Project => project_file(app)?,
        Destination::User => own_file(&loaded)?,
    };
    refuse_known(&loaded, &name, &file, destination)?;
    let edit = Edit::Add { label, entry: NewValue::nested(&members) };
    let pending = PendingEdit { verb: "Added", name, edit };
    let ended = pending.apply(None, &file, app, output)?;
    if destination == Destination::Project {
        accept_own(&pending.name, app, output)?;
    }
    Ok(ended)
}

/// The server of a snippet; the given label replaces the one in it.
async fn read_snippet(file: &Path, label: Option<&str>, app: &App) -> Result<PastedServer, Report> {
    let text = if file == Path::new("-") {
        String::from_utf8(app.stdin(true).await?).map_err(|_| wrong("the snippet is not valid UTF-8"))?
    } else {
        let failed = |error: std::io::Error| wrong(format!("cannot read `{}`: {error}", file.display()));
        std::fs::read_to_string(file).map_err(failed)?
    };
    let pasted = PastedServer::read(&text, label).map_err(|problem| wrong(problem.message))?;
    pasted.config().map_err(|problem| wrong(problem.message))?;
    Ok(pasted)
}

/// The members of a snippet; those of an object are nested, so that an option can replace one.
fn snippet_members(pasted: &PastedServer) -> Result<Members, Report> {
    let NewValue::Object(entry) = pasted.new_entry().map_err(|problem| wrong(problem.message))? else {
        return Err(wrong("the snippet has no server"));
    };
    let mut members = Members::new();
    for (key, value) in entry {
        match value {
            NewValue::Object(inner) if matches!(key.as_str(), "env" | "headers") => {
                members.extend(inner.into_iter().map(|(name, value)| (format!("{key}.{name}"), Some(value))));
            }
            value => members.push((key, Some(value))),
        }
    }
    Ok(members)
}

/// Enables or disables a server in the configuration, without printing. Returns `false` if it is not configured.
pub(crate) fn set_enabled(name: &ServerName, enabled: bool, app: &App) -> Result<bool, Report> {
    let _lock = lock(app)?;
    let loaded = app.load()?;
    let Some(server) = loaded.config.servers.get(name) else { return Ok(false) };
    let (verb, edit) = match enabled {
        true => ("Enabled", Edit::Enable { name: name.clone() }),
        false => ("Disabled", Edit::Disable { name: name.clone() }),
    };
    PendingEdit { verb, name: name.clone(), edit }.write(Some(server), &own_file(&loaded)?, app)?;
    Ok(true)
}

pub(super) fn update(args: &UpdateArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let mut given = entry::members(&args.keys, app)?;
    store_folder(&mut given, &args.keys, app, output)?;
    let mut changes = entry::replaced(&given);
    changes.extend(given);
    for key in &args.unset {
        entry::known_key(key)?;
        changes.push((key.clone(), None));
    }
    if changes.is_empty() {
        return Err(wrong("nothing to change; use --stdio, --url, --env, --header, --cwd, --era, --set or --unset"));
    }
    edit_existing(&args.name, "Changed", |name| Edit::Update { name, changes }, app, output)
}

/// Moves the secrets in clear of an entry to the vault.
pub(crate) fn move_secrets(wanted: &str, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let held = lock(app)?;
    let loaded = app.load()?;
    let server = find(&loaded, wanted)?;
    let Source { format, place, .. } = &server.source;
    if *format != Format::Toolway {
        let message =
            format!("server `{}` is defined in a file of {format} ({place}), which Toolway does not edit", server.name);
        return Err(Report::usage("not_ours", message).hint(format!("copy it with `toolway import {format} --copy`")));
    }
    let members = members_with_secrets(&Document::read(&place.file)?, &server.label);
    if members.is_empty() {
        let message = format!("server `{}` has no secret in clear ({place})", server.name);
        return Err(Report::usage("secret", message).hint("find them with `toolway doctor`"));
    }
    let changes = members.into_iter().map(|(key, value)| (key, Some(value))).collect();
    let edit = Edit::Update { name: server.name.clone(), changes };
    let ended = PendingEdit { verb: "Changed", name: server.name.clone(), edit }.apply(
        Some(server),
        &own_file(&loaded)?,
        app,
        output,
    )?;
    drop(held);
    // The user had accepted it, and nothing else has changed.
    if loaded.config.servers.contains_key(&server.name) {
        accept_own(&server.name, app, output)?;
    }
    Ok(ended)
}

/// Adds the current directory as `cwd` if the command has a path that is relative to it, and says so.
fn store_folder(members: &mut Members, keys: &KeyArgs, app: &App, output: &mut Output) -> Result<(), Report> {
    let Some(path) = entry::relative_path(keys, app).filter(|_| !members.iter().any(|(key, _)| key == "cwd")) else {
        return Ok(());
    };
    let folder = entry::current_folder()?;
    output.notice(&format!(
        "toolway: `{path}` is relative to the current folder, so the server will run in {folder} (`cwd`); choose another with \
         --cwd"
    ));
    members.push(("cwd".to_owned(), Some(NewValue::Text(folder))));
    Ok(())
}

pub(super) fn remove(args: &RemoveArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    edit_existing(&args.name, "Removed", |name| Edit::Remove { name }, app, output)
}

pub(super) fn enable(args: &EnableArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    edit_existing(&args.name, "Enabled", |name| Edit::Enable { name }, app, output)
}

pub(super) fn disable(args: &DisableArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    edit_existing(&args.name, "Disabled", |name| Edit::Disable { name }, app, output)
}

fn edit_existing(
    wanted: &str,
    verb: &'static str,
    edit: impl FnOnce(ServerName) -> Edit,
    app: &App,
    output: &mut Output,
) -> Result<ExitCode, Report> {
    let _lock = lock(app)?;
    let loaded = app.load()?;
    if let Some(gap) = own_gap(&loaded, wanted) {
        // An unusable entry can still be fixed or removed.
        let name = ServerName::from_label(wanted).map_err(|error| wrong(error.to_string()))?;
        return PendingEdit { verb, edit: edit(name.clone()), name }.apply(None, &gap.place.file, app, output);
    }
    let server = find(&loaded, wanted)?;
    let pending = PendingEdit { verb, name: server.name.clone(), edit: edit(server.name.clone()) };
    refuse_foreign(server, &pending.edit)?;
    pending.apply(Some(server), &own_file(&loaded)?, app, output)
}

/// The unusable entry of this name in one of our files, if no usable server has the name.
fn own_gap<'a>(loaded: &'a Loaded, wanted: &str) -> Option<&'a Warning> {
    let is_there = find(loaded, wanted).is_ok();
    loading::gap(&loaded.config, wanted).filter(|gap| !is_there && loaded.files.contains(&gap.place.file))
}

/// Refuses to change a server of another application's project file, except to enable or disable it: the user has only
/// accepted the definition in that file.
pub(crate) fn refuse_foreign(server: &ServerConfig, edit: &Edit) -> Result<(), Report> {
    let foreign = server.source.defined_by == DefinedBy::Project && server.source.format != Format::Toolway;
    if !foreign || matches!(edit, Edit::Enable { .. } | Edit::Disable { .. }) {
        return Ok(());
    }
    let Source { format, place, .. } = &server.source;
    let message = format!(
        "server `{}` is defined in a file of {format} in this project ({place}), which Toolway does not edit",
        server.name
    );
    Err(Report::usage("not_ours", message).hint(format!("disable it with `toolway servers disable {}`", server.name)))
}

pub(crate) fn refuse_known(
    loaded: &Loaded,
    name: &ServerName,
    file: &Path,
    destination: Destination,
) -> Result<(), Report> {
    let waiting = || loading::proposal_of(loaded, name.as_str()).map(|proposal| &proposal.server);
    let Some(known) = loaded.config.servers.get(name).or_else(waiting) else { return Ok(()) };
    let here = known.source.place.file == file;
    if !here && (destination == Destination::User || known.source.defined_by == DefinedBy::Project) {
        return Ok(());
    }
    let message = format!("server `{name}` already exists ({})", known.source.place);
    Err(Report::usage("exists", message).hint(format!("change it with `toolway servers update {name} …`")))
}

/// Accepts a server that the user has just added to a project file.
fn accept_own(name: &ServerName, app: &App, output: &mut Output) -> Result<(), Report> {
    match loading::proposal_of(&app.load()?, name.as_str()) {
        Some(proposal) => app.accept(proposal, output),
        None => Ok(()),
    }
}
