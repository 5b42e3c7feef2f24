//! `toolway roots`: the folders that servers are told to work in.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::{Value, json};
use toolway_config::{
    Loaded, RootLocation, RootSetting, ServerConfig,
    edit::{NewValue, RootsEdit, RootsLevel, plan_roots},
    server::Format as EntryFormat,
};
use toolway_wire::json::Raw;

use crate::{
    app::App,
    commands::servers::apply_edit::{lock, own_file},
    effect::Effect,
    exit_code::ExitCode,
    output::{Format, Output, clean},
    planned_change,
    report::Report,
};

/// List, add and remove roots: folders that servers are told to work in
///
/// Roots are advice: a server can reach what its process can reach. Without an option, the command is about the roots of all
/// servers; with --server NAME about those of one server, with --client NAME about those of the calls of one client of the
/// gateway. A running gateway uses a change at once.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RootsArgs {
    #[command(subcommand)]
    command: Option<RootsCommand>,
}

const EXAMPLES: &str = "\
Examples:
  toolway roots
  toolway roots add ~/work/notes --name notes
  toolway roots add /srv/files --server files
  toolway roots remove /srv/files --server files
  toolway roots list --client editor -o json";

#[derive(Debug, Subcommand)]
enum RootsCommand {
    /// List the roots of all levels, or those that a server or a client gets
    List {
        #[command(flatten)]
        of: ClientArg,
    },
    /// Add a folder or URI
    Add {
        /// A folder that exists, or a URI such as `file:///srv/files`
        #[arg(value_name = "PATH|URI")]
        location: String,

        /// Name for display
        #[arg(long, value_name = "NAME")]
        name: Option<String>,

        #[command(flatten)]
        of: ClientArg,
    },
    /// Remove a folder or URI
    Remove {
        /// The path or URI, as listed
        #[arg(value_name = "PATH|URI")]
        location: String,

        #[command(flatten)]
        of: ClientArg,
    },
}

#[derive(Debug, clap::Args)]
struct ClientArg {
    /// The roots of this client of the gateway
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
}

impl RootsArgs {
    /// Some servers work in their roots instead of the folders that they were started with.
    pub(crate) fn effect(&self) -> Effect {
        match &self.command {
            None | Some(RootsCommand::List { .. }) => Effect::Ordinary,
            Some(RootsCommand::Add { .. } | RootsCommand::Remove { .. }) => Effect::Widens,
        }
    }
}

pub(crate) async fn run(args: &RootsArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    match &args.command {
        None => list(app, None, output),
        Some(RootsCommand::List { of }) => list(app, of.client.as_deref(), output),
        Some(RootsCommand::Add { location, name, of }) => {
            let level = Level::of(app, of)?;
            change(app, &level, &Wish::Add(new_root(location, name.as_deref())?), output).await
        }
        Some(RootsCommand::Remove { location, of }) => {
            let level = Level::of(app, of)?;
            change(app, &level, &Wish::Remove(location), output).await
        }
    }
}

/// What a change is about.
enum Level {
    Top,
    Server(String),
    Client(String),
}

/// A wanted change.
enum Wish<'a> {
    Add(RootSetting),
    Remove(&'a str),
}

impl Level {
    fn of(app: &App, of: &ClientArg) -> Result<Self, Report> {
        match (&app.reach.by_name, &of.client) {
            (Some(_), Some(_)) => Err(Report::usage("usage", "give either --server or --client")),
            (Some(server), None) => Ok(Self::Server(server.clone())),
            (None, Some(client)) => Ok(Self::Client(client.clone())),
            (None, None) => Ok(Self::Top),
        }
    }

    /// The roots of this level.
    fn roots(&self, loaded: &Loaded) -> Result<Vec<RootSetting>, Report> {
        let settings = &loaded.config.settings;
        Ok(match self {
            Self::Top => settings.roots.value.clone(),
            Self::Server(name) => server(loaded, name)?.roots.clone(),
            Self::Client(name) => {
                let client = settings.gateway.clients.value.get(name);
                client.map(|client| client.roots.value.clone()).unwrap_or_default()
            }
        })
    }

    /// The file that has them, or will have them.
    fn file(&self, loaded: &Loaded) -> Result<PathBuf, Report> {
        if let Self::Server(name) = self {
            let source = &server(loaded, name)?.source;
            if source.format == EntryFormat::Toolway {
                return Ok(source.place.file.clone());
            }
        }
        own_file(loaded)
    }

    fn key<'a>(&'a self, loaded: &'a Loaded) -> Result<RootsLevel<'a>, Report> {
        Ok(match self {
            Self::Top => RootsLevel::Top,
            Self::Server(name) => RootsLevel::Server(&server(loaded, name)?.label),
            Self::Client(name) => RootsLevel::Client(name),
        })
    }
}

