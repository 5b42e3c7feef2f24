//! Tools of the agent itself: listing and reading resources, prompts of servers, the rest of a long result, and, instead of too
//! many definitions, a search for tools and three ways to call one.

use serde_json::{Value, json};
use toolway_host::policy::Annotations;
use toolway_model::ToolDefinition;

/// The agent's own tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Builtin {
    ListResources,
    ReadResource,
    GetPrompt,
    ReadResult,
    SearchTools,
    DescribeTool,
    CallTool(Effect),
    TaskStatus,
    TaskCancel,
}

/// What a tool does, by its annotations. Decides which of the three calling tools may call it, so that a model, and a
/// reader of its calls, knows what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Read,
    Write,
    Destructive,
}

impl Effect {
    pub(crate) fn of(annotations: Annotations) -> Self {
        match annotations {
            Annotations { read_only: true, .. } => Self::Read,
            Annotations { destructive: false, .. } => Self::Write,
            Annotations { .. } => Self::Destructive,
        }
    }
}

impl Builtin {
    /// Tools of the agent at most in a request that has the tools of all servers.
    pub(crate) const MAX_WITH_SERVER_TOOLS: usize = 6;

    pub(crate) const ALL: [Self; 11] = [
        Self::ListResources,
        Self::ReadResource,
        Self::GetPrompt,
        Self::ReadResult,
        Self::SearchTools,
        Self::DescribeTool,
        Self::CallTool(Effect::Read),
        Self::CallTool(Effect::Write),
        Self::CallTool(Effect::Destructive),
        Self::TaskStatus,
        Self::TaskCancel,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ListResources => "mcp_list_resources",
            Self::ReadResource => "mcp_read_resource",
            Self::GetPrompt => "mcp_get_prompt",
            Self::ReadResult => "read_result",
            Self::SearchTools => "search_tools",
            Self::DescribeTool => "describe_tool",
            Self::CallTool(Effect::Read) => "call_tool_read",
            Self::CallTool(Effect::Write) => "call_tool_write",
            Self::CallTool(Effect::Destructive) => "call_tool_destructive",
            Self::TaskStatus => "task_status",
            Self::TaskCancel => "task_cancel",
        }
    }

    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// The definition for the model; `servers` are those that support it.
    pub(crate) fn definition(self, servers: &[String]) -> ToolDefinition {
        let server = json!({ "type": "string", "enum": servers, "description": "Name of the tool server" });
        let (properties, required): (Value, &[&str]) = match self {
            Self::ListResources => (
                json!({
                    "query": { "type": "string", "description": "Words for what the resource is about; without them, all are listed" },
                    "server_id": { "type": "string", "enum": servers, "description": "Only resources of this server" },
                    "offset": { "type": "integer", "minimum": 0, "description": "`next_offset` of the answer before" },
                }),
                &[],
            ),
            Self::ReadResource => (json!({ "server_id": server, "uri": { "type": "string" } }), &["server_id", "uri"]),
            Self::GetPrompt => (
                json!({
                    "server_id": server, "prompt_name": { "type": "string" },
                    "arguments": { "type": "object", "additionalProperties": { "type": "string" } },
                }),
                &["server_id", "prompt_name"],
            ),
            Self::ReadResult => (
                json!({ "id": { "type": "string" }, "offset": { "type": "integer", "minimum": 0 } }),
                &["id", "offset"],
            ),
            Self::SearchTools => (
                json!({
                    "query": { "type": "string", "description": "Words for what the tool should do" },
                    "server_id": { "type": "string", "enum": servers, "description": "Only tools of this server" },
                }),
                &["query"],
            ),
            Self::TaskStatus | Self::TaskCancel => (json!({ "id": { "type": "string" } }), &["id"]),
            Self::DescribeTool => (json!({ "name": { "type": "string" } }), &["name"]),
            Self::CallTool(_) => (
                json!({
                    "name": { "type": "string", "description": "Name from search_tools" },
                    "arguments": { "type": "object", "description": "Arguments as describe_tool shows them" },
                }),
                &["name", "arguments"],
            ),
        };
        let input_schema = json!({ "type": "object", "properties": properties, "required": required });
        ToolDefinition { name: self.name().to_owned(), description: self.description().to_owned(), input_schema }
    }

    fn description(self) -> &'static str {
        match self {
            Self::ListResources => {
                "List or search the resources of the tool servers, with their URIs. `mcp_read_resource` reads one."
            }
            Self::ReadResource => "Read a resource of a tool server by its URI.",
            Self::GetPrompt => "Get a prompt of a tool server.",
            Self::ReadResult => "Read more of a truncated tool result.",
            Self::SearchTools => {
                "Search the tools of all servers. There are too many to list; search before you say that no tool fits."
            }
            Self::DescribeTool => "Show the description and the JSON Schema of the arguments of one tool.",
            Self::TaskStatus => {
                "Show how far a background task is. Its result is given to you when it has ended; do not wait for it."
            }
            Self::TaskCancel => "Cancel a background task.",
            Self::CallTool(Effect::Read) => "Call a tool that only reads (`call_with` of the tool says so).",
            Self::CallTool(Effect::Write) => {
                "Call a tool that writes without destroying anything (`call_with` of the tool says so)."
            }
            Self::CallTool(Effect::Destructive) => {
                "Call a tool that may change or delete what exists (`call_with` of the tool says so)."
            }
        }
    }
}
