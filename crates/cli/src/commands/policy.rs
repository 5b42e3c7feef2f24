//! `toolway policy`: which rule decides, and why; new rules.

mod add;
mod backtest;
mod overlap;

use std::sync::Arc;

use add::AddArgs;
use clap::Subcommand;
use serde_json::{Map, Value, json};
use toolway_config::{
    ClientSettings, PolicyMode, RootSetting, RuleEffect, Settings, Trust,
    policy::{ArgumentMatch, ArgumentValue, RuleMatch},
};
use toolway_host::{
    call::{CallKind, Caller},
    catalog::ItemKind,
    connection::Lists,
    policy::{
        Annotations, ApprovalKey, AskedCall, AssistantPolicy, Attendance, FoundHost, HostStatus, Lift, Opinion, Policy,
        PolicyInput, Proposal, Reach, Risk, RuleId, SavedApproval, SavedEffect, SavedFinding, Stance, Subject, Surface,
        TrustLevel, Verdict, saved,
    },
};
use toolway_wire::json::Raw;

use crate::{
    app::App,
    arguments, assistant,
    commands::run::parse_mode,
    effect::Effect,
    exit_code::ExitCode,
    output::{Format, Output, clean},
    report::Report,
    schema::Schema,
};

/// Show the policy, explain what it decides about a call, and add rules
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

const EXAMPLES: &str = "\
Examples:
  toolway policy show
  toolway policy explain files.write_file path=/tmp/a
  toolway policy explain --caller client:editor --surface gateway files.move_file -o json
  toolway policy allow files.write_file --caller agent --argument '/path=/home/ada/notes/*'
  toolway policy deny files.move_file --project
  toolway policy test stricter.json --since 30d --fail-on-change";

const NO_MODE: &str = "none; the default of each surface applies";
const NO_CLIENT_MODE: &str = "as for all";

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Show the mode, the settings of clients and all rules, with file and line
    Show,
    /// Explain what policy decides about a call, without making it
    Explain(ExplainArgs),
    /// Decide recorded calls again, and show what would change
    ///
    /// With a file, its policy is compared with the one in effect; without one, the policy in effect with what was recorded.
    /// Nothing is called. Saved answers and URLs of conversations are not considered.
    Test(backtest::TestArgs),
    /// Add a rule that allows calls of a tool, and show the difference of the file
    Allow(AddArgs),
    /// Add a rule that asks about calls of a tool, and show the difference of the file
    Ask(AddArgs),
    /// Add a rule that denies calls of a tool, and show the difference of the file
    Deny(AddArgs),
}

#[derive(Debug, clap::Args)]
struct ExplainArgs {
    /// The caller: `terminal`, `agent`, `client:NAME`, `console` or `program`
    #[arg(long, value_parser = parse_caller, default_value = "agent")]
    caller: Caller,

    /// The surface [default: the usual one of the caller]
    #[arg(long, value_parser = parse_surface)]
    surface: Option<Surface>,

    /// The mode, instead of `policy.mode`: `ask` (about every call), `writes` or `allow`
    #[arg(long, value_parser = parse_mode)]
    mode: Option<PolicyMode>,

    /// For a conversation with this assistant
    #[arg(long, value_name = "NAME")]
    assistant: Option<String>,

    /// `<server>.<tool>`
    tool: String,

    /// Arguments as for `toolway call`
    #[arg(value_name = "ARGUMENT", allow_negative_numbers = true)]
    arguments: Vec<String>,
}

impl PolicyArgs {
    /// A rule can hide a stricter one, so that every change of rules widens.
    pub(crate) fn effect(&self) -> Effect {
        match &self.command {
            PolicyCommand::Show | PolicyCommand::Explain(_) | PolicyCommand::Test(_) => Effect::Ordinary,
            PolicyCommand::Allow(_) | PolicyCommand::Ask(_) | PolicyCommand::Deny(_) => Effect::Widens,
        }
    }
}

pub(crate) async fn run(args: &PolicyArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    match &args.command {
        PolicyCommand::Show => show(app, output),
        PolicyCommand::Explain(args) => explain(app, args, output).await,
        PolicyCommand::Test(args) => backtest::run(args, app, output).await,
        PolicyCommand::Allow(args) => add::add(RuleEffect::Allow, args, app, output),
        PolicyCommand::Ask(args) => add::add(RuleEffect::Ask, args, app, output),
        PolicyCommand::Deny(args) => add::add(RuleEffect::Deny, args, app, output),
    }
}

