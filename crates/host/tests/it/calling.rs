//! The way of a call, to each of its ends; and what is written down of it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::json;
use toolway_config::server::Start;
use toolway_host::{
    call::{
        CallHappening, CallKind, CallOutcome, CallRequest, Caller, Completion, Target,
        beside::{CompletionOf, Update},
    },
    catalog::Origin,
    connection::{
        WantedServer,
        client_face::{Asked, ElicitationModes, Elicitor},
        tap::{Passage, Tap},
    },
    event::{CallStage, HostEvent},
    policy::{CallLimits, RuleId},
    record::{CallLog, CallRecord, Ending},
};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    test_host::{TestHost, name, within},
};
use toolway_wire::{
    exchange::{Answer, LogLevel, Request},
    json::Raw,
    revision::Era,
    up::transport::Outbound,
};

use crate::fixtures;

fn files() -> FixtureServer {
    FixtureServer::new("files")
        .tool("read", "Read a file")
        .tool_that("count", "Count", Behaviour::Count)
        .tool_that("greet", "Greet", Behaviour::Greet)
        .tool_that("fail", "Fail", Behaviour::Fail)
        .tool_that("refuse", "Refuse", Behaviour::Refuse)
        .tool_that("wait", "Wait", Behaviour::Wait)
}

#[tokio::test]
async fn a_call_goes_to_the_servers_own_name_and_is_recorded_without_its_arguments() {
    let files = files();
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    let outcome = host.call_with("files__read", Some(json!({ "path": "/etc/s3cret" }))).await;
    assert!(outcome.result().unwrap().to_string().contains("s3cret"), "{outcome}");

    let params = files.seen("tools/call").pop().unwrap();
    assert_eq!(params.param("name").unwrap().to_string(), r#""read""#);
    let records = host.records();
    assert_eq!(records.len(), 1);
    let record = &records[0];
    assert_eq!((record.ending, record.kind, record.rule), (Ending::Answered, CallKind::Tool, Some(RuleId::CONFIGURED)));
    assert_eq!((record.name.as_str(), record.raw_name.as_deref()), ("files__read", Some("read")));
    assert_eq!(record.argument_bytes, r#"{"path":"/etc/s3cret"}"#.len());
    assert_eq!(record.result_bytes, outcome.result().unwrap().as_bytes().len());
    assert!(!format!("{record:?}").contains("s3cret"), "{record:?}");
    assert!(record.waited <= record.took);
}

#[tokio::test]
async fn each_end_is_its_own_word_and_recorded_once() {
    let host = TestHost::with(&files(), "files").start().await;
    host.ready("files").await;
    for (tool, ending, tool_error, message) in [
        ("files__read", Ending::Answered, false, None),
        ("files__fail", Ending::Answered, true, None),
        ("files__refuse", Ending::Failed, false, Some("cannot take")),
        ("files__raed", Ending::Refused, false, Some("there is no tool `files__raed`; did you mean `files__read`?")),
        ("nobody__read", Ending::Refused, false, Some("there is no tool `nobody__read`")),
    ] {
        let before = host.records().len();
        let outcome = host.call(tool).await;
        assert_eq!(outcome.ending(), ending, "{tool}: {outcome}");
        let records = host.records();
        assert_eq!(records.len(), before + 1, "{tool}");
        let record = records.last().unwrap();
        assert_eq!((record.ending, record.tool_error), (ending, tool_error), "{tool}");
        let said = record.message.clone().unwrap_or_default();
        assert!(said.contains(message.unwrap_or_default()), "{tool}: {said}");
        assert_eq!(record.message.is_some(), message.is_some(), "{tool}");
    }
}

#[tokio::test]
async fn progress_logs_and_the_end_are_seen_by_whoever_looks() {
    let host = TestHost::with(&files(), "files").start().await;
    host.ready("files").await;
    let mut call =
        host.host.open(CallRequest { log_level: Some(LogLevel::Debug), ..host.request("files__count", None) });
    let mut seen = Vec::new();
    while let Some(happening) = within("a happening", call.next()).await {
        seen.push(match happening {
            CallHappening::Progress(params) => format!("progress {}", params.get("progress").unwrap()),
            CallHappening::Log(params) => format!("log {}", params.get("data").unwrap()),
            CallHappening::Ended(outcome) => outcome.to_string(),
            other => format!("{other:?}"),
        });
    }
    assert_eq!(seen, ["progress 1", "progress 2", "progress 3", "log \"counted\"", "answered"]);
    assert_eq!(host.records()[0].progress, 3);
}

#[tokio::test]
async fn a_question_is_answered_by_the_surface_that_made_the_call() {
    let host = TestHost::with(&files(), "files");
    let mut host = host;
    let declared = Raw::of(&json!({ "elicitation": {} }));
    host.options.declared = Some(toolway_wire::message::ClientCapabilities(declared));
    let host = host.start().await;
    host.ready("files").await;
    let mut call = host.host.open(host.request("files__greet", None));
    let outcome = loop {
        match within("a happening", call.next()).await.unwrap() {
            CallHappening::Ask(ask) => {
                assert_eq!(ask.question.method, "elicitation/create");
                ask.answer(Answer::Given(Raw::of(&json!({ "action": "accept", "content": { "name": "Ada" } }))));
            }
            CallHappening::Ended(outcome) => break outcome,
            _ => {}
        }
    };
    assert!(outcome.result().unwrap().to_string().contains("Ada"), "{outcome}");
    assert_eq!(host.records()[0].asks, 1);
}

/// Answers every form, or panics.
#[derive(Debug)]
enum Clerk {
    Answers,
    Panics,
}

impl Elicitor for Clerk {
    fn modes(&self) -> ElicitationModes {
        ElicitationModes::Forms
    }

    fn elicit(&self, asked: Asked) -> BoxFuture<'_, Answer> {
        Box::pin(async move {
            assert!(matches!(self, Self::Answers), "the clerk has had enough");
            Answer::Given(Raw::of(&json!({ "action": "accept", "content": { "name": asked.server.as_str() } })))
        })
    }
}

#[tokio::test]
async fn a_question_goes_to_the_port_where_nobody_looks_and_a_port_that_panics_answers_too() {
    for (clerk, said) in [(Clerk::Answers, "hello"), (Clerk::Panics, "")] {
        let answers = matches!(clerk, Clerk::Answers);
        let mut builder = TestHost::with(&files(), "files");
        builder.ports.elicitor = Arc::new(clerk);
        let host = builder.start().await;
        host.ready("files").await;
        let outcome = host.call("files__greet").await;
        assert!(outcome.to_string().contains(if answers { "answered" } else { "failed" }) || outcome.is_tool_error());
        let text = outcome.result().map(ToString::to_string).unwrap_or_default();
        assert!(text.contains(said), "{outcome}: {text}");
        assert_eq!(host.records().len(), 1);
        // The host lives on.
        assert_eq!(host.call("files__read").await.ending(), Ending::Answered);
    }
}

/// Panics at each record.
struct BrokenLog;

impl CallLog for BrokenLog {
    fn append(&self, _record: Arc<CallRecord>) {
        panic!("the disk is full");
    }
}

#[tokio::test]
async fn a_log_that_panics_takes_no_answer_with_it() {
    let mut builder = TestHost::with(&files(), "files");
    builder.ports.calls = Arc::new(BrokenLog);
    let host = builder.start().await;
    host.ready("files").await;
    assert_eq!(host.call("files__read").await.ending(), Ending::Answered);
    host.host.shutdown().await;
}

#[tokio::test]
async fn a_relayed_request_arrives_as_it_came_but_for_its_name() {
    let files = files();
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    let params = r#"{ "name":"files__read","vendor":1.50,  "arguments":{"n":123456789012345678901234567890}}"#;
    let request = Request::new("tools/call", Some(Raw::parse(params.to_owned()).unwrap())).unwrap();
    let target = Target::Tool("files__read".parse().unwrap());
    let outcome = host.call_of(CallRequest::relayed(Caller::Program, target, request)).await;
    assert_eq!(outcome.ending(), Ending::Answered, "{outcome}");
    let seen = files.seen("tools/call").remove(0);
    assert_eq!(seen.params().unwrap().to_string(), params.replace("files__read", "read"));
}

#[tokio::test]
async fn reading_a_resource_and_getting_a_prompt_go_the_same_way() {
    let files = files();
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    let read = host.call_of(CallRequest::read(Caller::Program, "files://one")).await;
    assert!(read.result().unwrap().to_string().contains("contents"), "{read}");
    let prompt = CallRequest::prompt(Caller::Program, "files__hello".parse().unwrap(), None);
    assert!(host.call_of(prompt).await.result().unwrap().to_string().contains("messages"));
    let method = Target::Method { server: name("files"), method: "tools/list".to_owned() };
    assert_eq!(host.call_of(CallRequest::new(Caller::Terminal, method)).await.ending(), Ending::Answered);
    let unknown = host.call_of(CallRequest::read(Caller::Program, "nobody://x?token=s3cret")).await;
    assert_eq!(unknown.ending(), Ending::Refused);
    let kinds: Vec<_> = host.records().iter().map(|record| (record.kind, record.ending)).collect();
    assert_eq!(
        kinds,
        [
            (CallKind::Resource, Ending::Answered),
            (CallKind::Prompt, Ending::Answered),
            (CallKind::Method, Ending::Answered),
            (CallKind::Resource, Ending::Refused),
        ]
    );
    assert_eq!(host.records()[3].name, "nobody://x?…", "people put keys into addresses");
}

#[tokio::test]
async fn completion_and_subscriptions_have_a_way_too() {
    let files = files();
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    let completion = Completion {
        on_behalf: (&Caller::Terminal).into(),
        of: CompletionOf::Prompt("files__hello".parse().unwrap()),
        argument: "who".to_owned(),
        value: "A".to_owned(),
        known: None,
    };
    let completed = host.host.complete(completion).await.unwrap();
    assert!(completed.to_string().contains("Ada"), "{completed}");

    let mut updates = host.host.subscribe(&Caller::Terminal, Target::Resource("files://one".into())).await.unwrap();
    files.touch("files://one");
    let update = within("an update", updates.next()).await;
    assert!(matches!(update, Some(Update::Changed { uri, .. }) if uri == "files://one"));
    host.host.set_log_level(&name("files"), LogLevel::Warning).await.unwrap();
    assert!(host.host.subscribe(&Caller::Terminal, Target::Resource("nobody://one".into())).await.is_err());

    let shown = |record: &Arc<CallRecord>| {
        let raw_name = record.raw_name.clone().unwrap_or_default();
        (record.kind, record.name.clone(), raw_name, record.ending, record.result_bytes)
    };
    let records: Vec<_> = host.records().iter().map(shown).collect();
    let record = |name: &str, raw_name: &str, ending, bytes| {
        (CallKind::Method, name.to_owned(), raw_name.to_owned(), ending, bytes)
    };
    assert_eq!(
        records,
        [
            record("completion/complete", "hello", Ending::Answered, completed.as_bytes().len()),
            record("resources/subscribe", "files://one", Ending::Answered, 2),
            record("resources/subscribe", "", Ending::Refused, 0),
        ]
    );
    assert_eq!(host.records()[0].argument_bytes, 4);
}

#[tokio::test]
async fn a_server_of_either_era_is_asked_for_a_sign_of_life_in_its_own_words() {
    for (era, method) in [(Era::Legacy, "ping"), (Era::Modern, "server/discover")] {
        let fixture = files().over_http(Some(era)).await.unwrap();
        let mut builder = TestHost::new().wanted(fixtures::address("files", &fixture.url()));
        let sent = Arc::new(Sent::default());
        let tap = Arc::clone(&sent);
        builder.options.tap = Some(Arc::new(move |_| tap.clone()));
        let host = builder.start().await;
        host.ready("files").await;
        sent.methods.lock().clear();
        host.host.ping(&Caller::Terminal, &name("files")).await.unwrap();
        assert_eq!(*sent.methods.lock(), [method]);
        let unknown = host.host.ping(&Caller::Terminal, &name("nobody")).await.unwrap_err();
        assert_eq!(unknown.to_string(), "refused: there is no server `nobody`");
        let records: Vec<_> = host.records().iter().map(|record| (record.name.clone(), record.ending)).collect();
        assert_eq!(records, [("ping".to_owned(), Ending::Answered), ("ping".to_owned(), Ending::Refused)]);
    }
}

/// The methods that were sent.
#[derive(Default)]
struct Sent {
    methods: Mutex<Vec<String>>,
}

impl Tap for Sent {
    fn outgoing(&self, outbound: &Outbound) -> Passage {
        let message: serde_json::Value = serde_json::from_slice(&outbound.message).unwrap();
        self.methods.lock().extend(message["method"].as_str().map(str::to_owned));
        Passage::Pass
    }

    fn incoming(&self, _text: &bytes::Bytes) {}
}

#[tokio::test]
async fn whoever_waits_for_a_server_to_be_connected_keeps_no_slot_meanwhile() {
    let files = files();
    let hangs = WantedServer { start: Start::WhenNeeded, ..fixtures::process("hangs", &["--hang"]) };
    let mut builder = TestHost::with(&files, "files").wanted(hangs);
    builder.options.calls = CallLimits { in_all: 1, waiting: 0, ..CallLimits::default() };
    let host = builder.start().await;
    host.ready("files").await;
    let completion = Completion {
        on_behalf: (&Caller::Terminal).into(),
        of: CompletionOf::PromptOf(Origin { server: name("hangs"), raw_name: "hello".to_owned() }),
        argument: "who".to_owned(),
        value: String::new(),
        known: None,
    };
    let mut waiting = Box::pin(host.host.complete(completion));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    assert_eq!(host.call("files__read").await.ending(), Ending::Answered);
    drop(waiting);
    within("the shutdown", host.host.shutdown()).await;
}

#[tokio::test]
async fn every_state_of_a_call_is_told() {
    let host = TestHost::with(&files(), "files").start().await;
    host.ready("files").await;
    let mut events = host.host.events();
    drop(host.call("files__read").await);
    let mut stages = Vec::new();
    while let Some(event) = events.try_next() {
        if let HostEvent::Call { stage, .. } = event {
            stages.push(match stage {
                CallStage::Started { name, .. } => format!("started {name}"),
                CallStage::Sent { server } => format!("sent {server}"),
                CallStage::Ended(record) => record.ending.to_string(),
                other => format!("{other:?}"),
            });
        }
    }
    assert_eq!(stages, ["started files__read", "sent files", "answered"]);
}

#[tokio::test]
async fn a_tool_that_is_not_the_one_that_was_chosen_is_not_called() {
    let files = files();
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    let chosen = host.host.catalog().find_tool(&"files__read".parse().unwrap()).unwrap().fingerprint;
    let request = CallRequest { chosen: Some(chosen), ..host.request("files__read", None) };
    assert_eq!(host.call_of(request.clone()).await.ending(), Ending::Answered);

    files.describe("read", "Read a file and mail it");
    let changed = async {
        let mut catalogs = host.host.watch_catalog();
        let moved = |catalog: &Arc<toolway_host::catalog::Catalog>| {
            catalog.find_tool(&"files__read".parse().unwrap()).is_some_and(|entry| entry.fingerprint != chosen)
        };
        drop(catalogs.wait_for(moved).await);
    };
    within("the change", changed).await;
    let outcome = host.call_of(request).await;
    assert_eq!(
        outcome.to_string(),
        "refused: `files__read` has changed since it was listed; list again and look at it"
    );
    assert_eq!(files.seen("tools/call").len(), 1);
}

#[tokio::test]
async fn a_server_can_be_called_by_its_own_names() {
    let host = TestHost::with(&files(), "files").start().await;
    let of = |server: &str, raw_name: &str| {
        let origin = Origin { server: name(server), raw_name: raw_name.to_owned() };
        CallRequest::new(Caller::Terminal, Target::ToolOf(origin))
    };
    assert_eq!(host.call_of(of("files", "read")).await.ending(), Ending::Answered);
    let outcome = host.call_of(of("nobody", "read")).await;
    assert!(matches!(&outcome, CallOutcome::Refused(refusal) if refusal.code() == "unknown_server"), "{outcome}");
}
