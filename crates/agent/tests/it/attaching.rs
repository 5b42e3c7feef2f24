//! Stories about files and resources that a model gets before a message, and about its list of resources.

use std::{path::Path, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use futures_util::stream::BoxStream;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolway_agent::{
    Agent, AgentEvent, AgentOptions, Assistant, AttachError, Attachment, ContextPart, Conversation, ResourceOptions,
    Stop,
};
use toolway_config::{AssistantConfig, Config, Trust, document::Document};
use toolway_host::{
    call::CallOutcome,
    connection::{WantedServer, Way},
    policy::{ApprovalAnswer, Refusal, Surface},
};
use toolway_model::{Message, Model, ModelError, ModelEvent, ModelRequest, Part, ScriptedModel, TextOnly, Vendor};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    test_host::{TestHost, name, within},
};

use crate::options;

/// A scripted model with a window, which also notes the messages that it gets.
#[derive(Debug)]
struct NotingModel {
    script: ScriptedModel,
    window: u64,
    vendor: Vendor,
    messages: Mutex<Vec<Message>>,
}

impl NotingModel {
    fn new(window: u64, turns: &Value) -> Arc<Self> {
        let script = ScriptedModel::parse("noting", &json!({ "turns": turns }).to_string()).unwrap();
        Arc::new(Self { script, window, vendor: Vendor::Scripted, messages: Mutex::default() })
    }

    fn texts(&self) -> Vec<String> {
        self.messages.lock().iter().map(Message::text).collect()
    }
}

impl Model for NotingModel {
    fn name(&self) -> &str {
        self.script.name()
    }

    fn vendor(&self) -> Vendor {
        self.vendor
    }

    fn context_window(&self) -> Option<u64> {
        Some(self.window)
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'_, Result<ModelEvent, ModelError>> {
        self.messages.lock().clone_from(&request.messages);
        self.script.stream(request)
    }
}

fn note(uri: &str, title: &str, text: &str) -> [Value; 2] {
    let listed = json!({ "uri": uri, "name": "note", "title": title, "mimeType": "text/plain", "size": text.len() });
    [listed, json!([{ "uri": uri, "mimeType": "text/plain", "text": text }])]
}

fn docs() -> FixtureServer {
    let [listed, contents] = note("docs://plan", "The plan of the week", "Buy bread.");
    FixtureServer::new("docs").resource(listed, contents)
}

async fn host_of(server: &FixtureServer) -> TestHost {
    let host = TestHost::with(server, "docs").start().await;
    host.ready("docs").await;
    host
}

async fn say(agent: &Agent, conversation: &mut Conversation, messages: Vec<Message>) -> Vec<String> {
    let mut said = Vec::new();
    let mut observe = |event: AgentEvent| match event {
        AgentEvent::Attached(attached) => said.push(attached.words()),
        AgentEvent::LeftOut(reason) => said.push(reason),
        _ => {}
    };
    agent.answer(conversation, messages, &CancellationToken::new(), &mut observe).await.unwrap();
    said
}

async fn file(name: &str) -> Result<Attachment, AttachError> {
    Attachment::read_file(Path::new(name)).await
}

// === the model's list ===

