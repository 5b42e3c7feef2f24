//! Calls with each possible outcome, and their records.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::json;
use toolway_config::server::Start;
use toolway_host::{
    call::{CallEvent, CallKind, CallOutcome, CallRequest, Caller, Completion, CompletionOf, ResourceUpdate, Target},
    catalog::Origin,
    connection::{
        WantedServer,
        tap::{Passage, Tap},
    },
    event::{CallStage, CallStageEvent},
    inbox::{Answerer, ElicitationAnswer, ElicitationModes, InboxAnswer, InboxItem},
    policy::{CallLimits, RuleId},
    record::{CallLog, CallRecord, CallState},
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
async fn call_uses_the_raw_name_and_is_recorded_without_arguments() {
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
    let allowed = RuleId::Default(record.surface, toolway_config::RuleEffect::Allow);
    assert_eq!((record.state, record.kind, record.rule.clone()), (CallState::Succeeded, CallKind::Tool, Some(allowed)));
    assert_eq!((record.name.as_str(), record.raw_name.as_deref()), ("files__read", Some("read")));
    assert_eq!(record.argument_bytes, r#"{"path":"/etc/s3cret"}"#.len());
    assert_eq!(record.result_bytes, outcome.result().unwrap().as_bytes().len());
    assert!(!format!("{record:?}").contains("s3cret"), "{record:?}");
    assert!(record.sent_after <= record.took);
}

#[tokio::test]
async fn each_ending_is_recorded_once() {
    let host = TestHost::with(&files(), "files").start().await;
    host.ready("files").await;
    for (tool, state, message) in [
        ("files__read", CallState::Succeeded, None),
        ("files__fail", CallState::ToolError, None),
        ("files__refuse", CallState::Failed, Some("cannot take")),
        ("files__raed", CallState::Refused, Some("unknown tool `files__raed`; did you mean `files__read`?")),
        ("missing__read", CallState::Refused, Some("unknown tool `missing__read`")),
    ] {
        let before = host.records().len();
        let outcome = host.call(tool).await;
        assert_eq!(outcome.state(), state, "{tool}: {outcome}");
        let records = host.records();
        assert_eq!(records.len(), before + 1, "{tool}");
        let record = records.last().unwrap();
        assert_eq!(record.state, state, "{tool}");
        let said = record.message.clone().unwrap_or_default();
        assert!(said.contains(message.unwrap_or_default()), "{tool}: {said}");
        assert_eq!(record.message.is_some(), message.is_some(), "{tool}");
    }
}

#[tokio::test]
async fn relay_yields_progress_logs_and_the_outcome() {
    let host = TestHost::with(&files(), "files").start().await;
    host.ready("files").await;
    let mut call =
        host.host.open(CallRequest { log_level: Some(LogLevel::Debug), ..host.request("files__count", None) });
    let mut seen = Vec::new();
    while let Some(event) = within("an event", call.next()).await {
        seen.push(match event {
            CallEvent::Progress(params) => format!("progress {}", params.get("progress").unwrap()),
            CallEvent::Log(params) => format!("log {}", params.get("data").unwrap()),
            CallEvent::Ended(outcome) => outcome.to_string(),
            other => format!("{other:?}"),
        });
    }
    assert_eq!(seen, ["progress 1", "progress 2", "progress 3", "log \"counted\"", "succeeded"]);
    assert_eq!(host.records()[0].progress, 3);
}

#[tokio::test]
async fn server_request_is_answered_by_the_surface_that_made_the_call() {
    let host = TestHost::with(&files(), "files");
    let mut host = host;
    let declared = Raw::of(&json!({ "elicitation": {} }));
    host.options.declared = Some(toolway_wire::message::ClientCapabilities(declared));
    let host = host.start().await;
    host.ready("files").await;
    let mut call = host.host.open(host.request("files__greet", None));
    let outcome = loop {
        match within("an event", call.next()).await.unwrap() {
            CallEvent::ServerRequest(ask) => {
                assert_eq!(ask.details.method, "elicitation/create");
                ask.answer(Answer::Given(Raw::of(&json!({ "action": "accept", "content": { "name": "Ada" } }))));
            }
            CallEvent::Ended(outcome) => break outcome,
            _ => {}
        }
    };
    assert!(outcome.result().unwrap().to_string().contains("Ada"), "{outcome}");
    assert_eq!(host.records()[0].server_requests, 1);
}

/// Answers every elicitation, or panics.
#[derive(Debug)]
enum TestElicitor {
    Answers,
    Panics,
}

impl Answerer for TestElicitor {
    fn modes(&self) -> ElicitationModes {
        ElicitationModes::Forms
    }

    fn answer<'a>(&'a self, item: &'a InboxItem) -> BoxFuture<'a, InboxAnswer> {
        Box::pin(async move {
            assert!(matches!(self, Self::Answers), "test panic");
            let content = [("name".to_owned(), json!(item.server.as_str()))].into_iter().collect();
            InboxAnswer::Elicitation(ElicitationAnswer::Accept(content))
        })
    }
}

#[tokio::test]
async fn server_request_goes_to_the_port_and_a_panic_of_the_port_is_caught() {
    for (elicitor, said) in [(TestElicitor::Answers, "hello"), (TestElicitor::Panics, "cancel")] {
        let mut builder = TestHost::with(&files(), "files");
        builder.ports.answerer = Arc::new(elicitor);
        let host = builder.start().await;
        host.ready("files").await;
        let outcome = host.call("files__greet").await;
        let text = outcome.result().map(ToString::to_string).unwrap_or_default();
        assert!(text.contains(said), "{outcome}: {text}");
        assert_eq!(host.records().len(), 1);
        // The host still works.
        assert_eq!(host.call("files__read").await.state(), CallState::Succeeded);
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
async fn panic_of_the_call_log_does_not_lose_the_result() {
    let mut builder = TestHost::with(&files(), "files");
    builder.ports.calls = Arc::new(BrokenLog);
    let host = builder.start().await;
    host.ready("files").await;
    assert_eq!(host.call("files__read").await.state(), CallState::Succeeded);
    host.host.shutdown().await;
}

#[tokio::test]
async fn relayed_request_is_unchanged_except_for_the_name() {
    let files = files();
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    let params = r#"{ "name":"files__read","vendor":1.50,  "arguments":{"n":123456789012345678901234567890}}"#;
    let request = Request::new("tools/call", Some(Raw::parse(params.to_owned()).unwrap())).unwrap();
    let target = Target::Tool("files__read".parse().unwrap());
    let outcome = host.call_of(CallRequest::relayed(Caller::Program, target, request)).await;
    assert_eq!(outcome.state(), CallState::Succeeded, "{outcome}");
    let seen = files.seen("tools/call").remove(0);
    assert_eq!(seen.params().unwrap().to_string(), params.replace("files__read", "read"));
}

#[tokio::test]
async fn resources_prompts_and_methods_are_recorded_like_tools() {
    let files = files();
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    let read = host.call_of(CallRequest::read(Caller::Program, "files://one")).await;
    assert!(read.result().unwrap().to_string().contains("contents"), "{read}");
    let prompt = CallRequest::prompt(Caller::Program, "files__hello".parse().unwrap(), None);
    assert!(host.call_of(prompt).await.result().unwrap().to_string().contains("messages"));
    let method = Target::Method { server: name("files"), method: "tools/list".to_owned() };
    assert_eq!(host.call_of(CallRequest::new(Caller::Terminal, method)).await.state(), CallState::Succeeded);
    let unknown = host.call_of(CallRequest::read(Caller::Program, "missing://x?token=s3cret")).await;
    assert_eq!(unknown.state(), CallState::Refused);
    let kinds: Vec<_> = host.records().iter().map(|record| (record.kind, record.state)).collect();
    assert_eq!(
        kinds,
        [
            (CallKind::Resource, CallState::Succeeded),
            (CallKind::Prompt, CallState::Succeeded),
            (CallKind::Method, CallState::Succeeded),
            (CallKind::Resource, CallState::Refused),
        ]
    );
    assert_eq!(host.records()[3].name, "missing://x?…", "URIs can contain credentials");
}

#[tokio::test]
async fn completions_and_subscriptions_are_recorded() {
    let files = files();
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    let completion = Completion {
        caller_context: (&Caller::Terminal).into(),
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
    assert!(matches!(update, Some(ResourceUpdate::Changed { uri, .. }) if uri == "files://one"));
    host.host.set_log_level(&name("files"), LogLevel::Warning).await.unwrap();
    assert!(host.host.subscribe(&Caller::Terminal, Target::Resource("missing://one".into())).await.is_err());

    let shown = |record: &Arc<CallRecord>| {
        let raw_name = record.raw_name.clone().unwrap_or_default();
        (record.kind, record.name.clone(), raw_name, record.state, record.result_bytes)
    };
    let records: Vec<_> = host.records().iter().map(shown).collect();
    let record = |name: &str, raw_name: &str, ending, bytes| {
        (CallKind::Method, name.to_owned(), raw_name.to_owned(), ending, bytes)
    };
    assert_eq!(
        records,
        [
            record("completion/complete", "hello", CallState::Succeeded, completed.as_bytes().len()),
            record("resources/subscribe", "files://one", CallState::Succeeded, 2),
            record("resources/subscribe", "", CallState::Refused, 0),
        ]
    );
    assert_eq!(host.records()[0].argument_bytes, 4);
}

#[tokio::test]
async fn ping_uses_the_request_of_the_server_era() {
    for (era, method) in [(Era::Legacy, "ping"), (Era::Modern, "server/discover")] {
        let fixture = files().over_http(Some(era)).await.unwrap();
        let mut builder = TestHost::new().wanted(fixtures::address("files", &fixture.url()));
        let sent = Arc::new(SentMethods::default());
        let tap = Arc::clone(&sent);
        builder.options.tap = Some(Arc::new(move |_, _| tap.clone()));
        let host = builder.start().await;
        host.ready("files").await;
        sent.methods.lock().clear();
        host.host.ping(&Caller::Terminal, &name("files")).await.unwrap();
        assert_eq!(*sent.methods.lock(), [method]);
        let unknown = host.host.ping(&Caller::Terminal, &name("missing")).await.unwrap_err();
        assert_eq!(unknown.to_string(), "refused: unknown server `missing`");
        let records: Vec<_> = host.records().iter().map(|record| (record.name.clone(), record.state)).collect();
        assert_eq!(records, [("ping".to_owned(), CallState::Succeeded), ("ping".to_owned(), CallState::Refused)]);
    }
}

/// Records the methods of sent requests.
#[derive(Default)]
struct SentMethods {
    methods: Mutex<Vec<String>>,
}

impl Tap for SentMethods {
    fn outgoing(&self, outbound: &Outbound) -> Passage {
        let message: serde_json::Value = serde_json::from_slice(&outbound.message).unwrap();
        self.methods.lock().extend(message["method"].as_str().map(str::to_owned));
        Passage::Pass
    }

    fn incoming(&self, _text: &bytes::Bytes) {}
}

#[tokio::test]
async fn completion_that_waits_for_a_connection_holds_no_slot() {
    let files = files();
    let hangs = WantedServer { start: Start::WhenNeeded, ..fixtures::process("hangs", &["--hang"]) };
    let mut builder = TestHost::with(&files, "files").wanted(hangs);
    builder.options.calls = CallLimits { in_all: 1, waiting: 0, ..CallLimits::default() };
    let host = builder.start().await;
    host.ready("files").await;
    let completion = Completion {
        caller_context: (&Caller::Terminal).into(),
        of: CompletionOf::PromptOf(Origin { server: name("hangs"), raw_name: "hello".to_owned() }),
        argument: "who".to_owned(),
        value: String::new(),
        known: None,
    };
    let mut waiting = Box::pin(host.host.complete(completion));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    assert_eq!(host.call("files__read").await.state(), CallState::Succeeded);
    drop(waiting);
    within("the shutdown", host.host.shutdown()).await;
}

#[tokio::test]
async fn every_stage_of_a_call_is_an_event() {
    let host = TestHost::with(&files(), "files").start().await;
    host.ready("files").await;
    let mut events = host.host.listen_calls();
    drop(host.call("files__read").await);
    let mut stages = Vec::new();
    while let Some(event) = events.try_next() {
        if let CallStageEvent::Stage { stage, record, .. } = event {
            stages.push(match stage {
                CallStage::Started { name, .. } => format!("started {name}"),
                CallStage::Sent { server } => format!("sent {server}"),
                CallStage::Ended => record.state.to_string(),
                other => format!("{other:?}"),
            });
        }
    }
    assert_eq!(stages, ["started files__read", "sent files", "succeeded"]);
}

#[tokio::test]
async fn changed_definition_is_refused() {
    let files = files();
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    let chosen = host.host.catalog().find_tool(&"files__read".parse().unwrap()).unwrap().fingerprint;
    let request = CallRequest { chosen: Some(chosen), ..host.request("files__read", None) };
    assert_eq!(host.call_of(request.clone()).await.state(), CallState::Succeeded);

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
        "refused: `files__read` has changed since it was listed; list it again and review the new definition"
    );
    assert_eq!(files.seen("tools/call").len(), 1);
}

#[tokio::test]
async fn tool_can_be_called_by_server_and_raw_name() {
    let host = TestHost::with(&files(), "files").start().await;
    let of = |server: &str, raw_name: &str| {
        let origin = Origin { server: name(server), raw_name: raw_name.to_owned() };
        CallRequest::new(Caller::Terminal, Target::ToolOf(origin))
    };
    assert_eq!(host.call_of(of("files", "read")).await.state(), CallState::Succeeded);
    let outcome = host.call_of(of("missing", "read")).await;
    assert!(matches!(&outcome, CallOutcome::Refused(refusal) if refusal.code() == "unknown_server"), "{outcome}");
}

/// A client chooses what it names, also what does not exist, and each refusal has a record.
#[tokio::test]
async fn a_name_of_any_length_takes_a_bounded_part_of_the_record_of_its_call() {
    let host = TestHost::with(&files(), "files").start().await;
    host.ready("files").await;
    let long = "ä".repeat(1024 * 1024);
    let of = |raw_name: String| Origin { server: name("files"), raw_name };
    let targets = [
        Target::Resource(format!("x://host/{long}")),
        Target::Resource(long.clone()),
        Target::ToolOf(of(long.clone())),
        Target::PromptOf(of(long.clone())),
        Target::ResourceOf(of(format!("x://host/{long}"))),
        Target::Method { server: name("files"), method: long },
    ];
    for target in targets {
        drop(host.call_of(CallRequest::new(Caller::Terminal, target)).await);
    }
    let records = host.records();
    assert_eq!(records.len(), 6);
    for record in records {
        let texts = [Some(&record.name), record.raw_name.as_ref(), record.message.as_ref()];
        assert!(texts.into_iter().flatten().all(|text| text.len() < 3_000), "{:?}", record.kind);
    }
}
