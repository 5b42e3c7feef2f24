//! Validates arguments against the tool's input schema before the call is sent.

use jsonschema::ValidationError;
use serde_json::Value;
use toolway_wire::json::Raw;

use super::fast_check;
use crate::{output::clean, schema::Schema};

/// Result of the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CheckResult {
    /// The arguments are valid.
    Valid,
    /// The arguments are invalid; one message each.
    Invalid(Vec<String>),
    /// The schema cannot be checked, and why. The call is sent anyway.
    Unchecked(String),
}

/// Larger schemas are not checked.
const SCHEMA_BYTES: usize = 1024 * 1024;
/// Errors reported at once.
const MAX_ERRORS: usize = 5;

/// Checks arguments. References to other documents are never fetched.
pub(crate) fn arguments(schema: &Schema, arguments: &Raw) -> CheckResult {
    if SCHEMA_BYTES < schema.raw().as_bytes().len() {
        return CheckResult::Unchecked("the schema is too large".to_owned());
    }
    let read = |raw: &Raw| raw.read::<Value>().map_err(|error| error.to_string());
    let (document, instance) = match (read(schema.raw()), read(arguments)) {
        (Ok(document), Ok(instance)) => (document, instance),
        (Err(error), _) | (_, Err(error)) => return CheckResult::Unchecked(error),
    };
    if fast_check::is_certainly_valid(&document, &instance) {
        return CheckResult::Valid;
    }
    let validator = match jsonschema::options().offline().build(&document) {
        Ok(validator) => validator,
        Err(error) => return CheckResult::Unchecked(clean::line(&error.to_string(), 200)),
    };
    let missing = missing(schema, &instance);
    let wrong =
        validator.iter_errors(&instance).filter(|error| !is_covered_by(&missing, error)).map(|error| describe(&error));
    let errors: Vec<String> =
        missing.iter().map(|name| format!("missing argument `{name}`")).chain(wrong).take(MAX_ERRORS).collect();
    if errors.is_empty() { CheckResult::Valid } else { CheckResult::Invalid(errors) }
}

/// Required arguments that are missing.
fn missing(schema: &Schema, instance: &Value) -> Vec<String> {
    let required = schema.raw().get("required").map(|list| list.elements()).unwrap_or_default();
    let names = required.iter().filter_map(|name| name.as_str().map(std::borrow::Cow::into_owned));
    names.filter(|name| instance.get(name).is_none()).collect()
}

fn is_covered_by(missing: &[String], error: &ValidationError<'_>) -> bool {
    !missing.is_empty() && error.kind().keyword() == "required" && error.instance_path().to_string().is_empty()
}

fn describe(error: &ValidationError<'_>) -> String {
    let place = error.instance_path().to_string();
    let place = place.trim_start_matches('/').replace('/', ".");
    let problem = clean::line(&error.to_string(), 200);
    if place.is_empty() { problem } else { format!("argument `{place}`: {problem}") }
}
