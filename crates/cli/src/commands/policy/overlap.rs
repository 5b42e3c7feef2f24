//! How the calls of an existing rule relate to those of a new one.

use toolway_config::{
    Pattern,
    policy::{ArgumentMatch, RuleMatch},
};

use super::add::NewRule;

/// Which calls of the new rule an existing one matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Overlap {
    /// All of them.
    All,
    /// Some of them, or possibly some.
    Some,
    /// None of them.
    None,
}

impl Overlap {
    pub(super) fn of(rule: &RuleMatch, new: &NewRule) -> Self {
        let kind = new.kind.as_deref();
        let conditions = [
            of_caller(&rule.caller, new.caller.as_deref()),
            of_any(rule.server.iter().any(|wanted| matches(wanted, new.server.as_str())), &rule.server),
            match of_any(rule.tool.iter().any(|wanted| names(wanted, new)), &rule.tool) {
                // Two patterns may have names in common.
                Self::None if new.tool.contains('*') => Self::Some,
                overlap => overlap,
            },
            match kind {
                Some(kind) => of_any(rule.kind.iter().any(|wanted| wanted == kind), &rule.kind),
                None if rule.kind.is_empty() => Self::All,
                None => Self::Some,
            },
            of_arguments(rule, new),
        ];
        // The least overlap of all conditions.
        conditions.into_iter().max().unwrap_or(Self::All)
    }
}

fn of_any(is_matched: bool, wanted: &[String]) -> Overlap {
    if wanted.is_empty() || is_matched { Overlap::All } else { Overlap::None }
}

fn of_caller(wanted: &[String], caller: Option<&str>) -> Overlap {
    let Some(caller) = caller.filter(|_| !wanted.is_empty()) else {
        return if wanted.is_empty() { Overlap::All } else { Overlap::Some };
    };
    let kind = |text: &str| text.split(':').next().unwrap_or_default().to_owned();
    let is_all = |wanted: &String| *wanted == kind(caller) || matches(wanted, caller);
    if wanted.iter().any(is_all) {
        Overlap::All
    } else if wanted.iter().any(|wanted| kind(wanted) == kind(caller) && !caller.contains(':')) {
        Overlap::Some
    } else {
        Overlap::None
    }
}

/// Conditions on arguments, annotations, trust and surface.
fn of_arguments(rule: &RuleMatch, new: &NewRule) -> Overlap {
    let is_same = |(pointer, wanted): &(String, ArgumentMatch)| {
        let is_one =
            |(key, pattern): &(String, String)| key == pointer && *wanted == ArgumentMatch::Glob(pattern.clone());
        new.arguments.iter().any(is_one)
    };
    let is_plain = rule.surface.is_empty()
        && rule.read_only.is_none()
        && rule.destructive.is_none()
        && rule.open_world.is_none()
        && rule.trust.is_none()
        && rule.trust_level.is_empty()
        && rule.risk.is_empty();
    if is_plain && rule.arguments.iter().all(is_same) { Overlap::All } else { Overlap::Some }
}

fn names(wanted: &str, new: &NewRule) -> bool {
    let rest = wanted.strip_prefix(new.server.as_str());
    let rest = rest.and_then(|rest| rest.strip_prefix("__").or_else(|| rest.strip_prefix('.')));
    matches(wanted, &new.tool) || rest.is_some_and(|rest| matches(rest, &new.tool))
}

fn matches(pattern: &str, text: &str) -> bool {
    Pattern::from(pattern).matches(text)
}
