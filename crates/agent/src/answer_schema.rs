//! The JSON Schema of an answer: checks what the model said, and says what is wrong with it. The embedding program supplies
//! the validator.

use std::fmt;

use serde_json::Value;

/// A JSON Schema that answers must match.
pub struct AnswerSchema {
    schema: Value,
    validate: Validate,
}

/// Checks a value against the schema; an error says what is wrong.
pub type Validate = Box<dyn Fn(&Value) -> Result<(), String> + Send + Sync>;

impl AnswerSchema {
    /// A schema, and what checks values against it.
    pub fn new(schema: Value, validate: Validate) -> Self {
        Self { schema, validate }
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
        (self.validate)(&value).map(|()| value)
    }
}

impl fmt::Debug for AnswerSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerSchema").field("schema", &self.schema).finish_non_exhaustive()
    }
}
