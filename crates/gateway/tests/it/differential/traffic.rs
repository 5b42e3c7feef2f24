//! Requests to each compared server, capabilities of the client, and watched changes.

use std::path::Path;

use serde_json::{Value, json};
use toolway_wire::notice::SubscriptionFilter;

/// Method and params of a request.
pub(super) type TrafficRequest = (&'static str, Value);

/// Requests to one server, in addition to its lists.
#[derive(Default)]
pub(super) struct Traffic {
    asked: Vec<TrafficRequest>,
    /// Declared client capabilities; `None`: none.
    pub(super) declares: Option<Value>,
    pub(super) watched: Vec<Watched>,
}

/// An expected change, and the call that triggers it.
pub(super) struct Watched {
    pub(super) wanted: SubscriptionFilter,
    pub(super) trigger: TrafficRequest,
}

const LISTS: [&str; 4] = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];

// === impl Traffic ===

impl Traffic {
    fn of(asked: impl IntoIterator<Item = TrafficRequest>) -> Self {
        Self { asked: asked.into_iter().collect(), ..Self::default() }
    }

    /// The same, from a client with these capabilities.
    fn with_user(self, declares: Value) -> Self {
        Self { declares: Some(declares), ..self }
    }

    /// The same, then waits for an update of this resource.
    fn watching(mut self, uri: &str, trigger: TrafficRequest) -> Self {
        self.watched.push(Watched { wanted: SubscriptionFilter::resource(uri), trigger });
        self
    }

    /// The same, then waits for a change of the tools.
    fn growing(mut self, trigger: TrafficRequest) -> Self {
        self.watched
            .push(Watched { wanted: SubscriptionFilter { tools: true, ..SubscriptionFilter::default() }, trigger });
        self
    }

    /// All requests: an unknown one first, then the lists, then the rest. The first call waits for the connection of the
    /// caller, so that the lists after it are those of that connection.
    pub(super) fn requests(&self) -> impl Iterator<Item = TrafficRequest> {
        let lists = LISTS.into_iter().map(|list| (list, json!({})));
        std::iter::once(plain("nothing-of-the-kind")).chain(lists).chain(self.asked.clone())
    }
}

/// Capability of a server that supports this method.
pub(super) fn capability(method: &str) -> &str {
    match method.split('/').next() {
        Some("completion") => "completions",
        Some(kind) => &method[..kind.len()],
        None => method,
    }
}

fn call(tool: &str, arguments: &Value) -> TrafficRequest {
    ("tools/call", json!({ "name": tool, "arguments": arguments }))
}

/// Call of a tool without arguments.
fn plain(tool: &str) -> TrafficRequest {
    call(tool, &json!({}))
}

/// Capabilities of a client with elicitation, sampling and roots.
fn user() -> Value {
    json!({ "elicitation": { "form": {}, "url": {} }, "sampling": { "tools": {} }, "roots": {} })
}

pub(super) fn conformance() -> Traffic {
    let about = json!({ "type": "ref/prompt", "name": "test_prompt_with_arguments" });
    let asked = [
        call("greet", &json!({ "name": "Ada" })),
        plain("test_multiple_content_types"),
        plain("test_error_handling"),
        plain("test_tool_with_progress"),
        call("refuse", &json!({ "code": 4711 })),
        plain("nothing"),
        ("resources/read", json!({ "uri": "test://static-binary" })),
        ("resources/read", json!({ "uri": "test://unknown" })),
        ("prompts/get", json!({ "name": "test_prompt_with_image" })),
        ("completion/complete", json!({ "ref": about, "argument": { "name": "arg1", "value": "par" } })),
        plain("test_tool_with_logging"),
        call("test_elicitation", &json!({ "message": "Grüße, 世界 \u{1f30d} \u{2028}" })),
        plain("test_elicitation_sep1034_defaults"),
        plain("test_elicitation_sep1330_enums"),
        plain("ask_address"),
        call("test_sampling", &json!({ "prompt": "One line on herons" })),
        plain("ask_model_with_tools"),
        plain("test_input_required_result_list_roots"),
        plain("test_input_required_result_multi_round"),
        ("prompts/get", json!({ "name": "test_input_required_result_prompt" })),
    ];
    Traffic::of(asked)
        .with_user(user())
        .watching("test://watched-resource", plain("touch_watched"))
        .growing(plain("test_trigger_tool_change"))
}

