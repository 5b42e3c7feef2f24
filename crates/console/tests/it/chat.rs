//! Chat turns: text, calls, approvals, forms, cancelling, resuming.

use serde_json::{Value, json};
use toolway_config::AssistantConfig;
use toolway_console::ConsoleOptions;
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    test_host::within,
};
use toolway_wire::{
    budget::{Kept, MemoryBudget},
    limit::Limits,
    revision::Era,
};

use crate::stage::{Browser, Stage, over_http};

async fn say(browser: &Browser, message: Value) -> String {
    let reply = browser.post("/api/v1/chat", &message).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()["conversation"].as_str().unwrap().to_owned()
}

/// Answers the first item of the inbox.
async fn answer(browser: &Browser, given: Value) -> Value {
    let items = browser.until("/api/v1/inbox", |items| !items.as_array().unwrap().is_empty()).await;
    let path = format!("/api/v1/inbox/{}/answer", items[0]["id"].as_str().unwrap());
    assert_eq!(browser.post(&path, &given).await.status, 200);
    items[0].clone()
}

#[tokio::test]
async fn a_turn_streams_asks_calls_and_is_stored() {
    let files = FixtureServer::new("files").tool("write", "Writes.");
    let stage = Stage::new(&[("files", &files)]).await;
    stage.script(
        "script",
        &json!([
            { "reasoning": "hm", "text": "I will write.", "calls": [{ "tool": "files__write", "arguments": { "path": "a" } }] },
            { "expect": [{ "error": false }], "text": "Done." },
        ]),
    );
    let browser = stage.browser().await;
    let mut events = browser.events(None).await;
    let id = say(&browser, json!({ "text": "write it" })).await;
    assert_eq!(events.chat("text").await["conversation"], id);
    let call = events.chat("call").await;
    assert_eq!((&call["name"], &call["arguments"]["path"]), (&"files__write".into(), &"a".into()));
    let item = answer(&browser, json!({ "answer": "once" })).await;
    assert_eq!(
        (&item["conversation"], &item["callId"], &item["surface"]),
        (&id.clone().into(), &call["callId"], &"console".into())
    );
    let result = events.chat("result").await;
    assert_eq!((&result["state"], &result["callId"]), (&"succeeded".into(), &call["callId"]));
    let end = events.chat("end").await;
    assert_eq!((&end["stopReason"], &end["turns"]), (&"done".into(), &2.into()));
    let stored = browser
        .until(&format!("/api/v1/conversations/{id}"), |stored| stored["messages"].as_array().unwrap().len() == 4)
        .await;
    assert_eq!((&stored["title"], &stored["running"]), (&"write it".into(), &false.into()));
    assert_eq!(stored["messages"][1]["calls"][0]["name"], "files__write");
    let stored_result = &stored["messages"][2]["results"][0];
    assert_eq!((&stored_result["isError"], &stored_result["recordId"]), (&false.into(), &call["callId"]));
    assert_eq!(stored_result["state"], "succeeded");
    assert!(stored_result["durationMs"].is_number());
    assert_eq!(stored["messages"][3]["text"], "Done.");
    let list = browser.json("/api/v1/conversations?search=write").await;
    assert_eq!((&list[0]["id"], &list[0]["surface"]), (&id.into(), &"console".into()));
    assert_eq!(browser.json("/api/v1/conversations?search=nothing").await, json!([]));
}

#[tokio::test]
async fn a_refused_call_goes_back_to_the_model() {
    let files = FixtureServer::new("files").tool("write", "");
    let stage = Stage::new(&[("files", &files)]).await;
    stage.script(
        "s",
        &json!([
            { "calls": [{ "tool": "files__write" }] },
            { "expect": [{ "error": true, "contains": "not now" }], "text": "I see." },
        ]),
    );
    let browser = stage.browser().await;
    let mut events = browser.events(None).await;
    say(&browser, json!({ "text": "go" })).await;
    answer(&browser, json!({ "answer": "no", "reason": "not now" })).await;
    assert_eq!(events.chat("result").await["state"], "refused");
    assert_eq!(events.chat("end").await["stopReason"], "done");
    assert!(files.seen("tools/call").is_empty());
}

