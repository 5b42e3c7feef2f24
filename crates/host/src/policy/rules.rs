//! Which rule of a file matches a request.

use toolway_config::policy::{ArgumentMatch, ArgumentValue, Rule, RuleMatch};
use toolway_wire::json::Raw;

use super::PolicyInput;
use crate::{call::Caller, catalog::filter::Pattern};

/// The first rule of a file that matches.
pub(super) fn first_match<'a>(rules: &'a [Rule], input: &PolicyInput<'_>) -> Option<&'a Rule> {
    rules.iter().find(|rule| matches(&rule.matches, input))
}

fn matches(rule: &RuleMatch, input: &PolicyInput<'_>) -> bool {
    let PolicyInput { surface, subject, annotations, trust, .. } = input;
    let flag = |wanted: Option<bool>, is: bool| wanted.is_none_or(|wanted| wanted == is);
    matches_caller(&rule.caller, input.caller)
        && any_word(&rule.surface, surface.as_str())
        && any_pattern(&rule.server, subject.server.as_str())
        && any_pattern(&rule.tool, &subject.raw_name)
        && any_word(&rule.kind, subject.kind.as_str())
        && flag(rule.read_only, annotations.read_only)
        && flag(rule.destructive, annotations.destructive)
        && flag(rule.open_world, annotations.open_world)
        && rule.trust.is_none_or(|wanted| wanted == *trust)
        && rule.arguments.iter().all(|(pointer, wanted)| matches_argument(input.arguments, pointer, wanted))
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

pub(super) fn pattern(pattern: &str, text: &str) -> bool {
    Pattern::from(pattern).matches(text)
}

fn matches_argument(arguments: Option<&Raw>, pointer: &str, wanted: &ArgumentMatch) -> bool {
    let Some(value) = arguments.and_then(|arguments| at_pointer(arguments, pointer)) else { return false };
    match wanted {
        ArgumentMatch::Glob(glob) => value.as_str().is_some_and(|text| pattern(glob, &text)),
        ArgumentMatch::OneOf(values) => values.iter().any(|wanted| equals(&value, wanted)),
        ArgumentMatch::Range { min, max } => {
            number(&value).is_some_and(|is| min.is_none_or(|min| min.0 <= is) && max.is_none_or(|max| is <= max.0))
        }
    }
}

fn equals(value: &Raw, wanted: &ArgumentValue) -> bool {
    match wanted {
        ArgumentValue::Text(text) => value.as_str().is_some_and(|is| is == text.as_str()),
        ArgumentValue::Number(wanted) => number(value).is_some_and(|is| (is - wanted.0).abs() < f64::EPSILON),
        ArgumentValue::Flag(flag) => value.as_bool() == Some(*flag),
    }
}

fn number(value: &Raw) -> Option<f64> {
    let text = value.to_string();
    text.starts_with(|c: char| c == '-' || c.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// The value at a JSON Pointer.
pub(super) fn at_pointer(value: &Raw, pointer: &str) -> Option<Raw> {
    pointer.split('/').skip(1).try_fold(value.clone(), |value, token| {
        let token = token.replace("~1", "/").replace("~0", "~");
        value.get(&token).or_else(|| value.elements().into_iter().nth(token.parse().ok()?))
    })
}