async fn change(app: &App, level: &Level, wish: &Wish<'_>, output: &mut Output) -> Result<ExitCode, Report> {
    let planned = {
        let _lock = lock(app)?;
        let loaded = app.load()?;
        let roots = level.roots(&loaded)?;
        let home = app.paths.home.as_deref();
        let edit = match wish {
            Wish::Add(new) if roots.iter().any(|root| root.uri(home) == new.uri(home)) => {
                output.notice("toolway: this root is there already; nothing was changed");
                return Ok(ExitCode::Ok);
            }
            Wish::Add(new) => RootsEdit::Add(value(new)),
            Wish::Remove(written) => RootsEdit::Remove(position(&roots, written, home)?),
        };
        let key = level.key(&loaded)?;
        let planned = plan_roots(&level.file(&loaded)?, key, &edit)?;
        let (word, root) = match &edit {
            RootsEdit::Add(root) => ("added root", root.json()),
            RootsEdit::Remove(index) => ("removed root", value(&roots[*index]).json()),
        };
        planned_change::write(&planned, json!({ "change": word, "key": key.key(), "root": root }), app)?;
        planned
    };
    planned_change::report(&planned, app, output).await
}

/// The root of a folder that exists, or of a URI.
fn new_root(written: &str, name: Option<&str>) -> Result<RootSetting, Report> {
    let wrong = |why: &str| Report::usage("root", format!("root `{written}`: {why}"));
    let location = if written.contains("://") {
        url::Url::parse(written).map_err(|error| wrong(&error.to_string()))?;
        RootLocation::Uri(written.to_owned())
    } else {
        let folder = Path::new(written).canonicalize().map_err(|error| wrong(&error.to_string()))?;
        if !folder.is_dir() {
            return Err(wrong("it is not a folder"));
        }
        RootLocation::Path(folder.to_str().ok_or_else(|| wrong("the path is not UTF-8"))?.to_owned())
    };
    Ok(RootSetting { location, name: name.map(str::to_owned), enabled: true })
}

/// Where a root stands in its list: by its text, or by its URI.
fn position(roots: &[RootSetting], written: &str, home: Option<&Path>) -> Result<usize, Report> {
    let same = written.trim_end_matches('/');
    let absolute = std::path::absolute(written).ok().and_then(|path| url::Url::from_file_path(path).ok());
    let absolute = absolute.map(String::from).unwrap_or_default();
    let is_meant = |root: &RootSetting| {
        let uri = root.uri(home).unwrap_or_default();
        text(root).trim_end_matches('/') == same
            || uri.trim_end_matches('/') == same
            || uri.trim_end_matches('/') == absolute.trim_end_matches('/')
    };
    let missing = || {
        Report::usage("root", format!("no root `{written}` at this level")).hint("list them with `toolway roots list`")
    };
    roots.iter().position(is_meant).ok_or_else(missing)
}

fn server<'a>(loaded: &'a Loaded, name: &str) -> Result<&'a ServerConfig, Report> {
    let unknown = || {
        Report::usage("unknown_server", format!("unknown server `{name}`")).hint("`toolway servers` lists the servers")
    };
    loaded.config.find(name).ok_or_else(unknown)
}

fn value(root: &RootSetting) -> NewValue {
    let key = match root.location {
        RootLocation::Path(_) => "path",
        RootLocation::Uri(_) => "uri",
    };
    let name = root.name.iter().map(|name| ("name", name.as_str()));
    NewValue::pairs([(key, text(root))].into_iter().chain(name))
}

fn text(root: &RootSetting) -> &str {
    match &root.location {
        RootLocation::Path(text) | RootLocation::Uri(text) => text,
    }
}

/// One row of the list.
struct Row {
    of: String,
    root: RootSetting,
}

fn list(app: &App, client: Option<&str>, output: &mut Output) -> Result<ExitCode, Report> {
    let loaded = app.load()?;
    let settings = &loaded.config.settings;
    let wanted = app.reach.by_name.as_deref();
    let chosen = wanted.map(|name| server(&loaded, name)).transpose()?;
    let is_filtered = wanted.is_some() || client.is_some();
    let mut rows: Vec<Row> = Vec::new();
    let mut add = |of: String, roots: &[RootSetting]| {
        rows.extend(roots.iter().map(|root| Row { of: of.clone(), root: root.clone() }));
    };
    add("all servers".to_owned(), &settings.roots.value);
    let is_shown = |server: &&ServerConfig| !is_filtered || chosen.is_some_and(|chosen| chosen.name == server.name);
    for server in loaded.config.servers.values().filter(is_shown) {
        add(format!("server {}", server.name), &server.roots);
    }
    for (name, settings) in &settings.gateway.clients.value {
        if !is_filtered || client == Some(name) {
            add(format!("client {name}"), &settings.roots.value);
        }
    }
    let home = app.paths.home.as_deref();
    match output.format {
        Format::Human if rows.is_empty() => {
            output.notice("toolway: no roots; servers are not told of any");
        }
        Format::Human => {
            let row = |row: &Row| {
                let uri = row.root.uri(home).unwrap_or_else(|error| format!("{} ({error})", text(&row.root)));
                let state = if row.root.enabled { "enabled" } else { "disabled" };
                let name = row.root.name.as_deref().unwrap_or_default();
                [clean::flat(&row.of), clean::flat(name), state.to_owned(), clean::flat(&uri)]
            };
            let rows: Vec<_> = rows.iter().map(row).collect();
            output.table(["FOR", "NAME", "STATE", "URI"], &rows);
        }
        _ => {
            let view = |row: &Row| -> Value {
                json!({
                    "for": row.of,
                    "uri": row.root.uri(home).ok(),
                    "name": row.root.name,
                    "enabled": row.root.enabled,
                })
            };
            output.json(&Raw::of(&rows.iter().map(view).collect::<Vec<_>>()));
        }
    }
    Ok(ExitCode::Ok)
}