pub(super) fn fixture() -> Traffic {
    let odd = json!({ "n": 1, "text": "Grüße, 世界 \u{1f30d} \u{2028}" });
    Traffic::of([call("echo", &odd), call("fail", &odd), call("refuse", &odd)])
}

pub(super) fn time() -> Traffic {
    let noon = json!({ "source_timezone": "Asia/Kolkata", "time": "12:30", "target_timezone": "Asia/Tokyo" });
    Traffic::of([call("convert_time", &noon), call("get_current_time", &json!({ "timezone": "Moon/Tycho" }))])
}

pub(super) fn fastmcp() -> Traffic {
    let asked = [
        call("add", &json!({ "a": 2, "b": 3 })),
        call("fail", &json!({ "reason": "because" })),
        call("count", &json!({ "steps": 3 })),
        ("resources/read", json!({ "uri": "demo://dot.png" })),
        ("resources/read", json!({ "uri": "demo://square/12" })),
        plain("order"),
        call("compose", &json!({ "topic": "herons" })),
        plain("where"),
    ];
    Traffic::of(asked).with_user(user())
}

pub(super) fn rmcp() -> Traffic {
    let asked = [
        call("echo", &json!({ "text": "Grüße 🌍" })),
        call("progress", &json!({ "steps": 3 })),
        plain("log"),
        plain("ask"),
        call("sample", &json!({ "prompt": "herons" })),
        plain("roots"),
        ("resources/read", json!({ "uri": "memo://blob" })),
    ];
    Traffic::of(asked).with_user(user()).watching("memo://one", plain("touch_resource")).growing(plain("touch_list"))
}

pub(super) fn python_sdk() -> Traffic {
    let write = call("write", &json!({ "text": "Hello" }));
    Traffic::of([write.clone(), call("route", &json!({ "region": "north", "count": 2 }))])
        .watching("note://only", write)
        .growing(call("grow", &json!({ "name": "heron" })))
}

pub(super) fn everything() -> Traffic {
    let asked = [
        call("echo", &json!({ "message": "Grüße, 世界 \u{1f30d} \u{2028}" })),
        call("get-sum", &json!({ "a": 2, "b": 3 })),
        call("get-sum", &json!({ "a": "three" })),
        plain("get-tiny-image"),
        call("trigger-long-running-operation", &json!({ "duration": 0.2, "steps": 4 })),
        call("get-structured-content", &json!({ "location": "Chicago" })),
        ("resources/read", json!({ "uri": "demo://nowhere" })),
        ("prompts/get", json!({ "name": "args-prompt", "arguments": { "city": "Oslo" } })),
        call("trigger-sampling-request", &json!({ "prompt": "a heron", "maxTokens": 40 })),
        plain("trigger-elicitation-request"),
        call("trigger-url-elicitation", &json!({ "url": "https://example.org/connect", "elicitationId": "e-1" })),
    ];
    // Without roots: this server requests them at start, outside of a call, and then they come from the configuration.
    Traffic::of(asked)
        .with_user(json!({ "elicitation": { "form": {}, "url": {} }, "sampling": {} }))
        .watching("demo://resource/dynamic/text/1", plain("toggle-subscriber-updates"))
}

pub(super) fn filesystem(folder: &Path) -> Traffic {
    let path = |name: &str| json!({ "path": folder.join(name) });
    Traffic::of([
        call("read_text_file", &path("notes.txt")),
        call("read_text_file", &path("nothing.txt")),
        call("list_directory", &json!({ "path": folder })),
    ])
}

pub(super) fn memory() -> Traffic {
    Traffic::of([plain("read_graph"), call("search_nodes", &json!({ "query": "Ada" }))])
}
