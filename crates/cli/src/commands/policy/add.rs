//! `toolway policy allow | ask | deny`: writes one rule, at the place where it takes effect.

use std::path::Path;

use serde_json::{Value, json};
use toolway_config::{
    RuleEffect, ServerName,
    edit::{Change, NewValue, plan_rule, rules_of},
    policy::Rule,
    server::DefinedBy,
};
use toolway_host::{call::Caller, record::kind};
use toolway_wire::json::Raw;

use super::{overlap::Overlap, parse_caller};
use crate::{
    app::App,
    commands::servers::apply_edit::{lock, own_file, project_file},
    exit_code::ExitCode,
    line_difference::line_difference,
    output::{Format, Output},
    report::Report,
};

/// The calls that a new rule is about, and the file it is written to
#[derive(Debug, clap::Args)]
pub(super) struct AddArgs {
    /// `<server>.<tool>`, or `<server>.<name>` with --kind
    tool: String,

    /// Only calls of this caller: `terminal`, `agent`, `client`, `client:NAME`, `console` or `program`
    #[arg(long, value_parser = parse_rule_caller)]
    caller: Option<String>,

    /// Only calls with such an argument, e.g. `/path=/tmp/*`; repeatable
    #[arg(long, value_name = "/POINTER=PATTERN", value_parser = parse_argument)]
    argument: Vec<(String, String)>,

    /// Kind of the item
    #[arg(long, value_parser = ["tool", "prompt", "resource", "method"])]
    kind: Option<String>,

    /// Shown to the user and to the model where the rule decides
    #[arg(long)]
    reason: Option<String>,

    /// Write it to the project file, which may say `ask` and `deny` only
    #[arg(long)]
    project: bool,

    /// Show the difference and write nothing
    #[arg(long)]
    dry_run: bool,
}

/// A rule that is not written yet.
pub(super) struct NewRule {
    pub(super) then: RuleEffect,
    pub(super) caller: Option<String>,
    pub(super) server: ServerName,
    pub(super) tool: String,
    pub(super) kind: Option<String>,
    pub(super) arguments: Vec<(String, String)>,
    reason: Option<String>,
}

pub(super) fn add(then: RuleEffect, args: &AddArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    if args.project && then == RuleEffect::Allow {
        let message = "a project file may not allow anything, only `ask` and `deny`";
        return Err(Report::usage("arguments", message).hint("without --project the rule is written to your own file"));
    }
    let rule = NewRule::of(then, args)?;
    let _lock = lock(app)?;
    let loaded = app.load()?;
    if !loaded.config.servers.contains_key(&rule.server) {
        output.notice(&format!("toolway: server `{}` is not configured", rule.server));
    }
    let (file, defined_by) =
        if args.project { (project_file(app)?, DefinedBy::Project) } else { (own_file(&loaded)?, DefinedBy::User) };
    let rules = rules_of(&file)?;
    let place = Place::find(&rule, &rules);
    if let Some(same) = place.same {
        print_unchanged(same, &file, output);
        return Ok(ExitCode::Ok);
    }
    let change = plan_rule(&file, &rule.value(), place.index, defined_by)?;
    print(&change, &place, args, output);
    if matches!(change, Change::Text { .. }) && !args.dry_run {
        change.write()?;
        let details = json!({ "change": "added rule", "file": file, "rule": rule.value().json() });
        app.audit(kind::CONFIGURATION, Some(rule.server.as_str()), Some(&rule.tool), &details);
    }
    Ok(ExitCode::Ok)
}

impl NewRule {
    fn of(then: RuleEffect, args: &AddArgs) -> Result<Self, Report> {
        let wrong = || Report::usage("arguments", format!("`{}` must be `<server>.<tool>`", args.tool));
        let (server, tool) = args.tool.split_once('.').filter(|(_, tool)| !tool.is_empty()).ok_or_else(wrong)?;
        let server = server.parse().map_err(|_| wrong())?;
        let (caller, kind, reason) = (args.caller.clone(), args.kind.clone(), args.reason.clone());
        Ok(Self { then, caller, server, tool: tool.to_owned(), kind, arguments: args.argument.clone(), reason })
    }

