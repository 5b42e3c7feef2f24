//! The command line as clap parses it: the definitions of `args`, without the options of servers in the help of commands
//! that connect to none.

use std::ffi::OsString;

use clap::{Arg, Command, CommandFactory, FromArgMatches};

use crate::args::Args;

/// Commands that connect to no server.
const WITHOUT_SERVERS: [&str; 11] =
    ["audit", "calls", "clients", "completions", "history", "inbox", "man", "models", "secret", "store", "trust"];

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

/// The definition of all commands.
pub(crate) fn definition() -> Command {
    let root = Args::command();
    let options: Vec<Arg> =
        root.get_arguments().filter(|option| SERVER_OPTIONS.contains(&option.get_id().as_str())).cloned().collect();
    root.mut_subcommands(|command| {
        let name = command.get_name().to_owned();
        let is_without = WITHOUT_SERVERS.contains(&name.as_str());
        let own = options.iter().filter(|_| is_without).map(|option| as_seen_in(&name, option));
        command.args(own)
    })
}

/// Parses the words of a command line.
pub(crate) fn parse(words: &[OsString]) -> Result<Args, clap::Error> {
    let mut matches = definition().try_get_matches_from(words)?;
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
