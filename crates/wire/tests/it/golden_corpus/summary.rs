//! One-line summary of a message: each typed view adds what it found, or nothing.

use bytes::Bytes;
use toolway_wire::{
    header,
    json::{JsonKind, Raw},
    limit::Limits,
    message::{
        ClientCapabilities, Envelope, MessageKind, RpcError, ServerCapabilities,
        content::{Content, ContentKind},
        item::{Item, Prompt, Resource, Template, Tool, read_items},
        meta, refuse_ambiguity,
        result::{CacheHint, CallResult, ResultType},
    },
    task::Task,
};

/// Summary of a message, or of each message of a batch.
pub(super) fn summarise(text: &Bytes) -> String {
    let limits = Limits::default();
    match Envelope::split_batch(text, &limits) {
        Some(texts) => {
            let bad = Envelope::read(text.clone(), &limits).unwrap_err();
            let messages: Vec<String> = texts.unwrap().iter().map(summarise_one).collect();
            format!("{bad}: {}", messages.join(" | "))
        }
        None => summarise_one(text),
    }
}

fn summarise_one(text: &Bytes) -> String {
    let message = match Envelope::read(text.clone(), &Limits::default()) {
        Ok(message) => message,
        Err(bad) => {
            let id = bad.id.map_or_else(|| "no id".to_owned(), |id| id.to_string());
            let kind = if bad.is_request { "request" } else { "message" };
            return format!("refused {kind} {id}: {}", bad.problem);
        }
    };
    let id = message.id().map_or_else(|| "without id".to_owned(), ToString::to_string);
    let mut parts = Vec::new();
    match message.kind() {
        MessageKind::Request => {
            let params = message.params();
            if let Some(Err(problem)) = params.as_ref().map(refuse_ambiguity) {
                return format!("refused request {id}: {problem}");
            }
            parts.push(format!("request {id} {}", message.method()));
            add_request(message.method(), params.as_ref(), &mut parts);
        }
        MessageKind::Notification => parts.push(format!("notification {}", message.method())),
        MessageKind::Result => {
            parts.push(format!("result {id}"));
            add_result(&message.result().unwrap(), &mut parts);
        }
        MessageKind::Error => parts.push(describe_error(&id, &message.error().unwrap())),
    }
    let body = message.params().or(message.result());
    parts.extend(meta::of(body.as_ref()).map(|meta| meta_keys(&meta)));
    parts.join("; ")
}

