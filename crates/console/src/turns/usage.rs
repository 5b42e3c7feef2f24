//! What the turns of a conversation used, kept as a note of it.

use serde::{Deserialize, Serialize};
use toolway_agent::model::Usage;
use toolway_host::conversation::ConversationNote;

/// Name of the note.
pub(super) const NOTE: &str = "usage";

/// Tokens of a conversation, and what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConversationUsage {
    input_tokens: u64,
    output_tokens: u64,
    cached_tokens: u64,
    /// In the currency of the configured prices; `None` if no price was configured.
    cost: Option<f64>,
}

impl ConversationUsage {
    /// What the notes of a conversation say; nothing if they say nothing.
    pub(crate) fn of_notes(notes: &[ConversationNote]) -> Self {
        let note = notes.iter().find(|note| note.name == NOTE);
        note.and_then(|note| serde_json::from_str(&note.body).ok()).unwrap_or_default()
    }

    pub(super) fn note(&self) -> ConversationNote {
        ConversationNote { name: NOTE.to_owned(), body: serde_json::to_string(self).unwrap_or_default() }
    }

    /// With one more turn.
    pub(super) fn plus(self, usage: &Usage, cost: Option<f64>) -> Self {
        Self {
            input_tokens: self.input_tokens + usage.input_tokens,
            output_tokens: self.output_tokens + usage.output_tokens,
            cached_tokens: self.cached_tokens + usage.cached_tokens,
            cost: match (self.cost, cost) {
                (Some(before), Some(cost)) => Some(before + cost),
                (before, cost) => before.or(cost),
            },
        }
    }
}
