//! Adds applications to `imports` of a file; comments and all other text stay.

use std::path::Path;

use jsonc_parser::cst::CstInputValue;

use super::{Change, jsonc, read};
use crate::{
    config::FileContents,
    document::{Document, Language},
    error::ConfigError,
    server::{DefinedBy, Format},
};

/// Key of the applications whose files are read.
const IMPORTS: &str = "imports";

/// Plans further applications whose files are read where they are. Those that the file has already stay.
pub fn plan_imports(file: &Path, formats: &[Format]) -> Result<Change, ConfigError> {
    let before = read(file)?;
    if Language::of(file) != Language::Jsonc {
        let names: Vec<&str> = formats.iter().map(|format| format.as_str()).collect();
        let advice = format!("Add these to `{IMPORTS}` in {}.", file.display());
        return Ok(Change::Lines {
            file: file.to_owned(),
            lines: format!("{IMPORTS}: [{}]\n", names.join(", ")),
            advice,
        });
    }
    let known = FileContents::of(&Document::of(file, &before)?, DefinedBy::User, None)?.settings.imports.value;
    let root = jsonc::parse(file, if before.trim().is_empty() { "{}\n" } else { &before })?;
    let list = jsonc::object(&root, file)?.array_value_or_create(IMPORTS);
    let list = list.ok_or_else(|| jsonc::wrong(file, IMPORTS))?;
    for format in formats.iter().filter(|format| !known.contains(format)) {
        list.append(CstInputValue::String(format.as_str().to_owned()));
    }
    let text = root.to_string();
    FileContents::of(&Document::of(file, &text)?, DefinedBy::User, None)?;
    Ok(Change::Text { file: file.to_owned(), before, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applications_are_added_once_and_the_rest_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("toolway.json");
        std::fs::write(&file, r#"{ /* mine */ "imports": ["cursor"], "autoConnect": true }"#).unwrap();
        let change = plan_imports(&file, &[Format::Cursor, Format::VsCode]).unwrap();
        let Change::Text { text, .. } = change else { panic!("a JSON file is edited") };
        assert!(text.contains("/* mine */") && text.contains(r#""autoConnect": true"#), "{text}");
        let contents = FileContents::of(&Document::of(&file, &text).unwrap(), DefinedBy::User, None).unwrap();
        assert_eq!(contents.settings.imports.value, [Format::Cursor, Format::VsCode]);
    }
}
