//! `toolway policy`: which rule decides, and why.

use clap::Subcommand;
use serde_json::{Value, json};
use toolway_config::{
    RuleEffect, Trust,
    policy::{ArgumentMatch, ArgumentValue, RuleMatch},
};
use toolway_host::{
    call::{CallKind, Caller},
    catalog::{Fingerprint, ItemKind},
    connection::Lists,
    policy::{
        Annotations, ApprovalKey, ArgumentPattern, Policy, PolicyInput, RuleId, Stance, Subject, Surface, Verdict,
    },
};
use toolway_store::approvals::{SavedApproval, SavedEffect};
use toolway_wire::json::Raw;

use crate::{
    app::App,
    arguments,
    exit_code::ExitCode,
    output::{Format, Output},
    report::Report,
    schema::Schema,
};

/// Show the policy, and explain what it decides about a call
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
  toolway policy explain --caller client:editor --surface gateway files.move_file -o json";

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Show the mode and all rules, with file and line
    Show,
    /// Explain what policy decides about a call, without making it
    Explain {
        /// The caller: `terminal`, `agent`, `client:NAME`, `console` or `program`
        #[arg(long, value_parser = parse_caller, default_value = "agent")]
        caller: Caller,

        /// The surface [default: the usual one of the caller]
        #[arg(long, value_parser = parse_surface)]
        surface: Option<Surface>,

        /// `<server>.<tool>`
        tool: String,

        /// Arguments as for `toolway call`
        #[arg(value_name = "ARGUMENT", allow_negative_numbers = true)]
        arguments: Vec<String>,
    },
}

pub(crate) async fn run(args: &PolicyArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    match &args.command {
        PolicyCommand::Show => show(app, output),
        PolicyCommand::Explain { caller, surface, tool, arguments } => {
            let surface = surface.unwrap_or(Surface::of(caller));
            explain(app, (caller, surface), tool, arguments, output).await
        }
    }
}

fn show(app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let policy = app.load()?.config.settings.policy;
    let mode = policy.mode.value.map(|mode| mode.as_str());
    let rules: Vec<_> = policy.files.iter().flatten().collect();
    if output.format == Format::Human {
        output.line(&format!("mode: {}", mode.unwrap_or("none; the default of each surface applies")));
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
        output.json(&Raw::of(&json!({ "mode": mode, "rules": rules })));
    }
    Ok(ExitCode::Ok)
}

/// The conditions of a rule as they are written; those that match everything are left out.
fn conditions(matches: &RuleMatch) -> Value {
    let RuleMatch { caller, surface, server, tool, kind, read_only, destructive, open_world, trust, arguments } =
        matches;
    let lists = [("caller", caller), ("surface", surface), ("server", server), ("tool", tool), ("kind", kind)];
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

async fn explain(
    app: &App,
    (caller, surface): (&Caller, Surface),
    tool: &str,
    words: &[String],
    output: &mut Output,
) -> Result<ExitCode, Report> {
    let selected = app.select(tool, ItemKind::Tool, output)?;
    let policy = Policy::new(Stance::BySurface, &selected.target.settings.policy);
    let trust = selected.target.server.trust;
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
        let subject = Subject { server: single.name().clone(), kind: CallKind::Tool, raw_name: raw_name.clone() };
        let input = PolicyInput { caller, surface, subject: &subject, trust, annotations, arguments: Some(&arguments) };
        let verdict = with_saved(app, policy.evaluate(&input), &input, entry.fingerprint)?;
        let place = verdict.rule.place();
        if output.format == Format::Human {
            output.line(&format!("{}: {}", verdict.effect.as_str(), verdict.rule));
            output.line(&format!("trust of `{}`: {}", subject.server, trust_text(trust)));
        } else {
            output.json(&Raw::of(&json!({
                "decision": verdict.effect.as_str(),
                "rule": verdict.rule.to_string(),
                "file": place.map(|place| place.file.display().to_string()),
                "line": place.map(|place| place.line),
                "trust": trust.as_str(),
                "reason": verdict.reason,
            })));
        }
        Ok(ExitCode::Ok)
    })
    .await
}

/// A saved approval decides where policy asks.
fn with_saved(
    app: &App,
    verdict: Verdict,
    input: &PolicyInput<'_>,
    definition: Fingerprint,
) -> Result<Verdict, Report> {
    if verdict.effect != RuleEffect::Ask {
        return Ok(verdict);
    }
    let pattern = ArgumentPattern::of(input.arguments);
    let key = ApprovalKey::new(input.caller, input.subject, Some("tools/call"), pattern, Some(definition));
    let saved = app.query(|reader| reader.approvals())?;
    Ok(match SavedApproval::deciding(&saved, &key) {
        Some(saved) => {
            let effect = if saved.effect == SavedEffect::Allow { RuleEffect::Allow } else { RuleEffect::Deny };
            Verdict { effect, rule: RuleId::Saved(saved.id.to_string()), reason: None }
        }
        None => verdict,
    })
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
