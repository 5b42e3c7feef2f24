//! Slash commands, as the user types them.

use toolway_config::PolicyMode;
use toolway_host::catalog::{Catalog, PromptEntry};

use crate::suggestion;

/// A slash command.
#[derive(Debug)]
pub(crate) enum ChatCommand {
    Help,
    Tools(Option<String>),
    Servers,
    Model(Option<String>),
    Mode(Option<PolicyMode>),
    Assistant,
    /// The result with this number, or the last one.
    Show(Option<usize>),
    Usage,
    Compact,
    /// Lists the background tasks, or cancels the one with this id.
    Tasks(Option<String>),
    Resume(Option<String>),
    Clear,
    Exit,
    /// A prompt of a server, with the words after it.
    Prompt(Box<PromptEntry>, Vec<String>),
}

/// Name, arguments and meaning of each command.
pub(crate) const COMMANDS: &[(&str, &str, &str)] = &[
    ("help", "", "Show this list"),
    ("tools", "[WORDS]", "List the tools, or search them"),
    ("servers", "", "Show the servers and their states"),
    ("show", "[N]", "Show a result as a whole: the last one, or the one with this number"),
    ("model", "[NAME]", "Choose a model, or use this one"),
    ("mode", "[MODE]", "Choose when calls are asked about, or change it: ask, writes, allow"),
    ("assistant", "", "Show the assistant of this conversation"),
    ("tasks", "[cancel ID]", "Show what goes on in the background, or cancel it"),
    ("usage", "", "Show how full the context window is, and the tokens used so far"),
    ("compact", "", "Summarise all turns but the last four, to make room"),
    ("resume", "[ID]", "Choose an earlier conversation to continue, or give its id; `last` is the latest"),
    ("clear", "", "Begin a new conversation"),
    ("exit", "", "Leave; so does Ctrl-D"),
];

impl ChatCommand {
    /// Parses a line; `None` if it is a message. An error says what is wrong.
    pub(crate) fn parse(line: &str, catalog: &Catalog) -> Option<Result<Self, String>> {
        // A line that begins with a space is a message, whatever follows.
        let text = line.strip_prefix('/')?.trim_end();
        let mut words = shlex::split(text).unwrap_or_else(|| text.split_whitespace().map(str::to_owned).collect());
        if words.is_empty() {
            return Some(Ok(Self::Help));
        }
        let name = words.remove(0);
        let rest = Some(words.join(" ")).filter(|rest| !rest.is_empty());
        Some(match name.as_str() {
            "help" | "?" => Ok(Self::Help),
            "tools" => Ok(Self::Tools(rest)),
            "servers" => Ok(Self::Servers),
            "model" => Ok(Self::Model(rest)),
            "mode" => rest.map(|mode| parse_mode(&mode)).transpose().map(Self::Mode),
            "assistant" => Ok(Self::Assistant),
            "show" => rest.map(|number| parse_number(&number)).transpose().map(Self::Show),
            "tasks" => parse_tasks(rest.as_deref()),
            "usage" | "context" => Ok(Self::Usage),
            "compact" => Ok(Self::Compact),
            "resume" => Ok(Self::Resume(rest)),
            "clear" => Ok(Self::Clear),
            "exit" | "quit" => Ok(Self::Exit),
            other => match find_prompt(catalog, other) {
                Some(prompt) => Ok(Self::Prompt(Box::new(prompt.clone()), words)),
                None => Err(unknown(other, catalog)),
            },
        })
    }
}

fn parse_mode(word: &str) -> Result<PolicyMode, String> {
    PolicyMode::parse(word).ok_or_else(|| format!("unknown mode `{word}`; must be `ask`, `writes` or `allow`"))
}

fn parse_tasks(rest: Option<&str>) -> Result<ChatCommand, String> {
    match rest.map(|rest| rest.split_once(' ').unwrap_or((rest, ""))) {
        None => Ok(ChatCommand::Tasks(None)),
        Some(("cancel", id)) if !id.trim().is_empty() => Ok(ChatCommand::Tasks(Some(id.trim().to_owned()))),
        Some(_) => Err("usage: /tasks, or /tasks cancel ID".to_owned()),
    }
}

fn parse_number(word: &str) -> Result<usize, String> {
    let number = word.trim_start_matches('[').trim_end_matches(']').parse();
    number.map_err(|_| format!("`{word}` is not the number of a result; `/show` alone shows the last one"))
}

/// Finds `server.prompt` or `server/prompt`.
pub(super) fn find_prompt<'a>(catalog: &'a Catalog, name: &str) -> Option<&'a PromptEntry> {
    let (server, prompt) = name.split_once(['.', '/'])?;
    catalog.prompt_at(&server.parse().ok()?, prompt)
}

fn unknown(name: &str, catalog: &Catalog) -> String {
    let prompts = catalog.prompts().iter().map(|entry| format!("{}.{}", entry.origin.server, entry.origin.raw_name));
    let known: Vec<String> = COMMANDS.iter().map(|(word, ..)| (*word).to_owned()).chain(prompts).collect();
    let near = suggestion::did_you_mean(name, known.iter().map(String::as_str));
    format!("unknown command `/{name}`{near}\n`/help` lists all; a space before the slash makes it a message")
}

#[cfg(test)]
mod tests {
    use toolway_host::catalog::Catalog;

    use super::ChatCommand;

    #[test]
    fn commands_are_told_from_messages() {
        let parse = |line: &str| ChatCommand::parse(line, &Catalog::empty());
        assert!(parse("hello /help").is_none());
        assert!(parse(" /etc/hosts is a file").is_none());
        assert!(matches!(parse("/"), Some(Ok(ChatCommand::Help))));
        assert!(matches!(parse("/model fast"), Some(Ok(ChatCommand::Model(Some(name)))) if name == "fast"));
        assert!(matches!(parse("/mode allow"), Some(Ok(ChatCommand::Mode(Some(_))))));
        assert!(matches!(parse("/show [3]"), Some(Ok(ChatCommand::Show(Some(3))))));
        assert!(parse("/show x").unwrap().unwrap_err().contains("`x`"));
        assert!(parse("/mode often").unwrap().unwrap_err().contains("`writes`"));
        assert!(parse("/tols").unwrap().unwrap_err().contains("did you mean `tools`?"));
    }
}
