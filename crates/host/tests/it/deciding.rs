//! Policy decisions: configuration, filters, approvals and limits.

use futures_util::future::BoxFuture;
use serde_json::json;
use std::sync::Arc;
use toolway_config::{Config, document::Document};
use toolway_host::{
    call::{CallRequest, Caller, Target, TaskOperation},
    catalog::{Filter, Origin, filter::Switch},
    connection::{Phase, WantedServer, Way},
    inbox::{Answerer, ElicitationModes, InboxAnswer, InboxItem},
    policy::{ApprovalAnswer, ApprovalTerm, CallLimits, Stance, Surface},
    record::CallState,
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

    assert_eq!(host.call("files__write").await.state(), CallState::Refused);
    let origin = Origin { server: name("files"), raw_name: "write".to_owned() };
    let raw = host.call_of(CallRequest::new(Caller::Terminal, Target::ToolOf(origin))).await;
    let said = raw.message().unwrap();
    assert_eq!(said.as_str(), "tool `write` of `files` is excluded by `excludeTools` of its entry");
    assert_eq!(raw.to_string(), "refused: unknown tool `write`", "others are not told that it exists");
    let method = Target::Method { server: name("files"), method: "tools/call".to_owned() };
    let params = Some(Raw::of(&json!({ "name": "write" })));
    let around = host.call_of(CallRequest { arguments: params, ..CallRequest::new(Caller::Terminal, method) }).await;
    assert_eq!(around.state(), CallState::Refused, "{around}");
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
    for (method, params) in [
        ("completion/complete", prompt),
        ("completion/complete", template),
        ("resources/subscribe", json!({ "uri": "memo://today" })),
        ("prompts/get", json!({ "name": "greet" })),
    ] {
        let target = Target::Method { server: name("files"), method: method.to_owned() };
        let request = CallRequest { arguments: Some(Raw::of(&params)), ..CallRequest::new(Caller::Terminal, target) };
        let outcome = host.call_of(request).await;
        let said = outcome.message().unwrap().into_string();
        let keys = ["excludePrompts", "resources: false"];
        assert!(
            keys.iter().any(|key| said.ends_with(&format!("excluded by `{key}` of its entry"))),
            "{method}: {said}"
        );
    }
}

