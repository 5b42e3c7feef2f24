//! The `toolway` program: parse, run, exit code.

mod app;
mod args;
mod arguments;
mod call_notes;
mod commands;
mod completion;
mod consent;
mod exclusion;
mod exit_code;
mod gateway_line;
mod gathering;
mod loading;
mod output;
mod report;
mod save;
mod schema;
mod server_view;
mod session;
mod sign_in;
mod similar;
mod stop;
mod target;
mod unused;
mod watch;
mod wiring;

use std::{
    ffi::{OsStr, OsString},
    process,
    time::Duration,
};

use clap::{Parser, ValueEnum, error::ErrorKind};
use toolway_config::Environment;

use args::Args;
use exit_code::ExitCode;
use output::{Colour, Format, Output};
use report::Report;

/// Large results are kept and given back without a word to the system each time (docs/decisions/0009-allocator.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long a look-up of a name may hold up the end of the program.
const LAST_WORK: Duration = Duration::from_millis(100);

fn main() -> process::ExitCode {
    toolway_host::keeper::lend();
    let environment: Environment = std::env::vars_os().collect();
    let words = args::expand_at(std::env::args_os());
    let args = match Args::try_parse_from(&words) {
        Ok(args) => args,
        Err(error) => return unparsed(&error, &words, &environment).into(),
    };
    let mut output = standard(args.show.output, &environment);
    let code = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let code = runtime.block_on(commands::run(args, environment, &mut output));
            runtime.shutdown_timeout(LAST_WORK);
            code
        }
        Err(error) => output.failed(ExitCode::Internal, &format!("The runtime did not start: {error}.")),
    };
    code.into()
}

/// Help and version go to stdout and are no failure; anything else is told in the form that was asked for.
fn unparsed(error: &clap::Error, words: &[OsString], environment: &Environment) -> ExitCode {
    if error.print().is_err() {
        return ExitCode::Internal;
    }
    if !error.use_stderr() {
        return ExitCode::Ok;
    }
    let mut output = standard(asked_format(words), environment);
    if matches!(output.format, Format::Json | Format::Ndjson) {
        output.report(&Report::usage("usage", problem(error)));
    }
    ExitCode::Usage
}

/// What is wrong with the words, as one line: the first paragraph of what people are told.
fn problem(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "a command is missing".to_owned();
    }
    let text = error.render().to_string();
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    paragraph.trim_start_matches("error: ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The form of the output in words that could not be parsed.
fn asked_format(words: &[OsString]) -> Option<Format> {
    let texts: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    let after = |flag: &str| texts.windows(2).find(|pair| pair[0] == flag).map(|pair| pair[1]);
    let joined = texts.iter().find_map(|word| word.strip_prefix("--output="));
    let said = joined.or_else(|| after("--output")).or_else(|| after("-o"))?;
    Format::from_str(said, true).ok()
}

fn standard(format: Option<Format>, environment: &Environment) -> Output {
    let variable = |name: &str| environment.get(OsStr::new(name)).and_then(|value| value.to_str());
    let format = format.or_else(|| Format::from_str(variable("TOOLWAY_OUTPUT")?, true).ok());
    let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    let forced = variable("CLICOLOR_FORCE").is_some_and(|value| !value.is_empty() && value != "0");
    let colour = match (is_set("NO_COLOR"), forced) {
        (true, _) => Some(Colour::No),
        (false, true) => Some(Colour::Yes),
        (false, false) => None,
    };
    Output::standard(format, colour)
}
