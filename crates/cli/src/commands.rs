//! The list of commands.

pub(crate) mod call;
pub(crate) mod complete;
pub(crate) mod demo;
pub(crate) mod ping;
pub(crate) mod prompts;
pub(crate) mod resources;
pub(crate) mod rpc;
pub(crate) mod sample;
pub(crate) mod tools;

use toolway_config::Environment;

use crate::{
    app::App,
    args::{Args, Command},
    exit_code::ExitCode,
    output::Output,
};

/// Runs the command that was given.
pub(crate) async fn run(args: Args, environment: Environment, output: &mut Output) -> ExitCode {
    match &args.command {
        Command::Demo(args) => return demo::run(args, output).await,
        Command::Sample(sample) => return sample::run(sample, args.reach.era, output).await,
        _ => {}
    }
    let app = App::new(environment, args.reach, args.show);
    let ended = match &args.command {
        Command::Tools(args) => tools::run(args, &app, output).await,
        Command::Call(args) => call::run(args, &app, output).await,
        Command::Resources(args) => resources::run(args, &app, output).await,
        Command::Prompts(args) => prompts::run(args, &app, output).await,
        Command::Complete(args) => complete::run(args, &app, output).await,
        Command::Ping(args) => ping::run(args, &app, output).await,
        Command::Rpc(args) => rpc::run(args, &app, output).await,
        Command::Demo(_) | Command::Sample(_) => Ok(ExitCode::Ok),
    };
    ended.unwrap_or_else(|report| output.report(&report))
}
