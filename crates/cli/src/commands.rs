//! The list of commands.

pub(crate) mod demo;
pub(crate) mod sample;

use crate::{
    args::{Args, Command},
    exit_code::ExitCode,
    output::Output,
};

/// Runs the command that was given.
pub(crate) async fn run(args: Args, output: &mut Output) -> ExitCode {
    match args.command {
        Command::Demo(args) => demo::run(&args, output).await,
        Command::Sample(args) => sample::run(&args, output).await,
    }
}
