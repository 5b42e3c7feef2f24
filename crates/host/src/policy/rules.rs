//! Which rules of a file match a request.

use toolway_config::{
    Pattern, RuleEffect,
    policy::{Rule, RuleMatch},
    visible,
};

use super::{PolicyInput, Risk, Subject, TrustLevel, argument_match::matches_argument, fit::Fit, text_match};
use crate::call::{CallKind, Caller};

/// A rule that counts.
#[derive(Clone)]
pub(super) struct Matched<'a> {
    pub(super) rule: &'a Rule,
    pub(super) doubt: Doubt,
}

/// Whether the conditions of a rule on arguments or on a URI hold.
#[derive(Clone)]
pub(super) enum Doubt {
    /// They do.
    None,
    /// In one reading they do: the rule counts where it makes the result stricter.
    Unclear(String),
    /// That cannot be told: the call is refused.
    NotEvaluated(String),
}

/// What the rules of one file say.
pub(super) struct FileVerdict<'a> {
    /// The first rule that matches.
    pub(super) first: Option<Matched<'a>>,
    /// The strictest rule before it that matches in one reading only.
    pub(super) unclear: Option<Matched<'a>>,
}

impl Matched<'_> {
    pub(super) fn effect(&self) -> RuleEffect {
        match self.doubt {
            Doubt::NotEvaluated(_) => RuleEffect::Deny,
            Doubt::None | Doubt::Unclear(_) => self.rule.then,
        }
    }
}

/// Finds the rules of a file that count. A rule that matches in one reading only counts as `deny`, and not as `allow`.
pub(super) fn evaluate<'a>(rules: &'a [Rule], input: &PolicyInput<'_>) -> FileVerdict<'a> {
    let mut unclear: Option<Matched<'a>> = None;
    for rule in rules.iter().filter(|rule| matches_call(&rule.matches, input)) {
        let doubt = match conditions(&rule.matches, input) {
            Ok(Condition::Holds) => Doubt::None,
            Ok(Condition::Fails) => continue,
            Ok(Condition::Unclear(why)) => Doubt::Unclear(why),
            Err(why) => Doubt::NotEvaluated(why),
        };
        let matched = Matched { rule, doubt };
        match (&matched.doubt, rule.then) {
            (Doubt::Unclear(_), RuleEffect::Allow) => {}
            (Doubt::Unclear(_), RuleEffect::Ask | RuleEffect::Writes) => {
                if unclear.as_ref().is_none_or(|other| other.effect() < matched.effect()) {
                    unclear = Some(matched);
                }
            }
            _ => return FileVerdict { first: Some(matched), unclear },
        }
    }
    FileVerdict { first: None, unclear }
}

/// The conditions on the name and on arguments, together.
enum Condition {
    Holds,
    Fails,
    Unclear(String),
}

fn conditions(rule: &RuleMatch, input: &PolicyInput<'_>) -> Result<Condition, String> {
    let (mut unclear, mut not_evaluated) = (None, None);
    match matches_name(&rule.tool, input.subject) {
        Fit::Match => {}
        Fit::Mismatch => return Ok(Condition::Fails),
        Fit::Unclear(why) => unclear = Some(format!("the URI {why}")),
    }
    for (pointer, wanted) in &rule.arguments {
        match matches_argument(input.arguments, pointer, wanted) {
            Ok(Fit::Match) => {}
            Ok(Fit::Mismatch) => return Ok(Condition::Fails),
            Ok(Fit::Unclear(why)) => {
                unclear = unclear.or_else(|| Some(format!("the argument `{}` {why}", visible::name(pointer))))
            }
            Err(why) => not_evaluated = not_evaluated.or(Some(why)),
        }
    }
    match (not_evaluated, unclear) {
        (Some(why), _) => Err(why),
        (None, Some(why)) => Ok(Condition::Unclear(why)),
        (None, None) => Ok(Condition::Holds),
    }
}

/// All conditions but those on the name and on arguments.
fn matches_call(rule: &RuleMatch, input: &PolicyInput<'_>) -> bool {
    let PolicyInput { surface, subject, trust, .. } = input;
    let annotations = input.believed_annotations();
    let flag = |wanted: Option<bool>, is: bool| wanted.is_none_or(|wanted| wanted == is);
    matches_caller(&rule.caller, input.caller)
        && any_word(&rule.surface, surface.as_str())
        && any_pattern(&rule.server, subject.server.as_str())
        && any_word(&rule.kind, subject.kind.as_str())
        && flag(rule.read_only, annotations.read_only)
        && flag(rule.destructive, annotations.destructive)
        && flag(rule.open_world, annotations.open_world)
        && rule.trust.is_none_or(|wanted| wanted == *trust)
        && any_word(&rule.trust_level, TrustLevel::of(input).as_str())
        && any_word(&rule.risk, Risk::of(input).as_str())
}

/// `kind` matches every caller of the kind, `kind:name` those whose name matches.
fn matches_caller(wanted: &[String], caller: &Caller) -> bool {
    let label = caller.label();
    let (kind, _) = label.split_once(':').unwrap_or((&label, ""));
    wanted.is_empty() || wanted.iter().any(|wanted| wanted == kind || pattern(wanted, &label))
}

fn any_word(wanted: &[String], is: &str) -> bool {
    wanted.is_empty() || wanted.iter().any(|word| word == is)
}

fn any_pattern(wanted: &[String], is: &str) -> bool {
    wanted.is_empty() || wanted.iter().any(|wanted| pattern(wanted, is))
}

/// A tool or prompt by its name at the server, or by its public name; a resource by its URI.
fn matches_name(wanted: &[String], subject: &Subject) -> Fit {
    let Subject { server, kind, raw_name } = subject;
    if wanted.is_empty() {
        return Fit::Match;
    }
    if *kind == CallKind::Resource {
        return Fit::of_any(wanted.iter().map(|wanted| text_match::matches(wanted, raw_name)));
    }
    let is_named = |wanted: &String| {
        let rest = wanted.strip_prefix(server.as_str());
        let rest = rest.and_then(|rest| rest.strip_prefix("__").or_else(|| rest.strip_prefix('.')));
        pattern(wanted, raw_name) || rest.is_some_and(|rest| pattern(rest, raw_name))
    };
    Fit::of(wanted.iter().any(is_named))
}

fn pattern(pattern: &str, text: &str) -> bool {
    Pattern::from(pattern).matches(text)
}
