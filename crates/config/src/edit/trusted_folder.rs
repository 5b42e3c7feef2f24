//! Sets or removes a folder of `policy.trustedFolders` of a file; comments and all other text stay.

use std::path::Path;

use jsonc_parser::cst::CstInputValue;

use super::{Change, jsonc, read};
use crate::{
    config::FileContents,
    document::{Document, Language},
    error::ConfigError,
    policy::POLICY,
    server::DefinedBy,
    trust::Trust,
};

const FOLDERS: &str = "trustedFolders";

/// Plans the trust of a folder; `None` removes it.
pub fn plan_trusted_folder(file: &Path, folder: &str, trust: Option<Trust>) -> Result<Change, ConfigError> {
    let before = read(file)?;
    if Language::of(file) != Language::Jsonc {
        let key = format!("`policy.{FOLDERS}` in {}", file.display());
        let (lines, advice) = match trust {
            Some(trust) => {
                (format!("{}: {}\n", serde_json::json!(folder), trust.as_str()), format!("Add this to {key}."))
            }
            None => (String::new(), format!("Remove `{folder}` from {key}.")),
        };
        return Ok(Change::Lines { file: file.to_owned(), lines, advice });
    }
    let root = jsonc::parse(file, if before.trim().is_empty() { "{}\n" } else { &before })?;
    let policy = jsonc::object(&root, file)?.object_value_or_create(POLICY.name);
    let policy = policy.ok_or_else(|| jsonc::wrong(file, POLICY.name))?;
    let folders = policy.object_value_or_create(FOLDERS).ok_or_else(|| jsonc::wrong(file, FOLDERS))?;
    let value = trust.map(|trust| CstInputValue::String(trust.as_str().to_owned()));
    match (folders.get(folder), value) {
        (Some(known), Some(value)) => known.set_value(value),
        (Some(known), None) => known.remove(),
        (None, Some(value)) => drop(folders.append(folder, value)),
        (None, None) => {}
    }
    let text = root.to_string();
    FileContents::of(&Document::of(file, &text)?, DefinedBy::User, None)?;
    Ok(Change::Text { file: file.to_owned(), before, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_set_changed_and_removed_and_the_rest_stays() {
        let temporary = tempfile::tempdir().unwrap();
        let file = temporary.path().join("toolway.json");
        let edit = |text: &str, trust| {
            std::fs::write(&file, text).unwrap();
            match plan_trusted_folder(&file, "/work", trust).unwrap() {
                Change::Text { text, .. } => text,
                other @ Change::Lines { .. } => panic!("{other:?}"),
            }
        };
        let added = edit(r#"{ /* mine */ "policy": { "mode": "writes" } }"#, Some(Trust::Read));
        assert!(added.contains("/* mine */") && added.contains(r#""/work": "read""#), "{added}");
        let changed = edit(&added, Some(Trust::Full));
        assert!(changed.contains(r#""/work": "full""#) && !changed.contains("read"), "{changed}");
        assert!(!edit(&changed, None).contains("/work"));
        assert!(edit("", Some(Trust::Read)).contains("/work"));
    }
}
