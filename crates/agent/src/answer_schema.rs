//! The JSON Schema of an answer: checks what the model said, and says what is wrong with it.

use std::fmt;

use jsonschema::Validator;
use serde_json::Value;

/// A valid JSON Schema that answers must match.
pub struct AnswerSchema {
    schema: Value,
    validator: Validator,
}

impl AnswerSchema {
    /// Checks the schema itself; an error says what is wrong with it.
    pub fn new(schema: Value) -> Result<Self, String> {
        let validator = jsonschema::validator_for(&schema).map_err(|error| error.to_string())?;
        Ok(Self { schema, validator })
    }

    /// The schema as written.
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// The answer as JSON, if it matches. Models like to put it into a code block.
    pub fn check(&self, text: &str) -> Result<Value, String> {
        let inner = text.trim();
        let inner = inner.strip_prefix("```json").or_else(|| inner.strip_prefix("```")).unwrap_or(inner);
        let inner = inner.strip_suffix("```").unwrap_or(inner);
        let value: Value = serde_json::from_str(inner).map_err(|error| format!("it is not JSON: {error}"))?;
        let problem = self.validator.iter_errors(&value).next().map(|error| {
            let place = error.instance_path().to_string();
            if place.is_empty() { error.to_string() } else { format!("{error} (at `{place}`)") }
        });
        problem.map_or(Ok(value), Err)
    }
}

impl fmt::Debug for AnswerSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerSchema").field("schema", &self.schema).finish_non_exhaustive()
    }
}
