//! Reads one entry of `mcpServers` in a Toolway file.

use super::{ALIASES, Draft, FOREIGN_KEYS, HttpKind, KEYS, Kind, ServerName, only};
use crate::{
    document::Section,
    error::ConfigError,
    shape::Field,
    warning::{Warning, Warnings},
};

/// Reads an entry; its warnings are added to `warnings`.
pub(crate) fn read(mut entry: Section<'_>, warnings: &mut Warnings) -> Result<Draft, ConfigError> {
    let mut draft = Draft::default();
    if entry.is_flag("trust")
        && let Some(node) = entry.take("trust")
    {
        let place = entry.document().place(node.line);
        warnings.push(Warning::ignored(place, &entry.name("trust"), "use `untrusted`, `read` or `full`"));
    }
    read_aliases(&mut draft, &mut entry)?;
    for key in KEYS {
        let name = entry.name(key.name);
        if let Some(node) = entry.take(key.name) {
            // `disabled` is the opposite spelling of `enabled`.
            let own_key = if key.name == "disabled" { "enabled" } else { key.name };
            draft.origins.insert(own_key, entry.document().place(node.line));
            (key.set)(&mut draft, &Field::new(entry.document(), name, node))?;
        }
    }
    warn_about_other_keys(&entry, warnings);
    refuse_duplicate_auth(&draft, &entry)?;
    Ok(draft)
}

/// Reads keys as other hosts spell them, unless ours are set beside them.
fn read_aliases(draft: &mut Draft, entry: &mut Section<'_>) -> Result<(), ConfigError> {
    if entry.is_list("tools")
        && let Some(node) = entry.take("tools")
    {
        let names = Field::new(entry.document(), entry.name("tools"), node).texts()?;
        draft.origins.insert("includeTools", entry.document().place(node.line));
        draft.filters.tool_names = only(names);
    }
    for (alias, own) in ALIASES {
        let name = entry.name(alias);
        let Some(key) = KEYS.iter().find(|key| key.name == *own && entry.line(own).is_none()) else { continue };
        let Some(node) = entry.take(alias) else { continue };
        draft.origins.insert(key.name, entry.document().place(node.line));
        (key.set)(draft, &Field::new(entry.document(), name, node))?;
        // Elsewhere `url` beside it would mean HTTP+SSE.
        if *alias == "httpUrl" {
            draft.kind = Some(Kind::Http(HttpKind::Http));
        }
    }
    Ok(())
}

/// Refuses an entry in which both `auth` and `headers` set the same header.
fn refuse_duplicate_auth(draft: &Draft, entry: &Section<'_>) -> Result<(), ConfigError> {
    let Some(header) = draft.duplicate_auth_header() else { return Ok(()) };
    let place = draft.origins.get("auth").cloned().unwrap_or_else(|| entry.place());
    let problem =
        format!("`{}` and `headers` both set the header `{header}`; keep only one of them", entry.name("auth"));
    Err(ConfigError::Refused { place, problem })
}

/// Server name of a label.
pub(crate) fn server_name(label: &str, entry: &Section<'_>) -> Result<ServerName, ConfigError> {
    ServerName::from_label(label).map_err(|_| ConfigError::Expected {
        place: entry.place(),
        key: label.to_owned(),
        expected: "1 to 64 letters, digits, `_` or `-`".to_owned(),
    })
}

/// Warns about the remaining keys: those of other hosts, and unknown ones.
fn warn_about_other_keys(entry: &Section<'_>, warnings: &mut Warnings) {
    for (key, line) in entry.keys() {
        let place = entry.document().place(line);
        let known = FOREIGN_KEYS.iter().find(|(name, _)| *name == key);
        let alias = ALIASES.iter().find(|(alias, _)| *alias == key);
        warnings.push(match (known, alias) {
            (Some((_, why)), _) => Warning::ignored(place, &entry.name(key), why),
            (None, Some((_, own))) => Warning::ignored(place, &entry.name(key), &format!("`{own}` is set as well")),
            (None, None) => Warning::unknown(place, &entry.name(key), key, KEYS.iter().map(|key| key.name)),
        });
    }
}
