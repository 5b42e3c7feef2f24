//! A draft of a page, compared with the entry in the file.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
};

use serde_json::Value;
use toolway_config::{
    ConfigError, Loaded, Place, ServerConfig, ServerName,
    clear::{members_with_secrets, written_entry},
    document::Document,
    edit::{Edit, NewValue},
    import::copy,
    server::Format,
};
use toolway_console::backend::{EntryDraft, PastedText, Problem};
use url::Url;

use super::super::problem;
use crate::{
    app::App,
    commands::servers::{
        self,
        apply_edit::own_file,
        change::{Destination, refuse_foreign, refuse_known},
    },
    entry_secrets::EntrySecrets,
    pasted_server::PastedServer,
};

/// Keys that decide what runs or is connected to. Another value needs a new consent.
const REACHING: [&str; 7] = ["command", "args", "env", "envFile", "cwd", "url", "headers"];

/// Key of the servers.
pub(super) const SERVERS: &str = "mcpServers";

/// The first keys of a new entry; the others follow.
const FIRST: [&str; 9] = ["command", "args", "env", "cwd", "url", "type", "headers", "auth", "oauth"];

/// The entry of a server in its file.
pub(super) struct CurrentEntry {
    pub(super) server: ServerConfig,
    /// As it is written, with its secrets in clear.
    pub(super) written: NewValue,
    /// With references in place of them.
    pub(super) shown: NewValue,
    pub(super) secrets: EntrySecrets,
    pub(super) version: String,
}

/// A draft after it was compared with the file.
pub(super) struct PreparedDraft {
    pub(super) name: ServerName,
    /// The entry, with its secrets in clear.
    pub(super) entry: PastedServer,
    /// `None` if nothing changes.
    pub(super) edit: Option<Edit>,
    pub(super) current: Option<CurrentEntry>,
    pub(super) ours: PathBuf,
}

impl PreparedDraft {
    pub(super) fn needs_consent(&self) -> bool {
        let Some(current) = &self.current else { return true };
        let before = current.written.json();
        REACHING.iter().any(|key| before.get(key) != self.entry.entry.get(key))
    }
}

/// The entry of a configured server in its file.
pub(super) fn current(name: &ServerName, loaded: &Loaded, app: &App) -> Result<CurrentEntry, Problem> {
    let gone = || Problem {
        conflict: true,
        hint: Some("save it as a new server, or leave this page".to_owned()),
        ..Problem::new(format!("server `{name}` is not in the configuration"))
    };
    let server = servers::find(loaded, name.as_str()).map_err(|_| gone())?.clone();
    let written = if server.source.format == Format::Toolway {
        let document = Document::read(&server.source.place.file).map_err(|error| Problem::new(error.to_string()))?;
        let missing = || Problem::new(format!("the entry of `{name}` cannot be read ({})", server.source.place));
        written_entry(&document, &server.label).ok_or_else(missing)?
    } else {
        copy(&server, None).map_err(|error| Problem::new(error.to_string()))?.entry
    };
    let (shown, secrets) = app.detach_entry(name, &written, loaded).map_err(problem)?;
    let version = version_of(&server.source.place.file, &written);
    Ok(CurrentEntry { server, written, shown, secrets, version })
}

