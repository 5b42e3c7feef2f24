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
/// `store.maxAge` and `store.maxBytes` of the configuration limit what is kept. Without them nothing is removed.
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
            let store = app.open_store(&settings)?;
            store.prune(&limits).await.map_err(|error| storage::failed(&error))?
        }
    };
    let done = matches!(args.command, StoreCommand::Prune);
    if output.format == Format::Human {
        let verb = if done { "removed" } else { "would remove" };
        let RetentionPlan { calls, audit, conversations, bytes, .. } = &plan;
        output.line(&format!("{verb} {calls} calls, {audit} audit entries and {conversations} conversations"));
        output.line(&format!("the store had {bytes} bytes of data"));
        if limits == RetentionLimits::default() {
            output.notice("toolway: no limits are configured; set `store.maxAge` or `store.maxBytes`");
        }
    } else {
        output.json(&Raw::of(&json!({
            "calls": plan.calls,
            "auditEntries": plan.audit,
            "conversations": plan.conversations,
            "bytes": plan.bytes,
            "callsBefore": plan.calls_before.map(time::rfc3339),
            "applied": done,
        })));
    }
    Ok(ExitCode::Ok)
}