#[tokio::test]
async fn the_mode_of_a_message_decides_whether_the_user_is_asked() {
    let files = FixtureServer::new("files").tool("write", "");
    let stage = Stage::new(&[("files", &files)]).await;
    stage.script("s", &json!([{ "calls": [{ "tool": "files__write" }] }, { "text": "Done." }]));
    let browser = stage.browser().await;
    let mut events = browser.events(None).await;
    say(&browser, json!({ "text": "go", "mode": "allow" })).await;
    assert_eq!(events.chat("end").await["stopReason"], "done");
    assert_eq!(browser.json("/api/v1/calls").await["calls"][0]["rule"].as_str().unwrap(), "mode `allow`");
    assert_eq!(browser.post("/api/v1/chat", &json!({ "text": "go", "mode": "wild" })).await.status, 400);
}

#[tokio::test]
async fn a_conversation_keeps_its_assistant_and_the_stricter_approval() {
    let files = FixtureServer::new("files").tool("write", "");
    let other = FixtureServer::new("other").tool("write", "");
    let stage = Stage::new(&[("files", &files), ("other", &other)]).await;
    let turn = |tool: &str| json!({ "calls": [{ "tool": tool }] });
    let done = || json!({ "text": "Done." });
    let unknown = json!({ "expect": [{ "error": true, "contains": "unknown tool" }], "text": "Done." });
    stage.script(
        "s",
        &json!([turn("files__write"), done(), turn("other__write"), unknown, turn("files__write"), done()]),
    );
    let configure = |values: Value| {
        let config = AssistantConfig::of_json(&values.to_string()).unwrap();
        stage.backend.assistants.lock().insert("helper".to_owned(), config);
    };
    configure(json!({ "approval": "auto", "servers": ["files"] }));
    let browser = stage.browser().await;
    assert_eq!(browser.json("/api/v1/assistants").await[0]["approval"], "auto");
    let wrong = browser.post("/api/v1/chat", &json!({ "text": "go", "assistant": "helpr" })).await;
    assert_eq!((wrong.status, wrong.body.contains("unknown assistant `helpr`")), (422, true), "{}", wrong.body);
    let mut events = browser.events(None).await;
    let id = say(&browser, json!({ "text": "go", "assistant": "helper" })).await;
    assert_eq!(events.chat("end").await["stopReason"], "done");
    let rule = browser.json("/api/v1/calls").await["calls"][0]["rule"].clone();
    assert_eq!(rule, "approval `auto` of assistant `helper`");
    let shown = browser.json(&format!("/api/v1/conversations/{id}")).await;
    assert_eq!(shown["assistant"]["values"], json!({ "approval": "auto", "servers": ["files"] }));
    // Without a name, and with a server that the assistant does not have.
    say(&browser, json!({ "text": "go on", "conversation": id })).await;
    assert_eq!(events.chat("end").await["stopReason"], "done");
    assert!(other.seen("tools/call").is_empty());
    configure(json!({ "approval": "always-ask", "servers": ["files", "other"] }));
    let reply =
        browser.post("/api/v1/chat", &json!({ "text": "go on", "conversation": id, "mode": "allow" })).await.json();
    assert_eq!(reply["assistant"], "helper");
    assert!(reply["assistantChanges"].as_str().unwrap().contains("has changed since"), "{reply}");
    answer(&browser, json!({ "answer": "no" })).await;
    assert_eq!(events.chat("end").await["stopReason"], "done");
    assert_eq!(files.seen("tools/call").len(), 1);
}

