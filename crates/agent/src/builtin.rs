//! Tools of the agent itself: reading resources and prompts of servers, and the rest of a long result.

use serde_json::{Value, json};
use toolway_model::ToolDefinition;

/// The agent's own tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Builtin {
    ReadResource,
    GetPrompt,
    ReadResult,
}

impl Builtin {
    pub(crate) const ALL: [Self; 3] = [Self::ReadResource, Self::GetPrompt, Self::ReadResult];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ReadResource => "mcp_read_resource",
            Self::GetPrompt => "mcp_get_prompt",
            Self::ReadResult => "read_result",
        }
    }

    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// The definition for the model; `servers` are those that support it.
    pub(crate) fn definition(self, servers: &[String]) -> ToolDefinition {
        let server = json!({ "type": "string", "enum": servers, "description": "Server that has it" });
        let (description, properties, required): (&str, Value, &[&str]) = match self {
            Self::ReadResource => (
                "Read a resource of a tool server by its URI.",
                json!({ "server_id": server, "uri": { "type": "string" } }),
                &["server_id", "uri"],
            ),
            Self::GetPrompt => (
                "Get a prompt of a tool server.",
                json!({
                    "server_id": server, "prompt_name": { "type": "string" },
                    "arguments": { "type": "object", "additionalProperties": { "type": "string" } },
                }),
                &["server_id", "prompt_name"],
            ),
            Self::ReadResult => (
                "Read more of a tool result that was cut.",
                json!({ "id": { "type": "string" }, "offset": { "type": "integer", "minimum": 0 } }),
                &["id", "offset"],
            ),
        };
        let input_schema = json!({ "type": "object", "properties": properties, "required": required });
        ToolDefinition { name: self.name().to_owned(), description: description.to_owned(), input_schema }
    }
}
