//! `toolway trust`: saved approvals.

use clap::Subcommand;
use serde_json::{Value, json};
use toolway_host::{policy::ArgumentPattern, record::kind};
use toolway_store::{approvals::SavedApproval, time};
use toolway_wire::json::Raw;

use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Format, Output, clean},
    report::Report,
    storage,
};

/// List and remove saved approvals
///
/// An answer of "always" or "never" to an approval request is saved for one caller, tool and definition. It lifts `ask`,
/// never `deny`. "always" covers calls with the same paths, addresses and commands; "never" covers all arguments. A tool
/// whose definition changes is asked about again.
#[derive(Debug, clap::Args)]
pub(crate) struct TrustArgs {
    #[command(subcommand)]
    command: Option<TrustCommand>,
}

#[derive(Debug, Subcommand)]
enum TrustCommand {
    /// List saved approvals, newest first
    List,
    /// Remove a saved approval
    Remove {
        /// Id of the saved approval, or the beginning of it
        id: String,
    },
}

pub(crate) async fn run(args: &TrustArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let failed = |error| storage::failed(&error);
    let reader = app.open_reader()?;
    let saved = reader.map_or(Ok(Vec::new()), |reader| reader.approvals()).map_err(failed)?;
    match &args.command {
        None | Some(TrustCommand::List) => Ok(list(&saved, output)),
        Some(TrustCommand::Remove { id }) => {
            let approval = find(&saved, id)?;
            let store = app.open_store(&app.load()?.config.settings)?;
            store.remove_approval(approval.id).await.map_err(failed)?;
            let details =
                json!({ "change": "removed", "id": approval.id.to_string(), "effect": approval.effect.as_str() });
            app.audit(kind::APPROVAL, Some(&approval.server), Some(&approval.tool), &details);
            output.line(&format!("Removed the saved approval of `{}` of `{}`.", approval.tool, approval.server));
            Ok(ExitCode::Ok)
        }
    }
}

/// The saved approval with this id, or with an id that begins like this.
fn find<'a>(saved: &'a [SavedApproval], id: &str) -> Result<&'a SavedApproval, Report> {
    let mut matching = saved.iter().filter(|approval| approval.id.to_string().starts_with(id));
    let message = match (matching.next(), matching.next()) {
        (Some(approval), None) => return Ok(approval),
        (Some(_), Some(_)) => format!("several saved approvals have ids that begin with `{id}`"),
        (None, _) => format!("no saved approval has the id `{id}`"),
    };
    Err(Report::usage("unknown_approval", message).hint("list them with `toolway trust list`"))
}

fn list(saved: &[SavedApproval], output: &mut Output) -> ExitCode {
    match output.format {
        Format::Human if saved.is_empty() => output.notice("toolway: no saved approvals"),
        Format::Human => {
            let row = |approval: &SavedApproval| {
                let (id, effect) = (approval.id.to_string(), approval.effect.as_str().to_owned());
                let (caller, server, tool) = (approval.caller.clone(), approval.server.clone(), tool(approval));
                [id, effect, caller, server, tool, arguments(approval), time::rfc3339(approval.created_at)]
            };
            let rows: Vec<_> = saved.iter().map(row).collect();
            output.table(["ID", "EFFECT", "CALLER", "SERVER", "TOOL", "ARGUMENTS", "SAVED"], &rows);
        }
        _ => output.json(&Raw::of(&saved.iter().map(view).collect::<Vec<_>>())),
    }
    ExitCode::Ok
}

/// The name of a tool; of anything else with the method. Names come from servers and callers.
fn tool(approval: &SavedApproval) -> String {
    let name = clean::flat(&approval.tool);
    match approval.method() {
        "tools/call" => name,
        method if method == approval.tool => format!("method {name}"),
        method => format!("{name} ({})", clean::flat(method)),
    }
}

/// The arguments that a saved approval covers, in words.
fn arguments(approval: &SavedApproval) -> String {
    let pattern = approval.arguments.as_deref().map(|text| (ArgumentPattern::parse(text), text));
    match pattern {
        None => "any".to_owned(),
        Some((Some(pattern), _)) => clean::flat(&pattern.to_string()),
        Some((None, text)) => clean::flat(text),
    }
}

fn view(approval: &SavedApproval) -> Value {
    json!({
        "id": approval.id.to_string(),
        "effect": approval.effect.as_str(),
        "caller": approval.caller,
        "server": approval.server,
        "tool": approval.tool,
        "method": approval.method(),
        "arguments": approval.arguments.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok()),
        "digest": approval.digest,
        "createdAt": time::rfc3339(approval.created_at),
        "createdBy": approval.created_by,
    })
}