/// Changes with an entry and the file that it is in.
pub(in super::super) fn version_of(file: &Path, written: &NewValue) -> String {
    let mut hasher = DefaultHasher::new();
    (file, written.json().to_string()).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

pub(in super::super) fn changed_meanwhile(name: &str, place: &Place) -> Problem {
    Problem {
        conflict: true,
        hint: Some("load it as it is now to see the change".to_owned()),
        ..Problem::new(format!("the entry of `{name}` was changed after this page had read it ({place})"))
    }
}

/// Compares a draft with the file.
pub(super) fn prepare(draft: &EntryDraft, loaded: &Loaded, app: &App) -> Result<PreparedDraft, Problem> {
    let label = draft.name.trim();
    let name = ServerName::from_label(label).map_err(|error| Problem::of_field("name", error.to_string()))?;
    let ours = own_file(loaded).map_err(problem)?;
    let given = NewValue::of_json(&draft.entry).ok_or_else(|| Problem::new("the entry contains `null`"))?;
    check_target(&draft.entry)?;
    let current = match &draft.version {
        None => None,
        Some(version) => {
            let current = current(&name, loaded, app)?;
            if current.version != *version {
                return Err(changed_meanwhile(name.as_str(), &current.server.source.place));
            }
            Some(current)
        }
    };
    let (label, given) = match &current {
        None => {
            let known = refuse_known(loaded, &name, &ours, Destination::User).map_err(problem);
            known.map_err(|problem| Problem { field: Some("name".to_owned()), ..problem })?;
            (label.to_owned(), in_order(with_pasted_secrets(draft, given, loaded, app)?))
        }
        Some(current) => (current.server.label.clone(), current.secrets.put_back(&given)),
    };
    let entry = PastedServer { label: label.clone(), name: name.clone(), entry: given.json(), warnings: Vec::new() };
    entry.checked().map_err(|error| field_problem(SERVERS, &label, &error))?;
    let edit = match &current {
        None => Some(Edit::Add { label, entry: given }),
        Some(current) => {
            let changes = changes(current, &given)?;
            (!changes.is_empty()).then(|| Edit::Update { name: name.clone(), changes })
        }
    };
    if let (Some(current), Some(edit)) = (&current, &edit) {
        refuse_foreign(&current.server, edit).map_err(problem)?;
    }
    Ok(PreparedDraft { name, entry, edit, current, ours })
}

/// A new entry with the secrets of the text that was pasted.
fn with_pasted_secrets(draft: &EntryDraft, given: NewValue, loaded: &Loaded, app: &App) -> Result<NewValue, Problem> {
    let Some(PastedText { text, name }) = &draft.pasted else { return Ok(given) };
    let pasted = PastedServer::read(text, Some(name))?;
    let (_, secrets) = app.detach_entry(&pasted.name, &pasted.new_entry()?, loaded).map_err(problem)?;
    Ok(secrets.put_back(&given))
}

/// The members as a person would write them.
fn in_order(entry: NewValue) -> NewValue {
    let NewValue::Object(mut members) = entry else { return entry };
    members.sort_by_key(|(key, _)| FIRST.iter().position(|first| first == key).unwrap_or(FIRST.len()));
    NewValue::Object(members)
}

/// The keys that differ; members of objects by themselves. Secrets that stand in clear are moved with any change.
fn changes(current: &CurrentEntry, new: &NewValue) -> Result<Vec<(String, Option<NewValue>)>, Problem> {
    let (NewValue::Object(before), NewValue::Object(after)) = (&current.written, new) else {
        return Err(Problem::new("the entry must be an object"));
    };
    let mut changes = compared("", before, after);
    if !changes.is_empty() && current.server.source.format == Format::Toolway {
        let document =
            Document::read(&current.server.source.place.file).map_err(|error| Problem::new(error.to_string()))?;
        for (key, value) in members_with_secrets(&document, &current.server.label) {
            let outer = key.split('.').next().unwrap_or_default();
            if !changes.iter().any(|(changed, _)| *changed == key || changed == outer) {
                changes.push((key, Some(value)));
            }
        }
    }
    Ok(changes)
}

type Members = [(String, NewValue)];

/// The members of an entry that differ, one by one inside of objects.
pub(in super::super) fn compared(outer: &str, before: &Members, after: &Members) -> Vec<(String, Option<NewValue>)> {
    let value_in =
        |members: &Members, key: &str| members.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone());
    let path = |key: &str| if outer.is_empty() { key.to_owned() } else { format!("{outer}.{key}") };
    // A key with a dot cannot be named inside of another one.
    let is_plain = |members: &Members| members.iter().all(|(key, _)| !key.contains('.'));
    let mut changes = Vec::new();
    for (key, _) in before.iter().filter(|(key, _)| value_in(after, key).is_none()) {
        changes.push((path(key), None));
    }
    for (key, new) in after {
        match (value_in(before, key), new) {
            // The order of members does not matter.
            (Some(old), new) if old.json() == new.json() => {}
            (Some(NewValue::Object(old)), NewValue::Object(new))
                if outer.is_empty() && is_plain(&old) && is_plain(new) =>
            {
                changes.extend(compared(key, &old, new));
            }
            (_, new) => changes.push((path(key), Some(new.clone()))),
        }
    }
    changes
}

