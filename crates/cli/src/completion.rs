//! Shell completion: commands and options from their definitions, servers from the configuration, tools and their arguments
//! from the listing cache. Does not connect to servers.

use std::path::PathBuf;

use clap::{Arg, ArgAction, Command};
use toolway_config::{Config, Environment, Loaded, Paths};
use toolway_wire::message::item::Tool;

use crate::{command_line, commands::import, listing_cache, loading, schema::Schema};

/// The command line before the word being completed.
#[derive(Debug, Default)]
struct ParsedLine {
    /// The names of the commands, outermost first.
    commands: Vec<String>,
    /// Arguments that are neither commands nor options.
    positionals: Vec<String>,
    /// The server given by `--server` or `@server`.
    server: Option<String>,
    config: Option<PathBuf>,
    /// Whether `--stdio` or `--url` gives the server.
    ad_hoc: bool,
}

/// Candidates for the last of `words`, each optionally followed by a tab and a description.
pub(crate) fn candidates(words: &[String], environment: &Environment) -> Vec<String> {
    let mut root = command_line::definition();
    root.build();
    let Some((current, before)) = words.split_last() else { return Vec::new() };
    let (line, command, pending) = parse(&root, before);
    let Loaded { config, proposals, .. } = loading::load_quietly(environment, line.config.as_ref());
    let unaccepted = proposals.iter().map(|proposal| proposal.server.name.to_string()).collect();
    let known = CompletionData { paths: Paths::of(environment), config, unaccepted, line: &line };
    let found = match pending {
        Some(option) => values_of(option, &known),
        None if current.starts_with('-') => options(command),
        None => words_of(command, current, &known),
    };
    found.into_iter().filter(|candidate| candidate.starts_with(current.as_str())).collect()
}

/// Parses the words before the last one; the third part is an option whose value is being completed.
fn parse<'a>(root: &'a Command, words: &[String]) -> (ParsedLine, &'a Command, Option<&'a Arg>) {
    let (mut line, mut command, mut pending) = (ParsedLine::default(), root, None);
    for word in words {
        if let Some(option) = pending.take() {
            line.apply_option(option, word);
        } else if word.starts_with('-') && 1 < word.len() {
            let (name, value) = word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
            match (option_of(command, name), value) {
                (Some(option), Some(value)) => line.apply_option(option, value),
                (Some(option), None) if takes_value(option) => pending = Some(option),
                _ => {}
            }
        } else if let Some(server) = word.strip_prefix('@').filter(|_| line.commands.is_empty()) {
            line.server = Some(server.to_owned());
        } else if let Some(inner) = command.find_subcommand(word).filter(|_| line.positionals.is_empty()) {
            command = inner;
            line.commands.push(word.clone());
        } else {
            line.positionals.push(word.clone());
        }
    }
    (line, command, pending)
}

impl ParsedLine {
    fn apply_option(&mut self, option: &Arg, value: &str) {
        match option.get_long() {
            Some("server") => self.server = Some(value.to_owned()),
            Some("config") => self.config = Some(value.into()),
            Some("stdio" | "url") => self.ad_hoc = true,
            _ => {}
        }
    }

    /// Index of the positional argument being completed.
    fn position(&self) -> usize {
        self.positionals.len() + usize::from(self.server.is_some() || self.ad_hoc)
    }
}

/// Data for candidates that is read from disk.
struct CompletionData<'a> {
    paths: Paths,
    config: Config,
    /// Servers of the project that are not accepted.
    unaccepted: Vec<String>,
    line: &'a ParsedLine,
}

impl CompletionData<'_> {
    fn assistants(&self) -> Vec<String> {
        self.config.settings.assistants.value.keys().cloned().collect()
    }

    fn servers(&self) -> Vec<String> {
        self.config.servers.keys().map(ToString::to_string).collect()
    }

    /// Whether a positional argument names a server; not if an option does.
    fn is_server(&self, word: &str) -> bool {
        self.line.server.is_none() && !self.line.ad_hoc && self.config.find(word).is_some()
    }

    /// The cached tools of a server that its entry does not exclude.
    fn tools(&self, server: &str) -> Vec<Tool> {
        let Some(entry) = self.config.find(server) else { return Vec::new() };
        let recalled = listing_cache::lookup(&self.paths, &self.config, entry);
        let tools = recalled.map(|listing| listing.tools).unwrap_or_default();
        let offered = tools.into_iter().filter(|tool| entry.filters.passes_tool(&tool.item.name));
        offered.map(|tool| Tool::clone(&tool.item)).collect()
    }

    /// The cached tool that a selector names.
    fn selected(&self, selector: &str) -> Option<Tool> {
        let (server, name) = match &self.line.server {
            Some(server) => (server.clone(), selector.to_owned()),
            None => crate::target::split(selector).map(|(server, name)| (server.to_owned(), name.to_owned()))?,
        };
        self.tools(&server).into_iter().find(|tool| tool.name == name)
    }
}