fn show(app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let settings = app.load()?.config.settings;
    let (policy, clients) = (&settings.policy, &settings.gateway.clients.value);
    let mode = policy.mode.value.map(|mode| mode.as_str());
    let rules: Vec<_> = policy.rules().collect();
    if output.format == Format::Human {
        output.line(&format!("mode: {}", mode.unwrap_or(NO_MODE)));
        for (name, client) in clients {
            let mode = client.mode.value.map_or(NO_CLIENT_MODE, PolicyMode::as_str);
            let approver = client.approver.value.as_str();
            output.line(&format!("client `{}`: mode {mode}, approver {approver}", clean::text(name)));
        }
        for rule in rules {
            let reason = rule.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
            output.print_wrapped_entry(&rule.place.to_string(), &format!(": {}{reason}", rule.then.as_str()), "  ");
            output.print_wrapped("  ", &format!("match {}", conditions(&rule.matches)));
        }
    } else {
        let rules: Vec<Value> = rules
            .iter()
            .map(|rule| {
                let (file, line) = (rule.place.file.display().to_string(), rule.place.line);
                let (then, matches) = (rule.then.as_str(), conditions(&rule.matches));
                json!({ "file": file, "line": line, "match": matches, "then": then, "reason": rule.reason })
            })
            .collect();
        let client = |client: &ClientSettings| {
            let mode = client.mode.value.map(PolicyMode::as_str);
            json!({ "mode": mode, "approver": client.approver.value.as_str() })
        };
        let clients: Map<_, _> = clients.iter().map(|(name, settings)| (name.clone(), client(settings))).collect();
        output.json(&Raw::of(&json!({ "mode": mode, "clients": clients, "rules": rules })));
    }
    Ok(ExitCode::Ok)
}

/// The conditions of a rule as they are written; those that match everything are left out.
fn conditions(matches: &RuleMatch) -> Value {
    let RuleMatch { caller, surface, server, tool, kind, trust_level, risk, .. } = matches;
    let RuleMatch { read_only, destructive, open_world, trust, arguments, .. } = matches;
    let lists = [
        ("caller", caller),
        ("surface", surface),
        ("server", server),
        ("tool", tool),
        ("kind", kind),
        ("trustLevel", trust_level),
        ("risk", risk),
    ];
    let lists = lists.into_iter().filter(|(_, words)| !words.is_empty()).map(|(key, words)| match words.as_slice() {
        [one] => (key, json!(one)),
        several => (key, json!(several)),
    });
    let flags = [("readOnly", read_only), ("destructive", destructive), ("openWorld", open_world)];
    let flags = flags.into_iter().filter_map(|(key, flag)| Some((key, json!((*flag)?))));
    let trust = trust.map(|trust| ("trust", json!(trust.as_str())));
    let values = arguments.iter().map(|(pointer, condition)| (pointer.clone(), argument(condition))).collect();
    let arguments = (!arguments.is_empty()).then_some(("arguments", Value::Object(values)));
    lists.chain(flags).chain(trust).chain(arguments).map(|(key, value)| (key.to_owned(), value)).collect()
}

fn argument(condition: &ArgumentMatch) -> Value {
    match condition {
        ArgumentMatch::Glob(pattern) => json!(pattern),
        ArgumentMatch::OneOf(values) => values
            .iter()
            .map(|value| match value {
                ArgumentValue::Text(text) => json!(text),
                ArgumentValue::Number(number) => json!(number.0),
                ArgumentValue::Flag(flag) => json!(flag),
            })
            .collect(),
        ArgumentMatch::Range { min, max } => {
            let bounds = [("min", min), ("max", max)].into_iter();
            bounds.filter_map(|(key, bound)| Some((key.to_owned(), json!((*bound)?.0)))).collect()
        }
    }
}

