//! The `toolway` program: parse, run, exit code.

mod args;
mod commands;
mod exit_code;
mod output;

use std::process;

use clap::Parser;

use args::Args;
use exit_code::ExitCode;
use output::Output;

fn main() -> process::ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // Help and version go to stdout and are no failure.
            let code = if error.use_stderr() { ExitCode::Usage } else { ExitCode::Ok };
            return if error.print().is_ok() { code.into() } else { ExitCode::Internal.into() };
        }
    };
    let mut output = Output::standard();
    let code = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(commands::run(args, &mut output)),
        Err(error) => output.failed(ExitCode::Internal, &format!("the runtime did not start: {error}")),
    };
    code.into()
}