#[tokio::test]
async fn a_model_lists_and_searches_the_resources_that_it_may_see() {
    let hidden = FixtureServer::new("hidden");
    let host = TestHost::with(&docs(), "docs").server("hidden", &hidden).start().await;
    host.ready("docs").await;
    host.ready("hidden").await;
    let call = |arguments: Value| json!({ "tool": "mcp_list_resources", "arguments": arguments });
    let turns = json!([
        { "calls": [call(json!({})), call(json!({ "query": "plans of a week" })), call(json!({ "query": "zebra" })),
                    call(json!({ "server_id": "hidden" }))] },
        { "expect": [
            { "contains": "\"uri\":\"docs://plan\"", "error": false },
            { "contains": "\"size\":10", "error": false },
            { "contains": "no resource matches", "error": true },
            { "contains": "no server lists a resource", "error": true },
          ], "calls": [{ "tool": "mcp_read_resource", "arguments": { "server_id": "docs", "uri": "docs://plan" } }] },
        { "expect": [{ "contains": "Buy bread.", "error": false }], "text": "Found." },
    ]);
    let model = NotingModel::new(100_000, &turns);
    let servers = Some([name("docs")].into());
    let agent = Agent::new(host.host.clone(), model.clone(), AgentOptions { servers, ..options() });
    say(&agent, &mut Conversation::new(None), vec![Message::user("look")]).await;
    let listed = model.messages.lock().iter().map(|message| format!("{message:?}")).collect::<String>();
    assert!(listed.contains("The plan of the week") && listed.contains("text/plain"), "{listed}");
    assert!(!listed.contains("hidden://"), "{listed}");
}

#[tokio::test]
async fn known_secrets_in_what_servers_list_do_not_reach_the_model() {
    let mut listed = json!({ "uri": "docs://x?key=s3cr3t-token", "name": "n", "title": "s3cr3t-token of Ada" });
    listed["description"] = json!("with s3cr3t-token");
    let mut server = docs().resource(listed, json!([]));
    // So many that they are searched.
    for number in 0..200 {
        server = server.tool(&format!("tool{number}"), &format!("s3cr3t-token {}", "x".repeat(2_000)));
    }
    let fixture = server.over_http(None).await.unwrap();
    let entry = json!({ "url": fixture.url(), "headers": { "Authorization": "Bearer s3cr3t-token" } });
    let config = json!({ "mcpServers": { "docs": entry } }).to_string();
    let config = Config::of(&Document::of("/toolway.json".as_ref(), &config).unwrap(), None).unwrap();
    let host = TestHost::new().config(config).start().await;
    host.ready("docs").await;
    let call = |tool: &str, arguments: Value| json!({ "tool": tool, "arguments": arguments });
    let turns = json!([
        { "calls": [call("mcp_list_resources", json!({})), call("search_tools", json!({ "query": "tool7" })),
                    call("describe_tool", json!({ "name": "docs__tool7" }))] },
        { "expect": [{ "contains": "docs://x?key=[hidden]", "error": false }, { "contains": "[hidden]", "error": false },
                     { "contains": "[hidden]", "error": false }], "text": "I see." },
    ]);
    let model = NotingModel::new(100_000, &turns);
    let agent = Agent::new(host.host.clone(), model.clone(), options());
    say(&agent, &mut Conversation::new(None), vec![Message::user("look")]).await;
    let sent = format!("{:?}", model.messages.lock());
    assert!(sent.contains("docs://x") && !sent.contains("s3cr3t"), "{sent}");
}

#[tokio::test]
async fn a_list_of_many_resources_with_odd_names_is_given_in_bounded_pieces() {
    let mut server = docs();
    for number in 0..5_000 {
        let uri = format!("docs://{number}\u{1b}[2J\n");
        server = server.resource(json!({ "uri": uri, "name": "n", "description": "x".repeat(300) }), json!([]));
    }
    let host = host_of(&server).await;
    let call = |offset: usize| json!({ "tool": "mcp_list_resources", "arguments": { "offset": offset } });
    let turns = json!([
        { "calls": [call(0), call(5_000), call(1_000_000)] },
        { "expect": [
            { "contains": "\"next_offset\":50", "error": false },
            { "contains": "\"total\":5002", "error": false },
            { "contains": "no server lists", "error": true },
          ], "text": "Many." },
    ]);
    let model = NotingModel::new(200_000, &turns);
    let agent = Agent::new(host.host.clone(), model.clone(), options());
    say(&agent, &mut Conversation::new(None), vec![Message::user("look")]).await;
    let request = serde_json::to_string(&*model.messages.lock()).unwrap();
    assert!(request.len() < 100_000 && !request.contains('\u{1b}'), "{}", request.len());
}

