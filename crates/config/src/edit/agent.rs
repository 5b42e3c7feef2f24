//! Turns off a setting of `agent` in a file; comments and all other text stay.

use std::path::Path;

use jsonc_parser::cst::CstInputValue;

use super::jsonc;
use crate::{document::Language, error::ConfigError, models::AGENT};

/// The text of the file with this key of `agent` set to `false`; unchanged if the file sets the key, or is not JSON.
pub fn turn_off_in_agent(file: &Path, text: &str, key: &str) -> Result<String, ConfigError> {
    if Language::of(file) != Language::Jsonc {
        return Ok(text.to_owned());
    }
    let root = jsonc::parse(file, if text.trim().is_empty() { "{}\n" } else { text })?;
    let agent = jsonc::object(&root, file)?.object_value_or_create(AGENT.name);
    let agent = agent.ok_or_else(|| jsonc::wrong(file, AGENT.name))?;
    if agent.get(key).is_some() {
        return Ok(text.to_owned());
    }
    agent.append(key, CstInputValue::Bool(false));
    Ok(root.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_added_once_and_the_rest_stays() {
        let file = Path::new("toolway.json");
        let off = |text: &str| turn_off_in_agent(file, text, "exposeResources").unwrap();
        let value = |text: &str| -> serde_json::Value { serde_json::from_str(text).unwrap() };
        assert_eq!(value(&off("")), serde_json::json!({ "agent": { "exposeResources": false } }));
        let text = off("{ /* mine */ \"agent\": { \"exposePrompts\": false } }");
        assert!(text.contains("/* mine */") && text.contains("\"exposePrompts\": false"), "{text}");
        assert!(text.contains("\"exposeResources\": false"), "{text}");
        let set = r#"{ "agent": { "exposeResources": true } }"#;
        assert_eq!(off(set), set, "the user's own value stays");
    }
}
