//! `toolway trust`: saved approvals, and the trust of servers and folders.

mod instructions;
mod levels;
mod lock;

use clap::Subcommand;
use serde_json::{Value, json};
use toolway_config::Trust;
use toolway_host::{
    policy::{Attendance, SavedApproval, SavedEffect, StoredApproval},
    record::kind,
    time,
};
use toolway_wire::json::Raw;

use crate::{
    app::App,
    effect::Effect,
    exit_code::ExitCode,
    output::{self, Format, Output, clean},
    record_id,
    report::Report,
};

/// Show and change what is trusted: saved approvals, servers, folders of projects
///
/// An answer of "always" or "never" to an approval request is saved for one caller, for one tool as it is defined, of one
/// server as it is configured. It lifts `ask`, never `deny`. "always" covers what the approval request said; "never" covers
/// all arguments. It holds where a person is present; `trust allow ID --unattended` lets it hold for `run` and scripts.
///
/// A server is trusted by its level, `untrusted`, `read` or `full`; a server of a project that you have accepted by the folder
/// that the project is in.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TrustArgs {
    #[command(subcommand)]
    command: Option<TrustCommand>,
}

const EXAMPLES: &str = "\
Examples:
  toolway trust
  toolway trust show
  toolway trust show files -o json
  toolway trust server files full
  toolway trust folder add ~/work read
  toolway trust folder remove ~/work
  toolway trust instructions
  toolway trust lock
  toolway trust check";

#[derive(Debug, Subcommand)]
enum TrustCommand {
    /// List saved approvals, newest first
    List,
    /// Show how far servers and folders are trusted, or one server, or one saved approval
    Show {
        /// Name of a server, or id of a saved approval
        #[arg(value_name = "SERVER|ID")]
        what: Option<String>,
    },
    /// Let a saved approval hold where no person is present: `run` and scripts
    ///
    /// Shows what it covers, and asks first. Works at a terminal only.
    Allow {
        /// Id of the saved approval, or the beginning or end of it
        id: String,

        /// Let it hold for unattended use
        #[arg(long, required = true)]
        unattended: bool,
    },
    /// Remove a saved approval
    Remove {
        /// Id of the saved approval, or the beginning or end of it
        id: String,
    },
    /// Set the trust of a server of yours
    Server {
        /// Name of the server
        name: String,

        /// `untrusted`, `read` or `full`
        #[arg(value_parser = parse_trust)]
        level: Trust,
    },
    /// Write the definitions of the project's servers to `toolway.lock`, beside the project's file
    ///
    /// Connects the servers of the project that you have accepted, and lists their tools.
    Lock,
    /// Compare the project's servers with `toolway.lock`; exits with 7 if one differs
    Check,
    /// Show the project's `TOOLWAY.md`, and accept it as instructions to the model
    ///
    /// A model gets it in `chat` and `run` after you have accepted exactly this text. A file that changes has to be accepted
    /// again; the difference is shown. In a script, give the digest that was shown.
    Instructions(instructions::InstructionsArgs),
    /// Trust the accepted servers of projects inside a folder
    #[command(subcommand)]
    Folder(levels::FolderCommand),
}

impl TrustArgs {
    /// A saved approval that is removed may be a "never".
    pub(crate) fn effect(&self) -> Effect {
        match &self.command {
            Some(
                TrustCommand::Remove { .. }
                | TrustCommand::Allow { .. }
                | TrustCommand::Server { .. }
                | TrustCommand::Lock
                | TrustCommand::Instructions(_)
                | TrustCommand::Folder(_),
            ) => Effect::Widens,
            None | Some(TrustCommand::List | TrustCommand::Show { .. } | TrustCommand::Check) => Effect::Ordinary,
        }
    }
}

