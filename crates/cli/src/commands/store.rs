//! `toolway store`: retention of records.

use clap::Subcommand;
use serde_json::json;
use toolway_host::record::RetentionPlan;
use toolway_wire::json::Raw;

use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Format, Output},
    report::Report,
    storage,
};

/// Plan and apply the retention of recorded calls
///
/// `store.maxBytes` (default 2 GB) and `store.maxAge` (default 90 days) limit what is kept. Every process that records calls
/// applies them while it does; `prune` applies them at once. Conversations and audit entries are removed only by
/// `store.conversations.maxAge` and `store.audit.maxAge`.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// Show what `prune` would remove
    Plan,
    /// Remove what the configured limits do not keep
    Prune,
}

pub(crate) async fn run(args: &StoreArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let plan = match args.command {
        StoreCommand::Plan => app.records()?.plan_retention().await?,
        StoreCommand::Prune => app.record_changes()?.prune().await?,
    };
    let done = matches!(args.command, StoreCommand::Prune);
    if output.format == Format::Human {
        let verb = if done { "removed" } else { "would remove" };
        let RetentionPlan { corrupt, bodies, calls, audit, conversations, usage } = &plan;
        output.line(&format!(
            "{verb} {calls} calls, {bodies} bodies, {audit} audit entries, {conversations} conversations and {corrupt} \
             corrupt files"
        ));
        output.line(&storage::fullness(usage));
    } else {
        output.json(&Raw::of(&json!({
            "calls": plan.calls,
            "auditEntries": plan.audit,
            "conversations": plan.conversations,
            "bodies": plan.bodies,
            "corruptFiles": plan.corrupt,
            "bytes": plan.usage.bytes,
            "maxBytes": plan.usage.max_bytes,
            "applied": done,
        })));
    }
    Ok(ExitCode::Ok)
}
