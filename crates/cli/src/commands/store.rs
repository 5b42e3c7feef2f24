//! `toolway store`: retention of records.

use clap::Subcommand;
use serde_json::json;
use toolway_store::{
    retention::{RetentionLimits, RetentionPlan},
    time,
};
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
    let settings = app.load()?.config.settings;
    let limits = storage::retention_limits(&settings);
    let plan = match args.command {
        StoreCommand::Plan => match app.open_reader()? {
            Some(reader) => reader.plan_retention(&limits, time::now()).map_err(|error| storage::failed(&error))?,
            None => RetentionPlan::default(),
        },
        StoreCommand::Prune => {
            let store = app.open_store_with(&settings, RetentionLimits::default())?;
            store.prune(&limits).await.map_err(|error| storage::failed(&error))?
        }
    };
    let done = matches!(args.command, StoreCommand::Prune);
    if output.format == Format::Human {
        let verb = if done { "removed" } else { "would remove" };
        let RetentionPlan { files, bodies, calls, audit, conversations, size } = &plan;
        output.line(&format!(
            "{verb} {calls} calls, {bodies} bodies, {audit} audit entries, {conversations} conversations and {files} \
             corrupt files"
        ));
        output.line(&storage::fullness(size, &limits));
    } else {
        output.json(&Raw::of(&json!({
            "calls": plan.calls,
            "auditEntries": plan.audit,
            "conversations": plan.conversations,
            "bodies": plan.bodies,
            "corruptFiles": plan.files,
            "bytes": plan.size.total(),
            "maxBytes": limits.max_bytes,
            "applied": done,
        })));
    }
    Ok(ExitCode::Ok)
}
