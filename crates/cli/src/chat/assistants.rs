//! The assistant of a chat: what is said of it, and conversations of another one.

use toolway_host::conversation::{ConversationNote, StoredConversation};

use super::{Chat, stored};
use crate::{assistant, record_id};

impl Chat<'_> {
    /// Says at the start which assistant it is.
    pub(super) fn greet_as_assistant(&self) {
        let Some(assistant) = self.agent.assistant() else { return };
        let name = assistant.name();
        let about = match &assistant.policy().configured {
            Some(_) => format!("approval {}", assistant.policy().approval().as_str()),
            None => "which is no longer configured".to_owned(),
        };
        self.screen.note(&format!("Assistant {name}, {about}. /assistant shows the rest."));
    }

    /// `/assistant`
    pub(super) fn show_assistant(&self) {
        let Some(assistant) = self.agent.assistant() else {
            let names: Vec<&str> = self.config.settings.assistants.value.keys().map(String::as_str).collect();
            self.screen.line("No assistant. Begin a conversation with one: toolway chat --assistant NAME");
            return match names.as_slice() {
                [] => self.screen.line("None is configured; `toolway assistants add` adds one."),
                names => self.screen.line(&format!("Assistants: {}", names.join(", "))),
            };
        };
        self.screen.line(&format!("Assistant {}", assistant.name()));
        assistant::lines(assistant.values()).iter().for_each(|line| self.screen.line(&format!("  {line}")));
        let effective = assistant.policy().approval();
        if effective != assistant.values().approval {
            self.screen.line(&format!("  approval now: {} (the stricter one)", effective.as_str()));
        }
    }

    /// Why a stored conversation cannot go on here: its assistant has other servers and another approval than this chat.
    pub(super) fn other_assistant(&self, head: &StoredConversation, notes: &[ConversationNote]) -> Option<String> {
        let stored = match stored::assistant_of(notes) {
            Ok(stored) => stored,
            Err(report) => return Some(report.to_human()),
        };
        let who = match (&stored, self.agent.assistant()) {
            (None, None) => return None,
            (Some(stored), Some(own)) if own.is(stored) => return None,
            (Some(stored), _) => format!("has the assistant `{}`", stored.name),
            (None, Some(_)) => "has no assistant".to_owned(),
        };
        let id = record_id::short(&head.id);
        Some(format!("The conversation {who}; continue it with: toolway chat --resume {id}"))
    }
}
