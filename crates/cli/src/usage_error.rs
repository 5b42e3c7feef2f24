//! Usage errors of the command line with the suggestion that fits: the nearest option or command, or the option of Toolway for
//! one that other programs have.

use std::ffi::OsString;

use clap::{
    Command,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::command_line;

/// Options of other programs, and what does the same here.
const OF_OTHERS: [(&str, &str); 7] = [
    ("--json", "--output json"),
    ("--format", "--output"),
    ("--port", "--listen 127.0.0.1:PORT"),
    ("--host", "--listen ADDRESS"),
    ("--bearer", "--header 'Authorization: Bearer …'"),
    ("--quiet", "--log-level error"),
    ("--from", "SOURCE, without an option"),
];

/// Letters of a word that can be the beginning of a name.
const SHORTEST_BEGINNING: usize = 3;

/// The same error with better suggestions.
pub(crate) fn with_suggestions(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    let root = command_line::definition();
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidArg).cloned() else { return error };
            if let Some(right) = option_for(&wrong, &root, words) {
                error.remove(ContextKind::Suggested);
                error.insert(ContextKind::SuggestedArg, ContextValue::String(right));
            } else if wrong.starts_with("--") {
                // Nothing says that it was meant as a value.
                error.remove(ContextKind::Suggested);
            }
        }
        ErrorKind::InvalidSubcommand => {
            let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidSubcommand).cloned() else {
                return error;
            };
            let parent = commands(&root, words).pop().unwrap_or(&root);
            let known = parent.get_subcommands().filter(|command| !command.is_hide_set()).map(Command::get_name);
            let near: Vec<String> = nearest(&wrong, known).into_iter().map(str::to_owned).collect();
            error.remove(ContextKind::SuggestedSubcommand);
            if !near.is_empty() {
                error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(near));
            }
        }
        _ => {}
    }
    error
}

/// The known option that is nearest to a wrong one, with both dashes.
fn option_for(wrong: &str, root: &Command, words: &[OsString]) -> Option<String> {
    let path = commands(root, words);
    let visible =
        |command: &&Command| command.get_arguments().filter(|option| !option.is_hide_set()).cloned().collect();
    let options: Vec<Vec<clap::Arg>> = path.iter().map(visible).collect();
    let own = options.last().into_iter().flatten();
    let inherited = options.iter().rev().skip(1).flatten().filter(|option| option.is_global_set());
    let names: Vec<&str> = own.chain(inherited).filter_map(clap::Arg::get_long).collect();
    if let Some((_, right)) = OF_OTHERS.iter().find(|(other, right)| *other == wrong && is_offered(right, &names)) {
        return Some((*right).to_owned());
    }
    nearest(wrong.trim_start_matches('-'), names.iter().copied()).first().map(|name| format!("--{name}"))
}

/// Whether the command has the option that a text begins with, if it begins with one.
fn is_offered(right: &str, names: &[&str]) -> bool {
    let first = right.split_whitespace().next().unwrap_or_default();
    first.strip_prefix("--").is_none_or(|name| names.contains(&name))
}

/// The program and the commands that the words name, from the outside.
fn commands<'a>(root: &'a Command, words: &[OsString]) -> Vec<&'a Command> {
    let mut path = vec![root];
    for word in words.iter().skip(1) {
        if let Some(command) = path.last().and_then(|command| command.find_subcommand(word)) {
            path.push(command);
        }
    }
    path
}

/// The names with the fewest typing errors, if these are few for the length of the word; else those that begin with it.
fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let distances: Vec<(usize, &str)> =
        known.into_iter().map(|name| (strsim::osa_distance(wrong, name), name)).collect();
    let most = (wrong.chars().count() / 3).max(1);
    let Some(least) = distances.iter().map(|(distance, _)| *distance).min().filter(|least| *least <= most) else {
        let longer = distances.into_iter().map(|(_, name)| name);
        return longer.filter(|name| SHORTEST_BEGINNING <= wrong.len() && name.starts_with(wrong)).collect();
    };
    distances.into_iter().filter(|(distance, _)| *distance == least).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tip(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = with_suggestions(command_line::parse(&words).unwrap_err(), &words).to_string();
        error.lines().find_map(|line| line.trim().strip_prefix("tip: ")).unwrap_or_default().to_owned()
    }

    #[test]
    fn a_wrong_word_gets_the_suggestion_that_fits() {
        for (line, expected) in [
            ("toolway tolls", "a similar subcommand exists: 'tools'"),
            ("toolway server list", "some similar subcommands exist: 'servers', 'serve'"),
            ("toolway list", ""),
            ("toolway compl", "some similar subcommands exist: 'complete', 'completions'"),
            ("toolway servers ad x", "a similar subcommand exists: 'add'"),
            ("toolway servers add x --evn A=b", "a similar argument exists: '--env'"),
            ("toolway tools --servr x", "a similar argument exists: '--server'"),
            ("toolway tools --json", "a similar argument exists: '--output json'"),
            ("toolway serve --port 3", "a similar argument exists: '--listen 127.0.0.1:PORT'"),
            ("toolway tools --port 3", "a similar argument exists: '--export'"),
            ("toolway run x --mood allow", "a similar argument exists: '--mode'"),
        ] {
            assert_eq!(tip(line), expected, "{line}");
        }
    }
}