fn words_of(command: &Command, current: &str, known: &CompletionData<'_>) -> Vec<String> {
    let line = known.line;
    if line.commands.is_empty() {
        return match current.strip_prefix('@') {
            Some(_) => known.servers().iter().map(|server| format!("@{server}")).collect(),
            None => subcommands(command),
        };
    }
    let mut found = if line.positionals.is_empty() { subcommands(command) } else { Vec::new() };
    match (line.commands[0].as_str(), line.positionals.first()) {
        ("call", None) => found.extend(selectors(current, known)),
        ("call", Some(server)) if known.is_server(server) => match line.positionals.get(1) {
            None => found.extend(known.tools(server).iter().filter_map(|tool| safe(&tool.name))),
            Some(tool) => found.extend(known.selected(&format!("{server}.{tool}")).iter().flat_map(arguments)),
        },
        ("call", Some(selector)) => found.extend(known.selected(selector).iter().flat_map(arguments)),
        ("tools", _) if line.commands.get(1).is_some_and(|inner| inner == "lint") => found.extend(known.servers()),
        ("tools", tool_of) if line.position() == 1 => {
            let server = line.server.as_ref().or(tool_of);
            found.extend(server.iter().flat_map(|server| known.tools(server)).filter_map(|tool| safe(&tool.name)));
        }
        ("status" | "doctor", _) => found.extend(known.servers()),
        ("tools" | "ping" | "rpc" | "complete" | "resources", _) if line.position() == 0 => {
            found.extend(known.servers())
        }
        ("assistants", None)
            if line.commands.get(1).is_some_and(|inner| ["show", "set", "remove"].contains(&&**inner)) =>
        {
            found.extend(known.assistants());
        }
        ("servers", None) => match line.commands.get(1).map(String::as_str) {
            Some("accept") => found.extend(known.unaccepted.clone()),
            Some(
                "update" | "remove" | "enable" | "disable" | "revoke" | "status" | "logs" | "connect" | "disconnect"
                | "restart" | "refresh",
            ) => found.extend(known.servers()),
            _ => {}
        },
        ("import", None) => found.extend(import::hosts().into_iter().map(str::to_owned)),
        ("prompts", _) if line.position() == 0 && line.commands.get(1).is_none_or(|inner| inner != "get") => {
            found.extend(known.servers());
        }
        _ => {}
    }
    found
}

/// Tool selectors for `call`.
fn selectors(current: &str, known: &CompletionData<'_>) -> Vec<String> {
    if let Some(server) = &known.line.server {
        return known.tools(server).iter().filter_map(|tool| safe(&tool.name)).collect();
    }
    if known.line.ad_hoc {
        return Vec::new();
    }
    // Complete a public name with public names.
    let separator = if current.contains("__") { "__" } else { "." };
    let of_server = |server: &String| {
        let names: Vec<String> = known.tools(server).iter().filter_map(|tool| safe(&tool.name)).collect();
        let selectors: Vec<String> = names.iter().map(|name| format!("{server}{separator}{name}")).collect();
        if selectors.is_empty() { vec![format!("{server}.")] } else { selectors }
    };
    known.servers().iter().flat_map(of_server).collect()
}

/// The arguments of a tool, with their values if the schema lists them.
fn arguments(tool: &Tool) -> Vec<String> {
    let schema = Schema::new(tool.input_schema.clone());
    let mut found = Vec::new();
    for property in schema.properties() {
        let Some(name) = safe(&property.name) else { continue };
        found.push(format!("{name}="));
        let choices = schema.choices(&property.schema);
        let choices = choices.iter().filter_map(|choice| safe(&choice.as_str()?));
        found.extend(choices.map(|choice| format!("{name}={choice}")));
    }
    found
}

/// A remote name is only suggested if it has no special meaning in a shell.
fn safe(name: &str) -> Option<String> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./:".contains(letter);
    (!name.is_empty() && !name.starts_with('-') && name.chars().all(plain)).then(|| name.to_owned())
}

fn subcommands(command: &Command) -> Vec<String> {
    let shown = command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help");
    let line = |inner: &Command| match inner.get_about() {
        Some(about) => format!("{}\t{about}", inner.get_name()),
        None => inner.get_name().to_owned(),
    };
    shown.map(line).collect()
}

fn options(command: &Command) -> Vec<String> {
    let shown = command.get_arguments().filter(|option| !option.is_hide_set());
    shown.filter_map(|option| Some(format!("--{}\t{}", option.get_long()?, option.get_help()?))).collect()
}

fn values_of(option: &Arg, known: &CompletionData<'_>) -> Vec<String> {
    match option.get_long() {
        Some("server") => return known.servers(),
        Some("assistant") => return known.assistants(),
        _ => {}
    }
    option.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect()
}

fn option_of<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    let is_it = |option: &&Arg| match name.strip_prefix("--") {
        Some(long) => option.get_long() == Some(long),
        None => option.get_short().is_some_and(|short| name == format!("-{short}")),
    };
    command.get_arguments().find(is_it)
}

fn takes_value(option: &Arg) -> bool {
    matches!(option.get_action(), ArgAction::Set | ArgAction::Append)
}
