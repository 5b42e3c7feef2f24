//! Adds, changes or removes an entry of `assistants` of a file; comments and all other text stay.

use std::path::Path;

use super::{Change, NewValue, jsonc, read};
use crate::{
    assistants::ASSISTANTS,
    config::FileContents,
    document::{Document, Language},
    error::ConfigError,
    server::DefinedBy,
};

/// A change of one assistant.
#[derive(Clone, Debug, PartialEq)]
pub enum AssistantEdit {
    /// Adds it with these members (`budgets.maxTurns` for a nested key), or sets them; `None` removes one.
    Set(Vec<(String, Option<NewValue>)>),
    /// Removes it.
    Remove,
}

/// Plans a change of the assistant `name`. Refused if the file would be invalid.
pub fn plan_assistant(file: &Path, name: &str, edit: &AssistantEdit) -> Result<Change, ConfigError> {
    let before = read(file)?;
    if Language::of(file) != Language::Jsonc {
        return Ok(lines(file, name, edit));
    }
    let path = jsonc::EntryPath { section: ASSISTANTS.name, label: name };
    let text = match edit {
        AssistantEdit::Set(changes) => jsonc::change(file, &before, path, changes)?,
        AssistantEdit::Remove => jsonc::remove(file, &before, path)?,
    };
    FileContents::of(&Document::of(file, &text)?, DefinedBy::User, None)?;
    Ok(Change::Text { file: file.to_owned(), before, text })
}

/// What the user does in a file that is not edited.
fn lines(file: &Path, name: &str, edit: &AssistantEdit) -> Change {
    let key = format!("`assistants.{name}` in {}", file.display());
    let (lines, advice) = match edit {
        AssistantEdit::Remove => (String::new(), format!("Remove {key}.")),
        AssistantEdit::Set(changes) => {
            let removed = changes.iter().filter(|(_, value)| value.is_none()).map(|(key, _)| format!("`{key}`"));
            let removed = removed.collect::<Vec<_>>().join(" and ");
            let lines = NewValue::nested(changes).yaml();
            let advice = match (removed.is_empty(), lines.is_empty()) {
                (true, _) => format!("Add these lines under {key}."),
                (false, true) => format!("Remove {removed} under {key}."),
                (false, false) => format!("Under {key}, remove {removed} and add these lines."),
            };
            (lines, advice)
        }
    };
    Change::Lines { file: file.to_owned(), lines, advice }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(before: &str, edit: &AssistantEdit) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("toolway.json");
        std::fs::write(&file, before).unwrap();
        match plan_assistant(&file, "a", edit).map_err(|error| error.to_string())? {
            Change::Text { text, .. } => Ok(text),
            other @ Change::Lines { .. } => panic!("{other:?}"),
        }
    }

    fn set(key: &str, value: Option<NewValue>) -> AssistantEdit {
        AssistantEdit::Set(vec![(key.to_owned(), value)])
    }

    #[test]
    fn an_assistant_is_added_changed_and_removed_and_the_rest_stays() {
        let text = |text: &str| Some(NewValue::Text(text.to_owned()));
        let before = r#"{ /* mine */ "mcpServers": { "files": { "command": "f" } } }"#;
        let added = edited(before, &set("approval", text("auto"))).unwrap();
        assert!(added.contains("/* mine */") && added.contains(r#""approval": "auto""#), "{added}");
        let changed = edited(&added, &set("budgets.maxTurns", Some(NewValue::Number(3.0)))).unwrap();
        assert!(changed.contains(r#""maxTurns": 3"#) && changed.contains("\"auto\""), "{changed}");
        let unset = edited(&changed, &set("approval", None)).unwrap();
        assert!(!unset.contains("auto") && unset.contains("maxTurns"), "{unset}");
        assert!(!edited(&unset, &AssistantEdit::Remove).unwrap().contains("maxTurns"));
        assert!(edited("", &set("system", text("Be brief."))).unwrap().contains("Be brief."));
    }

    #[test]
    fn an_invalid_value_is_refused_before_anything_is_written() {
        let wrong = set("approval", Some(NewValue::Text("allow".to_owned())));
        assert!(edited("{}", &wrong).unwrap_err().contains("`always-ask`, `trusted-only` or `auto`"));
        assert!(edited("{}", &AssistantEdit::Remove).is_err());
    }
}
