//! `toolway policy test`: recorded calls, decided again.
//!
//! With a file, its policy is compared with the one in effect; without one, the policy in effect with what was recorded.
//! Nothing is called. Saved answers are left out on both sides: they lift what policy asks about.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use toolway_config::{Config, FileAccess, RuleEffect, ServerName, Trust, TrustLists};
use toolway_host::{
    call::{CallKind, Caller},
    catalog::ItemKind,
    policy::{Annotations, Baseline, Policy, PolicyInput, Reach, RuleId, Stance, Subject, Surface},
    record::{CallFilter, CallRow, CallState, StoredCall},
};
use toolway_wire::{
    json::Raw,
    time::{self, Micros},
};

use super::{parse_caller, roots_of};
use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Format, Output, clean},
    record_args::parse_since,
    record_id,
    report::Report,
};

/// The policy and the calls of a test
#[derive(Debug, clap::Args)]
pub(super) struct TestArgs {
    /// Configuration file whose policy is tested [default: the policy in effect, against what was recorded]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Only calls since then: a time (RFC 3339) or a duration such as `30d`
    #[arg(long, value_name = "TIME", value_parser = parse_since, default_value = "30d")]
    since: Micros,

    /// Exit with 7 if a decision would change
    #[arg(long)]
    fail_on_change: bool,
}

/// Calls that are read at once.
const PAGE: usize = 5_000;
/// Bytes of their arguments. One call may have more.
const PAGE_BYTES: usize = 8 * 1024 * 1024;
/// Kinds of changes that are told apart: their names come from servers and callers.
const MAX_CHANGES: usize = 10_000;
/// What a server that is no longer configured says about its tools.
static NO_LISTS: TrustLists = TrustLists::NONE;
/// Examples of one change.
const EXAMPLES: usize = 3;

/// A kind of change: calls of one caller and tool whose decision changes in the same way by the same rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    rule: String,
    caller: String,
    server: String,
    tool: String,
    before: &'static str,
    after: &'static str,
}

/// The calls of a change.
#[derive(Default)]
struct Changed {
    count: u64,
    /// The newest ones.
    examples: Vec<CallRow>,
}

/// What a test found.
#[derive(Default)]
struct Findings {
    calls: u64,
    /// Calls that policy did not decide about, or that cannot be decided again.
    skipped: u64,
    /// Calls without recorded arguments, or of a tool whose definition is not known.
    incomplete: u64,
    changes: BTreeMap<Change, Changed>,
    /// Changed calls of further kinds.
    further: u64,
}

pub(super) async fn run(args: &TestArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let config = app.load()?.config;
    let current = Policy::new(Stance::BySurface, &config.settings);
    let given = match &args.file {
        Some(file) => Some(given_policy(file, &config, output)?),
        None => None,
    };
    let records = app.records()?;
    let known = Known { app, config: &config, tools: definitions(&records.baselines().await?) };
    let mut findings = Findings::default();
    let mut before = None;
    loop {
        let filter = CallFilter { since: Some(args.since), before, limit: PAGE, ..CallFilter::default() };
        let page = records.calls_with_arguments(filter, PAGE_BYTES).await?;
        let Some(last) = page.last() else { break };
        before = Some(last.row.id);
        page.iter().for_each(|call| findings.add(call, &known, &current, given.as_ref()));
    }
    print(&findings, args.since, output);
    let count = findings.changed();
    if args.fail_on_change && 0 < count {
        return Err(Report::new(
            ExitCode::Denied,
            "policy_change",
            format!("{count} calls would be decided differently"),
        ));
    }
    Ok(ExitCode::Ok)
}

/// The policy of a file. Rules of the project hold beside it, as they do beside the user's own.
fn given_policy(file: &Path, config: &Config, output: &mut Output) -> Result<Policy, Report> {
    let mut settings = Config::read(file, None)?.settings;
    if settings.policy.user.is_empty() && settings.policy.mode.value.is_none() {
        let file = file.display();
        output.notice(&format!("toolway: `{file}` has neither `policy.rules` nor `policy.mode`: defaults decide"));
    }
    settings.policy.project = config.settings.policy.project.clone();
    Ok(Policy::new(Stance::BySurface, &settings))
}

