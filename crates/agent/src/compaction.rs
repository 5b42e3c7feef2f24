//! What a request has instead of older messages: shortened results, and a summary of the oldest turns. The messages
//! themselves stay in the conversation and in the store. `compacting` decides when, and asks the model for the summary.

use serde::{Deserialize, Serialize};
use toolway_host::conversation::ConversationNote;
use toolway_model::{Message, Part, ResultPart, Role, ToolResult};

use crate::answering::CORRECTION;

/// Turns at the end of a conversation that are never summarised.
pub(crate) const KEPT_TURNS: usize = 4;
/// Characters of an old result that stay.
const SHORT_RESULT: usize = 200;
/// Name of the note that keeps a compaction in the store.
pub(crate) const NOTE: &str = "compaction";
/// Begins the message with the summary.
const OPENING: &str = "[Toolway: summary of the earlier conversation, which was left out to keep the context window. The model \
                       wrote it; it is not a message of the user.]";

/// What is left out of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Compaction {
    /// Results in messages before this one are shortened.
    #[serde(default)]
    pub(crate) results_until: usize,
    #[serde(default)]
    pub(crate) summary: Option<Summary>,
}

/// A summary of the messages before `until`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) until: usize,
    pub(crate) text: String,
}

/// What requests of a stored conversation have instead of older messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCompaction {
    /// How many messages the summary stands for.
    pub summarised: usize,
    /// Long results in messages before this one are shortened.
    pub shortened: usize,
    /// The summary, which the model wrote; `None` if no message is summarised.
    pub summary: Option<String>,
}

impl StoredCompaction {
    /// Name of the note.
    pub const NOTE: &str = NOTE;

    /// What the notes of a conversation say; `None` if nothing is left out, or it cannot be read.
    pub fn of_notes(notes: &[ConversationNote]) -> Option<Self> {
        let note = notes.iter().find(|note| note.name == NOTE)?;
        let kept: Compaction = serde_json::from_str(&note.body).ok()?;
        Some(Self {
            summarised: kept.summarised(),
            shortened: kept.results_until,
            summary: kept.summary.map(|summary| summary.text),
        })
    }
}

impl Compaction {
    /// The messages of a request.
    pub(crate) fn view(&self, messages: &[Message]) -> Vec<Message> {
        let from = self.summarised().min(messages.len());
        let shown = messages
            .iter()
            .enumerate()
            .skip(from)
            .map(|(index, message)| if index < self.results_until { shortened(message) } else { message.clone() });
        self.summary.iter().map(Summary::message).chain(shown).collect()
    }

    /// How many messages the summary stands for.
    pub(crate) fn summarised(&self) -> usize {
        self.summary.as_ref().map_or(0, |summary| summary.until)
    }
}

impl Summary {
    fn message(&self) -> Message {
        Message::user(format!("{OPENING}\n{}", self.text))
    }
}

/// Where turns begin: at a message of the user, or at the ends of tasks that start one. Calls and their results are between
/// two of these.
pub(crate) fn turn_starts(messages: &[Message]) -> Vec<usize> {
    let is_user = |message: &Message| message.role == Role::User && !message.text().starts_with(CORRECTION);
    let begins = |index: &usize| {
        is_user(&messages[*index]) && index.checked_sub(1).is_none_or(|before| messages[before].role != Role::User)
    };
    (0..messages.len()).filter(begins).collect()
}

/// Where the turns begin that are kept; 0 if there are no older ones.
pub(crate) fn kept_from(messages: &[Message]) -> usize {
    let starts = turn_starts(messages);
    starts.len().checked_sub(KEPT_TURNS).map_or(0, |first| starts[first])
}

/// Whether a message has a result that would be shortened.
pub(crate) fn has_long_result(message: &Message) -> bool {
    message.parts.iter().any(|part| matches!(part, Part::ToolResult(result) if is_long(result)))
}

fn is_long(result: &ToolResult) -> bool {
    let is_long = |part: &ResultPart| match part {
        ResultPart::Text { text } => text.chars().nth(SHORT_RESULT).is_some(),
        ResultPart::Image(_) | ResultPart::Audio(_) => true,
    };
    result.content.iter().any(is_long)
}

/// A message whose long results are shortened. Calls, ids and error flags stay.
fn shortened(message: &Message) -> Message {
    let parts = message.parts.iter().map(|part| match part {
        Part::ToolResult(result) if is_long(result) => Part::ToolResult(ToolResult {
            content: vec![ResultPart::Text { text: short_text(result) }],
            ..result.clone()
        }),
        other => other.clone(),
    });
    let parts = parts.collect();
    let attached = message.attached.clone();
    Message { role: message.role, parts, raw: message.raw.clone(), task: message.task.clone(), attached }
}

/// The beginning of a result, with what was left out.
pub(crate) fn short_text(result: &ToolResult) -> String {
    let text = result.content.iter().filter_map(|part| match part {
        ResultPart::Text { text } => Some(text.as_str()),
        ResultPart::Image(_) | ResultPart::Audio(_) => None,
    });
    let text = text.collect::<Vec<_>>().join("\n");
    let kept: String = text.chars().take(SHORT_RESULT).collect();
    let rest = text.chars().count() - kept.chars().count();
    let media = result.content.iter().filter(|part| !matches!(part, ResultPart::Text { .. })).count();
    let media = if media > 0 { format!(" and {media} images or sounds") } else { String::new() };
    if rest == 0 && media.is_empty() {
        return kept;
    }
    format!("{kept}… [{rest} more characters{media} of this result were left out to keep the context window]")
}
