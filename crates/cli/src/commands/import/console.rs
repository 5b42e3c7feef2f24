//! Servers of other applications for the console: a list to choose from, and copies of those chosen.

use toolway_config::{Config, import::Imported};
use toolway_console::backend::{FoundKey, FoundServer, FoundServers, ImportedServer};

use super::{
    ALL, ImportArgs, SourceFile,
    copy::{self, Copied, CopiedSecrets, CopyOutcome, Destination, EnteredInputs, EntryOrigin},
    read_files,
};
use crate::{app::App, commands::servers::show::command_of, report::Report};

/// Servers of a list.
const MAX_FOUND: usize = 500;
/// Warnings about their files.
const MAX_WARNINGS: usize = 50;

/// All servers of other applications, each with what copying it alone would do, and what cannot be read.
pub(crate) fn found(app: &App) -> Result<FoundServers, Report> {
    let files = all_files(app)?;
    let warnings = files.iter().flat_map(SourceFile::warnings).take(MAX_WARNINGS).collect();
    Ok(FoundServers { servers: servers(files, app)?, warnings })
}

fn servers(files: Vec<SourceFile>, app: &App) -> Result<Vec<FoundServer>, Report> {
    let mut servers: Vec<FoundServer> = Vec::new();
    for file in files {
        let SourceFile { found, imported: Ok(imported) } = file else { continue };
        for index in 0..imported.servers.len() {
            let one = SourceFile { found: found.clone(), imported: Ok(only(&imported, index)) };
            let command = command_of(&imported.servers[index], &Config::default());
            let planned = copy::preview(&[one], Destination::User, app)?;
            let new = planned.entries.into_iter().map(|(origin, outcome)| view(origin, outcome, command.clone()));
            servers.extend(new.filter(|new| !servers.iter().any(|known| known.key == new.key)).collect::<Vec<_>>());
            if MAX_FOUND <= servers.len() {
                return Ok(servers);
            }
        }
    }
    Ok(servers)
}

/// Copies these servers to the user's file.
pub(crate) fn copy_chosen(chosen: &[FoundKey], app: &App) -> Result<Vec<ImportedServer>, Report> {
    let mut files = all_files(app)?;
    for file in &mut files {
        let SourceFile { imported: Ok(imported), .. } = file else { continue };
        imported.servers.retain(|server| {
            let place = server.source.place.to_string();
            let is_it = |key: &FoundKey| {
                key.label == server.label && key.place == place && key.host == server.source.format.as_str()
            };
            chosen.iter().any(is_it)
        });
        // Settings of a whole file are not those of single servers.
        imported.turned_off.clear();
    }
    let Copied { entries, .. } = copy::copy_all(&files, Destination::User, &EnteredInputs::new(), app)?;
    Ok(entries.into_iter().map(|(origin, outcome)| imported(&origin, outcome)).collect())
}

fn all_files(app: &App) -> Result<Vec<SourceFile>, Report> {
    read_files(&ImportArgs { host: ALL.to_owned(), copy: false, keep: false, project: false }, app)
}

/// The content of a file with one of its servers.
fn only(imported: &Imported, index: usize) -> Imported {
    let mut one = imported.clone();
    one.servers = vec![imported.servers[index].clone()];
    one.turned_off.clear();
    one
}

fn view(origin: EntryOrigin, outcome: CopyOutcome, command: String) -> FoundServer {
    let EntryOrigin { label, name, host, place } = origin;
    let key = FoundKey { host: host.to_owned(), label, place };
    let (skipped, secrets) = match outcome {
        CopyOutcome::Copied(secrets) => (None, Some(secrets)),
        CopyOutcome::ManualEdit(..) => (Some("your own file is YAML, which Toolway does not edit".to_owned()), None),
        CopyOutcome::Skipped(why) => (Some(why), None),
    };
    let count = secrets.as_ref().map_or(0, |secrets| secrets.entry.count());
    let inputs = secrets.map(|secrets| inputs(&secrets)).unwrap_or_default();
    FoundServer { key, name: name.to_string(), command, skipped, secrets: count, inputs }
}

fn inputs(secrets: &CopiedSecrets) -> Vec<String> {
    secrets.missing.iter().map(|missing| missing.input.id.clone()).collect()
}

fn imported(origin: &EntryOrigin, outcome: CopyOutcome) -> ImportedServer {
    let name = origin.name.to_string();
    match outcome {
        CopyOutcome::Copied(secrets) => {
            let input = |missing: &copy::MissingInput| {
                let id = &missing.input.id;
                format!("It needs the input `{id}`: store it with `toolway secret set {}`.", missing.name)
            };
            let notices = secrets.entry.sentence().into_iter().chain(secrets.missing.iter().map(input)).collect();
            ImportedServer { name, copied: true, notices }
        }
        CopyOutcome::ManualEdit(_, lines) => {
            let notice = format!("Your own file is YAML, which Toolway does not edit. Add these lines: {lines}");
            ImportedServer { name, copied: false, notices: vec![notice] }
        }
        CopyOutcome::Skipped(why) => ImportedServer { name, copied: false, notices: vec![why] },
    }
}
