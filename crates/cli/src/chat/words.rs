//! Completion of commands, prompts of servers, tools, models and modes.

use reedline::{Completer, CompletionResult, Span, Suggestion};
use toolway_host::Host;

use super::command::COMMANDS;
use crate::output::clean;

/// The words that a message can have. Reads the catalog when it is asked, so that it follows the servers.
pub(crate) struct Words {
    pub(crate) host: Host,
    pub(crate) models: Vec<String>,
}

/// Characters of a description in the menu.
const DESCRIPTION: usize = 60;
/// Words in the menu.
const MOST: usize = 200;

impl Words {
    /// Possible words with their descriptions, for the word that begins after `before`.
    fn candidates(&self, before: &str, word: &str) -> Vec<(String, String)> {
        let plain = |words: &[&str]| words.iter().map(|word| ((*word).to_owned(), String::new())).collect();
        match before.trim_end() {
            "" if word.starts_with('/') => self.commands(),
            "/model" => self.models.iter().map(|model| (model.clone(), String::new())).collect(),
            "/mode" => plain(&["ask", "writes", "allow"]),
            "/resume" => plain(&["last"]),
            "" if word.is_empty() => Vec::new(),
            _ => self.tools(),
        }
    }

    fn commands(&self) -> Vec<(String, String)> {
        let own = COMMANDS.iter().map(|(word, _, about)| (format!("/{word}"), (*about).to_owned()));
        let catalog = self.host.catalog();
        let prompts = catalog.prompts().iter().map(|entry| {
            let about = entry.item.description.clone().unwrap_or_default();
            (format!("/{}.{}", entry.origin.server, entry.origin.raw_name), about)
        });
        own.chain(prompts).collect()
    }

    fn tools(&self) -> Vec<(String, String)> {
        let catalog = self.host.catalog();
        let tools = catalog.tools().iter().map(|entry| {
            let about = entry.item.description.clone().unwrap_or_default();
            (format!("{}.{}", entry.origin.server, entry.origin.raw_name), about)
        });
        tools.collect()
    }
}

impl Completer for Words {
    fn complete(&mut self, line: &str, pos: usize) -> CompletionResult {
        let Some(typed) = line.get(..pos) else { return CompletionResult::fresh(Vec::new()) };
        let start = typed.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let (before, word) = typed.split_at(start);
        let matching = self.candidates(before, word).into_iter().filter(|(value, _)| value.starts_with(word));
        let suggestions: Vec<Suggestion> = matching
            .take(MOST)
            .map(|(value, about)| Suggestion {
                value,
                description: Some(clean::line(&about, DESCRIPTION)).filter(|about| !about.is_empty()),
                span: Span { start, end: pos },
                append_whitespace: true,
                ..Suggestion::default()
            })
            .collect();
        CompletionResult::fresh(suggestions)
    }
}
