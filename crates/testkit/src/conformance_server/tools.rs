//! The tools: names, schemas and implementations.

mod additional;
mod interactive;

use std::time::Duration;

use serde_json::{Value, json};
use toolway_wire::{
    exchange::{Feed, Outcome, Request},
    json::Raw,
    message::RpcError,
    notice::List,
};

use super::{ConformanceServer, content, schemas, tasks};

/// Delay between two notifications, so that they arrive separately.
const PAUSE: Duration = Duration::from_millis(50);

/// Tools without arguments, with their descriptions.
const PLAIN: [(&str, &str); 24] = [
    ("test_simple_text", "Gives a text"),
    ("test_image_content", "Gives a picture"),
    ("test_audio_content", "Gives a sound"),
    ("test_embedded_resource", "Gives a resource"),
    ("test_multiple_content_types", "Gives a text, a picture and a resource"),
    ("test_tool_with_logging", "Logs three lines"),
    ("test_error_handling", "Says that it failed"),
    ("test_tool_with_progress", "Tells of its progress"),
    ("test_reconnection", "Tells something before it answers"),
    ("test_elicitation_sep1034_defaults", "Asks with a form full of defaults"),
    ("test_elicitation_sep1330_enums", "Asks with a form full of choices"),
    ("test_missing_capability", "Needs the caller's model"),
    ("test_streaming_elicitation", "Asks for a name"),
    ("test_logging_tool", "Logs a line"),
    ("test_trigger_tool_change", "Changes the list of tools"),
    ("test_trigger_prompt_change", "Changes the list of prompts"),
    ("test_input_required_result_elicitation", "Asks for a name, then greets"),
    ("test_input_required_result_sampling", "Asks the caller's model for a capital"),
    ("test_input_required_result_list_roots", "Asks for the caller's folders"),
    ("test_input_required_result_request_state", "Asks for a confirmation"),
    ("test_input_required_result_multiple_inputs", "Asks three things at once"),
    ("test_input_required_result_multi_round", "Asks one thing after the other"),
    ("test_input_required_result_tampered_state", "Asks for a confirmation that cannot be forged"),
    ("test_input_required_result_capabilities", "Asks only what the caller declared"),
];

/// Lists all tools; the description of one contains `changes`.
pub(super) fn list(changes: usize) -> Raw {
    let tool = |name: &str, description: &str, schema: Value| json!({ "name": name, "description": description, "inputSchema": schema });
    let mut tools: Vec<Value> =
        PLAIN.iter().map(|(name, description)| tool(name, description, schemas::nothing())).collect();
    for (name, description) in WITH_ARGUMENTS {
        tools.extend(schema_of(name).map(|schema| tool(name, description, schema)));
    }
    tools.extend(tasks::list());
    tools.extend(additional::list());
    tools.push(tool("test_changing_tool", &format!("Changed {changes} times"), schemas::nothing()));
    Raw::of(&json!({ "tools": tools }))
}

/// Tools with arguments, with their descriptions.
const WITH_ARGUMENTS: [(&str, &str); 5] = [
    ("greet", "Greets"),
    ("test_sampling", "Asks the caller's model"),
    ("test_elicitation", "Asks the caller"),
    ("test_x_mcp_header", "Says where it looked"),
    ("json_schema_2020_12_tool", "Tool with JSON Schema 2020-12 features"),
];

/// Input schema of a tool; `None` if it has no arguments.
pub(super) fn schema_of(tool: &str) -> Option<Value> {
    match tool {
        "greet" => Some(schemas::one("name", "Who to greet")),
        "test_sampling" => Some(schemas::one("prompt", "The prompt to send to the model")),
        "test_elicitation" => Some(schemas::one("message", "The message to show the user")),
        "test_x_mcp_header" => Some(schemas::in_a_header()),
        "json_schema_2020_12_tool" => Some(schemas::vocabulary()),
        _ => None,
    }
}

pub(super) async fn call(server: &ConformanceServer, request: &Request, feed: &Feed) -> Outcome {
    match run(server, &name_of(request), request, feed).await {
        Ok(result) => Outcome::Answered(result),
        Err(error) => Outcome::Refused(error),
    }
}

async fn run(server: &ConformanceServer, name: &str, request: &Request, feed: &Feed) -> Result<Raw, RpcError> {
    Ok(match name {
        "test_simple_text" => content::text_result("This is a simple text response for testing."),
        "test_image_content" => content::result(&[content::picture()]),
        "test_audio_content" => content::result(&[content::sound()]),
        "test_embedded_resource" => content::result(&[content::resource(
            "test://embedded-resource",
            "text/plain",
            "This is an embedded resource content.",
        )]),
        "test_multiple_content_types" => content::result(&[
            content::text("Multiple content types test:"),
            content::picture(),
            content::resource("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#),
        ]),
        "test_error_handling" => content::error_result("This tool intentionally returns an error for testing"),
        "test_tool_with_logging" => {
            log(feed, &["Tool execution started", "Tool processing data", "Tool execution completed"]).await;
            content::text_result("Three lines were logged.")
        }
        "test_logging_tool" | "test_reconnection" => {
            log(feed, &["Something happens"]).await;
            content::text_result("Something happened.")
        }
        "test_tool_with_progress" => {
            progress(feed).await;
            content::text_result("It is done.")
        }
        "test_trigger_tool_change" => {
            server.change(List::Tools);
            content::text_result("The tools are not what they were.")
        }
        "test_trigger_prompt_change" => {
            server.change(List::Prompts);
            content::text_result("The prompts are not what they were.")
        }
        "test_x_mcp_header" => content::text_result(&format!("Looked in {}.", argument(request, "region"))),
        "greet" => content::text_result(&format!("Hello, {}!", argument(request, "name"))),
        "test_changing_tool" => content::text_result("Its description changes."),
        "json_schema_2020_12_tool" => {
            content::text_result(&request.param("arguments").unwrap_or_else(Raw::empty_object).text())
        }
        other => match interactive::run(other, request, feed).await {
            Some(answer) => return answer,
            None => {
                let unknown = || Err(RpcError::new(RpcError::INVALID_PARAMS, &format!("unknown tool `{other}`")));
                return additional::run(server, other, request, feed).await.unwrap_or_else(unknown);
            }
        },
    })
}

/// Logs these lines one after the other.
async fn log(feed: &Feed, lines: &[&str]) {
    for line in lines {
        feed.log(Raw::of(&json!({ "level": "info", "logger": "conformance", "data": line })));
        tokio::time::sleep(PAUSE).await;
    }
}

async fn progress(feed: &Feed) {
    for done in [0, 50, 100] {
        feed.progress(Raw::of(&json!({ "progress": done, "total": 100, "message": format!("{done} of 100") })));
        tokio::time::sleep(PAUSE).await;
    }
}

/// Name of the called tool.
pub(super) fn name_of(request: &Request) -> String {
    request.param("name").as_ref().and_then(Raw::as_str).unwrap_or_default().into_owned()
}

/// Text argument of the call.
pub(super) fn argument(request: &Request, name: &str) -> String {
    let value = request.param("arguments").and_then(|arguments| arguments.get(name));
    value.as_ref().and_then(Raw::as_str).unwrap_or_default().into_owned()
}