/// What is known about servers and tools now.
struct Known<'a> {
    app: &'a App,
    config: &'a Config,
    tools: BTreeMap<String, Definition>,
}

struct Definition {
    annotations: Annotations,
    schema: Option<Raw>,
}

/// The definitions that were seen, by server and tool.
fn definitions(baselines: &[Baseline]) -> BTreeMap<String, Definition> {
    let definition = |baseline: &Baseline| {
        let text = Raw::parse(baseline.text.clone()).ok()?;
        let annotations = Annotations::of_tool(text.get("annotations").as_ref());
        Some(Definition { annotations, schema: text.get("inputSchema") })
    };
    let tool = |baseline: &Baseline| match baseline.item.as_shared() {
        Some((ItemKind::Tool, name)) => Some((key(baseline.server.as_str(), name), definition(baseline)?)),
        _ => None,
    };
    baselines.iter().filter_map(tool).collect()
}

fn key(server: &str, tool: &str) -> String {
    format!("{server}\0{tool}")
}

impl Findings {
    /// Calls that would be decided differently.
    fn changed(&self) -> u64 {
        self.changes.values().map(|changed| changed.count).sum::<u64>() + self.further
    }

    fn add(&mut self, call: &StoredCall, known: &Known<'_>, current: &Policy, given: Option<&Policy>) {
        self.calls += 1;
        let Some(again) = Again::of(&call.row, known) else {
            self.skipped += 1;
            return;
        };
        let arguments = call.body.arguments.clone().and_then(|text| Raw::parse(text).ok());
        let is_known = again.subject.kind != CallKind::Tool || again.definition.is_some();
        if !is_known || (arguments.is_none() && 0 < call.row.argument_bytes) {
            self.incomplete += 1;
        }
        let input = again.input(arguments.as_ref());
        let now = current.evaluate(&input);
        let (before, after) = match given {
            Some(given) => (Some(now.effect), given.evaluate(&input)),
            None => (recorded(&call.row), now),
        };
        let Some(before) = before else {
            self.skipped += 1;
            return;
        };
        if before == after.effect {
            return;
        }
        let change = Change {
            rule: after.rule.to_string(),
            caller: call.row.caller.clone(),
            server: again.subject.server.to_string(),
            tool: again.subject.raw_name.clone(),
            before: before.as_str(),
            after: after.effect.as_str(),
        };
        if MAX_CHANGES <= self.changes.len() && !self.changes.contains_key(&change) {
            self.further += 1;
            return;
        }
        let changed = self.changes.entry(change).or_default();
        changed.count += 1;
        if changed.examples.len() < EXAMPLES {
            changed.examples.push(call.row.clone());
        }
    }
}

/// A call, as policy sees it again.
struct Again<'a> {
    caller: Caller,
    surface: Surface,
    subject: Subject,
    trust: Trust,
    lists: &'a TrustLists,
    definition: Option<&'a Definition>,
    roots: Vec<String>,
}

impl<'a> Again<'a> {
    /// `None` if no server was found, or if the record is of another kind.
    fn of(row: &CallRow, known: &'a Known<'_>) -> Option<Self> {
        let caller = parse_caller(&row.caller).ok()?;
        let surface = Surface::parse(&row.surface)?;
        let server: ServerName = row.server.as_ref()?.parse().ok()?;
        let kind = match row.kind.as_str() {
            "tool" => CallKind::Tool,
            "prompt" => CallKind::Prompt,
            "resource" => CallKind::Resource,
            "method" => CallKind::Method,
            _ => return None,
        };
        let name = row.tool.as_deref().unwrap_or(&row.name);
        let raw_name = match kind {
            CallKind::Tool | CallKind::Prompt => name.strip_prefix(&format!("{server}__")).unwrap_or(name),
            CallKind::Resource | CallKind::Method => &row.name,
        };
        let entry = known.config.servers.get(&server);
        let definition = known.tools.get(&key(server.as_str(), raw_name));
        let subject = Subject { kind, raw_name: raw_name.to_owned(), server };
        let trust = entry.map_or(Trust::Untrusted, toolway_config::ServerConfig::trust);
        let lists = entry.map_or(&NO_LISTS, |entry| &entry.trust_lists);
        let roots = match (lists.file_access, entry) {
            (FileAccess::RootsOnly, Some(entry)) => roots_of(known.app, &known.config.settings, &entry.roots),
            _ => Vec::new(),
        };
        Some(Self { caller, surface, subject, trust, lists, definition, roots })
    }

