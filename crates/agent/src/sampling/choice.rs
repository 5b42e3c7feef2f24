//! Which model answers a sampling request: the one that the configuration names, else by the hints of the server, else by
//! its priorities, else the default.

use serde_json::Value;

/// A configured model as far as the choice needs it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelCandidate {
    /// Name in the configuration.
    pub name: String,
    /// The vendor's name; `None` if it is the newest of the vendor's list.
    pub vendor_name: Option<String>,
    /// How well it serves each priority, from 0 to 1; `None` if that is not configured.
    pub priority: Option<ModelPriority>,
}

/// How well a model serves each priority of a server, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ModelPriority {
    /// 1: cheapest.
    pub cost: f64,
    /// 1: fastest.
    pub speed: f64,
    /// 1: most capable.
    pub intelligence: f64,
}

/// A choice, and why it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// The model; `None`: the default.
    pub(super) name: Option<String>,
    /// Why, for the person and the record; `None` with the default, which has reasons of its own.
    pub(super) reason: Option<String>,
}

/// Chooses. `configured` is the model that the settings of sampling name: a server does not choose against them.
pub(super) fn choose(configured: Option<&str>, preferences: &Value, candidates: &[ModelCandidate]) -> Choice {
    if let Some(name) = configured {
        return Choice::of(name, format!("model `{name}` of `sampling.model`"));
    }
    let hints = preferences["hints"].as_array().map(Vec::as_slice).unwrap_or_default();
    let hints = hints.iter().take(MAX_HINTS).filter_map(|hint| hint["name"].as_str()).filter(|hint| !hint.is_empty());
    for hint in hints {
        if let Some(found) = candidates.iter().find(|candidate| candidate.matches(hint)) {
            let hint: String = hint.chars().take(MAX_HINT).collect();
            return Choice::of(&found.name, format!("the server's hint `{hint}`"));
        }
    }
    match by_priorities(preferences, candidates) {
        Some(choice) => choice,
        None => Choice { name: None, reason: None },
    }
}

/// Hints that are looked at.
const MAX_HINTS: usize = 20;
/// Characters of a hint that are shown.
const MAX_HINT: usize = 60;

/// The model with the highest weighted sum; the first one of those that are equal.
fn by_priorities(preferences: &Value, candidates: &[ModelCandidate]) -> Option<Choice> {
    let weight =
        |key: &str| preferences[key].as_f64().filter(|weight| weight.is_finite()).map(|weight| weight.clamp(0.0, 1.0));
    let cost = weight("costPriority");
    let speed = weight("speedPriority");
    let intelligence = weight("intelligencePriority");
    let sum = [cost, speed, intelligence].into_iter().flatten().sum::<f64>();
    if sum <= 0.0 {
        return None;
    }
    let score = |priority: &ModelPriority| {
        let part = |weight: Option<f64>, value: f64| weight.unwrap_or_default() * value;
        part(cost, priority.cost) + part(speed, priority.speed) + part(intelligence, priority.intelligence)
    };
    let mut best: Option<(&ModelCandidate, f64)> = None;
    for candidate in candidates {
        let Some(score) = candidate.priority.as_ref().map(score) else { continue };
        if best.is_none_or(|(_, highest)| highest < score) {
            best = Some((candidate, score));
        }
    }
    let (best, _) = best?;
    let wishes = [("cost", cost), ("speed", speed), ("intelligence", intelligence)];
    let wishes: Vec<String> =
        wishes.into_iter().filter_map(|(word, weight)| Some(format!("{word} {}", weight?))).collect();
    Some(Choice::of(&best.name, format!("the server's priorities ({})", wishes.join(", "))))
}

impl Choice {
    fn of(name: &str, reason: String) -> Self {
        Self { name: Some(name.to_owned()), reason: Some(reason) }
    }
}

impl ModelCandidate {
    /// Whether a hint is part of the configured or of the vendor's name.
    fn matches(&self, hint: &str) -> bool {
        let hint = hint.to_lowercase();
        let names = [Some(&self.name), self.vendor_name.as_ref()];
        names.into_iter().flatten().any(|name| name.to_lowercase().contains(&hint))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn candidates() -> Vec<ModelCandidate> {
        let candidate = |name: &str, vendor_name: &str, priority| ModelCandidate {
            name: name.to_owned(),
            vendor_name: Some(vendor_name.to_owned()),
            priority,
        };
        vec![
            candidate("big", "claude-opus-4", Some(ModelPriority { cost: 0.1, speed: 0.2, intelligence: 1.0 })),
            candidate("quick", "gpt-mini", Some(ModelPriority { cost: 0.8, speed: 1.0, intelligence: 0.3 })),
            candidate("cheap", "qwen3", Some(ModelPriority { cost: 1.0, speed: 0.4, intelligence: 0.2 })),
            candidate("plain", "llama", None),
        ]
    }

    #[test]
    fn hints_come_before_priorities_and_the_default() {
        for (preferences, model, reason) in [
            (json!({}), None, ""),
            (json!({ "hints": [{ "name": "OPUS" }] }), Some("big"), "hint `OPUS`"),
            (
                json!({ "hints": [{ "name": "gemini" }, { "name": "mini" }, { "name": "qwen" }] }),
                Some("quick"),
                "`mini`",
            ),
            (json!({ "hints": [{ "name": "" }, { "x": 1 }, { "name": "plain" }] }), Some("plain"), "`plain`"),
            (json!({ "hints": [{ "name": "none" }], "costPriority": 1 }), Some("cheap"), "cost 1"),
            (json!({ "speedPriority": 0.9, "costPriority": 0.1 }), Some("quick"), "cost 0.1, speed 0.9"),
            (json!({ "intelligencePriority": 1.0, "speedPriority": 0.1 }), Some("big"), "intelligence 1"),
            (json!({ "intelligencePriority": 0 }), None, ""),
            (json!({ "intelligencePriority": "much", "hints": 7 }), None, ""),
            (json!("anything"), None, ""),
        ] {
            let choice = choose(None, &preferences, &candidates());
            assert_eq!(choice.name.as_deref(), model, "{preferences}");
            assert!(choice.reason.unwrap_or_default().contains(reason), "{preferences}");
        }
    }

    #[test]
    fn server_does_not_choose_against_the_configuration() {
        let choice = choose(Some("cheap"), &json!({ "hints": [{ "name": "opus" }] }), &candidates());
        assert_eq!(choice.name.as_deref(), Some("cheap"));
        assert_eq!(choose(None, &json!({ "speedPriority": 1 }), &candidates()[3..]).name, None, "no figures");
    }
}
