//! `toolway servers`: which servers there are, and changes to the files that say so.

mod accept;
mod change;
mod entry;
pub(crate) mod list;
mod logs;
pub(crate) mod make;
mod order;

use clap::Subcommand;
use toolway_config::{Loaded, ServerConfig};

use super::status::{self, StatusArgs};
use crate::{app::App, exit_code::ExitCode, loading, output::Output, report::Report, similar};

/// List the configured servers, or change one of them
///
/// A change is made in the file that defines the server, and nothing else in it is touched: comments, order and
/// indentation stay. A file of another host is never changed; your own file then says what is different. A YAML file is
/// not edited: the lines to put there are printed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServersArgs {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(list::ListArgs),
    Status(StatusArgs),
    Logs(logs::LogsArgs),
    Connect(order::ConnectArgs),
    Disconnect(order::DisconnectArgs),
    Restart(order::RestartArgs),
    Refresh(order::RefreshArgs),
    Add(change::AddArgs),
    Update(change::UpdateArgs),
    Remove(change::RemoveArgs),
    Enable(change::EnableArgs),
    Disable(change::DisableArgs),
    Accept(accept::AcceptArgs),
    Revoke(accept::RevokeArgs),
}

const EXAMPLES: &str = "\
Examples:
  toolway servers                                      All of them, and where each is defined
  toolway servers add files --stdio 'npx -y @modelcontextprotocol/server-filesystem /tmp'
  toolway servers add tickets --url https://example.com/mcp --header 'Authorization: Bearer ${TICKETS_TOKEN}'
  toolway servers disable files
  toolway servers logs files -n 20                     What its program says on standard error
  toolway servers restart files                        In the gateway that runs
  toolway servers accept files                         One that a project's file brought along";

pub(crate) async fn run(args: &ServersArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    match &args.action {
        None => list::run(&list::ListArgs {}, app, output),
        Some(Action::List(args)) => list::run(args, app, output),
        Some(Action::Status(args)) => status::run(args, app, output).await,
        Some(Action::Logs(args)) => logs::run(args, app, output).await,
        Some(Action::Connect(args)) => order::run(args.into(), app, output).await,
        Some(Action::Disconnect(args)) => order::run(args.into(), app, output).await,
        Some(Action::Restart(args)) => order::run(args.into(), app, output).await,
        Some(Action::Refresh(args)) => order::run(args.into(), app, output).await,
        Some(Action::Add(args)) => change::add(args, app, output),
        Some(Action::Update(args)) => change::update(args, app, output),
        Some(Action::Remove(args)) => change::remove(args, app, output),
        Some(Action::Enable(args)) => change::enable(args, app, output),
        Some(Action::Disable(args)) => change::disable(args, app, output),
        Some(Action::Accept(args)) => accept::run(args, app, output),
        Some(Action::Revoke(args)) => accept::revoke(args, app, output),
    }
}

/// The server a person means, one that waits included.
fn find<'a>(loaded: &'a Loaded, wanted: &str) -> Result<&'a ServerConfig, Report> {
    let waiting = || loading::proposal_of(loaded, wanted).map(|proposal| &proposal.server);
    loaded.config.find(wanted).or_else(waiting).ok_or_else(|| {
        if let Some(gap) = loading::gap(&loaded.config, wanted) {
            return loading::unusable(gap);
        }
        let report = Report::usage("unknown_server", format!("There is no server `{wanted}`."));
        match similar::to(wanted, loaded.config.servers.keys().map(|name| name.as_str())) {
            Some(near) => report.hint(format!("Did you mean `{near}`?")),
            None => report.hint("`toolway servers` lists those there are."),
        }
    })
}
