//! Completion of commands, prompts of servers, tools, models and modes, and of what `@` attaches.

use reedline::{Completer, CompletionResult, Span, Suggestion};
use toolway_host::Host;

use super::{
    command::COMMANDS,
    file_words::AttachFolders,
    reference::{self, OpenReference},
};
use crate::output::clean;

/// The words that a message can have. Reads the catalog when it is asked, so that it follows the servers.
pub(crate) struct Words {
    pub(crate) host: Host,
    pub(crate) models: Vec<String>,
    pub(crate) folders: AttachFolders,
}

/// Characters of a description in the menu.
const DESCRIPTION: usize = 60;
/// Words in the menu.
const MOST: usize = 200;
/// Bytes of a file per token, roughly.
const BYTES_PER_TOKEN: u64 = 4;

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

    /// What the reference at the cursor may be: files, then resources and prompts.
    fn attachable(&self, open: &OpenReference, end: usize) -> Vec<Suggestion> {
        let span = Span { start: open.start, end };
        let about = |bytes: u64| format!("about {} tokens", bytes.div_ceil(BYTES_PER_TOKEN));
        let files = self.folders.words(&open.typed).into_iter().map(|file| {
            let value = reference::written(&file.path);
            let description = file.bytes.map(about);
            // A folder is completed further, so a quote behind it stays open.
            let value = if description.is_none() { value.trim_end_matches('"').to_owned() } else { value };
            suggestion(value, description, span)
        });
        let catalog = self.host.catalog();
        let is_meant = |name: &str, raw: &str| name.starts_with(&open.typed) || raw.starts_with(&open.typed);
        let resources = catalog.resources().iter().filter_map(|entry| {
            let name = format!("{}.{}", entry.origin.server, entry.item.uri);
            let title = entry.item.title.as_deref().unwrap_or(&entry.item.name);
            let size = entry.item.raw.get("size").and_then(|size| size.as_u64()).map(about);
            let about = size.map_or_else(|| title.to_owned(), |size| format!("{title}, {size}"));
            is_meant(&name, &entry.item.uri).then_some((name, about))
        });
        let prompts = catalog.prompts().iter().filter_map(|entry| {
            let name = format!("{}.{}", entry.origin.server, entry.origin.raw_name);
            let about = entry.item.description.clone().unwrap_or_default();
            is_meant(&name, &entry.origin.raw_name).then_some((name, about))
        });
        // A name that a terminal would act on cannot be typed.
        let of_servers = resources.chain(prompts).filter(|(name, _)| !name.chars().any(char::is_control));
        let of_servers = of_servers.map(|(name, about)| suggestion(reference::written(&name), Some(about), span));
        files.chain(of_servers).take(MOST).collect()
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
        if let Some(open) = reference::open_reference(typed) {
            return CompletionResult::fresh(self.attachable(&open, pos));
        }
        let start = typed.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let (before, word) = typed.split_at(start);
        let matching = self.candidates(before, word).into_iter().filter(|(value, _)| value.starts_with(word));
        let suggestions: Vec<Suggestion> = matching
            .take(MOST)
            .map(|(value, about)| suggestion(value, Some(about), Span { start, end: pos }))
            .collect();
        CompletionResult::fresh(suggestions)
    }
}

/// A word in the menu. One without a description is a folder, behind which more is typed.
fn suggestion(value: String, about: Option<String>, span: Span) -> Suggestion {
    let append_whitespace = about.is_some();
    let description = about.map(|about| clean::line(&about, DESCRIPTION)).filter(|about| !about.is_empty());
    Suggestion { value, description, span, append_whitespace, ..Suggestion::default() }
}