    fn input<'b>(&'b self, arguments: Option<&'b Raw>) -> PolicyInput<'b> {
        let Subject { kind, raw_name, .. } = &self.subject;
        let annotations = match (kind, self.definition) {
            (CallKind::Tool, Some(definition)) => definition.annotations,
            (CallKind::Tool, None) => Annotations::of_tool(None),
            _ => Annotations::of_kind(*kind, raw_name),
        };
        PolicyInput {
            caller: &self.caller,
            surface: self.surface,
            subject: &self.subject,
            trust: self.trust,
            lists: self.lists,
            annotations,
            arguments,
            reach: Reach {
                schema: self.definition.and_then(|known| known.schema.as_ref()),
                roots: &self.roots,
                ..Reach::default()
            },
        }
    }
}

/// What policy decided, as far as the record says; `None` if it decided nothing.
fn recorded(row: &CallRow) -> Option<RuleEffect> {
    let rule = row.rule.as_deref().unwrap_or_default();
    // A changed definition was asked about, whatever the rules said.
    if rule == RuleId::Drift.label() {
        return None;
    }
    if rule.starts_with("saved approval") || row.approved_by.is_some() {
        return Some(RuleEffect::Ask);
    }
    match (row.state, row.code.as_deref()) {
        (CallState::Refused, Some("denied")) => Some(RuleEffect::Deny),
        (CallState::Refused, Some("no_approver" | "declined")) => Some(RuleEffect::Ask),
        (CallState::Refused, _) => None,
        _ => Some(RuleEffect::Allow),
    }
}

fn print(findings: &Findings, since: Micros, output: &mut Output) {
    let Findings { calls, skipped, incomplete, changes, further } = findings;
    let mut sorted: Vec<(&Change, &Changed)> = changes.iter().collect();
    sorted.sort_by_key(|(_, changed)| std::cmp::Reverse(changed.count));
    let count = findings.changed();
    if output.format != Format::Human {
        let change = |(change, changed): &(&Change, &Changed)| {
            let example =
                |row: &CallRow| json!({ "id": row.id.to_string(), "startedAt": time::rfc3339(row.started_at) });
            json!({
                "rule": change.rule,
                "caller": change.caller,
                "server": change.server,
                "tool": change.tool,
                "before": change.before,
                "after": change.after,
                "calls": changed.count,
                "examples": changed.examples.iter().map(example).collect::<Vec<_>>(),
            })
        };
        return output.json(&Raw::of(&json!({
            "since": time::rfc3339(since),
            "calls": calls,
            "changed": count,
            "skipped": skipped,
            "incomplete": incomplete,
            "further": further,
            "changes": sorted.iter().map(change).collect::<Vec<Value>>(),
        })));
    }
    output.line(&format!("{calls} calls, {count} would be decided differently"));
    for (change, changed) in sorted {
        let Change { rule, caller, server, tool, before, after } = change;
        let tool = clean::flat(tool);
        let number = changed.count;
        output.line(&format!("{number} × {before} → {after}: `{tool}` of `{server}` for {}", clean::flat(caller)));
        output.line(&format!("    by {rule}"));
        let ids: Vec<String> = changed.examples.iter().map(|row| record_id::short(&row.id.to_string())).collect();
        output.line(&format!("    such as {}", ids.join(", ")));
    }
    if 0 < *further {
        output.line(&format!("{further} × in further kinds of changes, which are not told apart"));
    }
    if 0 < *incomplete {
        output.notice(&format!("toolway: {incomplete} calls have no recorded arguments, or their tool was not seen"));
    }
    if 0 < *skipped {
        output.notice(&format!("toolway: {skipped} calls were not decided by policy"));
    }
}
