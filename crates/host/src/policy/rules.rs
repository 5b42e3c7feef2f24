//! Which rule of a file matches a request.

use toolway_config::{
    RuleEffect,
    policy::{Rule, RuleMatch},
};

use super::{PolicyInput, Subject, argument_match::matches_argument, text_match};
use crate::{
    call::{CallKind, Caller},
    catalog::filter::Pattern,
};

/// The rule of a file that decides.
pub(super) struct Matched<'a> {
    pub(super) rule: &'a Rule,
    /// Why its conditions on arguments or on a URI cannot be evaluated. The call is refused then.
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
        let mut unclear = match matches_name(&rule.matches.tool, input.subject) {
            Ok(true) => None,
            Ok(false) => return None,
            Err(why) => Some(why),
        };
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
fn matches_name(wanted: &[String], subject: &Subject) -> Result<bool, String> {
    let Subject { server, kind, raw_name } = subject;
    if wanted.is_empty() {
        return Ok(true);
    }
    if *kind != CallKind::Resource {
        let is_named = |wanted: &String| {
            let rest = wanted.strip_prefix(server.as_str());
            let rest = rest.and_then(|rest| rest.strip_prefix("__").or_else(|| rest.strip_prefix('.')));
            pattern(wanted, raw_name) || rest.is_some_and(|rest| pattern(rest, raw_name))
        };
        return Ok(wanted.iter().any(is_named));
    }
    let mut unclear = None;
    for wanted in wanted {
        match text_match::matches(wanted, raw_name) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(why) => unclear = Some(format!("the URI {why}")),
        }
    }
    unclear.map_or(Ok(false), Err)
}

fn pattern(pattern: &str, text: &str) -> bool {
    Pattern::from(pattern).matches(text)
}
