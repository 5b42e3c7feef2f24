//! Requests of a conversation are kept as they were sent, and rebuilt byte for byte.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolway_agent::{Agent, AgentOptions, Conversation, Replay, ReplayOutcome, RequestPurpose};
use toolway_host::{
    catalog::Catalog,
    conversation::{ConversationHead, ConversationLog, ConversationMessage, ConversationNote},
    policy::{ApprovalAnswer, ApprovalTerm},
    record::RecordsError,
};
use toolway_model::{HttpModel, HttpModelOptions, Message, ScriptedModel, Vendor};
use toolway_testkit::{
    fixture_server::FixtureServer,
    test_host::{TestHost, within},
    vendor::{MockVendor, Reply, VendorKind},
};
use toolway_wire::{
    limit::Limits,
    up::{client::HttpClient, connector::HttpOptions},
};

use crate::{files_host, options};

/// What is stored of one conversation.
#[derive(Default)]
struct Shelf {
    messages: Mutex<BTreeMap<usize, String>>,
    notes: Mutex<BTreeMap<String, String>>,
}

impl Shelf {
    fn messages(&self) -> Vec<Message> {
        self.messages.lock().values().map(|body| serde_json::from_str(body).unwrap()).collect()
    }

    fn notes(&self) -> Vec<ConversationNote> {
        let note = |(name, body): (&String, &String)| ConversationNote { name: name.clone(), body: body.clone() };
        self.notes.lock().iter().map(note).collect()
    }

    fn replay(&self) -> Replay {
        Replay::of(&self.messages(), &self.notes())
    }

    /// Bytes of the notes for a replay.
    fn kept(&self) -> usize {
        self.notes().iter().filter(|note| note.name.starts_with("replay/")).map(|note| note.body.len()).sum()
    }
}

impl ConversationLog for Shelf {
    fn put(&self, _: &ConversationHead) -> BoxFuture<'static, Result<(), RecordsError>> {
        Box::pin(async { Ok(()) })
    }

    fn append(&self, _: &str, message: ConversationMessage) -> BoxFuture<'static, Result<(), RecordsError>> {
        self.messages.lock().insert(message.seq, message.body);
        Box::pin(async { Ok(()) })
    }

    fn keep(&self, _: &str, note: ConversationNote) -> BoxFuture<'static, Result<(), RecordsError>> {
        self.notes.lock().insert(note.name, note.body);
        Box::pin(async { Ok(()) })
    }
}

async fn model(kind: VendorKind, replies: Vec<Reply>) -> (MockVendor, Arc<HttpModel>) {
    let vendor = MockVendor::start(kind, replies).await.unwrap();
    let wire = match kind {
        VendorKind::Anthropic => Vendor::Anthropic,
        VendorKind::Openai => Vendor::Openai,
        VendorKind::OpenaiChat => Vendor::OpenaiChat,
        VendorKind::Gemini => Vendor::Gemini,
    };
    let options = HttpModelOptions {
        name: kind.as_str().to_owned(),
        vendor: wire,
        model: "m-1".to_owned(),
        base_url: vendor.base_url().parse().unwrap(),
        key: Some(toolway_config::Secret::new("sk-test")),
        headers: http::HeaderMap::new(),
        max_tokens: Some(1_000),
        context_window: Some(8_000),
        pause: Duration::from_millis(1),
    };
    (vendor, Arc::new(HttpModel::new(options, HttpClient::new(HttpOptions::default(), &Limits::default()))))
}

async fn say(host: &TestHost, model: Arc<HttpModel>, conversation: &mut Conversation, text: &str) {
    let agent = Agent::new(host.host.clone(), model, options());
    let said = vec![Message::user(text)];
    agent.answer(conversation, said, &CancellationToken::new(), &mut |_| {}).await.unwrap();
}

