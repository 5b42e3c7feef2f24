//! Entries of servers as the console adds, changes and removes them: compared with the file, planned, written.
//!
//! A page gets an entry with references in place of the secrets that stand in clear in the file, or in the text that was
//! pasted. What it sends back is the whole entry; the secrets are put back, and the keys that differ are the edit, which
//! moves them to the vault.

pub(super) mod draft;

use std::path::Path;

use toolway_config::{
    Loaded, ServerName,
    edit::{Change, Edit, plan},
    server::Format,
};
use toolway_console::backend::{EntryDraft, PlannedEdit, Problem, SavedServer, WrittenEntry};

use self::draft::{CurrentEntry, PreparedDraft, SERVERS, changed_meanwhile, current, field_problem, prepare};
use super::{difference::difference, problem};
use crate::{
    app::App,
    commands::servers::{
        apply_edit::{PendingEdit, lock, own_file},
        change::refuse_foreign,
    },
    pasted_server::PastedServer,
};

/// The entry of a server, for a form.
pub(super) fn entry(name: &ServerName, app: &App) -> Result<WrittenEntry, Problem> {
    let loaded = app.load().map_err(problem)?;
    let CurrentEntry { server, shown, secrets, version, .. } = current(name, &loaded, app)?;
    let mut notices = Vec::new();
    match secrets.count() {
        0 => {}
        1 => notices.push("A secret stands in clear in the file. A change moves it to the vault.".to_owned()),
        count => notices.push(format!("{count} secrets stand in clear in the file. A change moves them to the vault.")),
    }
    if server.source.format != Format::Toolway {
        notices.push(format!(
            "It is defined in a file of {}, which Toolway does not change: what you save is written to your own file, and \
             overrides it.",
            server.source.format
        ));
    }
    let place = server.source.place.to_string();
    Ok(WrittenEntry { label: server.label, entry: shown.json(), place, version, notices })
}

/// What saving a draft would write.
pub(super) fn planned(draft: &EntryDraft, app: &App) -> Result<PlannedEdit, Problem> {
    let loaded = app.load().map_err(problem)?;
    let prepared = prepare(draft, &loaded, app)?;
    let summary = prepared.entry.summary()?;
    let mut warnings = summary.warnings;
    if prepared.current.is_none() {
        warnings.extend(prepared.entry.secrets_it_gets()?);
    }
    let version = prepared.current.as_ref().map(|current| current.version.clone());
    let nothing = nothing_planned(&prepared.ours, version);
    let mut planned = PlannedEdit { needs_consent: prepared.needs_consent(), warnings, ..nothing };
    // What is shown has references in place of secrets.
    let (shown, secrets) = app.detach_entry(&prepared.name, &prepared.entry.new_entry()?, &loaded).map_err(problem)?;
    let shown = PastedServer { entry: shown.json(), ..prepared.entry.clone() }.summary()?;
    planned.runs = shown.runs;
    planned.url = shown.url;
    planned.warnings.extend(secrets.preview());
    let Some(edit) = &prepared.edit else { return Ok(planned) };
    show_change(&mut planned, change(&prepared.name, edit, &prepared, &loaded, app)?);
    Ok(planned)
}

/// The server of a draft, with its secrets in clear, to test it.
pub(super) fn tested(draft: &EntryDraft, app: &App) -> Result<PastedServer, Problem> {
    let loaded = app.load().map_err(problem)?;
    let mut entry = prepare(draft, &loaded, app)?.entry;
    if let Some(members) = entry.entry.as_object_mut() {
        // What is turned off can be tested too.
        members.remove("enabled");
        members.remove("disabled");
        members.remove("lazy");
    }
    Ok(entry)
}

/// Writes a draft.
pub(super) fn save(draft: &EntryDraft, app: &App) -> Result<SavedServer, Problem> {
    let _lock = lock(app).map_err(problem)?;
    let loaded = app.load().map_err(problem)?;
    let PreparedDraft { name, edit, current, ours, entry } = prepare(draft, &loaded, app)?;
    let Some(edit) = edit else { return Ok(SavedServer { name, notices: Vec::new() }) };
    entry.config()?;
    let verb = if current.is_some() { "Changed" } else { "Added" };
    let pending = PendingEdit { verb, name: name.clone(), edit };
    let secrets = pending.write(current.as_ref().map(|current| &current.server), &ours, app).map_err(problem)?;
    Ok(SavedServer { name, notices: secrets.sentence().into_iter().collect() })
}

/// What removing a server would write.
pub(super) fn planned_removal(name: &ServerName, app: &App) -> Result<PlannedEdit, Problem> {
    let loaded = app.load().map_err(problem)?;
    let current = current(name, &loaded, app)?;
    let edit = Edit::Remove { name: name.clone() };
    refuse_foreign(&current.server, &edit).map_err(problem)?;
    let ours = own_file(&loaded).map_err(problem)?;
    let change = plan(&edit, Some(&current.server), &ours).map_err(|error| Problem::new(error.to_string()))?;
    let mut planned = nothing_planned(&ours, Some(current.version));
    show_change(&mut planned, change);
    Ok(planned)
}

/// Removes a server, unless its entry is another one than the user saw.
pub(super) fn remove(name: &ServerName, version: &str, app: &App) -> Result<(), Problem> {
    let _lock = lock(app).map_err(problem)?;
    let loaded = app.load().map_err(problem)?;
    let current = current(name, &loaded, app)?;
    if current.version != version {
        return Err(changed_meanwhile(name.as_str(), &current.server.source.place));
    }
    let edit = Edit::Remove { name: name.clone() };
    refuse_foreign(&current.server, &edit).map_err(problem)?;
    let pending = PendingEdit { verb: "Removed", name: name.clone(), edit };
    let ours = own_file(&loaded).map_err(problem)?;
    pending.write(Some(&current.server), &ours, app).map(drop).map_err(problem)
}

/// The plan of an edit that writes nothing.
pub(super) fn nothing_planned(file: &Path, version: Option<String>) -> PlannedEdit {
    PlannedEdit {
        file: file.display().to_string(),
        difference: Vec::new(),
        by_hand: None,
        runs: None,
        url: None,
        needs_consent: false,
        warnings: Vec::new(),
        version,
    }
}

fn change(
    name: &ServerName,
    edit: &Edit,
    prepared: &PreparedDraft,
    loaded: &Loaded,
    app: &App,
) -> Result<Change, Problem> {
    let (edit, _) = app.detach_edit(name, edit, loaded).map_err(problem)?;
    let defined = prepared.current.as_ref().map(|current| &current.server);
    plan(&edit, defined, &prepared.ours).map_err(|error| field_problem(SERVERS, &prepared.entry.label, &error))
}

/// What a change writes, in the plan that a page gets.
pub(super) fn show_change(planned: &mut PlannedEdit, change: Change) {
    match change {
        Change::Text { file, before, text } => {
            planned.file = file.display().to_string();
            planned.difference = difference(&file, &before, &text);
        }
        Change::Lines { file, lines, advice } => {
            planned.file = file.display().to_string();
            planned.by_hand = Some(format!("{advice}\n{lines}").trim_end().to_owned());
        }
    }
}
