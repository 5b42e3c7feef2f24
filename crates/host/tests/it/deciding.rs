//! Who says yes: the operator's configuration, its filters, a person.

use futures_util::future::BoxFuture;
use serde_json::json;
use std::sync::Arc;
use toolway_host::{
    call::{CallRequest, Caller, Target},
    catalog::{Filter, Origin, filter::Switch},
    connection::{Phase, WantedServer, Way},
    policy::{Answer, Approver, CallLimits, Question, Stance},
    record::Ending,
};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    test_host::{TestHost, name},
};
use toolway_wire::json::Raw;

use crate::fixtures;

fn files() -> FixtureServer {
    FixtureServer::new("files").tool("read", "Read").tool("write", "Write").tool_that("wait", "Wait", Behaviour::Wait)
}

#[tokio::test]
async fn what_a_filter_leaves_out_is_neither_listed_nor_called_by_any_name() {
    let files = files();
    let filter = Filter { exclude_tools: vec!["write*".into()], ..Filter::default() };
    let server =
        WantedServer { filter: Arc::new(filter), ..WantedServer::new(name("files"), Way::InProcess(files.service())) };
    let host = TestHost::new().wanted(server).start().await;
    host.offers(&["files__read", "files__wait"]).await;

    assert_eq!(host.call("files__write").await.ending(), Ending::Refused);
    let origin = Origin { server: name("files"), raw_name: "write".to_owned() };
    let raw = host.call_of(CallRequest::new(Caller::Terminal, Target::ToolOf(origin))).await;
    assert_eq!(raw.to_string(), "refused: tool `write` of `files` is left out by `excludeTools` of its entry");
    let method = Target::Method { server: name("files"), method: "tools/call".to_owned() };
    let params = Some(Raw::of(&json!({ "name": "write" })));
    let around = host.call_of(CallRequest { arguments: params, ..CallRequest::new(Caller::Terminal, method) }).await;
    assert_eq!(around.ending(), Ending::Refused, "{around}");
    assert!(files.seen("tools/call").is_empty());
    assert_eq!(host.records().len(), 3, "refused calls are recorded too");
}

#[tokio::test]
async fn a_filter_holds_however_a_prompt_or_a_resource_is_asked_for() {
    let files = files();
    let filter = Filter { exclude_prompts: vec!["*".into()], resources: Switch::Off, ..Filter::default() };
    let server =
        WantedServer { filter: Arc::new(filter), ..WantedServer::new(name("files"), Way::InProcess(files.service())) };
    let host = TestHost::new().wanted(server).start().await;
    host.ready("files").await;
    let prompt = json!({ "ref": { "type": "ref/prompt", "name": "greet" }, "argument": { "name": "a", "value": "" } });
    let template = json!({ "ref": { "type": "ref/resource", "uri": "memo://{day}" }, "argument": {} });
    let listen = json!({ "notifications": { "resourceSubscriptions": ["memo://today"] } });
    for (method, params) in [
        ("completion/complete", prompt),
        ("completion/complete", template),
        ("subscriptions/listen", listen),
        ("resources/subscribe", json!({ "uri": "memo://today" })),
        ("prompts/get", json!({ "name": "greet" })),
    ] {
        let target = Target::Method { server: name("files"), method: method.to_owned() };
        let request = CallRequest { arguments: Some(Raw::of(&params)), ..CallRequest::new(Caller::Terminal, target) };
        let outcome = host.call_of(request).await;
        let said = outcome.to_string();
        let keys = ["excludePrompts", "resources: false"];
        assert!(
            keys.iter().any(|key| said.ends_with(&format!("left out by `{key}` of its entry"))),
            "{method}: {said}"
        );
    }
}

#[tokio::test]
async fn whoever_waits_for_a_server_that_hangs_takes_no_slot_from_others() {
    let files = files();
    let mut builder = TestHost::with(&files, "files").wanted(fixtures::process("hanging", &["--hang"]));
    builder.options.calls = CallLimits { in_all: 1, waiting: 0, ..CallLimits::default() };
    let host = builder.start().await;
    host.until("files", |phase| *phase == Phase::Ready).await;
    let origin = Origin { server: name("hanging"), raw_name: "echo".to_owned() };
    let mut waiting = Box::pin(host.call_of(CallRequest::new(Caller::Terminal, Target::ToolOf(origin))));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    let outcome = host.call("files__read").await;
    assert_eq!(outcome.ending(), Ending::Answered, "{outcome}");
    drop(waiting);
    host.host.shutdown().await;
}

#[tokio::test]
async fn a_person_is_asked_and_only_yes_lets_it_through() {
    let files = files();
    let host = TestHost::with(&files, "files").asking(Answer::Yes).start().await;
    host.ready("files").await;
    assert_eq!(host.call("files__read").await.ending(), Ending::Answered);
    assert_eq!(host.asked(), ["may terminal use the tool `read` of `files`?"]);
    assert_eq!(host.records()[0].rule.map(|rule| rule.word()), Some("ask"));

    host.answering(Answer::No { why: Some("not today".to_owned()) });
    assert_eq!(host.call("files__read").await.to_string(), "refused: declined: not today");
    host.answering(Answer::Nobody);
    assert_eq!(
        host.call("files__read").await.to_string(),
        "refused: `read` wants a person's yes, and nobody is there to ask"
    );
    assert_eq!(files.seen("tools/call").len(), 1);
}

struct PanickingApprover;

impl Approver for PanickingApprover {
    fn ask<'a>(&'a self, _question: &'a Question) -> BoxFuture<'a, Answer> {
        panic!("no");
    }
}

#[tokio::test]
async fn an_approver_that_panics_has_not_said_yes() {
    let files = files();
    let mut builder = TestHost::with(&files, "files").asking(Answer::Yes);
    builder.ports.approver = Arc::new(PanickingApprover);
    let host = builder.start().await;
    host.ready("files").await;
    assert_eq!(host.call("files__read").await.ending(), Ending::Refused);
    assert!(files.seen("tools/call").is_empty());
}

#[tokio::test]
async fn a_stance_that_denies_sends_nothing() {
    let files = files();
    let mut builder = TestHost::with(&files, "files");
    builder.options.stance = Stance::Deny;
    let host = builder.start().await;
    host.ready("files").await;
    assert_eq!(host.call("files__read").await.to_string(), "refused: refused by the rule `deny`");
    assert!(files.seen("tools/call").is_empty());
}

#[tokio::test]
async fn no_more_calls_run_side_by_side_than_may_and_a_slot_comes_back() {
    let files = files();
    let mut builder = TestHost::with(&files, "files");
    builder.options.calls = CallLimits { per_server: 1, waiting: 0, ..CallLimits::default() };
    let host = builder.start().await;
    host.ready("files").await;
    let mut first = Box::pin(host.host.call(host.request("files__wait", None)));
    assert!(futures_util::poll!(&mut first).is_pending());
    let second = host.call("files__read").await;
    assert!(second.to_string().starts_with("refused: no free slot"), "{second}");
    drop(first);
    assert_eq!(host.call("files__read").await.ending(), Ending::Answered);
    let endings: Vec<_> = host.records().iter().map(|record| record.ending).collect();
    assert_eq!(endings, [Ending::Refused, Ending::Cancelled, Ending::Answered]);
}