async fn explain(app: &App, args: &ExplainArgs, output: &mut Output) -> Result<ExitCode, Report> {
    let ExplainArgs { caller, tool, arguments: words, .. } = args;
    let surface = args.surface.unwrap_or(Surface::of(caller));
    let selected = app.select(tool, ItemKind::Tool, output)?;
    let settings = &selected.target.settings;
    let named = args.assistant.as_deref();
    let assistant = match named {
        Some(name) => Some(Arc::new(AssistantPolicy::new(name, assistant::find(settings, name)?))),
        None => None,
    };
    let approval = assistant.as_ref().map(|assistant| assistant.approval().as_str());
    let policy = Policy::new(Stance::BySurface, settings).with_mode(args.mode).with_assistant(assistant);
    let mode = policy.mode_of(caller).map(PolicyMode::as_str);
    let trust = selected.target.server.trust;
    let lists = Arc::clone(&selected.target.server.trust_lists);
    let roots = roots_of(app, &selected.target.settings, &selected.target.server.roots);
    let raw_name = selected.name.clone();
    app.with_server(selected.target.clone(), Lists::Only(ItemKind::Tool), output, async |single, output| {
        let catalog = single.catalog(ItemKind::Tool, output)?;
        let Some(entry) = catalog.tool_at(single.name(), &raw_name) else {
            return Err(Report::usage("unknown_name", format!("unknown tool `{raw_name}`")));
        };
        let annotations = Annotations::of_tool(entry.item.annotations.as_ref());
        let schema = Schema::new(entry.item.input_schema.clone());
        let arguments = arguments::read(words, &schema, &[]);
        let arguments = arguments.map_err(|problem| Report::usage("arguments", problem.message))?;
        let reach = Reach { schema: Some(&entry.item.input_schema), roots: &roots, ..Reach::default() };
        let subject = Subject { server: single.name().clone(), kind: CallKind::Tool, raw_name: raw_name.clone() };
        let arguments = Some(&arguments);
        let input =
            PolicyInput { caller, surface, subject: &subject, trust, lists: &lists, annotations, arguments, reach };
        let trust_level = TrustLevel::of(&input).as_str();
        let risk = Risk::of(&input).as_str();
        let entry_digest = single.entry_digest(app);
        let key = ApprovalKey::new(caller, &subject, entry_digest, Some("tools/call"), Some(entry.fingerprint));
        let explained = with_saved(app, policy.evaluate(&input), &input, &key).await?;
        let verdict = explained.verdict;
        let place = verdict.rule.place();
        if output.format == Format::Human {
            output.line(&format!("{}: {}", verdict.effect.as_str(), verdict.rule));
            output.line(&format!("your file: {}", opinion_text(&verdict.user)));
            let project = verdict.project.as_ref().map(opinion_text);
            output.line(&format!("project's file: {}", project.as_deref().unwrap_or("no rule matches")));
            output.line(&format!("mode: {}", mode.unwrap_or(NO_MODE)));
            if let (Some(name), Some(approval)) = (named, approval) {
                output.line(&format!("assistant `{name}`: approval {approval}"));
            }
            output.line(&format!("trust of `{}`: {}", subject.server, trust_text(trust)));
            output.line(&format!("trust level: {trust_level}; risk: {risk}"));
            if let Some(saved) = &explained.saved {
                output.line(&format!("saved answer: {}", saved_text(saved)));
            }
            if let Some(proposal) = &explained.proposal {
                for (term, scope) in [("this conversation", &proposal.conversation), ("always", &proposal.always)] {
                    output.line(&format!("\"{term}\" would cover: {}", clean::text(&scope.to_string())));
                }
            }
            for FoundHost { host, pointer, status } in &verdict.reached.hosts {
                output.line(&format!(
                    "host `{}` in `{}`: {}",
                    clean::text(host),
                    clean::text(pointer),
                    host_text(*status)
                ));
            }
        } else {
            output.json(&Raw::of(&json!({
                "decision": verdict.effect.as_str(),
                "rule": verdict.rule.to_string(),
                "file": place.map(|place| place.file.display().to_string()),
                "line": place.map(|place| place.line),
                "mode": mode,
                "user": opinion_json(&verdict.user),
                "project": verdict.project.as_ref().map(opinion_json),
                "trust": trust.as_str(),
                "trustLevel": trust_level,
                "risk": risk,
                "hosts": verdict.reached.hosts.iter().map(host_json).collect::<Vec<_>>(),
                "reason": verdict.reason,
                "saved": explained.saved.as_ref().map(saved_json),
                "proposal": explained.proposal.as_ref().map(Proposal::to_json),
            })));
        }
        Ok(ExitCode::Ok)
    })
    .await
}

/// The roots that a call of the command line has, as `allowFileAccess` compares them.
fn roots_of(app: &App, settings: &Settings, of_server: &[RootSetting]) -> Vec<String> {
    let all = settings.roots.value.iter().chain(of_server).filter(|root| root.enabled);
    all.filter_map(|root| root.uri(app.paths.home.as_deref()).ok()).collect()
}

/// What one file says, with the rule and its reason.
fn opinion_text(opinion: &Opinion) -> String {
    let reason = opinion.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    match &opinion.rule {
        RuleId::Rule(_) => format!("{} ({}){reason}", opinion.effect.as_str(), opinion.rule),
        rule => format!("no rule matches; {rule}"),
    }
}

fn opinion_json(opinion: &Opinion) -> Value {
    let place = opinion.rule.place();
    json!({
        "decision": opinion.effect.as_str(),
        "rule": opinion.rule.to_string(),
        "file": place.map(|place| place.file.display().to_string()),
        "line": place.map(|place| place.line),
        "reason": opinion.reason,
    })
}

