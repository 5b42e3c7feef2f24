//! The command line as clap parses it: the definitions of `args`, without the options of servers in the help of commands
//! that connect to none.

use std::{ffi::OsString, io::IsTerminal};

use clap::{Arg, Command, CommandFactory, FromArgMatches, error::ErrorKind};

use crate::{args::Args, terminal::text};

/// Commands that connect to no server.
const WITHOUT_SERVERS: [&str; 12] = [
    "assistants",
    "audit",
    "calls",
    "clients",
    "completions",
    "history",
    "inbox",
    "man",
    "models",
    "secret",
    "store",
    "trust",
];

/// Commands whose `--server` selects records.
const RECORDS_BY_SERVER: [&str; 2] = ["audit", "calls"];

/// Global options that only make sense with a connection to a server, by id. They are accepted everywhere.
const SERVER_OPTIONS: [&str; 11] = [
    "stdio",
    "env",
    "cwd",
    "url",
    "allow_insecure_http",
    "header",
    "by_name",
    "profile",
    "era",
    "auto_connect",
    "prefix",
];

/// Commands by what a user wants to do, in the order of the help.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Use servers", &["tools", "call", "resources", "prompts", "complete", "ping", "rpc", "tasks"]),
    ("Let a model work", &["chat", "run", "assistants", "history", "models"]),
    ("Serve clients", &["serve", "console", "clients", "inbox"]),
    ("Set up", &["demo", "servers", "import", "login", "logout", "auth", "secret", "roots", "config"]),
    ("Decide and look back", &["policy", "trust", "calls", "audit", "store"]),
    ("Find out", &["doctor", "status", "sample", "completions", "man", "help"]),
];

/// Columns of a command in the help.
const COMMAND: usize = 15;
/// Columns of the help at most.
const HELP_WIDTH: usize = 100;
/// Columns of the narrowest terminal that is considered.
const NARROWEST: usize = 40;

/// The help of the program, with its commands in groups.
fn template(root: &Command) -> String {
    let columns = std::io::stdout().is_terminal().then(crossterm::terminal::size).and_then(Result::ok);
    let width = columns.map_or(HELP_WIDTH, |(columns, _)| usize::from(columns).clamp(NARROWEST, HELP_WIDTH));
    let about = |name: &str| match root.find_subcommand(name) {
        Some(command) => command.get_about().map(ToString::to_string).unwrap_or_default(),
        None => "Print this message or the help of a command".to_owned(),
    };
    let line = |name: &&str| {
        text::wrap(&about(name), width, &format!("  {name:<COMMAND$}"), &" ".repeat(COMMAND + 2)).join("\n")
    };
    let groups =
        GROUPS.map(|(title, names)| format!("{title}:\n{}", names.iter().map(line).collect::<Vec<_>>().join("\n")));
    format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}\n\n{{all-args}}{{after-help}}",
        groups.join("\n\n")
    )
}

/// The definition of all commands. Options of all commands are part of `--help` and not of `-h`.
pub(crate) fn definition() -> Command {
    let root = Args::command();
    let root = root.mut_args(|option| match option.is_global_set() {
        true => option.hide_short_help(true),
        false => option,
    });
    let options: Vec<Arg> =
        root.get_arguments().filter(|option| SERVER_OPTIONS.contains(&option.get_id().as_str())).cloned().collect();
    root.mut_subcommands(|command| {
        let name = command.get_name().to_owned();
        let is_without = WITHOUT_SERVERS.contains(&name.as_str());
        let own = options.iter().filter(|_| is_without).map(|option| as_seen_in(&name, option));
        command.args(own)
    })
}

/// The definition with which the help of the program is printed: its commands stand in groups.
pub(crate) fn grouped(root: Command) -> Command {
    let template = template(&root);
    let root = root.override_usage("toolway [OPTIONS] <COMMAND>").disable_help_subcommand(true);
    root.help_template(template).mut_subcommands(|command| command.hide(true))
}

