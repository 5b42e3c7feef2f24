//! `toolway trust show|server|folder`: levels of servers, and folders of projects.

use std::path::Path;

use clap::Subcommand;
use serde_json::{Value, json};
use toolway_config::{
    FileAccess, Loaded, Pattern, ServerConfig, Trust, TrustedFolder,
    edit::{Edit, NewValue, plan_trusted_folder},
    server::DefinedBy,
};
use toolway_wire::json::Raw;

use super::parse_trust;
use crate::{
    app::App,
    commands::servers::apply_edit::{PendingEdit, lock, own_file},
    exit_code::ExitCode,
    output::{Format, Output, clean},
    planned_change,
    report::Report,
};

#[derive(Debug, Subcommand)]
pub(super) enum FolderCommand {
    /// Trust the accepted servers of projects in this folder and below
    ///
    /// Servers of a project still have to be accepted one by one. Symbolic links are resolved; of two folders the inner one
    /// counts.
    Add {
        /// A folder that exists
        folder: String,

        /// `read` (tools annotated read-only pass `writes`) or `full` (all tools do)
        #[arg(value_parser = parse_folder_trust)]
        level: Trust,
    },
    /// Remove a folder
    Remove {
        /// The folder, as shown
        folder: String,
    },
}

fn parse_folder_trust(text: &str) -> Result<Trust, String> {
    let trust = parse_trust(text).ok().filter(|trust| *trust != Trust::Untrusted);
    trust.ok_or_else(|| "must be `read` or `full`".to_owned())
}

/// All servers and folders.
pub(super) fn show_all(loaded: &Loaded, app: &App, output: &mut Output) {
    let servers = loaded.config.servers.values();
    let folders = &loaded.config.settings.policy.trusted_folders.value;
    let home = app.paths.home.as_deref();
    if output.format != Format::Human {
        let folder = |folder: &TrustedFolder| json!({ "path": folder.path, "trust": folder.trust.as_str(), "resolved": folder.real(home) });
        let folders: Vec<Value> = folders.iter().map(folder).collect();
        let view = json!({ "servers": servers.map(view).collect::<Vec<_>>(), "folders": folders });
        return output.json(&Raw::of(&view));
    }
    let row = |server: &ServerConfig| {
        let trust = server.trust().as_str().to_owned();
        [server.name.to_string(), trust, because(server).to_owned(), patterns(server)]
    };
    let rows: Vec<_> = servers.map(row).collect();
    output.table(["SERVER", "TRUST", "BY", "TOOLS"], &rows);
    for folder in folders {
        let missing = if folder.real(home).is_none() { ", which does not exist" } else { "" };
        output.line(&format!("folder {}: {}{missing}", clean::flat(&folder.path), folder.trust.as_str()));
    }
}

/// One server.
pub(super) fn show_server(server: &ServerConfig, output: &mut Output) {
    if output.format != Format::Human {
        return output.json(&Raw::of(&view(server)));
    }
    output.line(&format!("{}: {} ({})", server.name, server.trust().as_str(), because(server)));
    let tools = patterns(server);
    if !tools.is_empty() {
        output.line(&tools);
    }
}

/// Where the trust of a server comes from.
fn because(server: &ServerConfig) -> &'static str {
    match (server.trust, server.trust_lists.folder, server.source.defined_by) {
        (Some(_), _, _) => "entry",
        (None, Some(_), _) => "trusted folder",
        (None, None, DefinedBy::Project) => "default of projects",
        (None, None, _) => "default",
    }
}

