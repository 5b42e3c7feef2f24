//! Arguments against the tool's input schema, before anything is sent.

use jsonschema::ValidationError;
use serde_json::Value;
use toolway_wire::json::Raw;

use super::plain;
use crate::{output::clean, schema::Schema};

/// What the check says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    /// The server can have them.
    Fine,
    /// Each is a sentence.
    Wrong(Vec<String>),
    /// The schema cannot be used, and why; the server decides.
    Unknown(String),
}

/// A larger schema is not worth the time it takes to read.
const SCHEMA_BYTES: usize = 1024 * 1024;
/// Mistakes that are told at once.
const TOLD: usize = 5;

/// Checks arguments. References to other documents are never fetched.
pub(crate) fn arguments(schema: &Schema, arguments: &Raw) -> Checked {
    if SCHEMA_BYTES < schema.raw().as_bytes().len() {
        return Checked::Unknown("the schema is too large".to_owned());
    }
    let read = |raw: &Raw| raw.read::<Value>().map_err(|error| error.to_string());
    let (document, instance) = match (read(schema.raw()), read(arguments)) {
        (Ok(document), Ok(instance)) => (document, instance),
        (Err(error), _) | (_, Err(error)) => return Checked::Unknown(error),
    };
    if plain::fit(&document, &instance) {
        return Checked::Fine;
    }
    let validator = match jsonschema::options().offline().build(&document) {
        Ok(validator) => validator,
        Err(error) => return Checked::Unknown(clean::line(&error.to_string(), 200)),
    };
    let missing = missing(schema, &instance);
    let wrong = validator.iter_errors(&instance).filter(|error| !is_told_by(&missing, error)).map(|error| told(&error));
    let told: Vec<String> =
        missing.iter().map(|name| format!("`{name}` is missing.")).chain(wrong).take(TOLD).collect();
    if told.is_empty() { Checked::Fine } else { Checked::Wrong(told) }
}

/// Required arguments that are not there.
fn missing(schema: &Schema, instance: &Value) -> Vec<String> {
    let required = schema.raw().get("required").map(|list| list.elements()).unwrap_or_default();
    let names = required.iter().filter_map(|name| name.as_str().map(std::borrow::Cow::into_owned));
    names.filter(|name| instance.get(name).is_none()).collect()
}

fn is_told_by(missing: &[String], error: &ValidationError<'_>) -> bool {
    !missing.is_empty() && error.kind().keyword() == "required" && error.instance_path().to_string().is_empty()
}

fn told(error: &ValidationError<'_>) -> String {
    let place = error.instance_path().to_string();
    let place = place.trim_start_matches('/').replace('/', ".");
    let problem = clean::line(&error.to_string(), 200);
    if place.is_empty() { format!("{problem}.") } else { format!("`{place}`: {problem}.") }
}