pub(crate) async fn run(args: &TrustArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let saved = async || app.records()?.approvals().await.map_err(Report::from);
    match &args.command {
        None | Some(TrustCommand::List) => Ok(list(&saved().await?, output)),
        Some(TrustCommand::Show { what }) => {
            let loaded = app.load()?;
            match what.as_deref() {
                None => levels::show_all(&loaded, app, output),
                Some(name) => match loaded.config.find(name) {
                    Some(server) => levels::show_server(server, output),
                    None => show(find(&saved().await?, name)?, output),
                },
            }
            Ok(ExitCode::Ok)
        }
        Some(TrustCommand::Allow { id, .. }) => allow(find(&saved().await?, id)?, app, output).await,
        Some(TrustCommand::Remove { id }) => remove(find(&saved().await?, id)?, app, output).await,
        Some(TrustCommand::Server { name, level }) => levels::set_server(name, *level, app, output).await,
        Some(TrustCommand::Lock) => lock::write(app, output).await,
        Some(TrustCommand::Check) => lock::check(app, output).await,
        Some(TrustCommand::Instructions(args)) => instructions::run(args, app, output),
        Some(TrustCommand::Folder(command)) => levels::change_folder(command, app, output).await,
    }
}

/// Parses a level of trust.
fn parse_trust(text: &str) -> Result<Trust, String> {
    Trust::parse(text).ok_or_else(|| "must be `untrusted`, `read` or `full`".to_owned())
}

/// One saved approval.
fn show(stored: &StoredApproval, output: &mut Output) {
    if output.format != Format::Human {
        return output.json(&Raw::of(&view(stored)));
    }
    let approval = &stored.approval;
    let caller = clean::flat(&approval.key.caller);
    let words = approval.effect.as_str();
    output.line(&format!("{}: {words} {} of `{}` for {caller}", approval.id, tool(approval), approval.key.server));
    output.line(&format!("covers: {}", covers(approval)));
    output.line(&format!("holds: {}", holds(approval)));
    output.line(&format!(
        "saved: {} by {}",
        output.clock().brief(time::micros(approval.created_at)),
        stored.created_by
    ));
}

/// Lets an approval hold for unattended use. A program cannot do that by itself: it needs a terminal.
async fn allow(stored: &StoredApproval, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let approval = &stored.approval;
    if approval.effect == SavedEffect::Deny {
        let message = format!("`{}` is a refusal, which holds everywhere", approval.id);
        return Err(Report::usage("invalid_approval", message));
    }
    if !output::is_interactive() {
        let message = "an approval is extended to unattended use at a terminal only";
        return Err(Report::new(ExitCode::Denied, "no_terminal", message)
            .hint("for scripts, write a rule: `toolway policy allow`"));
    }
    if is_outdated(approval) {
        let message = format!("`{}` was saved by an earlier release and allows nothing", approval.id);
        return Err(Report::usage("invalid_approval", message));
    }
    let caller = clean::flat(&approval.key.caller);
    let asked = format!("{} of `{}` for {caller} covers: {}", tool(approval), approval.key.server, covers(approval));
    output.notice(&asked);
    if !app.confirm("Let this hold for `run` and scripts, where you are not asked? [y/N]")? {
        return Err(Report::new(ExitCode::Denied, "declined", "nothing was changed"));
    }
    app.record_changes()?.set_approval_holds(&approval.id, Attendance::Unattended).await?;
    note(app, approval, "unattended");
    output.line("It also holds for `run` and scripts now.");
    Ok(ExitCode::Ok)
}

async fn remove(stored: &StoredApproval, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let approval = &stored.approval;
    app.record_changes()?.remove_approval(&approval.id).await?;
    note(app, approval, "removed");
    output.line(&format!("Removed the saved approval of {} of `{}`.", tool(approval), approval.key.server));
    Ok(ExitCode::Ok)
}

fn note(app: &App, approval: &SavedApproval, change: &str) {
    let details = json!({ "change": change, "id": approval.id, "effect": approval.effect.as_str() });
    app.audit(kind::APPROVAL, Some(approval.key.server.as_str()), Some(&approval.key.tool), &details);
}

