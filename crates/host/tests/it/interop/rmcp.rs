//! Servers based on the official Rust SDK: all features of a call, in both eras, over stdio and HTTP.

use serde_json::{Value, json};
use toolway_wire::{
    exchange::{ExchangeEvent, LogLevel, Outcome},
    json::Raw,
    notice::{List, Notice, SubscriptionFilter},
    revision::{Era, Revision},
    up::{CompletionTarget, EraChoice},
};

use crate::{
    peers,
    stage::{Listener, ProtocolChoice, Server, Stage, within},
};

/// Four combinations of transport and era, with the expected revision.
const WAYS: [(&str, &str, &str); 4] = [
    ("stdio", "legacy", "2025-11-25"),
    ("stdio", "modern", "2026-07-28"),
    ("http", "legacy", "2025-11-25"),
    ("http", "modern", "2026-07-28"),
];

#[tokio::test]
async fn era_is_detected() {
    for (transport, era, revision) in WAYS {
        let peer = Peer::start(transport, era, EraChoice::Auto).await;
        assert_eq!(peer.server.revision(), revision, "{transport} {era}");
        assert_eq!(peer.server.peer.profile().name().as_deref(), Some("rmcp-peer"));
        assert_eq!(peer.server.peer.profile().instructions.as_deref(), Some("A peer for tests."));
    }
}

#[tokio::test]
async fn chosen_era_is_used_with_a_server_of_both_eras() {
    for transport in ["stdio", "http"] {
        for (choice, revision) in
            [(EraChoice::Auto, "2026-07-28"), (EraChoice::Modern, "2026-07-28"), (EraChoice::Legacy, "2025-11-25")]
        {
            let peer = Peer::start(transport, "both", choice).await;
            assert_eq!(peer.server.revision(), revision, "{transport} {choice:?}");
            assert_eq!(peer.server.call("echo", json!({ "text": "hello" })).await.text(), "hello");
        }
    }
}

#[tokio::test]
async fn every_legacy_revision_works() {
    for transport in ["stdio", "http"] {
        for revision in Revision::of(Era::Legacy) {
            let Peer { server, .. } = &Peer::start(transport, "legacy", revision).await;
            assert_eq!(server.revision(), revision.as_str(), "{transport}");
            let heard = server.call("progress", json!({ "steps": 2 })).await;
            assert_eq!((heard.text().as_str(), heard.progress.len()), ("2 steps", 2), "{transport} {revision}");
            assert_eq!(
                server.call("sample", json!({ "prompt": "x" })).await.text(),
                "a-model said a heron stands still"
            );
        }
    }
}

#[tokio::test]
async fn tools_are_listed_and_called() {
    for (transport, era, _) in WAYS {
        let Peer { server, .. } = &Peer::start(transport, era, EraChoice::Auto).await;
        let names = server.tool_names().await;
        assert_eq!((names.len(), names[0].as_str()), (12, "echo"));

        assert_eq!(server.call("echo", json!({ "text": "Grüße 🌍" })).await.text(), "Grüße 🌍");
        assert_eq!(server.call("add", json!({ "a": 2, "b": 0.5 })).await.result()["structuredContent"]["sum"], 2.5);
        let picture = server.call("picture", json!({})).await.result()["content"][0].take();
        assert_eq!((&picture["type"], &picture["mimeType"]), (&json!("image"), &json!("image/png")));

        let Outcome::Refused(error) = server.call("no-such-tool", json!({})).await.outcome else {
            panic!("an unknown tool is refused")
        };
        assert_eq!(error.code(), -32602);
        within("a ping", server.peer.ping()).await.unwrap();
    }
}

#[tokio::test]
async fn progress_arrives_in_order_and_before_the_result() {
    for (transport, era, _) in WAYS {
        let Peer { server, .. } = &Peer::start(transport, era, EraChoice::Auto).await;
        let heard = server.call("progress", json!({ "steps": 20 })).await;
        let steps: Vec<f64> = heard.progress.iter().map(|report| report["progress"].as_f64().unwrap()).collect();
        assert_eq!(steps, (1..=20).map(f64::from).collect::<Vec<_>>(), "{transport} {era}");
        assert_eq!(heard.progress[0], json!({ "progress": 1.0, "total": 20.0, "message": "step 1 of 20" }));
        assert_eq!(heard.text(), "20 steps");
    }
}

#[tokio::test]
async fn logs_arrive_from_the_chosen_level() {
    for (transport, era, _) in WAYS {
        let Peer { server, .. } = &Peer::start(transport, era, EraChoice::Auto).await;
        let mut notices = server.peer.notices();
        for (level, expected) in [
            (LogLevel::Debug, &["debug", "info", "error"][..]),
            (LogLevel::Error, &["error"]),
            (LogLevel::Info, &["info", "error"]),
        ] {
            within("the level", server.peer.set_log_level(level)).await.unwrap();
            let heard = server.call("log", json!({})).await;
            assert_eq!(heard.text(), "logged");
            // With a session over HTTP the SDK sends them on the stream outside any call.
            let mut logs = heard.logs;
            while logs.len() < expected.len() {
                match within("a log message", notices.recv()).await.unwrap() {
                    Notice::Log(params) => logs.push(params.read().unwrap()),
                    other => panic!("{transport} {era}: {other:?}"),
                }
            }
            let levels: Vec<&Value> = logs.iter().map(|log| &log["level"]).collect();
            assert_eq!(levels, expected, "{transport} {era}");
            assert_eq!((&logs[0]["logger"], &logs[0]["data"]), (&json!("rmcp-peer"), &json!("a message")));
        }
    }
}

