//! Tools that no scenario of the suite calls, for other events during a call.

use serde_json::{Value, json};
use toolway_wire::{
    exchange::{Feed, Request},
    json::Raw,
    message::RpcError,
};

use super::{
    super::{ConformanceServer, content, resources, schemas, server_requests},
    argument,
};

/// Tools of this module, with their descriptions.
const TOOLS: [(&str, &str); 7] = [
    ("ask_address", "Asks the caller to open an address"),
    ("require_address", "Ends until an address was opened"),
    ("ask_model_with_tools", "Lets the caller's model use a tool"),
    ("touch_watched", "Changes what is watched"),
    ("wait", "Answers when its caller leaves, which is never"),
    ("was_left", "Says whether a caller of `wait` has left"),
    ("refuse", "Ends with an error of this code"),
];

/// Entries of these tools in the list.
pub(super) fn list() -> impl Iterator<Item = Value> {
    TOOLS.into_iter().map(|(name, description)| {
        let schema = schema_of(name).unwrap_or_else(schemas::nothing);
        json!({ "name": name, "description": description, "inputSchema": schema })
    })
}

fn schema_of(tool: &str) -> Option<Value> {
    match tool {
        "wait" | "was_left" => Some(schemas::one("label", "Which call is meant")),
        "require_address" => Some(schemas::one("label", "Who has to open it")),
        "refuse" => Some(json!({
            "type": "object",
            "properties": { "code": { "type": "integer" } },
            "required": ["code"],
        })),
        _ => None,
    }
}

/// Runs a tool; `None` if this module has no tool with this name.
pub(super) async fn run(
    server: &ConformanceServer,
    name: &str,
    request: &Request,
    feed: &Feed,
) -> Option<Result<Raw, RpcError>> {
    Some(match name {
        "ask_address" => address(request, feed).await,
        "require_address" => required(server, &argument(request, "label")),
        "ask_model_with_tools" => model_with_tools(request, feed).await,
        "touch_watched" => {
            server.touch(resources::WATCHED);
            Ok(content::text_result("It is not what it was."))
        }
        "wait" => wait(server, &argument(request, "label"), feed).await,
        "was_left" => {
            let left = server.shared.left.lock().contains(&argument(request, "label"));
            Ok(content::text_result(if left { "left" } else { "not left" }))
        }
        "refuse" => Err(refusal(request)),
        _ => return None,
    })
}

async fn address(request: &Request, feed: &Feed) -> Result<Raw, RpcError> {
    let params = json!({
        "mode": "url",
        "message": "Please sign in",
        "url": "https://example.invalid/sign-in",
        "elicitationId": "sign-in-1",
    });
    let answer = server_requests::send(("address", "elicitation/create", params), request, feed).await?;
    Ok(content::text_result(&format!("User response: {}", server_requests::describe(&answer))))
}

/// The first call with a label requires a URL to be opened; the next one succeeds.
fn required(server: &ConformanceServer, label: &str) -> Result<Raw, RpcError> {
    if !server.shared.opened.lock().insert(label.to_owned()) {
        return Ok(content::text_result("The address was opened."));
    }
    let elicitation = json!({
        "mode": "url",
        "message": "Please sign in",
        "url": "https://example.invalid/required",
        "elicitationId": "sign-in-2",
    });
    let data = json!({ "elicitations": [elicitation] });
    Err(RpcError::with_data(RpcError::URL_ELICITATION_REQUIRED, "a URL must be opened first", data))
}

async fn model_with_tools(request: &Request, feed: &Feed) -> Result<Raw, RpcError> {
    let (key, method, mut params) = server_requests::sampling("weather", "What is the weather in Paris?", 100);
    params["tools"] = json!([{
        "name": "weather",
        "description": "Tells the weather",
        "inputSchema": { "type": "object", "properties": { "city": { "type": "string" } } },
    }]);
    params["toolChoice"] = json!({ "mode": "required" });
    params["_meta"] = json!({ "example.org/trace": "7" });
    params["metadata"] = json!({ "example.org/user": "ada" });
    let answer = server_requests::send((key, method, params), request, feed).await?;
    Ok(content::text_result(&answer.text()))
}

async fn wait(server: &ConformanceServer, label: &str, feed: &Feed) -> Result<Raw, RpcError> {
    // Dropped when the caller disconnects.
    let _recorder = DisconnectRecorder { server: server.clone(), label: label.to_owned() };
    feed.progress(Raw::of(&json!({ "progress": 1, "message": "waiting" })));
    std::future::pending().await
}

fn refusal(request: &Request) -> RpcError {
    let code =
        request.param("arguments").and_then(|arguments| arguments.get("code")).and_then(|code| code.read::<i64>().ok());
    RpcError::with_data(code.unwrap_or(RpcError::INTERNAL), "refused as asked", json!({ "from": "the server" }))
}

struct DisconnectRecorder {
    server: ConformanceServer,
    label: String,
}

impl Drop for DisconnectRecorder {
    fn drop(&mut self) {
        self.server.shared.left.lock().insert(std::mem::take(&mut self.label));
    }
}