/// The saved approval with this id, or with an id that begins or ends like this.
fn find<'a>(saved: &'a [StoredApproval], id: &str) -> Result<&'a StoredApproval, Report> {
    let matching = record_id::select(saved.iter().collect(), id, |stored| stored.approval.id.clone());
    match matching.as_slice() {
        [one] => Ok(one),
        [] => {
            let message = format!("no saved approval has the id `{id}`");
            Err(Report::usage("unknown_approval", message).hint("list them with `toolway trust list`"))
        }
        several => {
            let ids: Vec<String> = several.iter().map(|stored| stored.approval.id.clone()).collect();
            Err(record_id::ambiguous("unknown_approval", "saved approvals", id, &ids))
        }
    }
}

fn list(saved: &[StoredApproval], output: &mut Output) -> ExitCode {
    match output.format {
        Format::Human if saved.is_empty() => output.notice("toolway: no saved approvals"),
        Format::Human => {
            let clock = output.clock();
            let row = |stored: &StoredApproval| {
                let approval = &stored.approval;
                let effect = approval.effect.as_str().to_owned();
                let saved_at = clock.brief(time::micros(approval.created_at));
                let holds = holds(approval).to_owned();
                [
                    record_id::short(&approval.id),
                    effect,
                    approval.key.caller.clone(),
                    approval.key.server.to_string(),
                    tool(approval),
                    holds,
                    saved_at,
                    covers(approval),
                ]
            };
            let rows: Vec<_> = saved.iter().map(row).collect();
            // The last column is never cut: a sentence without its end would say less than it covers.
            output.table(["ID", "EFFECT", "CALLER", "SERVER", "TOOL", "HOLDS", "SAVED", "COVERS"], &rows);
        }
        _ => output.json(&Raw::of(&saved.iter().map(view).collect::<Vec<_>>())),
    }
    ExitCode::Ok
}

/// The name of a tool; of anything else with the method. Names come from servers and callers.
fn tool(approval: &SavedApproval) -> String {
    if approval.scope.is_about_hosts() {
        return "every tool".to_owned();
    }
    let name = clean::flat(&approval.key.tool);
    match approval.method() {
        "tools/call" => name,
        method if method == approval.key.tool => format!("method {name}"),
        method => format!("{name} ({})", clean::flat(method)),
    }
}

/// What it covers, in words.
fn covers(approval: &SavedApproval) -> String {
    match (is_outdated(approval), approval.effect) {
        (true, SavedEffect::Allow) => "nothing: of an earlier release, asked about again".to_owned(),
        (_, SavedEffect::Deny) => "any arguments".to_owned(),
        (false, SavedEffect::Allow) => clean::flat(&approval.scope.to_string()),
    }
}

/// Where it holds.
fn holds(approval: &SavedApproval) -> &'static str {
    match (approval.effect, approval.holds) {
        (SavedEffect::Deny, _) => "everywhere",
        (SavedEffect::Allow, Attendance::Attended) => "attended",
        (SavedEffect::Allow, Attendance::Unattended) => "everywhere",
    }
}

fn is_outdated(approval: &SavedApproval) -> bool {
    approval.key.entry.is_empty()
}

fn view(stored: &StoredApproval) -> Value {
    let approval = &stored.approval;
    json!({
        "id": approval.id,
        "effect": approval.effect.as_str(),
        "caller": approval.key.caller,
        "server": approval.key.server.as_str(),
        "entry": approval.key.entry,
        "tool": approval.key.tool,
        "method": approval.method(),
        "covers": covers(approval),
        "scope": serde_json::from_str::<Value>(&approval.scope.to_json()).unwrap_or_default(),
        "unattended": approval.holds == Attendance::Unattended,
        "digest": approval.key.digest,
        "createdAt": time::rfc3339_of(approval.created_at),
        "createdBy": stored.created_by,
    })
}
