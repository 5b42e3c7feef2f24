//! `toolway servers add | update | remove | enable | disable`: one member of one file.

use std::path::Path;

use toolway_config::{
    Loaded, ServerConfig, ServerName, Warning,
    edit::{Edit, NewValue},
    server::{Behind, Format, Source},
};

use super::{
    entry::{self, KeyArgs, wrong},
    find,
    make::{Made, lock, own_file, project_file},
};
use crate::{app::App, exit_code::ExitCode, loading, output::Output, report::Report};

/// Add a server
///
/// It goes into the user's own file, or with --project into that of the project. Values are written as they are given,
/// so `${NAME}` stays a reference and keeps a secret out of the file; `--env NAME` alone means `NAME=${NAME}`.
#[derive(Debug, clap::Args)]
#[command(after_help = ADD_EXAMPLES)]
pub(super) struct AddArgs {
    /// What the server is called; its name is made from it
    label: String,

    /// Put it into the project's file, for everybody who works there
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
  toolway servers add tickets --url https://example.com/mcp --header 'Authorization: Bearer ${TICKETS_TOKEN}'";

/// Change some keys of a server
///
/// A server of another host's file is changed by an entry in your own file, which is put over it.
#[derive(Debug, clap::Args)]
#[command(after_help = UPDATE_EXAMPLES)]
pub(super) struct UpdateArgs {
    /// The server
    name: String,

    /// Take a key away, as `description` or `env.TOKEN`; can be given several times
    #[arg(long, value_name = "KEY")]
    unset: Vec<String>,

    #[command(flatten)]
    keys: KeyArgs,
}

const UPDATE_EXAMPLES: &str = "\
Examples:
  toolway servers update files --env LOG=debug --set timeouts.total=2m
  toolway servers update files --unset env.LOG
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

/// Let a server be used again
#[derive(Debug, clap::Args)]
#[command(after_help = ENABLE_EXAMPLES)]
pub(super) struct EnableArgs {
    /// The server
    name: String,
}

const ENABLE_EXAMPLES: &str = "\
Examples:
  toolway servers enable files";

/// Let a server not be used, and keep its entry
#[derive(Debug, clap::Args)]
#[command(after_help = DISABLE_EXAMPLES)]
pub(super) struct DisableArgs {
    /// The server
    name: String,
}

const DISABLE_EXAMPLES: &str = "\
Examples:
  toolway servers disable files";

/// Whose file a new server goes into.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    User,
    Project,
}

pub(super) fn add(args: &AddArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let members = entry::members(&args.keys, app)?;
    if !members.iter().any(|(key, _)| key == "command" || key == "url") {
        return Err(wrong("Say how the server is reached: with --stdio, with --url, or with a program after `--`."));
    }
    let name = ServerName::from_label(&args.label).map_err(|error| wrong(format!("{error}.")))?;
    let _lock = lock(app)?;
    let loaded = app.load()?;
    let whose = if args.project { Whose::Project } else { Whose::User };
    let file = match whose {
        Whose::Project => project_file(app)?,
        Whose::User => own_file(&loaded)?,
    };
    refuse_known(&loaded, &name, &file, whose)?;
    let edit = Edit::Add { label: args.label.clone(), entry: NewValue::nested(&members) };
    let done = Made { word: "Added", name, edit };
    let ended = done.make(None, &file, app, output)?;
    if whose == Whose::Project {
        accept_own(&done.name, app, output)?;
    }
    Ok(ended)
}

pub(super) fn update(args: &UpdateArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let given = entry::members(&args.keys, app)?;
    let mut changes = entry::replaced(&given);
    changes.extend(given);
    for key in &args.unset {
        entry::known_key(key)?;
        changes.push((key.clone(), None));
    }
    if changes.is_empty() {
        return Err(wrong("Say what to change: --stdio, --url, --env, --header, --cwd, --era, --set or --unset."));
    }
    existing(&args.name, "Changed", |name| Edit::Update { name, changes }, app, output)
}

pub(super) fn remove(args: &RemoveArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    existing(&args.name, "Removed", |name| Edit::Remove { name }, app, output)
}

pub(super) fn enable(args: &EnableArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    existing(&args.name, "Enabled", |name| Edit::Enable { name }, app, output)
}

pub(super) fn disable(args: &DisableArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    existing(&args.name, "Disabled", |name| Edit::Disable { name }, app, output)
}

fn existing(
    wanted: &str,
    word: &'static str,
    edit: impl FnOnce(ServerName) -> Edit,
    app: &App,
    output: &mut Output,
) -> Result<ExitCode, Report> {
    let _lock = lock(app)?;
    let loaded = app.load()?;
    if let Some(gap) = own_gap(&loaded, wanted) {
        // What is not used can still be put right, or taken away.
        let name = ServerName::from_label(wanted).map_err(|error| wrong(format!("{error}.")))?;
        return Made { word, edit: edit(name.clone()), name }.make(None, &gap.place.file, app, output);
    }
    let server = find(&loaded, wanted)?;
    let done = Made { word, name: server.name.clone(), edit: edit(server.name.clone()) };
    refuse_foreign(server, &done.edit)?;
    done.make(Some(server), &own_file(&loaded)?, app, output)
}

/// The entry of a file of ours that is meant and that is not used, where no other of its name is.
fn own_gap<'a>(loaded: &'a Loaded, wanted: &str) -> Option<&'a Warning> {
    let is_there = find(loaded, wanted).is_ok();
    loading::gap(&loaded.config, wanted).filter(|gap| !is_there && loaded.files.contains(&gap.place.file))
}

/// What a project's file of another host says can only be switched off: nobody was shown more.
fn refuse_foreign(server: &ServerConfig, edit: &Edit) -> Result<(), Report> {
    let foreign = server.source.behind == Behind::Project && server.source.format != Format::Toolway;
    if !foreign || matches!(edit, Edit::Enable { .. } | Edit::Disable { .. }) {
        return Ok(());
    }
    let Source { format, place, .. } = &server.source;
    let message =
        format!("`{}` stands in a file of {format} in this project ({place}), which is not changed.", server.name);
    Err(Report::usage("not_ours", message)
        .hint(format!("`toolway servers disable {}` lets it not be used.", server.name)))
}

fn refuse_known(loaded: &Loaded, name: &ServerName, file: &Path, whose: Whose) -> Result<(), Report> {
    let waiting = || loading::proposal_of(loaded, name.as_str()).map(|proposal| &proposal.server);
    let Some(known) = loaded.config.servers.get(name).or_else(waiting) else { return Ok(()) };
    let here = known.source.place.file == file;
    if !here && (whose == Whose::User || known.source.behind == Behind::Project) {
        return Ok(());
    }
    let message = format!("There is a server `{name}` already ({}).", known.source.place);
    Err(Report::usage("exists", message).hint(format!("`toolway servers update {name} …` changes it.")))
}

/// Who puts something into a project's file has accepted it.
fn accept_own(name: &ServerName, app: &App, output: &mut Output) -> Result<(), Report> {
    match loading::proposal_of(&app.load()?, name.as_str()) {
        Some(proposal) => app.accept(proposal, output),
        None => Ok(()),
    }
}
