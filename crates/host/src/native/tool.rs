//! One native tool: its definition for clients and models, and the function that carries out a call.

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use toolway_wire::json::Raw;

use super::NativeToolError;

/// A tool of the embedding program.
#[derive(Clone)]
pub struct NativeTool {
    name: String,
    description: String,
    input_schema: Value,
    output_schema: Option<Value>,
    effect: NativeEffect,
    reach: Option<Reach>,
    run: Arc<Run>,
}

type Run = dyn Fn(NativeCall) -> BoxFuture<'static, Result<NativeOutput, String>> + Send + Sync;

/// A call of a native tool.
#[derive(Clone, Debug)]
pub struct NativeCall {
    /// The arguments: an object that was checked against the input schema.
    pub arguments: Raw,
}

/// What a call returns.
#[derive(Clone, Debug)]
pub enum NativeOutput {
    /// A text.
    Text(String),
    /// An object as structured content, and as text for clients without structured content.
    Structured(Map<String, Value>),
}

/// What a tool changes, as its annotations say it to policy, clients and models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NativeEffect {
    /// It changes nothing.
    Reads,
    /// It adds something, and neither deletes nor overwrites.
    Adds,
    /// It may delete or overwrite.
    #[default]
    Changes,
}

/// Which systems a tool reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    ThisProgram,
}

// === impl NativeTool ===

impl NativeTool {
    /// A tool whose arguments match `input_schema`, a JSON Schema of an object. An error of `run` is the text of a failed
    /// result, which a model reads. When the caller cancels, its future is dropped.
    pub fn new<F>(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: Value,
        run: impl Fn(NativeCall) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<NativeOutput, String>> + Send + 'static,
    {
        Self {
            name: name.into(),
            description: description.into(),
            input_schema,
            output_schema: None,
            effect: NativeEffect::default(),
            reach: None,
            run: Arc::new(move |call| Box::pin(run(call))),
        }
    }

    /// Says what it changes. Default: [`NativeEffect::Changes`], about which policy asks for a model.
    #[must_use]
    pub fn with_effect(self, effect: NativeEffect) -> Self {
        Self { effect, ..self }
    }

    /// Says that it reaches no other system.
    #[must_use]
    pub fn within_this_program(self) -> Self {
        Self { reach: Some(Reach::ThisProgram), ..self }
    }

    /// Sets the JSON Schema of its structured content.
    #[must_use]
    pub fn with_output_schema(self, schema: Value) -> Self {
        Self { output_schema: Some(schema), ..self }
    }

    /// Its own name, without the server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its name and description, to tell it from another of the same name.
    pub(super) fn title(&self) -> String {
        format!("{}: {}", self.name, self.description)
    }

    pub(super) fn check(&self) -> Result<(), NativeToolError> {
        if self.name.is_empty() {
            return Err(NativeToolError::NoName);
        }
        let is_object = |schema: &Value| schema.get("type").and_then(Value::as_str) == Some("object");
        let invalid = |schema| Err(NativeToolError::InvalidSchema { tool: self.name.clone(), schema });
        if !is_object(&self.input_schema) {
            return invalid("input");
        }
        if self.output_schema.as_ref().is_some_and(|schema| !is_object(schema)) {
            return invalid("output");
        }
        Ok(())
    }

    /// Its entry in `tools/list`.
    pub(super) fn definition(&self) -> Value {
        let mut annotations = match self.effect {
            NativeEffect::Reads => json!({ "readOnlyHint": true, "destructiveHint": false }),
            NativeEffect::Adds => json!({ "readOnlyHint": false, "destructiveHint": false }),
            NativeEffect::Changes => json!({ "readOnlyHint": false, "destructiveHint": true }),
        };
        if self.reach == Some(Reach::ThisProgram) {
            annotations["openWorldHint"] = false.into();
        }
        let mut definition = json!({
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input_schema,
            "annotations": annotations,
        });
        if let Some(schema) = &self.output_schema {
            definition["outputSchema"] = schema.clone();
        }
        definition
    }

    /// The result of a call, as on the wire.
    pub(super) fn call(&self, call: NativeCall) -> impl Future<Output = Raw> + Send + 'static {
        let run = Arc::clone(&self.run);
        async move {
            // The function itself may panic, so it runs within the future.
            match run(call).await {
                Ok(NativeOutput::Text(text)) => result(&text, None, IsError::No),
                Ok(NativeOutput::Structured(content)) => {
                    let content = Value::Object(content);
                    result(&content.to_string(), Some(&content), IsError::No)
                }
                Err(problem) => result(&problem, None, IsError::Yes),
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IsError {
    Yes,
    No,
}

fn result(text: &str, structured: Option<&Value>, is_error: IsError) -> Raw {
    let content = json!([{ "type": "text", "text": text }]);
    let mut result = json!({ "content": content, "isError": is_error == IsError::Yes });
    if let Some(structured) = structured {
        result["structuredContent"] = structured.clone();
    }
    Raw::of(&result)
}

impl fmt::Debug for NativeTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NativeTool").field("name", &self.name).field("effect", &self.effect).finish_non_exhaustive()
    }
}

// === impl NativeCall ===

impl NativeCall {
    /// The arguments as a type of the program. The error names the argument that does not fit.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, String> {
        serde_json::from_slice(self.arguments.as_bytes()).map_err(|error| format!("invalid arguments: {error}"))
    }
}

// === impl NativeOutput ===

impl From<String> for NativeOutput {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for NativeOutput {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Map<String, Value>> for NativeOutput {
    fn from(content: Map<String, Value>) -> Self {
        Self::Structured(content)
    }
}