/// A conversation with each vendor in turn, resumed before each, and compacted at the end.
async fn conversation() -> (Arc<Shelf>, usize) {
    let host = files_host(Some(ApprovalAnswer::approved_for(ApprovalTerm::Conversation, "test"))).await;
    let shelf = Arc::new(Shelf::default());
    let log = || Some(Arc::<Shelf>::clone(&shelf) as Arc<dyn ConversationLog>);
    let mut conversation = Conversation::new(log());
    let mut sent = 0;
    for round in 0..2 {
        for kind in VendorKind::ALL {
            let path = json!({ "path": format!("a{round}.txt") });
            let id = format!("call-{round}-{}", kind.as_str());
            let replies = vec![
                Reply::new().reason("I think.").say("Reading.").call(&id, "files__read", path),
                Reply::text("Done: \u{202e}\"ok\"\u{1}"),
            ];
            let (vendor, model) = model(kind, replies).await;
            say(&host, model, &mut conversation, "read it, \u{e9}\u{1f600}").await;
            sent += vendor.requests().len();
            let id = conversation.id().to_string();
            conversation = Conversation::resume(&id, shelf.messages(), log()).with_notes(&shelf.notes());
        }
    }
    let (vendor, model) =
        model(VendorKind::Anthropic, vec![Reply::text("They read files."), Reply::text("Yes.")]).await;
    let agent = Agent::new(host.host.clone(), Arc::<HttpModel>::clone(&model), options());
    let compacted = agent.compact(&mut conversation, &CancellationToken::new(), &mut |_| {}).await.unwrap().unwrap();
    assert_eq!(compacted.summarised, 16);
    say(&host, model, &mut conversation, "go on").await;
    (shelf, sent + vendor.requests().len())
}

#[tokio::test]
async fn requests_are_rebuilt_through_vendors_a_resumption_and_a_compaction() {
    let (shelf, sent) = conversation().await;
    let replay = shelf.replay();
    assert!(replay.is_identical(), "{replay:#?}");
    assert_eq!(replay.requests.len(), sent);
    let summaries = replay.requests.iter().filter(|request| request.purpose == RequestPurpose::Summary).count();
    assert_eq!((summaries, replay.requests[0].number), (1, 1));
    let bytes: usize = replay.requests.iter().map(|request| request.bytes).sum();
    assert!(shelf.kept() < bytes, "{} bytes kept of {bytes}", shelf.kept());
    assert!(!shelf.notes().iter().any(|note| note.body.contains("sk-test")), "keys are header fields");
}

#[tokio::test]
async fn the_first_difference_is_found_and_shown() {
    let (shelf, _) = conversation().await;
    {
        let mut messages = shelf.messages.lock();
        let (_, body) = messages.iter_mut().find(|(_, body)| body.contains("tool_result")).unwrap();
        *body = body.replacen("\"text\":\"", "\"text\":\"[gone] ", 1);
    }
    let replay = shelf.replay();
    assert!(!replay.is_identical());
    let different = replay.requests.iter().find_map(|request| match &request.outcome {
        ReplayOutcome::Different(difference) => Some((request.number, difference.clone())),
        _ => None,
    });
    let (number, difference) = different.unwrap();
    assert_eq!((number, difference.path.as_str()), (2, "/messages/2/content/0/content/0/text"), "{difference:?}");
    assert!(difference.rebuilt.contains("[gone]") && !difference.sent.contains("[gone]"), "{difference:?}");
    assert_eq!(replay.requests[0].outcome, ReplayOutcome::Identical, "before that, nothing has changed");
}

#[tokio::test]
async fn a_lost_message_or_piece_is_said_and_nothing_that_is_kept_breaks_a_replay() {
    let (shelf, _) = conversation().await;
    let last = *shelf.messages.lock().keys().last().unwrap();
    let cut = last - 2;
    shelf.messages.lock().retain(|seq, _| *seq < cut);
    let replay = shelf.replay();
    let Some(ReplayOutcome::Unusable(why)) = replay.requests.last().map(|request| &request.outcome) else {
        panic!("{replay:#?}")
    };
    assert!(why.contains(&format!("only {cut} stored messages")), "{why}");
    for spoilt in ["", "{}", "[1", "{\"at\":1e999}"] {
        let notes = shelf.notes().into_iter().map(|note| ConversationNote { body: spoilt.to_owned(), ..note });
        assert!(!Replay::of(&shelf.messages(), &notes.collect::<Vec<_>>()).is_identical());
    }
}