/// Refuses an entry without a program or address, and an address of another scheme.
fn check_target(entry: &Value) -> Result<(), Problem> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::trim);
    match (text("command"), text("url")) {
        (Some(""), _) => Err(Problem::of_field("command", "the program is missing")),
        (_, Some("")) => Err(Problem::of_field("url", "the URL is missing")),
        (None, None) if entry.get("command").is_none() => {
            Err(Problem::of_field("command", "the entry has neither a program nor a URL"))
        }
        (None, Some(url)) if !url.contains("${") => check_url(url),
        _ => Ok(()),
    }
}

fn check_url(url: &str) -> Result<(), Problem> {
    let wrong = |why: String| Problem::of_field("url", format!("`{url}` {why}"));
    let parsed = Url::parse(url).map_err(|error| wrong(format!("is not a URL: {error}")))?;
    match parsed.scheme() {
        "http" | "https" if parsed.host_str().is_some() => Ok(()),
        "http" | "https" => Err(wrong("has no host".to_owned())),
        scheme => Err(wrong(format!("is not the URL of a server: `{scheme}://` is neither `http://` nor `https://`"))),
    }
}

/// The problem of a value, with its key.
pub(in super::super) fn field_problem(section: &str, label: &str, error: &ConfigError) -> Problem {
    let prefix = format!("{section}.{label}.");
    let text = match error {
        ConfigError::Expected { key, expected, .. } => format!("`{key}` must be {expected}"),
        other => other.problem(),
    };
    let key = text.split('`').nth(1).and_then(|key| key.strip_prefix(&prefix)).map(str::to_owned);
    Problem { field: key, ..Problem::new(text.replace(&prefix, "")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolway_config::edit::NewValue;

    use super::{check_target, compared, field_problem};

    fn members(value: &serde_json::Value) -> Vec<(String, NewValue)> {
        match NewValue::of_json(value) {
            Some(NewValue::Object(members)) => members,
            _ => panic!("an object"),
        }
    }

    #[test]
    fn only_what_differs_is_changed() {
        let before = json!({ "command": "a", "env": { "A": "1", "B": "2" }, "lazy": true, "headers": { "x.y": "1" } });
        let after = json!({ "command": "a", "env": { "A": "1", "B": "3", "C": "4" }, "headers": { "x.y": "2" } });
        let changes = compared("", &members(&before), &members(&after));
        let text = |text: &str| Some(NewValue::Text(text.to_owned()));
        let headers = NewValue::of_json(&json!({ "x.y": "2" }));
        assert_eq!(
            changes,
            [
                ("lazy".to_owned(), None),
                ("env.B".to_owned(), text("3")),
                ("env.C".to_owned(), text("4")),
                ("headers".to_owned(), headers),
            ]
        );
        assert!(compared("", &members(&before), &members(&before)).is_empty());
    }

    #[test]
    fn a_problem_names_the_field() {
        let field = |entry: serde_json::Value| check_target(&entry).unwrap_err().field.unwrap();
        assert_eq!(field(json!({})), "command");
        assert_eq!(field(json!({ "command": " " })), "command");
        for url in ["", "htp://x", "http://", "nonsense", "ftp://x"] {
            assert_eq!(field(json!({ "url": url })), "url", "{url}");
        }
        for entry in [json!({ "command": "a" }), json!({ "url": "https://x/mcp" }), json!({ "url": "${HOST}/mcp" })] {
            assert!(check_target(&entry).is_ok(), "{entry}");
        }
        let pasted = crate::pasted_server::PastedServer {
            label: "x".to_owned(),
            name: "x".parse().unwrap(),
            entry: json!({ "command": "a", "timeouts": { "connect": "soon" } }),
            warnings: Vec::new(),
        };
        let problem = field_problem(super::SERVERS, "x", &pasted.checked().unwrap_err());
        assert_eq!(problem.field.as_deref(), Some("timeouts.connect"));
        assert!(problem.message.starts_with("`timeouts.connect` must be "), "{}", problem.message);
    }
}
