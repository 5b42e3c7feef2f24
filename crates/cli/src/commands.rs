//! The list of commands.

pub(crate) mod assistants;
pub(crate) mod audit;
pub(crate) mod auth;
pub(crate) mod call;
pub(crate) mod calls;
pub(crate) mod chat;
pub(crate) mod clients;
pub(crate) mod complete;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod console;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod history;
pub(crate) mod import;
pub(crate) mod inbox;
pub(crate) mod login;
pub(crate) mod logout;
pub(crate) mod man;
pub(crate) mod models;
pub(crate) mod ping;
pub(crate) mod policy;
pub(crate) mod prompts;
pub(crate) mod resources;
pub(crate) mod roots;
pub(crate) mod rpc;
pub(crate) mod run;
pub(crate) mod sample;
pub(crate) mod secret;
pub(crate) mod serve;
pub(crate) mod servers;
pub(crate) mod status;
pub(crate) mod store;
pub(crate) mod tasks;
pub(crate) mod tools;
pub(crate) mod trust;

use toolway_config::Environment;
use toolway_host::keeper::Descent;

use crate::{
    app::App,
    args::{Args, Command},
    effect,
    exit_code::ExitCode,
    logging::Log,
    message_export::MessageExport,
    output::Output,
    report::Report,
};

/// Runs the parsed command and prints its failure, if any.
pub(crate) async fn run(args: Args, environment: Environment, log: Log, output: &mut Output) -> ExitCode {
    let Args { reach, show, command, .. } = args;
    if let Err(report) = effect::refuse_servers(command.effect(), Descent::own) {
        return output.report(&report);
    }
    let ended = match &command {
        Command::Demo(_)
        | Command::Sample(_)
        | Command::Completions(_)
        | Command::Candidates(_)
        | Command::Man(_)
        | Command::Reference(_)
            if show.export.is_some() =>
        {
            Err(Report::usage("usage", "this command takes no `--export`: it connects to no configured server"))
        }
        Command::Demo(args) => Ok(demo::run(args, output).await),
        Command::Sample(args) => Ok(sample::run(args, reach.era, output).await),
        Command::Completions(args) => Ok(completions::run(args, output)),
        Command::Candidates(args) => Ok(completions::candidates(args, &environment, output)),
        Command::Man(args) => man::run(args, output),
        Command::Reference(args) => Ok(man::reference(args, output)),
        of_server => {
            let app = App::new(environment, reach, show, log);
            match app.show.export.as_deref().map(MessageExport::create).transpose() {
                Ok(export) => {
                    let app = App { export, ..app };
                    let ended = run_of_server(of_server, &app, output).await;
                    app.end_export(output);
                    ended
                }
                Err(report) => Err(report),
            }
        }
    };
    ended.unwrap_or_else(|report| output.report(&report))
}

/// Runs a command that connects to servers or reads the configuration.
async fn run_of_server(command: &Command, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    match command {
        Command::Tools(args) => tools::run(args, app, output).await,
        Command::Call(args) => call::run(args, app, output).await,
        Command::Resources(args) => resources::run(args, app, output).await,
        Command::Prompts(args) => prompts::run(args, app, output).await,
        Command::Complete(args) => complete::run(args, app, output).await,
        Command::Ping(args) => ping::run(args, app, output).await,
        Command::Rpc(args) => rpc::run(args, app, output).await,
        Command::Status(args) => status::run(args, app, output).await,
        Command::Doctor(args) => doctor::run(args, app, output).await,
        Command::Servers(args) => servers::run(args, app, output).await,
        Command::Serve(args) => serve::run(args, app, output).await,
        Command::Console(args) => console::run(args, app, output).await,
        Command::Clients(args) => clients::run(args, app, output).await,
        Command::Login(args) => login::run(args, app, output).await,
        Command::Logout(args) => logout::run(args, app, output).await,
        Command::Auth(args) => auth::run(args, app, output).await,
        Command::Import(args) => import::run(args, app, output).await,
        Command::Config(args) => config::run(args, app, output).await,
        Command::Models(args) => models::run(args, app, output).await,
        Command::Assistants(args) => assistants::run(args, app, output),
        Command::Run(args) => run::run(args, app, output).await,
        Command::Chat(args) => chat::run(args, app, output).await,
        Command::History(args) => history::run(args, app, output).await,
        Command::Inbox(args) => inbox::run(args, app, output).await,
        Command::Calls(args) => calls::run(args, app, output).await,
        Command::Tasks(args) => tasks::run(args, app, output).await,
        Command::Audit(args) => audit::run(args, app, output).await,
        Command::Policy(args) => policy::run(args, app, output).await,
        Command::Secret(args) => secret::run(args, app, output).await,
        Command::Roots(args) => roots::run(args, app, output).await,
        Command::Trust(args) => trust::run(args, app, output).await,
        Command::Store(args) => store::run(args, app, output).await,
        Command::Demo(_)
        | Command::Sample(_)
        | Command::Completions(_)
        | Command::Candidates(_)
        | Command::Man(_)
        | Command::Reference(_) => Ok(ExitCode::Ok),
    }
}
