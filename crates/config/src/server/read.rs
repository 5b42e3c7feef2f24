//! One entry of `mcpServers` in a file of ours.

use super::{Draft, KEYS, OF_OTHERS, ServerName};
use crate::{
    document::Section,
    error::ConfigError,
    shape::Field,
    warning::{Warning, Warnings},
};

/// What an entry says; what is odd about it is added to the warnings.
pub(crate) fn read(mut entry: Section<'_>, warnings: &mut Warnings) -> Result<Draft, ConfigError> {
    let mut draft = Draft::default();
    for key in KEYS {
        let name = entry.name(key.name);
        if let Some(node) = entry.take(key.name) {
            // Two spellings of one thing.
            let ours = if key.name == "disabled" { "enabled" } else { key.name };
            draft.origins.insert(ours, entry.document().place(node.line));
            (key.set)(&mut draft, &Field::new(entry.document(), name, node))?;
        }
    }
    warn_of_others(&entry, warnings);
    refuse_two_words(&draft, &entry)?;
    Ok(draft)
}

/// Who asks is said once: by `auth`, or by a header.
pub(crate) fn refuse_two_words(draft: &Draft, entry: &Section<'_>) -> Result<(), ConfigError> {
    let Some(header) = draft.said_twice() else { return Ok(()) };
    let place = draft.origins.get("auth").cloned().unwrap_or_else(|| entry.place());
    let problem =
        format!("`{}` sends the header `{header}`, and so does `headers`; keep one of them", entry.name("auth"));
    Err(ConfigError::Refused { place, problem })
}

/// The name a label gives.
pub(crate) fn server_name(label: &str, entry: &Section<'_>) -> Result<ServerName, ConfigError> {
    ServerName::from_label(label).map_err(|_| ConfigError::Expected {
        place: entry.place(),
        key: label.to_owned(),
        expected: "1 to 32 letters, digits, `_` or `-`".to_owned(),
    })
}

/// Keys that were not taken: known from elsewhere, or unknown.
pub(crate) fn warn_of_others(entry: &Section<'_>, warnings: &mut Warnings) {
    for (key, line) in entry.keys() {
        let place = entry.document().place(line);
        let known = OF_OTHERS.iter().find(|(name, _)| *name == key);
        warnings.push(match known {
            Some((_, why)) => Warning::ignored(place, &entry.name(key), why),
            None => Warning::unknown(place, &entry.name(key), key, KEYS.iter().map(|key| key.name)),
        });
    }
}
