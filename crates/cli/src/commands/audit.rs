//! `toolway audit`: the hash-chained audit log.

use clap::{
    Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};
use serde_json::{Value, json};
use toolway_host::{
    record::{AuditEntry, AuditFilter, AuditGroup, Verified, kind},
    time::{self, Micros},
};
use toolway_wire::json::Raw;

use crate::{
    app::App,
    clock::Clock,
    exit_code::ExitCode,
    output::{Format, Listing, Output},
    record_args::{RecordArgs, parse_since},
    report::Report,
};

/// Query, verify and export the audit log
///
/// The log contains calls, decisions, approvals and changes. Each entry contains the hash of the entry before it, so that
/// a changed, removed or inserted entry is found.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    command: AuditCommand,
}

const EXAMPLES: &str = "\
Examples:
  toolway audit query --kind approval --since 24h
  toolway audit query --group tool_call --since 2026-11-16T00:00:00Z --until 2026-11-17T00:00:00Z
  toolway audit verify
  toolway audit export > audit.ndjson";

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// List entries, newest first
    Query {
        /// Only entries of this kind
        #[arg(long, value_parser = kind::ALL)]
        kind: Option<String>,

        /// Only entries of this group: kinds that belong together, under the names that dashboards use
        #[arg(long, value_parser = parse_group(), conflicts_with = "kind")]
        group: Option<AuditGroup>,

        /// Only those until then: a time (RFC 3339) or a duration before now such as `2h`
        #[arg(long, value_name = "TIME", value_parser = parse_since)]
        until: Option<Micros>,

        #[command(flatten)]
        records: RecordArgs,
    },
    /// Check that no entry was changed, removed or inserted
    Verify,
    /// Print all entries as JSON, one per line, oldest first
    Export,
}

/// Entries that are read at once by `export`.
const PAGE: usize = 1_000;

pub(crate) async fn run(args: &AuditArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    match &args.command {
        AuditCommand::Query { kind, group, until, records } => {
            let filter = AuditFilter {
                kind: kind.clone(),
                group: *group,
                caller: records.caller.clone(),
                server: app.reach.by_name.clone(),
                since: records.since,
                until: *until,
                limit: records.limit,
                ..AuditFilter::default()
            };
            if let (Some(since), Some(until)) = (filter.since, filter.until)
                && until < since
            {
                return Err(Report::usage("arguments", "`--until` is before `--since`"));
            }
            let by_what = kind.is_some() || group.is_some() || filter.server.is_some();
            let is_filter = by_what || until.is_some() || records.is_filter();
            let empty = if is_filter { "no audit entry matches" } else { LISTING.empty };
            output.listing(&app.records()?.audit(filter).await?, &Listing { empty, ..LISTING });
            Ok(ExitCode::Ok)
        }
        AuditCommand::Verify => verify(app, output).await,
        AuditCommand::Export => export(app, output).await,
    }
}

fn parse_group() -> impl TypedValueParser<Value = AuditGroup> {
    PossibleValuesParser::new(AuditGroup::ALL.map(AuditGroup::as_str))
        .try_map(|name| AuditGroup::named(&name).ok_or("no such group"))
}

const LISTING: Listing<'_, AuditEntry, 6> = Listing {
    empty: "no audit entries",
    headings: ["ENTRY", "TIME", "KIND", "CALLER", "SUBJECT", "DETAILS"],
    row,
    id: |entry| view(entry).to_string(),
    view,
};

fn row(entry: &AuditEntry, clock: Clock) -> [String; 6] {
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "–".to_owned());
    // An entry about a server as a whole has no other subject.
    let subject = text(&entry.subject.clone().or_else(|| entry.server.clone()));
    let (seq, at) = (entry.seq.to_string(), clock.brief(entry.at));
    [seq, at, entry.kind.clone(), text(&entry.caller), subject, entry.details.clone()]
}

async fn verify(app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let records = app.records()?;
    let verified = records.verify_audit().await?;
    let origin = records.log_origin().await?;
    match verified {
        Verified::Intact { entries, checkpoint } => {
            let removed_at = origin.removed_at.map(time::rfc3339);
            if output.format == Format::Human {
                let after = if checkpoint > 0 { format!(" after entry {checkpoint}") } else { String::new() };
                output.line(&format!("{entries} entries{after} are intact"));
                if let Some(at) = removed_at {
                    output.line(&format!(
                        "entries 1 to {checkpoint} were removed by retention (`store.audit.maxAge`), the last of them at {at}"
                    ));
                }
                if let Some(replaces) = &origin.replaces {
                    output.print_wrapped(
                        "",
                        &format!("entry 1 says that this log replaces that of the corrupt database `{replaces}`"),
                    );
                }
            } else {
                output.json(&Raw::of(&json!({
                    "entries": entries,
                    "checkpoint": checkpoint,
                    "removedAt": removed_at,
                    "replaces": origin.replaces,
                    "intact": true,
                })));
            }
            Ok(ExitCode::Ok)
        }
        Verified::Broken { seq } => {
            let message = format!("the audit log was modified: the hash chain is broken at entry {seq}");
            Err(Report::new(ExitCode::Protocol, "audit_broken", message))
        }
    }
}

async fn export(app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let records = app.records()?;
    let mut after = 0;
    loop {
        let filter = AuditFilter { after: Some(after), limit: PAGE, ..AuditFilter::default() };
        let entries = records.audit(filter).await?;
        let Some(last) = entries.last() else { break };
        after = last.seq;
        for entry in &entries {
            output.content(format!("{}\n", view(entry)).as_bytes());
        }
    }
    Ok(ExitCode::Ok)
}

fn view(entry: &AuditEntry) -> Value {
    let hash: String = entry.hash.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({
        "entry": entry.seq,
        "at": time::rfc3339(entry.at),
        "kind": entry.kind,
        "group": AuditGroup::of(entry).map(AuditGroup::as_str),
        "caller": entry.caller,
        "server": entry.server,
        "subject": entry.subject,
        "call": entry.call.map(|call| call.to_string()),
        "details": serde_json::from_str::<Value>(&entry.details).unwrap_or(Value::Null),
        "hash": hash,
    })
}
