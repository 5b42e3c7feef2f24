//! Assistants as the console adds, changes and removes them: compared with the user's file, planned, written. The edit is the
//! one of `toolway assistants add`, `set` and `remove`; `entries.rs` does the same for servers.

use std::{collections::BTreeSet, path::PathBuf};

use serde_json::{Value, json};
use toolway_config::{
    Approval, AssistantConfig, Loaded, Place, ServerName, ToolPattern,
    clear::written_assistant,
    document::Document,
    edit::{AssistantEdit, Change, NewValue, plan_assistant},
};
use toolway_console::backend::{EntryDraft, ListedAssistant, PlannedEdit, Problem, WrittenEntry};

use super::{
    entries::{
        draft::{changed_meanwhile, compared, field_problem, version_of},
        nothing_planned, show_change,
    },
    problem,
};
use crate::{
    app::App,
    assistant,
    commands::{
        assistants::{
            change,
            members::{check_model, check_server},
        },
        servers::apply_edit::{lock, own_file},
    },
    report::Report,
};

/// Key of the assistants.
const ASSISTANTS: &str = "assistants";
/// The members of a new entry, in their order.
const ORDER: [&str; 10] =
    ["description", "model", "system", "servers", "tools", "approval", "trustedTools", "tasks", "budgets", "resources"];

/// The entry of an assistant in the user's file.
struct CurrentAssistant {
    place: Place,
    /// As it is written, with the names of its servers as all pages have them.
    shown: NewValue,
    version: String,
}

/// A draft after it was compared with the file.
struct PreparedAssistant {
    name: String,
    current: Option<CurrentAssistant>,
    ours: PathBuf,
    warnings: Vec<String>,
    /// `None` if nothing changes.
    change: Option<Change>,
}

/// An assistant in a list.
pub(super) fn listed(name: &str, config: &AssistantConfig) -> ListedAssistant {
    ListedAssistant {
        name: name.to_owned(),
        description: config.description.clone(),
        approval: config.approval.as_str(),
        model: config.model.clone(),
        servers: config.servers.as_ref().map(|servers| servers.iter().map(ToString::to_string).collect()),
    }
}

/// The entry of an assistant, for a form.
pub(super) fn entry(name: &str, app: &App) -> Result<WrittenEntry, Problem> {
    let loaded = app.load().map_err(problem)?;
    let CurrentAssistant { place, shown, version } = current(name, &loaded)?;
    let place = place.to_string();
    Ok(WrittenEntry { label: name.to_owned(), entry: shown.json(), place, version, notices: Vec::new() })
}

/// What saving a draft would write.
pub(super) fn planned(draft: &EntryDraft, app: &App) -> Result<PlannedEdit, Problem> {
    let loaded = app.load().map_err(problem)?;
    let PreparedAssistant { current, ours, warnings, change, .. } = prepare(draft, &loaded, app)?;
    let nothing = nothing_planned(&ours, current.map(|current| current.version));
    let mut planned = PlannedEdit { warnings, ..nothing };
    if let Some(change) = change {
        show_change(&mut planned, change);
    }
    Ok(planned)
}

/// Writes a draft, and returns the name of the assistant.
pub(super) fn save(draft: &EntryDraft, app: &App) -> Result<String, Problem> {
    let _lock = lock(app).map_err(problem)?;
    let loaded = app.load().map_err(problem)?;
    let PreparedAssistant { name, current, change, .. } = prepare(draft, &loaded, app)?;
    if let Some(change) = change {
        write(&change, if current.is_some() { "changed" } else { "added" }, &name, app)?;
    }
    Ok(name)
}

/// What removing an assistant would write.
pub(super) fn planned_removal(name: &str, app: &App) -> Result<PlannedEdit, Problem> {
    let loaded = app.load().map_err(problem)?;
    let current = current(name, &loaded)?;
    let ours = own_file(&loaded).map_err(problem)?;
    let mut planned = nothing_planned(&ours, Some(current.version));
    show_change(&mut planned, removal(name, &loaded)?);
    Ok(planned)
}

/// Removes an assistant, unless its entry is another one than the user saw.
pub(super) fn remove(name: &str, version: &str, app: &App) -> Result<(), Problem> {
    let _lock = lock(app).map_err(problem)?;
    let loaded = app.load().map_err(problem)?;
    let current = current(name, &loaded)?;
    if current.version != version {
        return Err(changed_meanwhile(name, &current.place));
    }
    write(&removal(name, &loaded)?, "removed", name, app)
}

fn removal(name: &str, loaded: &Loaded) -> Result<Change, Problem> {
    let ours = own_file(loaded).map_err(problem)?;
    plan_assistant(&ours, name, &AssistantEdit::Remove).map_err(|error| Problem::new(error.to_string()))
}

/// Writes a change; fails if the file is not edited by Toolway.
fn write(change: &Change, verb: &str, name: &str, app: &App) -> Result<(), Problem> {
    match change {
        Change::Text { file, .. } => change::write(change, file, verb, name, app).map_err(problem),
        Change::Lines { file, lines, advice } => Err(Problem {
            hint: Some(lines.clone()),
            ..Problem::new(format!("`{}` is not edited by Toolway: {advice}", file.display()))
        }),
    }
}

fn current(name: &str, loaded: &Loaded) -> Result<CurrentAssistant, Problem> {
    let gone = |_: Report| Problem {
        conflict: true,
        hint: Some("save it as a new assistant, or leave this page".to_owned()),
        ..Problem::new(format!("assistant `{name}` is not in the configuration"))
    };
    let config = assistant::find(&loaded.config.settings, name).map_err(gone)?;
    let place = config.place.clone();
    let document = Document::read(&place.file).map_err(|error| Problem::new(error.to_string()))?;
    let missing = || Problem::new(format!("the entry of `{name}` cannot be read ({place})"));
    let written = written_assistant(&document, name).ok_or_else(missing)?;
    let version = version_of(&place.file, &written);
    Ok(CurrentAssistant { shown: with_server_names(written, config), version, place })
}

