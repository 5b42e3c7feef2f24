//! Policy decisions: configuration, filters, approvals and limits.

use futures_util::future::BoxFuture;
use serde_json::json;
use std::sync::Arc;
use toolway_host::{
    call::{CallRequest, Caller, Target},
    catalog::{Filter, Origin, filter::Switch},
    connection::{Phase, WantedServer, Way},
    policy::{ApprovalAnswer, ApprovalRequest, Approver, CallLimits, Stance},
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
async fn filtered_tool_is_neither_listed_nor_callable() {
    let files = files();
    let filter = Filter { exclude_tools: vec!["write*".into()], ..Filter::default() };
    let server =
        WantedServer { filter: Arc::new(filter), ..WantedServer::new(name("files"), Way::InProcess(files.service())) };
    let host = TestHost::new().wanted(server).start().await;
    host.offers(&["files__read", "files__wait"]).await;

    assert_eq!(host.call("files__write").await.ending(), Ending::Refused);
    let origin = Origin { server: name("files"), raw_name: "write".to_owned() };
    let raw = host.call_of(CallRequest::new(Caller::Terminal, Target::ToolOf(origin))).await;
    assert_eq!(raw.to_string(), "refused: tool `write` of `files` is excluded by `excludeTools` of its entry");
    let method = Target::Method { server: name("files"), method: "tools/call".to_owned() };
    let params = Some(Raw::of(&json!({ "name": "write" })));
    let around = host.call_of(CallRequest { arguments: params, ..CallRequest::new(Caller::Terminal, method) }).await;
    assert_eq!(around.ending(), Ending::Refused, "{around}");
    assert!(files.seen("tools/call").is_empty());
    assert_eq!(host.records().len(), 3, "refused calls are recorded too");
}

#[tokio::test]
async fn filter_applies_to_raw_methods() {
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
            keys.iter().any(|key| said.ends_with(&format!("excluded by `{key}` of its entry"))),
            "{method}: {said}"
        );
    }
}

#[tokio::test]
async fn call_to_a_hanging_server_holds_no_slot() {
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
async fn call_is_sent_only_after_approval() {
    let files = files();
    let host = TestHost::with(&files, "files").asking(ApprovalAnswer::Approved).start().await;
    host.ready("files").await;
    assert_eq!(host.call("files__read").await.ending(), Ending::Answered);
    assert_eq!(host.asked(), ["may terminal use the tool `read` of `files`?"]);
    assert_eq!(host.records()[0].rule.map(|rule| rule.as_str()), Some("ask"));

    host.answering(ApprovalAnswer::Declined { why: Some("not today".to_owned()) });
    assert_eq!(host.call("files__read").await.to_string(), "refused: approval declined: not today");
    host.answering(ApprovalAnswer::Unavailable);
    assert_eq!(
        host.call("files__read").await.to_string(),
        "refused: `read` requires approval, and no approver is available"
    );
    assert_eq!(files.seen("tools/call").len(), 1);
}

struct PanickingApprover;

impl Approver for PanickingApprover {
    fn ask<'a>(&'a self, _request: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        panic!("test panic");
    }
}

#[tokio::test]
async fn panic_of_the_approver_refuses_the_call() {
    let files = files();
    let mut builder = TestHost::with(&files, "files").asking(ApprovalAnswer::Approved);
    builder.ports.approver = Arc::new(PanickingApprover);
    let host = builder.start().await;
    host.ready("files").await;
    assert_eq!(host.call("files__read").await.ending(), Ending::Refused);
    assert!(files.seen("tools/call").is_empty());
}

#[tokio::test]
async fn deny_stance_refuses_all_calls() {
    let files = files();
    let mut builder = TestHost::with(&files, "files");
    builder.options.stance = Stance::Deny;
    let host = builder.start().await;
    host.ready("files").await;
    assert_eq!(host.call("files__read").await.to_string(), "refused: denied by rule `deny`");
    assert!(files.seen("tools/call").is_empty());
}

#[tokio::test]
async fn concurrent_calls_are_limited_and_slots_are_reused() {
    let files = files();
    let mut builder = TestHost::with(&files, "files");
    builder.options.calls = CallLimits { per_server: 1, waiting: 0, ..CallLimits::default() };
    let host = builder.start().await;
    host.ready("files").await;
    let mut first = Box::pin(host.host.call(host.request("files__wait", None)));
    assert!(futures_util::poll!(&mut first).is_pending());
    let second = host.call("files__read").await;
    assert!(second.to_string().starts_with("refused: no free call slot"), "{second}");
    drop(first);
    assert_eq!(host.call("files__read").await.ending(), Ending::Answered);
    let endings: Vec<_> = host.records().iter().map(|record| record.ending).collect();
    assert_eq!(endings, [Ending::Refused, Ending::Cancelled, Ending::Answered]);
}