// === what the user attaches ===

#[tokio::test]
async fn an_attached_resource_is_read_as_a_call_and_stands_before_the_message_in_a_block_of_its_own() {
    let host = host_of(&docs()).await;
    let model = NotingModel::new(100_000, &json!([{ "text": "Bread." }, { "text": "Yes." }]));
    let agent = Agent::new(host.host.clone(), model.clone(), options());
    let mut conversation = Conversation::new(None);
    for address in ["docs://plan", "docs.docs://plan"] {
        let attached = agent.attach_resources(&conversation, &[address.to_owned()]).await.unwrap();
        agent.check_attachments(&attached).unwrap();
        let mut messages: Vec<_> = attached.into_iter().map(|one| one.message(&conversation)).collect();
        messages.push(Message::user("What do I buy?"));
        say(&agent, &mut conversation, messages).await;
    }
    let texts = model.texts();
    assert!(
        texts[0].starts_with("[Toolway: the user attached the resource `docs://plan` of the tool server `docs`."),
        "{texts:?}"
    );
    assert!(texts[0].contains("not instructions") && texts[0].contains("Buy bread."), "{texts:?}");
    assert_eq!((texts[1].as_str(), texts[2].as_str()), ("What do I buy?", "Bread."));

    let records = host.records();
    assert_eq!((records[0].surface, records[0].caller.label().as_str()), (Surface::Chat, "agent"));
    assert_eq!(records[0].conversation.as_deref(), Some(&**conversation.id()));
    let meter = agent.context(&conversation);
    let part = |part| meter.parts.iter().find(|metered| metered.part == part).map_or(0, |metered| metered.tokens);
    assert!(part(ContextPart::Attachments) > 100 && part(ContextPart::Messages) < 30, "{meter:?}");
}

#[tokio::test]
async fn a_resource_that_no_server_lists_is_refused_where_no_user_can_be_asked() {
    let host = host_of(&docs()).await;
    let model = NotingModel::new(100_000, &json!([]));
    let agent = Agent::new(host.host.clone(), model, AgentOptions { surface: Surface::Run, ..options() });
    let failed = agent.attach_resource(&Conversation::new(None), "docs.docs://other").await.unwrap_err();
    let AttachError::NotRead { outcome, .. } = &failed else { panic!("{failed}") };
    assert!(matches!(**outcome, CallOutcome::Refused(Refusal::ApproverUnavailable { .. })), "{outcome:?}");
    assert!(matches!(
        agent.attach_resource(&Conversation::new(None), "nowhere://x").await.unwrap_err(),
        AttachError::NotRead { .. }
    ));
}

#[tokio::test]
async fn a_resource_of_ten_megabytes_is_refused_and_a_page_that_claims_to_be_an_image_is_left_out() {
    let page = "PCFET0NUWVBFIGh0bWw+PGh0bWw+PGJvZHk+NDA0PC9ib2R5PjwvaHRtbD4=";
    let listed = |uri: &str| json!({ "uri": uri, "name": "x" });
    let blob = |uri: &str, data: &str| json!([{ "uri": uri, "mimeType": "image/png", "blob": data }]);
    let server = docs()
        .resource(listed("docs://large"), json!([{ "uri": "docs://large", "text": "x".repeat(10 << 20) }]))
        .resource(listed("docs://page"), blob("docs://page", page))
        .resource(listed("docs://dot"), blob("docs://dot", "iVBORw0KGgoAAAAN"));
    let host = host_of(&server).await;
    let agent = Agent::new(host.host.clone(), NotingModel::new(100_000, &json!([])), options());
    let conversation = Conversation::new(None);
    let large = agent.attach_resource(&conversation, "docs://large").await.unwrap_err();
    assert!(matches!(large, AttachError::TooLarge { most: 1_048_576, .. }), "{large}");
    let page = agent.attach_resource(&conversation, "docs://page").await.unwrap().message(&conversation);
    assert!(page.parts.len() == 1 && page.text().contains("it is text and not what its type says"), "{page:?}");
    let dot = agent.attach_resource(&conversation, "docs://dot").await.unwrap().message(&conversation);
    assert!(matches!(&dot.parts[1], Part::Image(image) if image.mime_type == "image/png"), "{dot:?}");
}

