//! The tools: their list, and dispatch by name.
//!
//! Tools that only compute are here; [`stream`] has those that send notifications or take time, and [`input`] those
//! that send server requests.

mod input;
mod stream;

use std::sync::atomic::Ordering;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, JsonObject, Tool, object,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::audience::News;
use crate::resources::MEMO_ONE;
use crate::server::{Context, Server, World};

/// A PNG of one transparent pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

pub(crate) fn list(world: &World) -> Vec<Tool> {
    let edition = world.list_edition.load(Ordering::Relaxed);
    vec![
        tool("echo", "Returns its text.", &json!({ "text": { "type": "string" } })),
        tool("add", "Adds two numbers.", &json!({ "a": { "type": "number" }, "b": { "type": "number" } }))
            .with_raw_output_schema(schema(&json!({ "sum": { "type": "number" } })).into()),
        tool("picture", "Returns one pixel.", &json!({})),
        tool("progress", "Reports each of its steps.", &json!({ "steps": { "type": "integer", "minimum": 0 } })),
        tool("log", "Logs at debug, info and error.", &json!({})),
        tool("sleep", "Takes its time.", &json!({ "ms": { "type": "integer", "minimum": 0 } })),
        tool("cancelled_count", "How many calls of sleep were cancelled.", &json!({})),
        tool("ask", "Asks for a name and greets it.", &json!({})),
        tool("sample", "Asks the client's model.", &json!({ "prompt": { "type": "string" } })),
        tool("roots", "Asks for the roots and lists them.", &json!({})),
        tool("touch_list", format!("Changes the tool list. Edition {edition}."), &json!({})),
        tool("touch_resource", format!("Changes {MEMO_ONE}."), &json!({})),
    ]
}

pub(crate) async fn call(
    server: &Server,
    call: &CallToolRequestParams,
    context: &Context,
) -> Result<CallToolResponse, ErrorData> {
    let world = &server.world;
    let result = match call.name.as_ref() {
        "echo" => echo(arguments(call)?),
        "add" => add(&arguments(call)?),
        "picture" => CallToolResult::success(vec![ContentBlock::image(PIXEL, "image/png")]),
        "progress" => stream::progress(&arguments(call)?, context).await?,
        "log" => stream::log(server.log_level(context), context).await?,
        "sleep" => stream::sleep(&arguments(call)?, world, context).await?,
        "cancelled_count" => text(world.cancelled.load(Ordering::Relaxed).to_string()),
        "ask" => return input::ask(call, context).await,
        "sample" => return input::sample(call, &arguments(call)?, context).await,
        "roots" => return input::roots(call, context).await,
        "touch_list" => {
            world.list_edition.fetch_add(1, Ordering::Relaxed);
            world.audience.tell(News::ToolsChanged).await;
            text("touched")
        }
        "touch_resource" => {
            world.memo_edition.fetch_add(1, Ordering::Relaxed);
            world.audience.tell(News::ResourceUpdated(MEMO_ONE)).await;
            text("touched")
        }
        unknown => return Err(ErrorData::invalid_params(format!("Unknown tool: {unknown}"), None)),
    };
    Ok(result.into())
}

#[derive(Debug, Deserialize)]
struct Echo {
    text: String,
}

fn echo(arguments: Echo) -> CallToolResult {
    text(arguments.text)
}

#[derive(Debug, Deserialize)]
struct Add {
    a: f64,
    b: f64,
}

fn add(Add { a, b }: &Add) -> CallToolResult {
    CallToolResult::structured(json!({ "sum": a + b }))
}

fn text(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

fn arguments<T: DeserializeOwned>(call: &CallToolRequestParams) -> Result<T, ErrorData> {
    let arguments = Value::Object(call.arguments.clone().unwrap_or_default());
    serde_json::from_value(arguments).map_err(|error| ErrorData::invalid_params(error.to_string(), None))
}

/// A tool all of whose arguments are required.
fn tool(name: &'static str, description: impl Into<String>, properties: &Value) -> Tool {
    Tool::new(name, description.into(), schema(properties))
}

fn schema(properties: &Value) -> JsonObject {
    let required: Vec<_> = properties.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    object(json!({ "type": "object", "properties": properties, "required": required }))
}