#[tokio::test]
async fn a_conversation_goes_on_and_has_one_turn_at_a_time() {
    let files = FixtureServer::new("files").tool_that("wait", "", Behaviour::Wait);
    let stage = Stage::new(&[("files", &files)]).await;
    stage.script(
        "s",
        &json!([{ "text": "One." }, { "text": "Two.", "calls": [{ "tool": "files__wait" }] }, { "text": "Three." }]),
    );
    let browser = stage.browser().await;
    let mut events = browser.events(None).await;
    let id = say(&browser, json!({ "text": "first" })).await;
    events.chat("end").await;
    let message = json!({ "text": "second", "conversation": id, "mode": "allow" });
    assert_eq!(say(&browser, message.clone()).await, id);
    within("the call", files.until_received("tools/call", 1)).await;
    let busy = browser.post("/api/v1/chat", &message).await;
    assert_eq!((busy.status, busy.code().as_str()), (409, "conflict"));
    assert_eq!(browser.json(&format!("/api/v1/conversations/{id}")).await["running"], true);
    assert_eq!(browser.post(&format!("/api/v1/chat/{id}/cancel"), &json!({})).await.status, 200);
    assert_eq!(events.chat("end").await["stopReason"], "cancelled");
    within("the server", files.left(1)).await;
    assert_eq!(browser.post(&format!("/api/v1/chat/{id}/cancel"), &json!({})).await.status, 409);
    say(&browser, json!({ "text": "third", "conversation": id })).await;
    assert_eq!(events.chat("end").await["stopReason"], "done");
    let stored = browser.json(&format!("/api/v1/conversations/{id}")).await;
    let texts: Vec<&str> =
        stored["messages"].as_array().unwrap().iter().map(|message| message["text"].as_str().unwrap()).collect();
    assert!(texts.contains(&"One.") && texts.contains(&"Three."), "{texts:?}");
}

#[tokio::test]
async fn a_long_result_is_read_on_in_a_later_message_of_its_conversation_only() {
    let files = FixtureServer::new("files").tool("read", "Reads.");
    let stage = Stage::new(&[("files", &files)]).await;
    let long = format!("{}the end", "long ".repeat(10_000));
    stage.script(
        "call",
        &json!([{ "calls": [{ "tool": "files__read", "arguments": { "text": long } }] }, { "text": "Cut." }]),
    );
    let browser = stage.browser().await;
    let mut events = browser.events(None).await;
    let id = say(&browser, json!({ "text": "read", "mode": "allow" })).await;
    let result = events.chat("call").await["callId"].clone();
    assert_eq!(events.chat("end").await["stopReason"], "done");
    let read = json!({ "calls": [{ "tool": "read_result", "arguments": { "id": result, "offset": 40_000 } }] });
    for text in ["go on", "and again"] {
        stage.script(text, &json!([read, { "expect": [{ "contains": "the end", "error": false }], "text": "Read." }]));
        say(&browser, json!({ "text": text, "conversation": id, "model": text })).await;
        assert_eq!(events.chat("end").await["stopReason"], "done");
    }
    stage.script(
        "other",
        &json!([read, { "expect": [{ "contains": "unknown truncated", "error": true }], "text": "No." }]),
    );
    say(&browser, json!({ "text": "another conversation", "model": "other" })).await;
    assert_eq!(events.chat("end").await["stopReason"], "done");
}

#[tokio::test]
async fn a_form_in_the_middle_of_a_turn_is_answered_in_the_page() {
    let people = FixtureServer::new("people").tool_that("greet", "", Behaviour::Greet);
    let fixture = people.over_http(Some(Era::Legacy)).await.unwrap();
    let wanted = over_http("people", &fixture.url());
    let stage = Stage::with(&[], toolway_console::ConsoleOptions::default(), |builder| builder.wanted(wanted)).await;
    stage.host.ready("people").await;
    stage.script(
        "s",
        &json!([
            { "calls": [{ "tool": "people__greet" }] },
            { "expect": [{ "contains": "Ada" }], "text": "Greeted." },
        ]),
    );
    let browser = stage.browser().await;
    let mut events = browser.events(None).await;
    say(&browser, json!({ "text": "greet", "mode": "allow" })).await;
    let item = answer(&browser, json!({ "action": "accept", "content": { "name": "Ada" } })).await;
    assert_eq!((&item["kind"], &item["surface"]), (&"form".into(), &"console".into()));
    assert_eq!(events.chat("end").await["stopReason"], "done");
}

#[tokio::test]
async fn errors_of_models_and_requests_are_said() {
    let stage = Stage::new(&[]).await;
    let browser = stage.browser().await;
    let reply = browser.post("/api/v1/chat", &json!({ "text": "hi" })).await;
    assert_eq!((reply.status, reply.code().as_str()), (422, "invalid"), "no model");
    stage.script("s", &json!([]));
    assert_eq!(browser.json("/api/v1/session").await["defaultModel"], "s");
    assert_eq!(browser.post("/api/v1/chat", &json!({ "text": " " })).await.status, 400);
    assert_eq!(browser.post("/api/v1/chat", &json!({ "text": "hi", "model": "other" })).await.status, 422);
    for id in ["x", "0194a000-0000-7000-8000-000000000000"] {
        assert_eq!(browser.post("/api/v1/chat", &json!({ "text": "hi", "conversation": id })).await.status, 404);
        assert_eq!(browser.get(&format!("/api/v1/conversations/{id}")).await.status, 404);
    }
    let mut events = browser.events(None).await;
    say(&browser, json!({ "text": "hi" })).await;
    let error = events.chat("error").await;
    assert!(error["message"].as_str().unwrap().contains("script"), "{error}");
}

