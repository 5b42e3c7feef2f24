//! `toolway servers`: lists and changes the configured servers.

mod accept;
pub(crate) mod apply_edit;
pub(crate) mod change;
mod entry;
pub(crate) mod list;
mod logs;
mod order;
pub(crate) mod show;

use clap::Subcommand;
use toolway_config::{Loaded, ServerConfig};

use super::status::{self, StatusArgs};
use crate::{app::App, effect::Effect, exit_code::ExitCode, loading, output::Output, report::Report, suggestion};

/// List, add, change and control the configured servers
///
/// Changes are made in the file that defines the server and preserve its comments, order and indentation. Files of other
/// applications are never changed; your own file then overrides them. YAML files are not edited; the lines to add are
/// printed instead.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServersArgs {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(list::ListArgs),
    Show(show::ShowServerArgs),
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
  toolway servers                                      All servers, and where each is defined
  toolway servers add files --stdio 'npx -y @modelcontextprotocol/server-filesystem /tmp'
  toolway servers add tickets --url https://example.com/mcp --header 'Authorization: Bearer ${TICKETS_TOKEN}'
  toolway servers disable files
  toolway servers logs files -n 20                     Its standard error output
  toolway servers restart files                        In the running gateway
  toolway servers accept files                         A server of a project file";

impl ServersArgs {
    /// Whether the command changes what a gateway uses.
    fn edits(&self) -> bool {
        matches!(
            &self.action,
            Some(
                Action::Add(_)
                    | Action::Update(_)
                    | Action::Remove(_)
                    | Action::Enable(_)
                    | Action::Disable(_)
                    | Action::Accept(_)
                    | Action::Revoke(_)
            )
        )
    }

    /// Removing an entry can uncover one of the same name in another file.
    pub(crate) fn effect(&self) -> Effect {
        match &self.action {
            Some(Action::Add(_) | Action::Update(_) | Action::Remove(_) | Action::Enable(_) | Action::Accept(_)) => {
                Effect::Widens
            }
            None
            | Some(
                Action::List(_)
                | Action::Show(_)
                | Action::Status(_)
                | Action::Logs(_)
                | Action::Connect(_)
                | Action::Disconnect(_)
                | Action::Restart(_)
                | Action::Refresh(_)
                | Action::Disable(_)
                | Action::Revoke(_),
            ) => Effect::Ordinary,
        }
    }
}

pub(crate) async fn run(args: &ServersArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let ended = run_action(args, app, output).await?;
    if args.edits() {
        app.apply_in_gateway(output).await?;
    }
    Ok(ended)
}

async fn run_action(args: &ServersArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    match &args.action {
        None => list::run(&list::ListArgs {}, app, output).await,
        Some(Action::List(args)) => list::run(args, app, output).await,
        Some(Action::Show(args)) => show::run(args, app, output).await,
        Some(Action::Status(args)) => status::run(args, app, output).await,
        Some(Action::Logs(args)) => logs::run(args, app, output).await,
        Some(Action::Connect(args)) => order::run(args.into(), app, output).await,
        Some(Action::Disconnect(args)) => order::run(args.into(), app, output).await,
        Some(Action::Restart(args)) => order::run(args.into(), app, output).await,
        Some(Action::Refresh(args)) => order::run(args.into(), app, output).await,
        Some(Action::Add(args)) => change::add(args, app, output).await,
        Some(Action::Update(args)) => change::update(args, app, output),
        Some(Action::Remove(args)) => change::remove(args, app, output),
        Some(Action::Enable(args)) => change::enable(args, app, output),
        Some(Action::Disable(args)) => change::disable(args, app, output),
        Some(Action::Accept(args)) => accept::run(args, app, output),
        Some(Action::Revoke(args)) => accept::revoke(args, app, output),
    }
}

/// The server of this name, including those not accepted.
pub(crate) fn find<'a>(loaded: &'a Loaded, wanted: &str) -> Result<&'a ServerConfig, Report> {
    let waiting = || loading::proposal_of(loaded, wanted).map(|proposal| &proposal.server);
    loaded.config.find(wanted).or_else(waiting).ok_or_else(|| {
        if let Some(gap) = loading::gap(&loaded.config, wanted) {
            return loading::unusable(gap);
        }
        let near = suggestion::did_you_mean(wanted, loaded.config.servers.keys().map(|name| name.as_str()));
        Report::usage("unknown_server", format!("unknown server `{wanted}`{near}"))
            .hint("list the servers with `toolway servers`")
    })
}