    /// The rule as it is written.
    fn value(&self) -> NewValue {
        let text = |text: &str| NewValue::Text(text.to_owned());
        let caller = self.caller.iter().map(|caller| ("caller".to_owned(), text(caller)));
        let item = [("server".to_owned(), text(self.server.as_str())), ("tool".to_owned(), text(&self.tool))];
        let kind = self.kind.iter().map(|kind| ("kind".to_owned(), text(kind)));
        let arguments = (!self.arguments.is_empty())
            .then(|| ("arguments".to_owned(), NewValue::pairs(self.arguments.iter().cloned())));
        let matches = caller.chain(item).chain(kind).chain(arguments).collect();
        let mut members = vec![("match".to_owned(), NewValue::Object(matches))];
        members.push(("then".to_owned(), text(self.then.as_str())));
        members.extend(self.reason.iter().map(|reason| ("reason".to_owned(), text(reason))));
        NewValue::Object(members)
    }
}

/// Where a rule is written so that it takes effect.
struct Place<'a> {
    index: usize,
    /// A rule with the same effect that decides about all these calls already.
    same: Option<&'a Rule>,
    /// Rules that decide about these calls, or some of them, until now.
    replaced: Vec<&'a Rule>,
    /// Stricter rules before it, which still decide about some of these calls.
    kept: Vec<&'a Rule>,
}

impl<'a> Place<'a> {
    /// Before the first rule that decides about all these calls, or about some of them less strictly. Stricter rules with
    /// further conditions stay before it: a rule that allows a tool does not lift what is denied for some arguments.
    fn find(new: &NewRule, rules: &'a [Rule]) -> Self {
        let mut place = Self { index: rules.len(), same: None, replaced: Vec::new(), kept: Vec::new() };
        for (index, rule) in rules.iter().enumerate() {
            let is_before = place.index == rules.len();
            match Overlap::of(&rule.matches, new) {
                Overlap::None => {}
                Overlap::All if is_before && rule.then == new.then => {
                    place.same = Some(rule);
                    return place;
                }
                Overlap::Some if is_before && new.then <= rule.then => {
                    if new.then < rule.then {
                        place.kept.push(rule);
                    }
                }
                Overlap::All | Overlap::Some => {
                    place.index = place.index.min(index);
                    place.replaced.push(rule);
                }
            }
        }
        place
    }
}

fn print_unchanged(rule: &Rule, file: &Path, output: &mut Output) {
    if output.format == Format::Human {
        output.line(&format!("No change: the rule at {} says the same", rule.place));
    } else {
        output.json(&Raw::of(&json!({ "changed": false, "file": file, "line": rule.place.line })));
    }
}

fn print(change: &Change, place: &Place<'_>, args: &AddArgs, output: &mut Output) {
    let lines = |rules: &[&Rule]| -> Vec<usize> { rules.iter().map(|rule| rule.place.line).collect() };
    if output.format != Format::Human {
        let mut view = match change {
            Change::Text { file, before, text } => {
                json!({ "changed": !args.dry_run, "file": file, "difference": line_difference(before, text) })
            }
            Change::Lines { file, lines, advice } => {
                json!({ "changed": false, "file": file, "lines": lines, "advice": advice })
            }
        };
        view["stricter"] = Value::from(lines(&place.kept));
        view["replaced"] = Value::from(lines(&place.replaced));
        output.json(&Raw::of(&view));
        return;
    }
    match change {
        Change::Text { file, before, text } => {
            output.line(&file.display().to_string());
            line_difference(before, text).iter().for_each(|line| output.line(line));
        }
        Change::Lines { lines, advice, .. } => {
            output.notice(&format!("YAML files are not edited. {advice}"));
            output.line(lines.trim_end());
        }
    }
    for rule in &place.kept {
        output.notice(&format!("toolway: the rule at {} ({}) still decides first", rule.place, rule.then.as_str()));
    }
    for rule in &place.replaced {
        output.notice(&format!("toolway: it precedes the rule at {} ({})", rule.place, rule.then.as_str()));
    }
    if args.dry_run {
        output.notice("toolway: nothing was written");
    }
}

fn parse_rule_caller(text: &str) -> Result<String, String> {
    match text {
        "client" => Ok(text.to_owned()),
        text => parse_caller(text).map(|caller| match caller {
            Caller::Agent(_) => text.to_owned(),
            other => other.label(),
        }),
    }
}

fn parse_argument(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(pointer, _)| pointer.starts_with('/'));
    pair.map(|(pointer, pattern)| (pointer.to_owned(), pattern.to_owned()))
        .ok_or_else(|| "must be a JSON Pointer and a pattern, such as `/path=/tmp/*`".to_owned())
}