/// Capabilities that a server request needs, and those that a request declares.
fn add_request(method: &str, params: Option<&Raw>, parts: &mut Vec<String>) {
    let asks = ["elicitation/create", "roots/list", "sampling/createMessage"];
    if asks.contains(&method) {
        let needed = ClientCapabilities::none().lacks(method, params).unwrap();
        parts.push(format!("needs {needed}"));
    }
    let declared = params.and_then(|params| params.get("capabilities"));
    let Some(declared) = declared.or_else(|| meta::value(params, meta::CLIENT_CAPABILITIES)) else { return };
    let client = ClientCapabilities(declared);
    let raw = |text: &'static str| Some(Raw::parse(text).unwrap());
    let questions = [
        ("forms", "elicitation/create", None),
        ("pages", "elicitation/create", raw(r#"{"mode":"url"}"#)),
        ("roots", "roots/list", None),
        ("sampling", "sampling/createMessage", None),
        ("sampling with tools", "sampling/createMessage", raw(r#"{"tools":[]}"#)),
    ];
    let can = questions.iter().filter(|(_, method, params)| client.lacks(method, params.as_ref()).is_none());
    parts.push(format!("can be asked: {}", list(can.map(|(what, ..)| *what))));
}

fn add_result(result: &Raw, parts: &mut Vec<String>) {
    match ResultType::view(result) {
        ResultType::Complete => {}
        other => parts.push(format!("{other:?}")),
    }
    let hint = CacheHint::view(result);
    if result.get("ttlMs").is_some() || result.get("cacheScope").is_some() {
        parts.push(format!("keeps {:?} {:?}", hint.ttl, hint.scope));
    }
    add_server_capabilities(result, parts);
    add_items::<Tool>(result, parts, |tool| {
        let headers = match header::param_headers(&tool.input_schema) {
            Ok(headers) if headers.is_empty() => String::new(),
            Ok(headers) => format!(" ({})", list(headers.iter().map(|header| header.name.as_str()))),
            Err(invalid) => format!(" ({})", invalid.reason),
        };
        assert_eq!(tool.output_schema, tool.raw.get("outputSchema"));
        (format!("{:?}{headers}", tool.name), tool.raw.clone())
    });
    add_items::<Resource>(result, parts, |resource| (resource.uri.clone(), resource.raw.clone()));
    add_items::<Template>(result, parts, |template| (template.uri_template.clone(), template.raw.clone()));
    add_items::<Prompt>(result, parts, |prompt| {
        let arguments = list(prompt.arguments.iter().map(|argument| argument.name.as_str()));
        (format!("{}({arguments})", prompt.name), prompt.raw.clone())
    });
    parts.extend(Task::view(result).map(|task| format!("task {:?} {}", task.id, task.status)));
    add_content(result, parts);
}

fn add_server_capabilities(result: &Raw, parts: &mut Vec<String>) {
    let Some(capabilities) = result.get("capabilities") else { return };
    let server = ServerCapabilities(capabilities);
    let names = ["completions", "logging", "prompts", "resources", "tasks", "tools"];
    let mut offered: Vec<String> =
        names.iter().filter(|name| server.has(name)).map(|name| (*name).to_owned()).collect();
    for (name, flag) in [("resources", "subscribe"), ("tools", "listChanged")] {
        offered.extend(server.flag(name, flag).then(|| format!("{name}.{flag}")));
    }
    let extensions = ["io.modelcontextprotocol/tasks", "acme.example/none"];
    offered.extend(extensions.iter().filter(|id| server.extension(id)).map(|id| (*id).to_owned()));
    parts.push(format!("offers {}", list(offered.iter().map(String::as_str))));
}

/// The items of one kind, each as text; their raw forms must be the elements of the list, byte for byte.
fn add_items<T: Item>(result: &Raw, parts: &mut Vec<String>, show: impl Fn(&T) -> (String, Raw)) {
    let Ok((items, malformed)) = read_items::<T>(result) else { return };
    let elements = result.get(T::KEY).unwrap().elements();
    assert_eq!(elements.len(), items.len() + malformed.len());
    assert!(malformed.iter().all(|item| item.raw == elements[item.index]));
    let (shown, raws): (Vec<String>, Vec<Raw>) = items.iter().map(show).unzip();
    let is_malformed = |index: usize| malformed.iter().any(|item| item.index == index);
    let good = elements.into_iter().enumerate().filter(|(index, _)| !is_malformed(*index));
    assert!(raws.into_iter().eq(good.map(|(_, element)| element)));
    parts.push(format!("{}s {}", T::WHAT, list(shown.iter().map(String::as_str))));
    parts.extend(malformed.iter().map(ToString::to_string));
}

/// Content blocks of a call result, of prompt messages or of a sampling result.
fn add_content(result: &Raw, parts: &mut Vec<String>) {
    let call = CallResult::view(result);
    assert_eq!(call.raw, *result);
    let messages = result.get("messages").map(|messages| messages.elements()).unwrap_or_default();
    let said = messages.iter().filter_map(|message| message.get("content")).map(|raw| Content::view(&raw));
    let blocks: Vec<String> = call.content.into_iter().chain(said).map(|block| describe(&block)).collect();
    if result.get("content").is_some() || !blocks.is_empty() {
        parts.push(format!("content {}", list(blocks.iter().map(String::as_str))));
    }
    parts.extend(call.structured.map(|structured| format!("structured {:?}", structured.kind())));
    parts.extend(call.is_error.then(|| "says it failed".to_owned()));
}

fn describe(block: &Content) -> String {
    match &block.kind {
        ContentKind::Text(text) => format!("text {}", text.len()),
        ContentKind::Image { data, mime_type } => format!("{mime_type} {}", data.len()),
        ContentKind::Audio { data, mime_type } => format!("{mime_type} {}", data.len()),
        ContentKind::Resource { uri, resource } => {
            assert_eq!(block.raw.get("resource").as_ref(), Some(resource));
            format!("resource {uri}")
        }
        ContentKind::ResourceLink { uri } => format!("link {uri}"),
        ContentKind::Other(kind) => format!("other {kind:?}"),
    }
}

fn describe_error(id: &str, error: &RpcError) -> String {
    let data = error.data().map_or_else(String::new, |data| format!(" with {:?}", data.kind()));
    format!("error {id} {} {:?}{data}", error.code(), error.message())
}

fn meta_keys(meta: &Raw) -> String {
    if meta.kind() != JsonKind::Object {
        return format!("meta {meta}");
    }
    let members = meta.members();
    let keys = members.iter().map(|member| match meta::HOP_KEYS.contains(&member.key.as_str()) {
        true => "of this hop",
        false => member.key.as_str(),
    });
    let mut keys: Vec<&str> = keys.collect();
    keys.dedup();
    format!("meta {}", list(keys.into_iter()))
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
