//! The assistant of a conversation: the values it began with, which are stored with it, and what the configuration says now.
//!
//! A conversation that goes on keeps its values. Its approval is the stricter of the stored and the configured one: what
//! stands in a store allows nothing that the configuration does not allow.

use std::{collections::BTreeSet, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolway_config::{AssistantConfig, ServerName, TaskSettings, ToolPattern};
use toolway_host::{conversation::ConversationNote, policy::AssistantPolicy};

use crate::budget::Budget;

/// Name of the note that keeps the assistant of a conversation.
pub(crate) const NOTE: &str = "assistant";
/// Characters of a value in a sentence.
const SHOWN: usize = 60;

/// The assistant of a conversation.
#[derive(Clone, Debug)]
pub struct Assistant {
    values: AssistantConfig,
    policy: Arc<AssistantPolicy>,
}

/// An assistant as a conversation began with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAssistant {
    /// Its name.
    pub name: String,
    /// Its values at that time.
    pub values: AssistantConfig,
}

/// The note about an assistant is not what Toolway writes. Such a conversation does not go on without an assistant, which
/// may ask about less.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the assistant of the conversation cannot be read: {0}")]
pub struct UnreadableAssistant(String);

/// A note as it is stored.
#[derive(Serialize, Deserialize)]
struct Note {
    name: String,
    values: Value,
}

// === impl Assistant ===

impl Assistant {
    /// An assistant for a new conversation.
    pub fn new(name: &str, config: &AssistantConfig) -> Self {
        Self { values: config.clone(), policy: Arc::new(AssistantPolicy::new(name, config)) }
    }

    /// The assistant of a conversation that goes on; `configured` is what the configuration has under its name now.
    pub fn resumed(stored: &StoredAssistant, configured: Option<&AssistantConfig>) -> Self {
        let policy = AssistantPolicy {
            name: stored.name.as_str().into(),
            configured: configured.map(Into::into),
            stored: Some((&stored.values).into()),
        };
        Self { values: stored.values.clone(), policy: Arc::new(policy) }
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.policy.name
    }

    /// The values of the conversation.
    pub fn values(&self) -> &AssistantConfig {
        &self.values
    }

    /// What policy considers.
    pub fn policy(&self) -> &Arc<AssistantPolicy> {
        &self.policy
    }

    /// The servers of its model; `None`: all.
    pub fn servers(&self) -> Option<&BTreeSet<ServerName>> {
        self.values.servers.as_ref()
    }

    /// The tools of its model; `None`: all of its servers.
    pub(crate) fn tools(&self) -> Option<&[ToolPattern]> {
        self.values.tools.as_deref()
    }

    pub(crate) fn tasks(&self) -> TaskSettings {
        self.values.tasks
    }

    /// Resources that are attached at the start of a conversation, as URI or `SERVER.URI`.
    pub fn resources(&self) -> &[String] {
        &self.values.resources
    }

    /// Its budget; `default` where it sets none.
    pub fn budget(&self, default: Budget) -> Budget {
        let own = self.values.budgets;
        Budget {
            turns: own.max_turns.unwrap_or(default.turns),
            tokens: own.max_tokens.or(default.tokens),
            tool_calls: own.max_tool_calls.unwrap_or(default.tool_calls),
            time: own.max_time.or(default.time),
        }
    }

    /// The stricter of a budget and its own.
    pub fn bounded(&self, budget: Budget) -> Budget {
        let own = self.values.budgets;
        let least = |limit: Option<u64>, own: Option<u64>| limit.into_iter().chain(own).min();
        Budget {
            turns: own.max_turns.map_or(budget.turns, |own| own.min(budget.turns)),
            tokens: least(budget.tokens, own.max_tokens),
            tool_calls: own.max_tool_calls.map_or(budget.tool_calls, |own| own.min(budget.tool_calls)),
            time: budget.time.into_iter().chain(own.max_time).min(),
        }
    }

    /// Whether a conversation with this stored assistant is one with this assistant.
    pub fn is(&self, stored: &StoredAssistant) -> bool {
        let undescribed = |values: &AssistantConfig| AssistantConfig { description: None, ..values.clone() }.json();
        **self.name() == *stored.name && undescribed(&self.values) == undescribed(&stored.values)
    }

    /// The note about it. `text` is what is kept of a text.
    pub(crate) fn note(&self, text: impl Fn(&str) -> String) -> ConversationNote {
        let system = self.values.system.as_deref().map(text);
        let values = AssistantConfig { system, description: None, ..self.values.clone() };
        let note = Note { name: self.name().to_string(), values: values.json() };
        ConversationNote { name: NOTE.to_owned(), body: serde_json::to_string(&note).unwrap_or_default() }
    }
}

// === impl StoredAssistant ===

impl StoredAssistant {
    /// The assistant in the notes of a conversation; `None` if it has none.
    pub fn of_notes(notes: &[ConversationNote]) -> Result<Option<Self>, UnreadableAssistant> {
        let note = notes.iter().find(|note| note.name == NOTE);
        note.map(|note| Self::parse(&note.body)).transpose()
    }

    pub(crate) fn parse(body: &str) -> Result<Self, UnreadableAssistant> {
        let Note { name, values } =
            serde_json::from_str(body).map_err(|error| UnreadableAssistant(error.to_string()))?;
        let values = AssistantConfig::of_json(&values.to_string());
        Ok(Self { name, values: values.map_err(|error| UnreadableAssistant(error.problem()))? })
    }

    /// What has changed since in the configuration, as a sentence; `None` if nothing has.
    pub fn changes(&self, configured: Option<&AssistantConfig>) -> Option<String> {
        let name = &self.name;
        let Some(configured) = configured else {
            return Some(format!(
                "assistant `{name}` is no longer configured; the conversation keeps the values it started with, and its approval \
                 allows nothing that is not allowed without an assistant"
            ));
        };
        let then = self.values.values();
        let now: Vec<_> = configured.values().into_iter().filter(|(key, _)| *key != "description").collect();
        let changed =
            then.iter().filter(|value| !now.contains(value)).map(|(key, value)| format!("{key} {}", shown(value)));
        let added = now.iter().filter(|(key, _)| !then.iter().any(|(known, _)| known == key));
        let changed: Vec<String> = changed.chain(added.map(|(key, _)| format!("no {key}"))).collect();
        (!changed.is_empty()).then(|| {
            format!(
                "assistant `{name}` has changed since; started with {}; use `--assistant {name}` to take the new values (until \
                 then the stricter approval counts)",
                changed.join(", ")
            )
        })
    }
}

/// The beginning of a value.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    let mut beginning: String = text.chars().take(SHOWN).collect();
    if beginning.len() < text.len() {
        beginning.push('…');
    }
    beginning
}
