//! Adds a rule to `policy.rules` of a file; comments and all other text stay.

use std::path::Path;

use jsonc_parser::cst::CstInputValue;

use super::{Change, NewValue, jsonc, read};
use crate::{
    config::FileContents,
    document::{Document, Language},
    error::ConfigError,
    policy::{POLICY, ProjectRules, RULES, Rule},
    server::DefinedBy,
};

/// The rules of a file, in order; empty if the file does not exist.
pub fn rules_of(file: &Path) -> Result<Vec<Rule>, ConfigError> {
    let contents = FileContents::of(&Document::of(file, &read(file)?)?, DefinedBy::User, None)?;
    Ok(contents.settings.policy.user)
}

/// Plans a new rule before the rule at `index`, which is at most the number of rules. A rule of a project's file may not
/// allow.
pub fn plan_rule(file: &Path, rule: &NewValue, index: usize, defined_by: DefinedBy) -> Result<Change, ConfigError> {
    let before = read(file)?;
    if Language::of(file) != Language::Jsonc {
        let advice = match index {
            0 => format!("Add this as the first rule under `policy.rules` in {}.", file.display()),
            index => format!("Add this after rule {index} under `policy.rules` in {}.", file.display()),
        };
        return Ok(Change::Lines { file: file.to_owned(), lines: format!("- {}\n", rule.json()), advice });
    }
    let text = insert(file, &before, rule, index)?;
    let contents = FileContents::of(&Document::of(file, &text)?, defined_by, None)?;
    if defined_by == DefinedBy::Project {
        ProjectRules::new(contents.settings.policy.user)?;
    }
    Ok(Change::Text { file: file.to_owned(), before, text })
}

fn insert(file: &Path, text: &str, rule: &NewValue, index: usize) -> Result<String, ConfigError> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let root = jsonc::parse(file, text)?;
    let policy = jsonc::object(&root, file)?.object_value_or_create(POLICY.name);
    let policy = policy.ok_or_else(|| jsonc::wrong(file, POLICY.name))?;
    let rules = policy.array_value_or_create(RULES).ok_or_else(|| jsonc::wrong(file, RULES))?;
    rules.ensure_multiline();
    // A number is written verbatim, whatever its text: the rule stays on one line.
    rules.insert(index, CstInputValue::Number(rule.json().to_string()));
    Ok(root.to_string())
}