#[tokio::test]
async fn shutdown_cancels_and_awaits_turns() {
    let files = FixtureServer::new("files").tool_that("wait", "", Behaviour::Wait);
    let mut stage = Stage::new(&[("files", &files)]).await;
    stage.script("s", &json!([{ "calls": [{ "tool": "files__wait" }] }]));
    let browser = stage.browser().await;
    say(&browser, json!({ "text": "go", "mode": "allow" })).await;
    within("the call", files.until_received("tools/call", 1)).await;
    stage.stop.cancel();
    within("shutdown", stage.serving.take().unwrap()).await.unwrap().unwrap();
    within("the server", files.left(1)).await;
}

/// Texts of the messages of the user.
fn said(shown: &Value) -> Vec<&str> {
    let messages = shown["messages"].as_array().unwrap().iter();
    messages.filter(|message| message["role"] == "user").map(|message| message["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn messages_wait_for_the_turn_and_after_a_stop_for_the_user() {
    let files = FixtureServer::new("files").tool_that("wait", "", Behaviour::Wait);
    let stage = Stage::new(&[("files", &files)]).await;
    let wait = || json!({ "calls": [{ "tool": "files__wait" }] });
    stage.script("s", &json!([wait(), { "text": "Second." }, { "text": "Third." }]));
    let browser = stage.browser().await;
    let mut events = browser.events(None).await;
    let id = say(&browser, json!({ "text": "first", "mode": "allow" })).await;
    within("the call", files.until_received("tools/call", 1)).await;
    let queue = |text: &str| json!({ "text": text, "conversation": id, "queue": true });
    for text in ["second", "not this", "third"] {
        assert!(browser.post("/api/v1/chat", &queue(text)).await.json()["queued"].is_string());
    }
    let shown = browser.json(&format!("/api/v1/conversations/{id}")).await;
    let waiting = shown["queue"]["messages"].as_array().unwrap().clone();
    assert_eq!((waiting.len(), &shown["queue"]["held"]), (3, &false.into()));
    let path = format!("/api/v1/chat/{id}/queue");
    let back = browser.post(&path, &json!({ "remove": waiting[1]["id"] })).await;
    assert_eq!(back.json()["text"], "not this");
    assert_eq!(browser.post(&path, &json!({ "remove": waiting[1]["id"] })).await.status, 409);
    browser.post(&format!("/api/v1/chat/{id}/cancel"), &json!({})).await;
    assert_eq!(events.chat("end").await["stopReason"], "cancelled");
    let held = browser.until(&format!("/api/v1/conversations/{id}"), |shown| shown["queue"]["held"] == true).await;
    assert_eq!((said(&held), &held["running"]), (vec!["first"], &false.into()));
    assert_eq!(browser.post(&path, &json!({})).await.status, 200);
    for text in ["second", "third"] {
        assert_eq!(events.chat("begin").await["text"], text);
        assert_eq!(events.chat("end").await["stopReason"], "done");
    }
    let shown = browser.json(&format!("/api/v1/conversations/{id}")).await;
    assert_eq!(said(&shown), ["first", "second", "third"]);
    assert_eq!(browser.post(&path, &json!({})).await.status, 409, "nothing waits");
}

#[tokio::test]
async fn a_branch_has_copies_of_the_messages_before_and_makes_no_call_again() {
    let files = FixtureServer::new("files").tool("write", "");
    let stage = Stage::new(&[("files", &files)]).await;
    stage.script(
        "s",
        &json!([
            { "calls": [{ "tool": "files__write" }] }, { "text": "Written." }, { "text": "Second." },
            { "heard": ["asked anew"], "text": "Another." }, { "heard": ["from the start"], "text": "New." },
        ]),
    );
    let browser = stage.browser().await;
    let mut events = browser.events(None).await;
    let id = say(&browser, json!({ "text": "write", "mode": "allow" })).await;
    events.chat("end").await;
    say(&browser, json!({ "text": "and now?", "conversation": id })).await;
    events.chat("end").await;
    let branch = |before: i64, text: &str| json!({ "text": text, "branch": { "conversation": id, "before": before } });
    let branched = say(&browser, branch(4, "asked anew")).await;
    assert_eq!(events.chat("end").await["stopReason"], "done");
    let shown = browser.json(&format!("/api/v1/conversations/{branched}")).await;
    assert_eq!(said(&shown), ["write", "asked anew"]);
    assert_eq!((&shown["branch"]["conversation"], &shown["branch"]["messages"]), (&id.clone().into(), &4.into()));
    assert_eq!(shown["messages"][2]["results"][0]["state"], "succeeded", "the record of the first call");
    assert_eq!(files.seen("tools/call").len(), 1);
    let fresh = say(&browser, branch(0, "from the start")).await;
    events.chat("end").await;
    let shown = browser.json(&format!("/api/v1/conversations/{fresh}")).await;
    assert_eq!((said(&shown), &shown["title"]), (vec!["from the start"], &"from the start".into()));
    let before = browser.json(&format!("/api/v1/conversations/{id}")).await;
    assert_eq!((said(&before), &before["branch"]), (vec!["write", "and now?"], &Value::Null));
    for wrong in [1, 3, 99, -1] {
        assert_eq!(browser.post("/api/v1/chat", &branch(wrong, "x")).await.status, 404, "{wrong}");
    }
    let twice = json!({ "text": "x", "conversation": id, "branch": { "conversation": id, "before": 0 } });
    assert_eq!(browser.post("/api/v1/chat", &twice).await.status, 400);
}

#[tokio::test]
async fn a_failed_turn_is_asked_again_and_an_answered_one_is_not() {
    let stage = Stage::new(&[]).await;
    stage.script("broken", &json!([]));
    stage.script("s", &json!([{ "heard": ["hi"], "text": "Hello." }]));
    let browser = stage.browser().await;
    let mut events = browser.events(None).await;
    let id = say(&browser, json!({ "text": "hi", "model": "broken" })).await;
    events.chat("error").await;
    let retry = format!("/api/v1/chat/{id}/retry");
    assert_eq!(browser.post(&retry, &json!({ "model": "s" })).await.status, 200);
    assert_eq!(events.chat("end").await["stopReason"], "done");
    assert_eq!(said(&browser.json(&format!("/api/v1/conversations/{id}")).await), ["hi"]);
    assert_eq!(browser.post(&retry, &json!({ "model": "s" })).await.status, 409);
}

#[tokio::test]
async fn attachments_are_charged_bounded_and_sent_once() {
    let memory = MemoryBudget::new(64 << 20);
    let limits = Limits { memory: memory.clone(), ..Limits::default() };
    let stage = Stage::with(&[], ConsoleOptions { limits, ..ConsoleOptions::default() }, |builder| builder).await;
    stage.script("s", &json!([{ "heard": ["my notes", "notes.txt"], "text": "Read." }]));
    let browser = stage.browser().await;
    let mut events = browser.events(None).await;
    let id = browser.post("/api/v1/chat/draft", &json!({})).await.json()["conversation"].as_str().unwrap().to_owned();
    let upload = format!("/api/v1/chat/{id}/upload?name=notes.txt");
    let text = format!("my notes {}", "x".repeat(100_000));
    let file = browser.post_text(&upload, &text).await.json();
    assert_eq!((&file["kind"], &file["tokens"]), (&"file".into(), &25_003.into()));
    assert!(text.len() <= memory.used_by(Kept::Conversation));
    let spare = browser.post_text(&upload, "not wanted").await.json()["id"].clone();
    assert_eq!(browser.post(&format!("/api/v1/chat/{id}/detach"), &json!({ "id": spare })).await.status, 200);
    let binary = browser.post_text(&upload, "\0\u{1}").await;
    assert_eq!(
        (binary.status, binary.body.contains("neither UTF-8 text nor an image")),
        (422, true),
        "{}",
        binary.body
    );
    assert_eq!(browser.post_text(&upload, &"x".repeat(4_000_000)).await.status, 413);
    assert_eq!(browser.post_text(&upload, &"x".repeat(1_200_000)).await.status, 422, "a text");
    let other = browser.post_text("/api/v1/chat/019a9b1c-0000-7000-8000-000000000000/upload", "x").await;
    assert_eq!(other.status, 404);
    let gone = json!({ "conversation": id, "text": "read", "attachments": [spare] });
    assert_eq!(browser.post("/api/v1/chat", &gone).await.status, 409);
    say(&browser, json!({ "conversation": id, "text": "read", "attachments": [file["id"]] })).await;
    assert_eq!(events.chat("end").await["stopReason"], "done");
    within("a released file", async {
        while memory.used_by(Kept::Conversation) != 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let shown = browser.json(&format!("/api/v1/conversations/{id}")).await;
    assert_eq!(
        (&shown["messages"][0]["role"], &shown["messages"][0]["name"]),
        (&"attachment".into(), &"notes.txt".into())
    );
    let again = json!({ "conversation": id, "text": "again", "attachments": [file["id"]] });
    assert_eq!(browser.post("/api/v1/chat", &again).await.status, 409);
    for _ in 0..32 {
        assert_eq!(browser.post_text(&upload, "x").await.status, 200);
    }
    assert_eq!(browser.post_text(&upload, "x").await.status, 422, "too many");
}

#[tokio::test]
async fn a_conversation_is_exported_and_its_use_is_kept() {
    let stage = Stage::new(&[]).await;
    stage.script("s", &json!([{ "text": "Hello\u{1b}[2J." }]));
    let browser = stage.browser().await;
    let mut events = browser.events(None).await;
    let id = say(&browser, json!({ "text": "hi" })).await;
    let context = events.chat("context").await;
    assert!(context["used"].as_u64().unwrap() > 0 && context["total"]["cost"].is_null(), "{context}");
    events.chat("end").await;
    let export = format!("/api/v1/conversations/{id}/export");
    let page = browser.get(&export).await;
    assert_eq!(page.header("content-disposition").unwrap(), format!("attachment; filename=\"{id}.md\""));
    assert!(page.body.starts_with("# hi\n") && page.body.contains("## assistant\n\nHello\u{1b}[2J."), "{}", page.body);
    let whole = browser.get(&format!("{export}?format=json")).await.json();
    assert_eq!(whole["messages"][1]["body"]["parts"][0]["text"], "Hello\u{1b}[2J.");
    assert_eq!(browser.get(&format!("{export}?format=html")).await.status, 400);
    assert_eq!(browser.get("/api/v1/conversations/019a9b1c-0000-7000-8000-000000000000/export").await.status, 404);
}

#[tokio::test]
async fn a_loaded_conversation_is_charged() {
    let files = FixtureServer::new("files").tool("write", "Writes.");
    let memory = MemoryBudget::new(64 << 20);
    let limits = Limits { memory: memory.clone(), ..Limits::default() };
    let options = ConsoleOptions { limits, ..ConsoleOptions::default() };
    let stage = Stage::with(&[("files", &files)], options, |builder| builder).await;
    stage.script(
        "script",
        &json!([
            { "text": "I will write.", "calls": [{ "tool": "files__write", "arguments": { "path": "a" } }] },
            { "text": "Done." },
        ]),
    );
    let browser = stage.browser().await;
    let mut events = browser.events(None).await;
    // Digests of the URLs are kept, too.
    let text: String = (0..1_000).map(|number| format!("//a.b/{number:03} ")).collect();
    assert!(text.len() <= 11_000);
    say(&browser, json!({ "text": text })).await;
    events.chat("call").await;
    assert!(11_000 + 1_000 * 2 * 16 < memory.used_by(Kept::Conversation), "{memory:?}");
    answer(&browser, json!({ "answer": "once" })).await;
    events.chat("end").await;
    within("a released conversation", async {
        while memory.used_by(Kept::Conversation) != 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;

    let _rest = memory.of_principal("console").charge((32 << 20) - 100_000).unwrap();
    let refused = browser.post("/api/v1/chat", &json!({ "text": "x".repeat(200_000) })).await;
    assert!(refused.status == 503 && refused.body.contains("limits.memory"), "{refused:?}");
}