#[tokio::test]
async fn server_requests_during_a_call_are_answered() {
    for (transport, era, _) in WAYS {
        let Peer { server, .. } = &Peer::start(transport, era, EraChoice::Auto).await;
        assert_eq!(server.call("ask", json!({})).await.text(), "hello Ada", "{transport} {era}");
        let sample = server.call("sample", json!({ "prompt": "herons" })).await;
        assert_eq!(sample.text(), "a-model said a heron stands still");
        assert_eq!(server.call("roots", json!({})).await.text(), "file:///srv/demo");

        let asked = server.user.requests();
        let methods: Vec<&Value> = asked.iter().map(|question| &question["method"]).collect();
        assert_eq!(methods, ["elicitation/create", "sampling/createMessage", "roots/list"], "{transport} {era}");
        assert_eq!(asked[0]["params"]["message"], "What is your name?");
    }
}

#[tokio::test]
async fn resources_prompts_and_completions_work() {
    for (transport, era, _) in WAYS {
        let Peer { server, .. } = &Peer::start(transport, era, EraChoice::Auto).await;
        let peer = &server.peer;
        let resources = within("resources", peer.list_resources()).await.unwrap();
        assert_eq!(resources.items.iter().map(|item| &*item.uri).collect::<Vec<_>>(), ["memo://one", "memo://blob"]);
        let templates = within("templates", peer.list_templates()).await.unwrap();
        assert_eq!(templates.items[0].uri_template, "memo://{name}");
        let prompts = within("prompts", peer.list_prompts()).await.unwrap();
        assert!(prompts.items[0].arguments[0].required);

        assert_eq!(server.read("memo://one").await["text"], "one, edition 0");
        assert_eq!(server.read("memo://blob").await["blob"], "AAEC/f7/");
        assert_eq!(server.read("memo://herons").await["text"], "memo on herons");
        let prompt = server.prompt("greet", json!({ "name": "Ada" })).await;
        assert_eq!(prompt["messages"][0]["content"]["text"], "Please greet Ada.");

        for reference in
            [CompletionTarget::Prompt("greet".to_owned()), CompletionTarget::Resource("memo://{name}".to_owned())]
        {
            let completed = within("a completion", peer.complete(&reference, ("name", "Ad"), None)).await.unwrap();
            let completed: Value = completed.read().unwrap();
            assert_eq!(completed["completion"]["values"], json!(["Ada", "Adele"]), "{transport} {era}");
        }
    }
}

#[tokio::test]
async fn change_notifications_arrive() {
    for (transport, era, _) in WAYS {
        let Peer { server, .. } = &Peer::start(transport, era, EraChoice::Auto).await;
        let mut memo = server.listen(SubscriptionFilter::resource("memo://one")).await;
        let mut tools = server.listen(SubscriptionFilter { tools: true, ..SubscriptionFilter::default() }).await;
        assert_eq!(memo.accepted().uris, ["memo://one"], "{transport} {era}");
        assert!(tools.accepted().tools);

        assert_eq!(server.call("touch_resource", json!({})).await.text(), "touched");
        let update = within(&format!("an update over {transport}, {era}"), memo.next()).await;
        assert!(matches!(&update, Some(Notice::Updated { uri, .. }) if uri == "memo://one"), "{update:?}");
        assert_eq!(server.read("memo://one").await["text"], "one, edition 1");

        assert_eq!(server.call("touch_list", json!({})).await.text(), "touched");
        let change = within(&format!("a change over {transport}, {era}"), tools.next()).await;
        assert!(matches!(change, Some(Notice::Changed(List::Tools))), "{change:?}");
    }
}

#[tokio::test]
async fn cancellation_reaches_the_server() {
    for (transport, era, _) in WAYS {
        let Peer { server, .. } = &Peer::start(transport, era, EraChoice::Auto).await;
        let arguments = Raw::of(&json!({ "ms": 60_000 }));
        for told in [true, false] {
            let mut exchange = server.peer.call_tool("sleep", Some(arguments.clone())).unwrap();
            let begun = within("the beginning", exchange.next()).await;
            assert!(matches!(begun, Some(ExchangeEvent::Progress(_))), "{begun:?}");
            if told {
                exchange.cancel("not wanted any more");
                let end = within("the end", exchange.next()).await;
                assert!(matches!(end, Some(ExchangeEvent::Ended(Outcome::Cancelled))), "{end:?}");
            } else {
                drop(exchange);
            }
        }
        let counted = async {
            while server.call("cancelled_count", json!({})).await.text() != "2" {
                tokio::task::yield_now().await;
            }
        };
        within(&format!("cancellation over {transport}, {era}"), counted).await;
    }
}

/// The server, and the listening process of an HTTP server.
struct Peer {
    server: Server,
    _listener: Option<Listener>,
    _stage: Stage,
}

impl Peer {
    async fn start(transport: &str, era: &str, speech: impl Into<ProtocolChoice>) -> Self {
        let stage = Stage::new();
        let program = peers::rmcp(transport, era);
        if transport == "stdio" {
            let server = stage.start(program, speech).await;
            return Self { server, _listener: None, _stage: stage };
        }
        let listener = stage.listen(program).await;
        let server = stage.reach(&listener, speech).await;
        Self { server, _listener: Some(listener), _stage: stage }
    }
}