/// The error that prints the help of the program, where the words ask for that; else the same.
fn with_groups(error: clap::Error, words: &[OsString]) -> clap::Error {
    let root = definition();
    let is_command = |word: &OsString| *word == "help" || root.find_subcommand(word).is_some();
    let asks = [ErrorKind::DisplayHelp, ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand].contains(&error.kind());
    if !asks || words.iter().skip(1).any(is_command) {
        return error;
    }
    grouped(root).try_get_matches_from(words).err().unwrap_or(error)
}

/// Parses the words of a command line.
pub(crate) fn parse(words: &[OsString]) -> Result<Args, clap::Error> {
    let matches = definition().try_get_matches_from(words);
    let mut matches = matches.map_err(|error| with_groups(error, words))?;
    Args::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut definition()))
}

/// A global option of servers, as a command without servers has it. An option of its own replaces the inherited one.
fn as_seen_in(command: &str, option: &Arg) -> Arg {
    let option = option.clone();
    if option.get_id() == "by_name" && RECORDS_BY_SERVER.contains(&command) {
        option.help("Only those of this server").help_heading(None::<&'static str>)
    } else {
        option.hide(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(words: &[&str]) -> String {
        let words = words.iter().map(OsString::from).collect::<Vec<_>>();
        parse(&words).unwrap_err().to_string()
    }

    #[test]
    fn definition_is_valid_and_names_existing_commands_and_options() {
        let root = definition();
        root.clone().debug_assert();
        assert!(WITHOUT_SERVERS.iter().all(|name| root.find_subcommand(name).is_some()));
        assert!(SERVER_OPTIONS.iter().all(|id| root.get_arguments().any(|option| option.get_id() == id)));
    }

    #[test]
    fn every_command_is_in_one_group_of_the_help() {
        let root = definition();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        for command in root.get_subcommands().filter(|command| !command.is_hide_set()) {
            let count = grouped.iter().filter(|name| **name == command.get_name()).count();
            assert_eq!(count, 1, "{}", command.get_name());
        }
        let is_known = |name: &&str| *name == "help" || root.find_subcommand(name).is_some();
        assert!(grouped.iter().all(is_known), "{grouped:?}");
    }

    #[test]
    fn options_of_all_commands_are_in_the_long_help_only() {
        for words in [&["toolway"][..], &["toolway", "tools"], &["toolway", "calls", "list"]] {
            let [short, long] = ["-h", "--help"].map(|flag| help(&[words, &[flag]].concat()));
            assert!(!short.contains("--verbose") && long.contains("--verbose"), "{words:?}: {short}");
        }
        assert!(help(&["toolway", "-h"]).contains("Let a model work:\n  chat "));
    }

    #[test]
    fn records_show_no_options_of_servers_and_accept_them() {
        for words in [&["toolway", "calls", "list", "--help"], &["toolway", "audit", "query", "--help"]] {
            let help = help(words);
            assert!(!help.contains("--stdio") && !help.contains("--era"), "{help}");
            assert!(help.contains("--server <NAME>") && help.contains("Only those of this server"), "{help}");
            assert!(help.contains("--config") && help.contains("--output"), "{help}");
        }
        assert!(help(&["toolway", "tools", "--help"]).contains("--stdio"));
        let words = ["toolway", "calls", "list", "--era", "legacy", "--server", "notes"].map(OsString::from);
        let args = parse(&words).unwrap();
        assert_eq!((args.reach.by_name.as_deref(), args.reach.era), (Some("notes"), crate::args::EraArg::Legacy));
        let words = ["toolway", "--server", "notes", "calls", "--url", "http://127.0.0.1:1/"].map(OsString::from);
        let args = parse(&words).unwrap();
        assert_eq!((args.reach.by_name.as_deref(), args.reach.url.is_some()), (Some("notes"), true));
    }
}