/// A decision with what saved answers say about it.
struct Explained {
    verdict: Verdict,
    /// The saved answer that decides, or that would if a person were present.
    saved: Option<SavedApproval>,
    /// What answers would cover, if the call is asked about.
    proposal: Option<Proposal>,
}

/// A saved refusal decides whatever policy allows, and a saved approval where it asks, unless the mode is `ask`.
async fn with_saved(
    app: &App,
    verdict: Verdict,
    input: &PolicyInput<'_>,
    key: &ApprovalKey,
) -> Result<Explained, Report> {
    if verdict.effect == RuleEffect::Deny {
        return Ok(Explained { verdict, saved: None, proposal: None });
    }
    let stored = app.records()?.approvals_of(&key.server, &key.tool).await?;
    let stored: Vec<SavedApproval> = stored.into_iter().map(|stored| stored.approval).collect();
    let attendance = if input.surface == Surface::Run { Attendance::Unattended } else { Attendance::Attended };
    let call = AskedCall { arguments: input.arguments, reached: &verdict.reached };
    let is_asked = verdict.effect == RuleEffect::Ask && verdict.lift == Lift::BySaved;
    let (effect, saved) = match saved::deciding(&stored, key, call, attendance) {
        SavedFinding::Refused(refusal) => (RuleEffect::Deny, Some(refusal)),
        SavedFinding::Allowed(approval) if is_asked => (RuleEffect::Allow, Some(approval)),
        SavedFinding::AttendedOnly(approval) if is_asked => (RuleEffect::Ask, Some(approval)),
        _ => (verdict.effect, None),
    };
    let is_lasting = effect == RuleEffect::Ask && verdict.lift == Lift::BySaved;
    let proposal = is_lasting.then(|| Proposal::of_first(input, &verdict.reached));
    let saved = saved.cloned();
    let verdict = match &saved {
        Some(saved) if effect != RuleEffect::Ask => {
            Verdict { effect, rule: RuleId::Saved(saved.id.clone()), reason: None, ..verdict }
        }
        _ => verdict,
    };
    Ok(Explained { verdict, saved, proposal })
}

fn saved_text(saved: &SavedApproval) -> String {
    let covers = clean::text(&saved.scope.to_string());
    match (saved.effect, saved.holds) {
        (SavedEffect::Deny, _) => format!("{} refuses every call", saved.id),
        (SavedEffect::Allow, Attendance::Unattended) => format!("{} covers {covers}", saved.id),
        (SavedEffect::Allow, Attendance::Attended) => {
            format!("{} covers {covers}, where a person is present", saved.id)
        }
    }
}

fn saved_json(saved: &SavedApproval) -> Value {
    json!({
        "id": saved.id,
        "effect": saved.effect.as_str(),
        "covers": saved.scope.to_string(),
        "unattended": saved.holds == Attendance::Unattended,
    })
}

fn host_text(status: HostStatus) -> &'static str {
    match status {
        HostStatus::Configured => "in `policy.hosts`",
        HostStatus::Seen => "stands in the conversation",
        HostStatus::New => "new, unless its URL stands in the conversation",
        HostStatus::Unreadable => "cannot be read, which counts as new",
        HostStatus::TooLarge => "too large to be read, which counts as new",
    }
}

fn host_json(found: &FoundHost) -> Value {
    json!({ "host": found.host, "argument": found.pointer, "status": found.status.as_str() })
}

fn trust_text(trust: Trust) -> &'static str {
    match trust {
        Trust::Untrusted => "untrusted (its annotations are not believed)",
        Trust::Read => "read (tools annotated read-only pass `writes`)",
        Trust::Full => "full (all its tools pass `writes`)",
    }
}

fn parse_caller(text: &str) -> Result<Caller, String> {
    match text.split_once(':').unwrap_or((text, "")) {
        ("terminal", "") => Ok(Caller::Terminal),
        ("agent", name) => Ok(Caller::Agent(name.into())),
        ("client", name) if !name.is_empty() => Ok(Caller::Client(name.into())),
        ("console", "") => Ok(Caller::Console),
        ("program", "") => Ok(Caller::Program),
        _ => Err("must be `terminal`, `agent`, `client:NAME`, `console` or `program`".to_owned()),
    }
}

fn parse_surface(text: &str) -> Result<Surface, String> {
    let words = Surface::ALL.map(Surface::as_str).join("`, `");
    Surface::parse(text).ok_or_else(|| format!("must be one of `{words}`"))
}