/// What its entry says of single tools, in words.
fn patterns(server: &ServerConfig) -> String {
    let lists = &server.trust_lists;
    let named = |word: &str, patterns: &[Pattern]| {
        let names: Vec<String> = patterns.iter().map(|pattern| clean::flat(pattern.as_str())).collect();
        (!names.is_empty()).then(|| format!("{word} {}", names.join(", ")))
    };
    let files = (lists.file_access == FileAccess::RootsOnly).then(|| "no paths outside the roots".to_owned());
    let trusted = named("trusted:", &lists.trusted_tools);
    let asked = named("always asked about:", &lists.require_confirmation);
    [trusted, asked, files].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn view(server: &ServerConfig) -> Value {
    let lists = &server.trust_lists;
    let texts = |patterns: &[Pattern]| patterns.iter().map(|pattern| json!(pattern.as_str())).collect::<Vec<_>>();
    json!({
        "server": server.name.as_str(),
        "trust": server.trust().as_str(),
        "by": because(server),
        "folder": lists.folder.map(Trust::as_str),
        "trustedTools": texts(&lists.trusted_tools),
        "requireConfirmation": texts(&lists.require_confirmation),
        "allowFileAccess": (lists.file_access == FileAccess::RootsOnly).then_some(false),
    })
}

/// Sets `trust` in the entry of a server. A server of a project is trusted by its folder only: an entry by name would trust
/// every project that uses the name.
pub(super) async fn set_server(name: &str, level: Trust, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let ended = {
        let _lock = lock(app)?;
        let loaded = app.load()?;
        let unknown = || {
            Report::usage("unknown_server", format!("unknown server `{name}`"))
                .hint("`toolway trust show` lists the servers")
        };
        let server = loaded.config.find(name).ok_or_else(unknown)?;
        if server.source.defined_by == DefinedBy::Project {
            let message = format!("server `{name}` is defined by a project, which is trusted by its folder");
            return Err(Report::usage("project_server", message).hint("use `toolway trust folder add FOLDER read`"));
        }
        let changes = vec![("trust".to_owned(), Some(NewValue::Text(level.as_str().to_owned())))];
        let edit = Edit::Update { name: server.name.clone(), changes };
        let pending = PendingEdit { verb: "Changed", name: server.name.clone(), edit };
        pending.apply(Some(server), &own_file(&loaded)?, app, output)?
    };
    app.apply_in_gateway(output).await?;
    Ok(ended)
}

/// Adds or removes a trusted folder of the user's file.
pub(super) async fn change_folder(command: &FolderCommand, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let planned = {
        let _lock = lock(app)?;
        let loaded = app.load()?;
        let known = &loaded.config.settings.policy.trusted_folders.value;
        let home = app.paths.home.as_deref();
        let (path, trust) = match command {
            FolderCommand::Add { folder, level } => (existing(folder)?, Some(*level)),
            FolderCommand::Remove { folder } => (as_written(known, folder, home)?, None),
        };
        let planned = plan_trusted_folder(&own_file(&loaded)?, &path, trust)?;
        let word = if trust.is_some() { "trusted folder" } else { "removed trusted folder" };
        let details = json!({ "change": word, "folder": path, "trust": trust.map(Trust::as_str) });
        planned_change::write(&planned, details, app)?;
        planned
    };
    planned_change::report(&planned, app, output).await
}

/// The canonical path of a folder.
fn existing(folder: &str) -> Result<String, Report> {
    let wrong = |why: &str| Report::usage("folder", format!("folder `{folder}`: {why}"));
    let path = Path::new(folder).canonicalize().map_err(|error| wrong(&error.to_string()))?;
    if !path.is_dir() {
        return Err(wrong("it is not a folder"));
    }
    if path.parent().is_none() {
        return Err(wrong("it contains every project of this machine"));
    }
    path.to_str().map(str::to_owned).ok_or_else(|| wrong("the path is not UTF-8"))
}

/// The folder of the file that is meant: by its text, or by its canonical path.
fn as_written(known: &[TrustedFolder], folder: &str, home: Option<&Path>) -> Result<String, Report> {
    let real = Path::new(folder).canonicalize().ok();
    let is_meant = |known: &&TrustedFolder| known.path == folder || (real.is_some() && known.real(home) == real);
    let missing = || {
        Report::usage("folder", format!("folder `{folder}` is not trusted"))
            .hint("`toolway trust show` lists the trusted folders")
    };
    known.iter().find(is_meant).map(|known| known.path.clone()).ok_or_else(missing)
}
