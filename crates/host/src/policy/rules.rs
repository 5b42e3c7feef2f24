//! Which rule of a file matches a request.

use toolway_config::{
    RuleEffect,
    policy::{ArgumentMatch, ArgumentValue, Rule, RuleMatch},
};
use toolway_wire::json::Raw;

use super::PolicyInput;
use crate::{call::Caller, catalog::filter::Pattern};

/// The rule of a file that decides.
pub(super) struct Matched<'a> {
    pub(super) rule: &'a Rule,
    /// Why its conditions on arguments cannot be evaluated. The call is refused then.
    pub(super) unclear: Option<String>,
}

impl Matched<'_> {
    pub(super) fn effect(&self) -> RuleEffect {
        if self.unclear.is_some() { RuleEffect::Deny } else { self.rule.then }
    }
}

/// The first rule of a file that matches, or that would match and has conditions that cannot be evaluated.
pub(super) fn first_match<'a>(rules: &'a [Rule], input: &PolicyInput<'_>) -> Option<Matched<'a>> {
    rules.iter().filter(|rule| matches_call(&rule.matches, input)).find_map(|rule| {
        let mut unclear = None;
        for (pointer, wanted) in &rule.matches.arguments {
            match matches_argument(input.arguments, pointer, wanted) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(why) => unclear = unclear.or(Some(why)),
            }
        }
        Some(Matched { rule, unclear })
    })
}

/// All conditions but those on arguments.
fn matches_call(rule: &RuleMatch, input: &PolicyInput<'_>) -> bool {
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

/// Whether an argument is as wanted, or why that cannot be told.
fn matches_argument(arguments: Option<&Raw>, pointer: &str, wanted: &ArgumentMatch) -> Result<bool, String> {
    let Some(arguments) = arguments else { return Ok(false) };
    let Some(value) = at_pointer(arguments, pointer)? else { return Ok(false) };
    Ok(match wanted {
        ArgumentMatch::Glob(glob) => value.as_str().is_some_and(|text| pattern(glob, &text)),
        ArgumentMatch::OneOf(values) => values.iter().any(|wanted| equals(&value, wanted)),
        ArgumentMatch::Range { min, max } => {
            let is = number(&value).ok_or_else(|| format!("the argument `{pointer}` is not a number"))?;
            min.is_none_or(|min| min.0 <= is) && max.is_none_or(|max| is <= max.0)
        }
    })
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

/// The value at a JSON Pointer. A member that occurs twice is an error: servers differ in which of them counts.
fn at_pointer(value: &Raw, pointer: &str) -> Result<Option<Raw>, String> {
    let mut value = value.clone();
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        let mut members = value.members().into_iter().filter(|member| member.key == token);
        let next = match (members.next(), members.next()) {
            (Some(_), Some(_)) => return Err(format!("the argument `{pointer}` is given twice")),
            (Some(member), None) => Some(member.value),
            (None, _) => token.parse().ok().and_then(|index| value.elements().into_iter().nth(index)),
        };
        match next {
            Some(next) => value = next,
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}
