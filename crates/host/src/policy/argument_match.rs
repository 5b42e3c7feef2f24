//! Whether an argument of a call is as a rule wants it, or why that cannot be told.
//!
//! Servers differ in how they read the same JSON: some take `Path` for `path`, `"3"` for `3`, or a text for the object
//! that is written in it. Where such readings lead to different results, the condition cannot be evaluated, and the rule
//! refuses the call. In a pointer `*` stands for every element of a list and every member of an object.

use toolway_config::{
    policy::{ArgumentMatch, ArgumentValue},
    visible,
};
use toolway_wire::json::{JsonKind, Raw};

use super::{fit::Fit, text_match};

/// Token of a pointer that stands for every element.
const EVERY: &str = "*";

/// How an argument fits a condition, or why that cannot be told. A missing argument and `null` do not match.
pub(super) fn matches_argument(arguments: Option<&Raw>, pointer: &str, wanted: &ArgumentMatch) -> Result<Fit, String> {
    let Some(arguments) = arguments.filter(|arguments| arguments.kind() != JsonKind::Null) else {
        return Ok(Fit::Mismatch);
    };
    if arguments.kind() != JsonKind::Object {
        return Err("the arguments are not an object".to_owned());
    }
    let tokens: Vec<_> = pointer.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~")).collect();
    fit(arguments, &tokens, wanted).map_err(|why| format!("the argument `{}` {why}", visible::name(pointer)))
}

/// How what servers may find at a pointer fits.
fn fit(value: &Raw, tokens: &[String], wanted: &ArgumentMatch) -> Result<Fit, &'static str> {
    let Some((token, rest)) = tokens.split_first() else { return matches_value(value, wanted) };
    match value.kind() {
        JsonKind::Object if token == EVERY => {
            let members = value.members();
            let is_twice = |at: usize| members[..at].iter().any(|other| other.key == members[at].key);
            if (0..members.len()).any(is_twice) {
                return Err("is given twice");
            }
            all(members.iter().map(|member| &member.value), rest, wanted)
        }
        JsonKind::Array if token == EVERY => all(value.elements().iter(), rest, wanted),
        JsonKind::Object => {
            let members = value.members();
            let exact = members.iter().filter(|member| member.key == *token).count();
            if 1 < exact {
                return Err("is given twice");
            }
            let same = members.iter().filter(|member| is_same_in_another_case(&member.key, token));
            let missing = (exact == 0).then_some(Ok(Fit::Mismatch));
            let mut results = missing.into_iter().chain(same.map(|member| fit(&member.value, rest, wanted)));
            let first = results.next().unwrap_or(Ok(Fit::Mismatch))?;
            for result in results {
                if result? != first {
                    return Err("is given under a name that differs only in case");
                }
            }
            Ok(first)
        }
        JsonKind::Array => {
            let index: usize = token.parse().map_err(|_| "is inside a list")?;
            value.elements().get(index).map_or(Ok(Fit::Mismatch), |element| fit(element, rest, wanted))
        }
        JsonKind::String if is_json_text(value) => Err("is inside a text that may be read as JSON"),
        JsonKind::Null => Ok(Fit::Mismatch),
        _ if token == EVERY => Err("is not a list"),
        _ => Ok(Fit::Mismatch),
    }
}

fn all<'a>(
    values: impl Iterator<Item = &'a Raw>,
    tokens: &[String],
    wanted: &ArgumentMatch,
) -> Result<Fit, &'static str> {
    Ok(Fit::of_all(values.map(|value| fit(value, tokens, wanted)).collect::<Result<Vec<_>, _>>()?))
}

/// Go matches the names of members without regard to case, by simple folding.
fn is_same_in_another_case(key: &str, token: &str) -> bool {
    let folded = |text: &str| text.to_uppercase().to_lowercase();
    key == token || key.eq_ignore_ascii_case(token) || (!key.is_ascii() && folded(key) == folded(token))
}

/// Some servers parse a text where they expect an object or a list.
fn is_json_text(value: &Raw) -> bool {
    value.as_str().is_none_or(|text| text.trim_start().starts_with(['{', '[']))
}

fn matches_value(value: &Raw, wanted: &ArgumentMatch) -> Result<Fit, &'static str> {
    match (wanted, value.kind()) {
        (_, JsonKind::Null) => Ok(Fit::Mismatch),
        (ArgumentMatch::Range { min, max }, _) => {
            let is = value.as_f64().ok_or("is not a number")?;
            Ok(Fit::of(min.is_none_or(|min| min.0 <= is) && max.is_none_or(|max| is <= max.0)))
        }
        (_, JsonKind::Object | JsonKind::Array) => Err("is a list or an object"),
        (ArgumentMatch::Glob(glob), _) => matches_glob(glob, value),
        (ArgumentMatch::OneOf(values), _) => {
            let (mut fits, mut unclear) = (Vec::new(), None);
            for wanted in values {
                match equals(value, wanted) {
                    Ok(fit) => fits.push(fit),
                    Err(why) => unclear = Some(why),
                }
            }
            match (Fit::of_any(fits), unclear) {
                (Fit::Match, _) => Ok(Fit::Match),
                (_, Some(why)) => Err(why),
                (fit, None) => Ok(fit),
            }
        }
    }
}

/// Numbers and booleans are compared as their JSON text.
fn matches_glob(glob: &str, value: &Raw) -> Result<Fit, &'static str> {
    let written = text_match::matches(glob, &text(value)?);
    // `7.0` and `70e-1` are the same number as `7`.
    match value.as_f64().filter(|_| value.to_string().contains(['.', 'e', 'E'])) {
        Some(number) if text_match::matches(glob, &number.to_string()) != written => Err("has several spellings"),
        _ => Ok(written),
    }
}

/// How a value fits the wanted one; an error if servers may convert it to that.
fn equals(value: &Raw, wanted: &ArgumentValue) -> Result<Fit, &'static str> {
    let is = text(value)?;
    let (fit, is_converted) = match (wanted, value.kind()) {
        (ArgumentValue::Text(wanted), JsonKind::String) => (text_match::equals(wanted, &is), false),
        (ArgumentValue::Text(wanted), _) => (Fit::Mismatch, *wanted == is),
        (ArgumentValue::Number(wanted), kind) => {
            let is_equal = is.trim().parse().is_ok_and(|is: f64| (is - wanted.0).abs() < f64::EPSILON);
            (Fit::of(is_equal && kind == JsonKind::Number), is_equal)
        }
        (ArgumentValue::Flag(wanted), JsonKind::Boolean) => (Fit::of(value.as_bool() == Some(*wanted)), false),
        (ArgumentValue::Flag(wanted), _) => (Fit::Mismatch, flag(&is) == Some(*wanted)),
    };
    if is_converted && fit != Fit::Match { Err("has another type than the value in the rule") } else { Ok(fit) }
}

/// Texts and numbers that lenient parsers take for a boolean.
fn flag(text: &str) -> Option<bool> {
    match text.trim().to_lowercase().as_str() {
        "1" | "1.0" | "true" | "t" | "yes" | "y" | "on" => Some(true),
        "0" | "0.0" | "false" | "f" | "no" | "n" | "off" => Some(false),
        _ => None,
    }
}

/// Text of a string, JSON of a number or boolean.
fn text(value: &Raw) -> Result<String, &'static str> {
    match value.kind() {
        JsonKind::String => value.as_str().map(std::borrow::Cow::into_owned).ok_or("is not Unicode text"),
        _ => Ok(value.to_string()),
    }
}