/// A conversation of this many turns, each with its own system prompt, and tools of which one is another each time.
async fn drifting(turns: usize, system: impl Fn(usize) -> String) -> Arc<Shelf> {
    let mut server = FixtureServer::new("files").tool("counter", "0");
    for number in 0..100 {
        server = server.tool(&format!("tool{number}"), &format!("{number} {}", "does much ".repeat(50)));
    }
    let host = TestHost::with(&server, "files").start().await;
    host.ready("files").await;
    let shelf = Arc::new(Shelf::default());
    let mut conversation = Conversation::new(Some(Arc::<Shelf>::clone(&shelf)));
    let script = json!({ "turns": vec![json!({ "text": "Yes." }); turns] }).to_string();
    let script = ScriptedModel::parse("script", &script).unwrap().with_context_window(Some(10_000_000));
    let model = Arc::new(script);
    for turn in 0..turns {
        server.describe("counter", &format!("Called {turn} times"));
        let mut catalogs = host.host.watch_catalog();
        let wanted = format!("Called {turn} times");
        let is_listed = |catalog: &Arc<Catalog>| {
            catalog.tools().iter().any(|tool| tool.item.description.as_deref() == Some(wanted.as_str()))
        };
        within("the list", catalogs.wait_for(is_listed)).await.unwrap();
        let options = AgentOptions { system: system(turn), ..options() };
        let agent = Agent::new(host.host.clone(), Arc::<ScriptedModel>::clone(&model), options);
        let cancel = CancellationToken::new();
        agent.answer(&mut conversation, vec![Message::user("go on")], &cancel, &mut |_| {}).await.unwrap();
    }
    shelf
}

#[tokio::test]
async fn what_did_not_change_of_the_tools_is_kept_once() {
    let shelf = drifting(20, |_| "Be brief.".to_owned()).await;
    let replay = shelf.replay();
    assert!(replay.is_identical(), "{replay:#?}");
    assert_eq!(replay.requests.len(), 20);
    let once = replay.requests[0].bytes;
    assert!(shelf.kept() < 4 * once, "{} bytes kept of 20 requests of {once} bytes", shelf.kept());
}

#[tokio::test]
async fn requests_that_differ_in_everything_are_kept_within_a_bound_and_it_is_said() {
    let long = |turn: usize| format!("{turn} {}", "x".repeat(3_900_000));
    let shelf = drifting(10, long).await;
    assert!(shelf.kept() < 33 << 20, "{} bytes are kept", shelf.kept());
    let replay = shelf.replay();
    assert_eq!(replay.not_kept.as_deref(), Some("they had more than 33554432 bytes"));
    assert!(!replay.is_identical());
    let identical = replay.requests.iter().filter(|request| request.outcome == ReplayOutcome::Identical).count();
    assert!(identical == replay.requests.len() && identical == 8, "{identical}: what is kept can be rebuilt");
}

#[tokio::test]
async fn a_request_of_an_earlier_version_is_rebuilt() {
    let shelf = drifting(1, |_| "Be brief.".to_owned()).await;
    let texts: BTreeMap<String, String> = shelf.notes.lock().clone();
    for body in shelf.notes.lock().iter_mut().filter(|(name, _)| name.contains("/request/")).map(|(_, body)| body) {
        let mut request: serde_json::Value = serde_json::from_str(body).unwrap();
        let pieces = request["frame"]["pieces"].as_array().unwrap().clone();
        let piece = |id: &serde_json::Value| texts[&format!("replay/piece/{}", id.as_str().unwrap())].clone();
        request["whole"] = pieces.iter().map(piece).collect::<String>().into();
        request["frame"] = "whole".into();
        *body = request.to_string();
    }
    let whole: Vec<String> = shelf
        .notes
        .lock()
        .values()
        .filter_map(|body| {
            let request: serde_json::Value = serde_json::from_str(body).ok()?;
            Some(request.get("whole")?.as_str()?.to_owned())
        })
        .collect();
    shelf.notes.lock().insert("replay/piece/whole".to_owned(), whole[0].clone());
    assert!(shelf.replay().is_identical(), "{:#?}", shelf.replay());
}