/// A server may be written by its label, `My Files`; everywhere else it has its name.
fn with_server_names(written: NewValue, config: &AssistantConfig) -> NewValue {
    let NewValue::Object(mut members) = written else { return written };
    if let (Some(servers), Some((_, value))) = (&config.servers, members.iter_mut().find(|(key, _)| key == "servers")) {
        *value = NewValue::texts(servers.iter().map(ServerName::as_str));
    }
    NewValue::Object(members)
}

/// Compares a draft with the file.
fn prepare(draft: &EntryDraft, loaded: &Loaded, app: &App) -> Result<PreparedAssistant, Problem> {
    let name = draft.name.trim().to_owned();
    if !AssistantConfig::is_name(&name) {
        return Err(Problem::of_field("name", "`name` must have 1 to 64 letters, digits, `.`, `_` or `-`"));
    }
    let ours = own_file(loaded).map_err(problem)?;
    let given = NewValue::of_json(&draft.entry).ok_or_else(|| Problem::new("the entry contains `null`"))?;
    let NewValue::Object(given) = in_order(given) else { return Err(Problem::new("the entry must be an object")) };
    let current = match &draft.version {
        Some(version) => {
            let current = current(&name, loaded)?;
            if current.version != *version {
                return Err(changed_meanwhile(&name, &current.place));
            }
            Some(current)
        }
        None => match loaded.config.settings.assistants.value.get(&name) {
            Some(known) => {
                let message = format!("assistant `{name}` already exists ({})", known.place);
                return Err(Problem { conflict: true, ..Problem::of_field("name", message) });
            }
            None => None,
        },
    };
    let before = match current.as_ref().map(|current| current.shown.clone()) {
        Some(NewValue::Object(members)) => members,
        _ => Vec::new(),
    };
    let mut changes = compared("", &before, &given);
    // A new entry says its approval, as `toolway assistants add` writes it.
    if current.is_none() && !changes.iter().any(|(key, _)| key == "approval") {
        let default = NewValue::Text(Approval::default().as_str().to_owned());
        let at = changes.iter().position(|(key, _)| place_of(key) > place_of("approval")).unwrap_or(changes.len());
        changes.insert(at, ("approval".to_owned(), Some(default)));
    }
    let mut warnings = Vec::new();
    check_names(&NewValue::Object(before).json(), &draft.entry, &mut warnings, loaded, app)?;
    warn_of_approval(&draft.entry, &mut warnings);
    let change = (current.is_none() || !changes.is_empty())
        .then(|| plan_assistant(&ours, &name, &AssistantEdit::Set(changes)))
        .transpose()
        .map_err(|error| field_problem(ASSISTANTS, &name, &error))?;
    Ok(PreparedAssistant { name, current, ours, warnings, change })
}

/// The members as a person would write them.
fn in_order(entry: NewValue) -> NewValue {
    let NewValue::Object(mut members) = entry else { return entry };
    members.sort_by_key(|(key, _)| place_of(key));
    NewValue::Object(members)
}

fn place_of(key: &str) -> usize {
    ORDER.iter().position(|known| *known == key).unwrap_or(ORDER.len())
}

/// Refuses the name of an unknown model or server that is new in the entry; one that was there already is a warning.
fn check_names(
    before: &Value,
    entry: &Value,
    warnings: &mut Vec<String>,
    loaded: &Loaded,
    app: &App,
) -> Result<(), Problem> {
    let names = |entry: &Value, key: &str| -> Vec<String> {
        let texts = |value: &Value| value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
        let value = entry.get(key).map(texts).unwrap_or_default();
        value.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut judge = |key: &str, name: &str, checked: Result<(), Report>| match checked {
        Ok(()) => Ok(()),
        Err(report) if names(before, key).iter().any(|known| known == name) => {
            let warning = report.message;
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
            Ok(())
        }
        Err(report) => Err(Problem { field: Some(key.to_owned()), ..problem(report) }),
    };
    for model in names(entry, "model") {
        judge("model", &model, check_model(&model, loaded, app))?;
    }
    for server in names(entry, "servers") {
        judge("servers", &server, check_server(&server, loaded))?;
    }
    for key in ["tools", "trustedTools"] {
        for text in names(entry, key) {
            let Ok(pattern) = text.parse::<ToolPattern>() else { continue };
            if let Some(server) = pattern.server() {
                judge(key, &text, check_server(server, loaded))?;
            }
        }
    }
    Ok(())
}

/// What the user should know of the calls that are not asked about.
fn warn_of_approval(entry: &Value, warnings: &mut Vec<String>) {
    let is = |approval: Approval| entry.get("approval") == Some(&json!(approval.as_str()));
    if is(Approval::Auto) {
        warnings.push("none of its calls is asked about, also if it deletes or overwrites something".to_owned());
    }
    let trusted = entry.get("trustedTools").and_then(Value::as_array);
    let whole: BTreeSet<&str> =
        trusted.into_iter().flatten().filter_map(Value::as_str).filter(|text| text.ends_with(".*")).collect();
    if is(Approval::TrustedOnly) && !whole.is_empty() {
        let whole = whole.iter().map(|pattern| format!("`{pattern}`")).collect::<Vec<_>>().join(", ");
        warnings.push(format!("{whole} trusts every tool, also those that are added later"));
    }
}
