//! Chooses the newest model for general use from a vendor's list. No model is named here: what tells models apart are
//! dates, version numbers and words for a purpose or a size, which vendors put into their names.

use serde_json::Value;

use crate::Vendor;

/// Purposes other than conversations with tools.
const SPECIAL: &[&str] = &[
    "aqa",
    "audio",
    "babbage",
    "chat",
    "chatgpt",
    "codex",
    "computer",
    "customtools",
    "dall",
    "davinci",
    "embed",
    "embedding",
    "exp",
    "experimental",
    "ft",
    "gemma",
    "guard",
    "image",
    "imagen",
    "instruct",
    "learnlm",
    "live",
    "moderation",
    "realtime",
    "research",
    "robotics",
    "safeguard",
    "search",
    "sora",
    "transcribe",
    "translate",
    "tts",
    "veo",
    "video",
    "vision",
    "whisper",
];
/// Sizes below the usual one.
const SMALL: &[&str] = &["8b", "lite", "mini", "nano"];

/// The vendor's name of the newest model for general use; `None` if the list has none.
pub(crate) fn of(vendor: Vendor, list: &Value) -> Option<String> {
    let entries = list["data"].as_array().or(list["models"].as_array())?;
    let models: Vec<Listed<'_>> = entries.iter().filter_map(|entry| Listed::of(vendor, entry)).collect();
    let is_snapshot = |model: &Listed<'_>| models.iter().any(|other| other.is_alias_of(model));
    let candidates = || models.iter().filter(|model| !model.has(SPECIAL) && !is_snapshot(model));
    // Of Gemini `pro` is the usual size; of others it costs a multiple.
    let is_usual = |model: &Listed<'_>| !model.has(SMALL) && (vendor == Vendor::Gemini || !model.has(&["pro"]));
    let usual = candidates().filter(|model| is_usual(model));
    let newest = usual.max_by_key(|model| model.rank()).or_else(|| candidates().max_by_key(|model| model.rank()));
    newest.map(|model| model.id.to_owned())
}

/// A model of the list.
struct Listed<'a> {
    id: &'a str,
    /// Seconds, or a date in RFC 3339; the list of Gemini has neither.
    created: Created<'a>,
    /// The number in the name, for lists without dates.
    version: (u32, u32),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Created<'a> {
    Unknown,
    Seconds(u64),
    Date(&'a str),
}

impl<'a> Listed<'a> {
    fn of(vendor: Vendor, entry: &'a Value) -> Option<Self> {
        if vendor != Vendor::Gemini {
            let id = entry["id"].as_str()?;
            let date = entry["created_at"].as_str().map(Created::Date);
            let created = date.or_else(|| entry["created"].as_u64().map(Created::Seconds));
            return Some(Self { id, created: created.unwrap_or(Created::Unknown), version: (0, 0) });
        }
        let methods = entry["supportedGenerationMethods"].as_array()?;
        let id = entry["name"].as_str()?.trim_start_matches("models/");
        let answers = methods.iter().any(|method| method == "generateContent");
        answers.then(|| Self { id, created: Created::Unknown, version: version(id) })
    }

    fn has(&self, words: &[&str]) -> bool {
        let mut parts = self.id.split(|letter: char| !letter.is_ascii_alphanumeric());
        parts.any(|part| words.contains(&part.to_ascii_lowercase().as_str()))
    }

    /// Whether this is the name without the date of a snapshot, as in `name` and `name-2026-01-31`.
    fn is_alias_of(&self, snapshot: &Self) -> bool {
        let rest = snapshot.id.strip_prefix(self.id).and_then(|rest| rest.strip_prefix('-'));
        rest.is_some_and(|rest| rest.len() >= 3 && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'))
    }

    /// Newer is greater; among equals a released one, the larger one, and the shorter name.
    fn rank(&self) -> impl Ord + use<'a> {
        let is_released = !self.has(&["preview", "beta"]);
        (self.created, self.version, is_released, self.has(&["pro"]), std::cmp::Reverse((self.id.len(), self.id)))
    }
}

/// The first number of a name, such as 2.5; 0 if it has none.
fn version(id: &str) -> (u32, u32) {
    let numbers = id.split('-').filter_map(|part| {
        let (major, minor) = part.split_once('.').unwrap_or((part, "0"));
        Some((major.parse().ok()?, minor.parse().ok()?))
    });
    numbers.into_iter().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn openai(models: &[(&str, u64)]) -> Value {
        let entry = |(id, created): &(&str, u64)| json!({ "id": id, "object": "model", "created": created });
        json!({ "object": "list", "data": models.iter().map(entry).collect::<Vec<_>>() })
    }

    #[test]
    fn the_newest_general_model_of_a_list_with_dates_is_chosen() {
        let models = [
            ("gpt-9-2031-02-03", 51),
            ("gpt-9", 50),
            ("gpt-9-mini", 52),
            ("gpt-9-pro", 53),
            ("gpt-8", 40),
            ("gpt-realtime-9", 60),
            ("text-embedding-9", 61),
            ("gpt-9-codex", 62),
            ("ft:gpt-8:me", 63),
            ("tts-9", 64),
            ("gpt-9-search-preview", 65),
        ];
        assert_eq!(of(Vendor::Openai, &openai(&models)).as_deref(), Some("gpt-9"));
        assert_eq!(of(Vendor::OpenaiChat, &openai(&[("gpt-9-mini", 1)])).as_deref(), Some("gpt-9-mini"));
        let list = json!({ "data": [
            { "type": "model", "id": "claude-b", "created_at": "2031-02-03T00:00:00Z" },
            { "type": "model", "id": "claude-c", "created_at": "2031-04-03T00:00:00Z" },
            { "type": "model", "id": "claude-a", "created_at": "2030-12-03T00:00:00Z" },
        ], "has_more": false });
        assert_eq!(of(Vendor::Anthropic, &list).as_deref(), Some("claude-c"));
    }

    #[test]
    fn the_greatest_version_of_a_list_without_dates_is_chosen() {
        let entry = |name: &str, method: &str| json!({ "name": format!("models/{name}"), "supportedGenerationMethods": [method] });
        let names = [
            "gemini-2.5-pro",
            "gemini-10-flash",
            "gemini-10-pro-preview",
            "gemini-10-pro",
            "gemini-10.1-flash-lite",
            "gemini-11-pro-image",
            "gemma-12-27b-it",
            "gemini-pro-latest",
            "gemini-10-pro-001",
        ];
        let mut models: Vec<Value> = names.iter().map(|name| entry(name, "generateContent")).collect();
        models.push(entry("gemini-12-pro", "embedContent"));
        assert_eq!(of(Vendor::Gemini, &json!({ "models": models })).as_deref(), Some("gemini-10-pro"));
    }

    #[test]
    fn a_list_without_a_usable_model_has_none() {
        for list in [json!({}), json!({ "data": [] }), openai(&[("whisper-1", 1)]), json!([1])] {
            assert_eq!(of(Vendor::Openai, &list), None, "{list}");
        }
        assert_eq!(of(Vendor::Gemini, &openai(&[("gpt-9", 1)])), None);
    }
}