#[tokio::test]
async fn ambiguous_or_unending_raw_requests_are_not_sent() {
    let files = files();
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    let both = json!({ "ref": { "type": "ref/prompt", "name": "greet", "uri": "memo://today" }, "argument": {} });
    let listen = json!({ "notifications": { "resourceSubscriptions": ["memo://today"] } });
    for (method, params) in [
        ("completion/complete", both),
        ("subscriptions/listen", listen),
        ("notifications/cancelled", json!({ "requestId": 1 })),
    ] {
        let target = Target::Method { server: name("files"), method: method.to_owned() };
        let request = CallRequest { arguments: Some(Raw::of(&params)), ..CallRequest::new(Caller::Terminal, target) };
        let outcome = host.call_of(request).await;
        assert_eq!(outcome.state(), CallState::Refused, "{method}: {outcome}");
        assert!(files.seen(method).is_empty(), "{method}");
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
    assert_eq!(outcome.state(), CallState::Succeeded, "{outcome}");
    drop(waiting);
    host.host.shutdown().await;
}

#[tokio::test]
async fn call_is_sent_only_after_approval() {
    let files = files();
    let host = TestHost::with(&files, "files").asking(ApprovalAnswer::approved("test")).start().await;
    host.ready("files").await;
    assert_eq!(host.call("files__read").await.state(), CallState::Succeeded);
    assert_eq!(host.asked(), ["may terminal use the tool `read` of `files`?"]);
    assert_eq!(
        host.records()[0].rule.as_ref().map(ToString::to_string).as_deref(),
        Some("default of the program: ask")
    );
    assert_eq!(host.records()[0].approved_by.as_deref(), Some("test"));

    host.answering(ApprovalAnswer::declined(Some("not today".to_owned()), "test"));
    assert_eq!(host.call("files__read").await.to_string(), "refused: approval declined: not today");
    host.answering(ApprovalAnswer::Unavailable);
    assert_eq!(
        host.call("files__read").await.message().unwrap().as_str(),
        "`read` requires approval (default of the program: ask), and no approver is available; allow it with \
         `toolway policy allow files.read --caller terminal`"
    );
    assert_eq!(files.seen("tools/call").len(), 1);
}

#[tokio::test]
async fn an_answer_for_always_is_not_asked_again_and_never_refuses() {
    let files = files();
    let always = ApprovalAnswer::approved_for(ApprovalTerm::Always, "test");
    let host = TestHost::with(&files, "files").asking(always).start().await;
    host.ready("files").await;
    for _ in 0..2 {
        assert_eq!(host.call("files__read").await.state(), CallState::Succeeded);
    }
    assert_eq!(host.asked().len(), 1);
    assert!(host.records()[1].approved_by.as_deref().unwrap().starts_with("saved approval"));

    let never = ApprovalAnswer::never("test");
    let host = TestHost::with(&files, "files").asking(never).start().await;
    host.ready("files").await;
    for _ in 0..2 {
        assert_eq!(host.call("files__read").await.state(), CallState::Refused);
    }
    assert_eq!(host.asked().len(), 1, "the second one is refused by the saved answer");
}

#[tokio::test]
async fn an_answer_for_a_conversation_holds_in_that_conversation_alone() {
    let files = files();
    let answer = ApprovalAnswer::approved_for(ApprovalTerm::Conversation, "test");
    let host = TestHost::with(&files, "files").asking(answer).start().await;
    host.ready("files").await;
    let call = |conversation: &str| {
        let request = CallRequest::tool(Caller::Agent("a".into()), "files__read".parse().unwrap(), None);
        CallRequest { conversation: Some(conversation.into()), surface: Surface::Chat, ..request }
    };
    for conversation in ["one", "one", "two"] {
        assert_eq!(host.host.call(call(conversation)).await.state(), CallState::Succeeded);
    }
    assert_eq!(host.asked().len(), 2);
}

#[tokio::test]
async fn an_answer_for_always_covers_the_same_arguments_and_asks_about_others() {
    let files = files();
    let always = ApprovalAnswer::approved_for(ApprovalTerm::Always, "test");
    let host = TestHost::with(&files, "files").asking(always).start().await;
    host.ready("files").await;
    for (path, text, asked) in
        [("a.txt", "one", 1), ("a.txt", "one", 1), ("a.txt", "two", 2), ("b.txt", "one", 3), ("a.txt", "two", 3)]
    {
        let outcome = host.call_with("files__read", Some(json!({ "path": path, "text": text }))).await;
        assert_eq!((outcome.state(), host.asked().len()), (CallState::Succeeded, asked), "{path} {text}");
    }
}

#[tokio::test]
async fn an_answer_for_the_session_of_a_client_holds_until_that_session_ends() {
    let files = files();
    let answer = ApprovalAnswer::approved_for(ApprovalTerm::Conversation, "test");
    let host = TestHost::with(&files, "files").asking(answer).start().await;
    host.ready("files").await;
    let client = Caller::Client("editor".into());
    let call = |session: Option<&str>| {
        let request = CallRequest::tool(client.clone(), "files__read".parse().unwrap(), None);
        CallRequest { session: session.map(Into::into), surface: Surface::Gateway, ..request }
    };
    for (session, asked) in [("one", 1), ("one", 1), ("two", 2), ("one", 2)] {
        assert_eq!(host.host.call(call(Some(session))).await.state(), CallState::Succeeded);
        assert_eq!(host.asked().len(), asked, "{session}");
    }
    host.host.end_session(&client, "one");
    assert_eq!(host.host.call(call(Some("one"))).await.state(), CallState::Succeeded);
    assert_eq!(host.asked().len(), 3, "the approval ended with its session");
    assert_eq!(host.host.call(call(None)).await.state(), CallState::Refused, "without a session it holds for nothing");
}

#[tokio::test]
async fn operations_on_tasks_are_decided_by_their_methods() {
    let text = r#"{"policy": {"rules": [{"match": {"tool": "tasks/cancel"}, "then": "deny"}]}}"#;
    let config = Config::of(&Document::of("/toolway.json".as_ref(), text).unwrap(), None).unwrap();
    let (files, server) = (files(), name("files"));
    let wanted = WantedServer::new(server.clone(), Way::InProcess(files.service()));
    let host = TestHost::new().config(config).wanted(wanted).start().await;
    host.ready("files").await;
    let ada = || (&Caller::Client("ada".into())).into();
    for operation in [TaskOperation::Get, TaskOperation::Update, TaskOperation::List] {
        host.host.tasks_for(operation, ada(), &server, Some("t1")).await.unwrap();
    }
    let refused = host.host.tasks_for(TaskOperation::Cancel, ada(), &server, Some("t1")).await.unwrap_err();
    assert_eq!(refused.to_string(), "refused: denied by policy");
    assert_eq!(host.records().last().unwrap().raw_name.as_deref(), Some("tasks/cancel"));
}

struct PanickingApprover;

impl Answerer for PanickingApprover {
    fn modes(&self) -> ElicitationModes {
        ElicitationModes::Nothing
    }

    fn answer<'a>(&'a self, _item: &'a InboxItem) -> BoxFuture<'a, InboxAnswer> {
        panic!("test panic");
    }
}

#[tokio::test]
async fn panic_of_the_approver_refuses_the_call() {
    let files = files();
    let mut builder = TestHost::with(&files, "files").asking(ApprovalAnswer::approved("test"));
    builder.ports.answerer = Arc::new(PanickingApprover);
    let host = builder.start().await;
    host.ready("files").await;
    assert_eq!(host.call("files__read").await.state(), CallState::Refused);
    assert!(files.seen("tools/call").is_empty());
}

#[tokio::test]
async fn deny_stance_refuses_all_calls() {
    let files = files();
    let mut builder = TestHost::with(&files, "files");
    builder.options.stance = Stance::Deny;
    let host = builder.start().await;
    host.ready("files").await;
    let outcome = host.call("files__read").await;
    assert_eq!(outcome.message().unwrap().as_str(), "denied by policy (default of the program: deny)");
    assert_eq!(outcome.to_string(), "refused: denied by policy", "clients do not see rules");
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
    assert_eq!(host.call("files__read").await.state(), CallState::Succeeded);
    let endings: Vec<_> = host.records().iter().map(|record| record.state).collect();
    assert_eq!(endings, [CallState::Refused, CallState::Cancelled, CallState::Succeeded]);
}
