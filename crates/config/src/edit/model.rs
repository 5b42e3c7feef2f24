//! Sets the model of an entry of `models` in a file; comments and all other text stay.

use std::path::Path;

use jsonc_parser::cst::CstInputValue;

use super::{Change, jsonc, read};
use crate::{
    config::FileContents,
    document::{Document, Language},
    error::ConfigError,
    models::{MODELS, Vendor},
    server::DefinedBy,
};

/// Plans the vendor's model of the entry `name`. An entry that the file does not have is added with this vendor.
pub fn plan_model(file: &Path, name: &str, vendor: Vendor, model: &str) -> Result<Change, ConfigError> {
    let before = read(file)?;
    if Language::of(file) != Language::Jsonc {
        let advice = format!("Set this under `models` in {}.", file.display());
        let lines = format!("{name}: {{ vendor: {}, model: {model:?} }}\n", vendor.as_str());
        return Ok(Change::Lines { file: file.to_owned(), lines, advice });
    }
    let text = set(file, &before, name, vendor, model)?;
    FileContents::of(&Document::of(file, &text)?, DefinedBy::User, None)?;
    Ok(Change::Text { file: file.to_owned(), before, text })
}

fn set(file: &Path, text: &str, name: &str, vendor: Vendor, model: &str) -> Result<String, ConfigError> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let root = jsonc::parse(file, text)?;
    let models = jsonc::object(&root, file)?.object_value_or_create(MODELS.name);
    let models = models.ok_or_else(|| jsonc::wrong(file, MODELS.name))?;
    let is_new = models.get(name).is_none();
    let entry = models.object_value_or_create(name).ok_or_else(|| jsonc::wrong(file, MODELS.name))?;
    if is_new {
        entry.append("vendor", CstInputValue::String(vendor.as_str().to_owned()));
    }
    let model = CstInputValue::String(model.to_owned());
    match entry.get("model") {
        Some(member) => member.set_value(model),
        None => drop(entry.append("model", model)),
    }
    Ok(root.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_entry_and_the_model_of_an_old_one_are_written_and_the_rest_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("toolway.json");
        let write = |text: &str, name: &str| {
            std::fs::write(&file, text).unwrap();
            match plan_model(&file, name, Vendor::Anthropic, "new").unwrap() {
                Change::Text { text, .. } => text,
                Change::Lines { .. } => panic!("a JSON file is edited"),
            }
        };
        let added: serde_json::Value = serde_json::from_str(&write("", "anthropic")).unwrap();
        assert_eq!(added["models"]["anthropic"], serde_json::json!({ "vendor": "anthropic", "model": "new" }));
        let old = r#"{ /* mine */ "models": { "a": { "vendor": "gemini", "model": "old", "maxTokens": 9 } } }"#;
        assert_eq!(write(old, "a"), old.replace("old", "new"));
    }
}