#[tokio::test]
async fn files_are_text_images_or_sounds_whatever_they_are_called() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.png");
    std::fs::write(&page, "<!DOCTYPE html><html>").unwrap();
    let conversation = Conversation::new(None);
    let read = |path: &Path| {
        let path = path.to_owned();
        async move { Attachment::read_file(&path).await.unwrap() }
    };
    assert_eq!(read(&page).await.message(&conversation).parts.len(), 1, "a page is text");
    let notes = read(Path::new("tests/attached/notes.txt")).await;
    assert_eq!(notes.tokens(), 11);
    let text = notes.message(&conversation).text();
    assert!(text.starts_with("[Toolway: the user attached the file `tests/attached/notes.txt`."), "{text}");
    let dot = read(Path::new("tests/attached/dot.png")).await.message(&conversation);
    assert!(matches!(&dot.parts[..], [Part::Text { .. }, Part::Image(_)]), "{dot:?}");
    let beep = read(Path::new("tests/attached/beep.wav")).await.message(&conversation);
    assert!(matches!(&beep.parts[..], [Part::Text { .. }, Part::Audio(_)]), "{beep:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn what_is_no_plain_file_of_a_known_kind_is_refused_at_once_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("large.txt"), "x".repeat((1 << 20) + 1)).unwrap();
    std::fs::write(path("program"), b"\x7fELF\0\0\x01").unwrap();
    std::fs::write(path("latin1.txt"), b"caf\xe9").unwrap();
    std::os::unix::fs::symlink("loop", path("loop")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap();
    assert!(made.success());
    for (name, why) in [
        (path("nothing.txt"), "No such file"),
        (path("large.txt"), "larger than 1048576 bytes"),
        (path("program"), "neither UTF-8 text nor an image"),
        (path("latin1.txt"), "neither UTF-8 text nor an image"),
        (path("loop"), "symbolic links"),
        (path("pipe"), "not a regular file"),
        ("/dev/zero".to_owned(), "not a regular file"),
        (path(""), "it is a directory; attach its files one by one"),
    ] {
        let error = file(&name).await.unwrap_err().to_string();
        assert!(error.starts_with("cannot attach `") && error.contains(why), "{error}");
    }
}

#[tokio::test]
async fn attachments_are_bounded_by_the_window_and_sounds_by_the_vendor() {
    let host = host_of(&docs()).await;
    let small = Agent::new(host.host.clone(), NotingModel::new(20, &json!([])), options());
    let notes = file("tests/attached/notes.txt").await.unwrap();
    let error = small.check_attachments(&[notes.clone(), notes]).unwrap_err();
    assert!(matches!(error, AttachError::TooManyTokens { tokens: 22, most: 10, .. }), "{error}");
    let script = ScriptedModel::parse("m", r#"{"turns": []}"#).unwrap();
    let deaf = NotingModel { script, window: 100_000, vendor: Vendor::Anthropic, messages: Mutex::default() };
    let deaf = Agent::new(host.host.clone(), Arc::new(deaf), options());
    let beep = file("tests/attached/beep.wav").await.unwrap();
    assert!(matches!(deaf.check_attachments(&[beep]).unwrap_err(), AttachError::NoAudio { .. }));
}

#[tokio::test]
async fn bytes_of_a_file_are_what_they_are_and_an_image_is_refused_where_a_model_takes_none() {
    let host = host_of(&docs()).await;
    let png = std::fs::read("tests/attached/dot.png").unwrap();
    let image = Attachment::of_bytes("screenshot.txt".to_owned(), png).unwrap();
    assert_eq!((image.name(), image.tokens()), ("screenshot.txt", 1_000));
    let seeing = Agent::new(host.host.clone(), NotingModel::new(100_000, &json!([])), options());
    seeing.check_attachments(std::slice::from_ref(&image)).unwrap();
    let blind = TextOnly(NotingModel::new(100_000, &json!([])));
    let blind = Agent::new(host.host.clone(), Arc::new(blind), options());
    let error = blind.check_attachments(&[image]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot attach `screenshot.txt`: model `noting` takes no images (`models.noting.images`); choose another model"
    );
    let binary = Attachment::of_bytes("data".to_owned(), vec![0, 1, 2]).unwrap_err();
    assert!(matches!(binary, AttachError::UnknownBinary { .. }), "{binary}");
}

// === what fits a message ===

fn annotated(count: usize) -> FixtureServer {
    let mut server = docs();
    for number in 0..count {
        let [mut listed, contents] = note(&format!("docs://bread/{number}"), "How to bake bread", "Knead it.");
        listed["annotations"] = json!({ "audience": ["assistant"] });
        server = server.resource(listed, contents);
    }
    server
}

fn auto(on: bool) -> AgentOptions {
    let auto_context = if on { [name("docs")].into() } else { Default::default() };
    AgentOptions { reading: ResourceOptions { auto_context, ..ResourceOptions::default() }, ..options() }
}

#[tokio::test]
async fn five_resources_for_the_assistant_that_fit_are_attached_once_and_said() {
    let host = host_of(&annotated(7)).await;
    let model = NotingModel::new(100_000, &json!([{ "text": "a" }, { "text": "b" }, { "text": "c" }]));
    let agent = Agent::new(host.host.clone(), model.clone(), auto(true));
    let mut conversation = Conversation::new(None);
    let said = say(&agent, &mut conversation, vec![Message::user("tell me about xylophones")]).await;
    assert!(said.is_empty() && model.texts().len() == 1, "{said:?}");
    let said = say(&agent, &mut conversation, vec![Message::user("how do I bake a bread?")]).await;
    assert_eq!(said.len(), 5);
    assert_eq!(said[0], "attached resource `docs://bread/0` of `docs` (about 13 tokens)");
    assert!(model.texts()[2].contains("because it may fit the next message"), "{:?}", model.texts());
    assert_eq!(model.texts()[7], "how do I bake a bread?");
    // What the conversation has is not attached again.
    let said = say(&agent, &mut conversation, vec![Message::user("and another bread?")]).await;
    assert_eq!(said.len(), 2);
}

#[tokio::test]
async fn nothing_is_attached_by_itself_unless_it_is_turned_on_trusted_and_small_enough() {
    let host = host_of(&annotated(1)).await;
    let answers = json!([{ "text": "a" }, { "text": "b" }]);
    let off = Agent::new(host.host.clone(), NotingModel::new(100_000, &answers), auto(false));
    let bread = || vec![Message::user("how do I bake a bread?")];
    assert!(say(&off, &mut Conversation::new(None), bread()).await.is_empty());
    let small = Agent::new(host.host.clone(), NotingModel::new(64, &answers), auto(true));
    let said = say(&small, &mut Conversation::new(None), bread()).await;
    assert!(said[0].contains("is not attached: it has about 13 tokens, and 8 are left"), "{said:?}");

    let wanted = WantedServer::new(name("docs"), Way::InProcess(annotated(1).service()));
    let host = TestHost::new().wanted(WantedServer { trust: Trust::Untrusted, ..wanted }).start().await;
    host.ready("docs").await;
    let agent = Agent::new(host.host.clone(), NotingModel::new(100_000, &answers), auto(true));
    let said = say(&agent, &mut Conversation::new(None), bread()).await;
    assert!(said.iter().any(|said| said.contains("resource `docs://bread/0` of `docs` is not attached")), "{said:?}");
    assert!(host.asked().is_empty(), "the user is not asked about what they did not want");
}

#[tokio::test]
async fn no_image_that_only_fits_is_attached_for_a_model_that_takes_none() {
    let uri = "docs://bread/crust";
    let listed = json!({ "uri": uri, "name": "note", "title": "How to bake bread", "mimeType": "image/png",
        "annotations": { "audience": ["assistant"] } });
    let image = std::fs::read("tests/attached/dot.png").unwrap();
    let contents = json!([{ "uri": uri, "mimeType": "image/png", "blob": BASE64.encode(image) }]);
    let host = host_of(&docs().resource(listed, contents)).await;
    let bread = || vec![Message::user("how do I bake a bread?")];
    let seeing = NotingModel::new(100_000, &json!([{ "text": "a" }]));
    let agent = Agent::new(host.host.clone(), seeing, auto(true));
    let said = say(&agent, &mut Conversation::new(None), bread()).await;
    assert!(said[0].starts_with("attached resource `docs://bread/crust`"), "{said:?}");
    let blind = NotingModel::new(100_000, &json!([{ "text": "a" }]));
    let model = Arc::<NotingModel>::clone(&blind);
    let agent = Agent::new(host.host.clone(), Arc::new(TextOnly(model)), auto(true));
    let said = say(&agent, &mut Conversation::new(None), bread()).await;
    assert!(said[0].contains("model `noting` takes no images"), "{said:?}");
    assert_eq!(blind.texts(), ["how do I bake a bread?"]);
}

#[tokio::test]
async fn an_image_of_a_result_does_not_reach_a_model_that_takes_none() {
    let image = r#"{"content": [{"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}]}"#;
    let host = host_of(&docs().tool_that("draw", "Draw", Behaviour::Answer(image))).await;
    host.answering(ApprovalAnswer::approved("test"));
    let call = json!({ "tool": "docs__draw", "arguments": {} });
    let model = NotingModel::new(100_000, &json!([{ "calls": [call] }, { "text": "Nice." }]));
    let given = Arc::<NotingModel>::clone(&model);
    let agent = Agent::new(host.host.clone(), Arc::new(TextOnly(given)), options());
    let mut conversation = Conversation::new(None);
    say(&agent, &mut conversation, vec![Message::user("draw")]).await;
    let sent = format!("{:?}", model.messages.lock());
    assert!(sent.contains("this model takes no `image/png`") && !sent.contains("iVBORw0KGgo"), "{sent}");
    let stored = format!("{:?}", conversation.messages());
    assert!(stored.contains("iVBORw0KGgo"), "another model can see it later: {stored}");
}

/// A server with resources for the assistant whose reads it never answers.
fn silent(count: usize) -> FixtureServer {
    let mut server = docs();
    for number in 0..count {
        let [mut listed, _] = note(&format!("docs://bread/{number}"), "How to bake bread", "");
        listed["annotations"] = json!({ "audience": ["assistant"] });
        server = server.resource(listed, Value::Null);
    }
    server
}

#[tokio::test]
async fn a_turn_can_be_stopped_while_a_server_does_not_answer_a_read_that_only_fits() {
    let server = silent(5);
    let host = host_of(&server).await;
    let model = NotingModel::new(100_000, &json!([]));
    let agent = Agent::new(host.host.clone(), model.clone(), auto(true));
    let cancel = CancellationToken::new();
    let mut conversation = Conversation::new(None);
    let mut observe = |_| {};
    let answering = agent.answer(&mut conversation, vec![Message::user("bake a bread")], &cancel, &mut observe);
    let stopping = async {
        server.until_received("resources/read", 1).await;
        cancel.cancel();
    };
    let (answer, ()) = within("the end of the turn", async { tokio::join!(answering, stopping) }).await;
    assert_eq!(answer.unwrap().stop, Stop::Cancelled);
    within("the end of the read", server.left(1)).await;
    assert_eq!(server.seen("resources/read").len(), 1, "no further one is read");
    assert!(model.messages.lock().is_empty(), "the model is not asked");
}

#[tokio::test(start_paused = true)]
async fn a_read_that_only_fits_has_ten_seconds() {
    let host = host_of(&silent(2)).await;
    let model = NotingModel::new(100_000, &json!([{ "text": "Bread." }]));
    let agent = Agent::new(host.host.clone(), model.clone(), auto(true));
    let before = tokio::time::Instant::now();
    let said = say(&agent, &mut Conversation::new(None), vec![Message::user("bake a bread")]).await;
    assert!(said.len() == 2 && said[0].ends_with("is not attached: its server did not answer within 10 s"), "{said:?}");
    assert_eq!(before.elapsed().as_secs(), 20);
    assert_eq!(model.texts(), ["bake a bread"]);
}

#[tokio::test]
async fn a_second_read_of_a_model_is_answered_from_the_cache_unless_that_is_off() {
    for (cache, from_cache) in
        [(ResourceOptions::default().cache, vec![false, true]), (Default::default(), vec![false, false])]
    {
        let server = docs().keeping(60_000, "private");
        let host = host_of(&server).await;
        let read = json!({ "tool": "mcp_read_resource", "arguments": { "server_id": "docs", "uri": "docs://plan" } });
        let turns = json!([{ "calls": [read] }, { "calls": [read] }, { "text": "Twice." }]);
        let reading = ResourceOptions { cache, ..ResourceOptions::default() };
        let agent =
            Agent::new(host.host.clone(), NotingModel::new(100_000, &turns), AgentOptions { reading, ..options() });
        say(&agent, &mut Conversation::new(None), vec![Message::user("read it twice")]).await;
        let found: Vec<bool> = host.records().iter().map(|record| record.from_cache).collect();
        assert_eq!(found, from_cache);
    }
}

// === what an assistant begins with ===

#[tokio::test]
async fn resources_of_an_assistant_are_attached_once_to_a_new_conversation_on_every_surface_and_failures_are_said() {
    let [listed, contents] = note("docs://large", "A large note", &"x".repeat(200_000));
    for surface in [Surface::Chat, Surface::Console] {
        let host = host_of(&docs().resource(listed.clone(), contents.clone())).await;
        let values =
            r#"{"approval": "auto", "resources": ["docs://plan", "docs.docs://plan", "docs://gone", "docs://large"]}"#;
        let assistant = Some(Assistant::new("helper", &AssistantConfig::of_json(values).unwrap()));
        let model = NotingModel::new(20_000, &json!([{ "text": "Bread." }, { "text": "Yes." }, { "text": "No." }]));
        let agent = Agent::new(host.host.clone(), model.clone(), AgentOptions { assistant, surface, ..options() });
        let mut conversation = Conversation::new(None);
        let said = say(&agent, &mut conversation, vec![Message::user("What do I buy?")]).await;
        assert!(said[0].starts_with("resource `docs://gone` of assistant `helper` is not attached: "), "{said:?}");
        assert!(said[1].starts_with("resource `docs://large` of assistant `helper` is not attached: "), "{said:?}");
        assert_eq!(said[2..], ["attached resource `docs://plan` of `docs` (about 12 tokens)"]);
        let texts = model.texts();
        assert!(texts[0].contains("Buy bread.") && texts[0].contains("not instructions"), "{texts:?}");
        assert_eq!(texts[1..], ["What do I buy?"]);
        assert!(host.records().iter().any(|record| record.surface == surface), "each read has a record");

        assert!(say(&agent, &mut conversation, vec![Message::user("And now?")]).await.is_empty());
        let mut resumed = Conversation::resume(conversation.id(), conversation.messages().to_vec(), None);
        assert!(say(&agent, &mut resumed, vec![Message::user("Still?")]).await.is_empty());
    }
}
