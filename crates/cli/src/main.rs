//! The `toolway` binary: parses the command line, runs the command, returns its exit code.

mod ad_hoc_server;
mod answering_tools;
mod app;
mod args;
mod arguments;
mod assistant;
mod attach_args;
mod chat;
mod client_setup;
mod clock;
mod cluster;
mod command_line;
mod commands;
mod completion;
mod compose;
mod consent;
mod console_backend;
mod cost;
mod effect;
mod entry_secrets;
mod example_call;
mod exclusion;
mod exit_code;
mod exposure;
mod gateway_control;
mod gateway_inbox;
mod installed_package;
mod lifecycle;
mod line_difference;
mod listing_cache;
mod loading;
mod logging;
mod markdown;
mod message_export;
mod model_proposal;
mod models;
mod multi_server_host;
mod output;
mod pasted_server;
mod planned_change;
mod project_instructions;
#[cfg(test)]
#[path = "../../wire/src/property.rs"]
mod property;
mod record_args;
mod record_id;
mod report;
mod roots;
mod sampler;
mod save;
mod schema;
mod server_view;
mod sign_in;
mod single_server_host;
mod stop;
mod storage;
mod suggestion;
mod target;
mod terminal;
mod unused;
mod usage_error;
mod verbose_call_log;
mod watched_config;
mod wire_tap;

use std::{
    ffi::{OsStr, OsString},
    process,
    time::Duration,
};

use clap::{ValueEnum, error::ErrorKind};
use toolway_config::Environment;

use exit_code::ExitCode;
use logging::Log;
use output::{Colour, Format, Output};
use report::Report;

/// Reuses the memory of large results instead of returning it to the system (docs/decisions/0009-allocator.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Longest time that a pending DNS lookup may delay process exit.
const RUNTIME_SHUTDOWN: Duration = Duration::from_millis(100);

fn main() -> process::ExitCode {
    toolway_host::keeper::run_if_keeper();
    // Without it, servers that run as the same user could read our secrets. The kernel refuses it to no process.
    drop(toolway_host::keeper::hide_memory());
    let environment: Environment = std::env::vars_os().collect();
    let words = args::expand_at(std::env::args_os());
    let args = match command_line::parse(&words) {
        Ok(args) => args,
        Err(error) => {
            return report_parse_error(&usage_error::with_suggestions(error, &words), &words, &environment).into();
        }
    };
    let mut output = standard_output(args.show.output, &environment);
    let log = match Log::install(&args.log, args.command.access_log(), &environment) {
        Ok(log) => log,
        Err(report) => return output.report(&report).into(),
    };
    let code = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let code = runtime.block_on(commands::run(args, environment, log.clone(), &mut output));
            runtime.shutdown_timeout(RUNTIME_SHUTDOWN);
            code
        }
        Err(error) => output.fail(ExitCode::Internal, &format!("cannot start the async runtime: {error}")),
    };
    log.flush();
    code.into()
}

/// Prints help, version or a usage error. Help and version go to stdout and exit with 0; a usage error is also printed as
/// JSON if the command line asks for that format.
fn report_parse_error(error: &clap::Error, words: &[OsString], environment: &Environment) -> ExitCode {
    if error.print().is_err() {
        return ExitCode::Internal;
    }
    if !error.use_stderr() {
        return ExitCode::Ok;
    }
    let mut output = standard_output(requested_format(words), environment);
    if matches!(output.format, Format::Json | Format::Ndjson) {
        output.report(&Report::usage("usage", problem(error)));
    }
    ExitCode::Usage
}

/// The usage error on one line: the first paragraph of clap's text.
fn problem(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "missing command".to_owned();
    }
    let text = error.render().to_string();
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    paragraph.trim_start_matches("error: ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The `--output` format in a command line that failed to parse.
fn requested_format(words: &[OsString]) -> Option<Format> {
    let texts: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    let after = |flag: &str| texts.windows(2).find(|pair| pair[0] == flag).map(|pair| pair[1]);
    let joined = texts.iter().find_map(|word| word.strip_prefix("--output="));
    let name = joined.or_else(|| after("--output")).or_else(|| after("-o"))?;
    Format::from_str(name, true).ok()
}

fn standard_output(format: Option<Format>, environment: &Environment) -> Output {
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
