//! Whether an argument of a call is as a rule wants it, or why that cannot be told.
//!
//! Servers differ in how they read the same JSON: some take `Path` for `path`, `"3"` for `3`, or a text for the object
//! that is written in it. Where such readings lead to different results, the condition cannot be evaluated, and the rule
//! refuses the call.

use toolway_config::policy::{ArgumentMatch, ArgumentValue};
use toolway_wire::json::{JsonKind, Raw};

use super::text_match;

/// Whether an argument is as wanted, or why that cannot be told. A missing argument and `null` do not match.
pub(super) fn matches_argument(arguments: Option<&Raw>, pointer: &str, wanted: &ArgumentMatch) -> Result<bool, String> {
    let Some(arguments) = arguments.filter(|arguments| arguments.kind() != JsonKind::Null) else { return Ok(false) };
    let unclear = |why: &str| format!("the argument `{pointer}` {why}");
    if arguments.kind() != JsonKind::Object {
        return Err("the arguments are not an object".to_owned());
    }
    let tokens: Vec<_> = pointer.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~")).collect();
    let readings = readings(arguments.clone(), &tokens).map_err(unclear)?;
    let mut results = readings.iter().map(|value| match value {
        Some(value) => matches_value(value, wanted).map_err(unclear),
        None => Ok(false),
    });
    let first = results.next().unwrap_or(Ok(false))?;
    for result in results {
        if result? != first {
            return Err(unclear("is given under a name that differs only in case"));
        }
    }
    Ok(first)
}

/// The values that servers may find at a pointer; `None` stands for a missing one.
fn readings(value: Raw, tokens: &[String]) -> Result<Vec<Option<Raw>>, &'static str> {
    let Some((token, rest)) = tokens.split_first() else { return Ok(vec![Some(value)]) };
    match value.kind() {
        JsonKind::Object => {
            let members = value.members();
            let exact = members.iter().filter(|member| member.key == *token).count();
            if 1 < exact {
                return Err("is given twice");
            }
            let mut found = if exact == 0 { vec![None] } else { Vec::new() };
            for member in members.into_iter().filter(|member| is_same_in_another_case(&member.key, token)) {
                found.extend(readings(member.value, rest)?);
            }
            Ok(found)
        }
        JsonKind::Array => {
            let index = token.parse().map_err(|_| "is inside a list")?;
            value.elements().into_iter().nth(index).map_or(Ok(vec![None]), |element| readings(element, rest))
        }
        JsonKind::String if is_json_text(&value) => Err("is inside a text that may be read as JSON"),
        _ => Ok(vec![None]),
    }
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

fn matches_value(value: &Raw, wanted: &ArgumentMatch) -> Result<bool, &'static str> {
    match (wanted, value.kind()) {
        (_, JsonKind::Null) => Ok(false),
        (ArgumentMatch::Range { min, max }, _) => {
            let is = value.as_f64().ok_or("is not a number")?;
            Ok(min.is_none_or(|min| min.0 <= is) && max.is_none_or(|max| is <= max.0))
        }
        (_, JsonKind::Object | JsonKind::Array) => Err("is a list or an object"),
        (ArgumentMatch::Glob(glob), _) => matches_glob(glob, value),
        (ArgumentMatch::OneOf(values), _) => {
            let mut unclear = None;
            for wanted in values {
                match equals(value, wanted) {
                    Ok(true) => return Ok(true),
                    Ok(false) => {}
                    Err(why) => unclear = Some(why),
                }
            }
            unclear.map_or(Ok(false), Err)
        }
    }
}

/// Numbers and booleans are compared as their JSON text.
fn matches_glob(glob: &str, value: &Raw) -> Result<bool, &'static str> {
    let written = text_match::matches(glob, &text(value)?)?;
    // `7.0` and `70e-1` are the same number as `7`.
    match value.as_f64().filter(|_| value.to_string().contains(['.', 'e', 'E'])) {
        Some(number) if text_match::matches(glob, &number.to_string())? != written => Err("has several spellings"),
        _ => Ok(written),
    }
}

/// Whether a value is the wanted one; an error if servers may convert it to that.
fn equals(value: &Raw, wanted: &ArgumentValue) -> Result<bool, &'static str> {
    let is = text(value)?;
    let (is_same, is_converted) = match (wanted, value.kind()) {
        (ArgumentValue::Text(wanted), JsonKind::String) => (text_match::equals(wanted, &is)?, false),
        (ArgumentValue::Text(wanted), _) => (false, *wanted == is),
        (ArgumentValue::Number(wanted), kind) => {
            let is_equal = is.trim().parse().is_ok_and(|is: f64| (is - wanted.0).abs() < f64::EPSILON);
            (is_equal && kind == JsonKind::Number, is_equal)
        }
        (ArgumentValue::Flag(wanted), JsonKind::Boolean) => (value.as_bool() == Some(*wanted), false),
        (ArgumentValue::Flag(wanted), _) => (false, flag(&is) == Some(*wanted)),
    };
    if is_converted && !is_same { Err("has another type than the value in the rule") } else { Ok(is_same) }
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
