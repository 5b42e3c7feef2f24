//! `toolway store`: retention of records, backup and restore.

mod backup;

use clap::Subcommand;
use serde_json::json;
use toolway_host::record::RetentionPlan;
use toolway_wire::json::Raw;

use backup::{BackupArgs, RestoreArgs};

use crate::{
    app::App,
    effect::Effect,
    exit_code::ExitCode,
    output::{Format, Output},
    report::Report,
    storage,
};

/// Back up and restore the records, and apply their retention
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
    /// Write a backup of the database to a file
    ///
    /// Works while `toolway serve` and other commands run. The file is a database that only its owner can read. Secrets (the
    /// vault and the keys of clients) are part of it only with --with-secrets, encrypted with a passphrase.
    Backup(BackupArgs),
    /// Replace the database by a backup
    ///
    /// Stop `toolway serve` first. The backup and its audit log are verified before anything is changed, and the database
    /// before is kept under another name. Secrets of the backup are stored in the vault, and its client keys replace the
    /// present ones.
    Restore(RestoreArgs),
}

impl StoreArgs {
    pub(crate) fn effect(&self) -> Effect {
        match &self.command {
            // A restore brings back keys, and saved approvals with the records.
            StoreCommand::Restore(_) => Effect::Widens,
            StoreCommand::Backup(args) => args.effect(),
            StoreCommand::Plan | StoreCommand::Prune => Effect::Ordinary,
        }
    }
}

pub(crate) async fn run(args: &StoreArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    match &args.command {
        StoreCommand::Plan => show(&app.records()?.plan_retention().await?, Retention::Planned, output),
        StoreCommand::Prune => show(&app.record_changes()?.prune().await?, Retention::Applied, output),
        StoreCommand::Backup(args) => return backup::write(args, app, output).await,
        StoreCommand::Restore(args) => return backup::restore(args, app, output).await,
    }
    Ok(ExitCode::Ok)
}

/// Whether retention is only planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retention {
    Planned,
    Applied,
}

fn show(plan: &RetentionPlan, retention: Retention, output: &mut Output) {
    let done = retention == Retention::Applied;
    if output.format == Format::Human {
        let verb = if done { "removed" } else { "would remove" };
        let RetentionPlan { corrupt, bodies, calls, audit, conversations, usage } = plan;
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
}
