//! The store behind a host: what its calls, approvals, inbox items and conversations leave in the file.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::json;
use toolway_host::{
    call::{CallOutcome, CallRequest, Caller},
    conversation::{ConversationHead, ConversationLog, ConversationMessage},
    inbox::{Answerer, ElicitationModes, InboxAnswer, InboxItem},
    policy::{ApprovalAnswer, ApprovalTerm, Attendance, Refusal, SavedEffect, Scope, Surface},
    record::{AuditNote, CallRecorder, CallState, RecordsError, Requirement, kind},
};
use toolway_store::{
    Store, StoreRecorder, Uuid,
    approvals::StoredApproval,
    audit::AuditFilter,
    calls::{CallFilter, CallRow},
};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    test_host::{TestHost, TestHostBuilder},
};

use crate::stage::Stage;

pub(super) fn files() -> FixtureServer {
    FixtureServer::new("files")
        .tool("write", "Write")
        .tool_that("fail", "Fail", Behaviour::Fail)
        .tool_that("refuse", "Refuse", Behaviour::Refuse)
        .tool_that("wait", "Wait", Behaviour::Wait)
}

/// A host that records to the store.
pub(super) fn host(server: &FixtureServer, store: &Store, requirement: Requirement) -> TestHostBuilder {
    let mut builder = TestHost::with(server, "files");
    let recorder = Arc::new(StoreRecorder::new(store.clone(), requirement, "terminal"));
    (builder.ports.recorder, builder.ports.approvals) = (Some(Arc::clone(&recorder) as _), recorder);
    builder
}

/// All calls, newest first.
pub(super) fn calls(stage: &Stage) -> Vec<CallRow> {
    stage.reader().calls(&CallFilter { limit: 100, ..CallFilter::default() }).unwrap()
}

pub(super) fn always() -> ApprovalAnswer {
    ApprovalAnswer::approved_for(ApprovalTerm::Always, "terminal")
}

#[tokio::test]
async fn a_call_leaves_its_row_its_body_and_an_audit_event() {
    let (stage, server) = (Stage::new(), files());
    let store = stage.open();
    let host = host(&server, &store, Requirement::Required).start().await;
    host.ready("files").await;
    let outcome = host.call_with("files__write", Some(json!({ "path": "a.txt" }))).await;
    assert_eq!(outcome.state(), CallState::Succeeded);
    let call = calls(&stage).remove(0);
    assert_eq!((call.caller.as_str(), call.surface.as_str(), call.state), ("terminal", "call", CallState::Succeeded));
    assert_eq!((call.server.as_deref(), call.tool.as_deref()), (Some("files"), Some("files__write")));
    assert!(call.duration.is_some() && call.rule.is_some() && call.error.is_none(), "{call:?}");
    let body = stage.reader().call(call.id).unwrap().unwrap().body;
    assert_eq!(body.arguments.as_deref(), Some(r#"{"path":"a.txt"}"#));
    assert_eq!(body.result, outcome.result().map(ToString::to_string));
    let of_call = AuditFilter { call: Some(call.id), limit: 9, ..AuditFilter::default() };
    let events = stage.reader().audit(&of_call).unwrap();
    assert_eq!(events.iter().map(|event| event.kind.as_str()).collect::<Vec<_>>(), ["call"]);
}

#[tokio::test]
async fn every_ending_has_its_state() {
    let (stage, server) = (Stage::new(), files());
    let store = stage.open();
    let host = host(&server, &store, Requirement::Required).start().await;
    host.ready("files").await;
    for tool in ["files__write", "files__fail", "files__refuse", "files__missing"] {
        drop(host.call(tool).await);
    }
    let waiting = host.host.open(host.request("files__wait", None));
    let waiting = tokio::runtime::Handle::current().spawn(waiting.outcome());
    while !calls(&stage).iter().any(|call| call.state == CallState::Running) {
        tokio::task::yield_now().await;
    }
    waiting.abort();
    waiting.await.unwrap_err();
    // Committed after everything before it.
    store.append_audit(Default::default()).await.unwrap();
    let states: Vec<_> = calls(&stage).iter().rev().map(|call| call.state).collect();
    let expected = [CallState::Succeeded, CallState::ToolError, CallState::Failed, CallState::Refused];
    assert_eq!((&states[..4], states[4]), (&expected[..], CallState::Cancelled));
    let refused = &calls(&stage)[1];
    assert!(refused.error.as_deref().unwrap().contains("unknown tool"), "{refused:?}");
    assert_eq!((refused.server.as_deref(), refused.tool.as_deref()), (None, None));
}

#[tokio::test]
async fn always_is_found_by_another_process_for_the_same_path_alone() {
    let (stage, server) = (Stage::new(), files());
    let write = |path: &str| Some(json!({ "path": path, "text": "new" }));
    let first = stage.open();
    let host_one = host(&server, &first, Requirement::Required).asking(always()).start().await;
    host_one.ready("files").await;
    drop(host_one.call_with("files__write", write("a.txt")).await);
    let saved = stage.reader().approvals().unwrap().remove(0);
    let StoredApproval { approval, created_by } = saved;
    assert_eq!((approval.key.caller.as_str(), approval.key.tool.as_str()), ("terminal", "write"));
    assert_eq!((approval.effect, approval.holds), (SavedEffect::Allow, Attendance::Attended));
    assert_eq!(
        (approval.scope.to_string(), created_by),
        (r#"path = "a.txt", text = "new""#.to_owned(), "terminal".to_owned())
    );

    let second = stage.open();
    let host_two = host(&server, &second, Requirement::Required).asking(ApprovalAnswer::Unavailable).start().await;
    host_two.ready("files").await;
    assert_eq!(host_two.call_with("files__write", write("a.txt")).await.state(), CallState::Succeeded);
    assert_eq!(calls(&stage)[0].approved_by.as_deref(), Some(&*format!("saved approval {}", approval.id)));
    assert_eq!(host_two.call_with("files__write", write("b.txt")).await.state(), CallState::Refused);
    assert_eq!(host_two.asked().len(), 1, "the other path is asked about");

    second.remove_approval(approval.id.parse().unwrap()).await.unwrap();
    assert_eq!(host_two.call_with("files__write", write("a.txt")).await.state(), CallState::Refused);
    assert_eq!(host_two.asked().len(), 2, "a removed approval is asked about");
}

#[tokio::test]
async fn never_covers_every_argument_and_the_approval_and_its_item_are_kept() {
    let (stage, server) = (Stage::new(), files());
    let store = stage.open();
    let never = ApprovalAnswer::Declined {
        why: Some("not here".to_owned()),
        term: ApprovalTerm::Always,
        by: "test".to_owned(),
    };
    let host = host(&server, &store, Requirement::Required).asking(never).start().await;
    host.ready("files").await;
    for path in ["a.txt", "b.txt"] {
        let outcome = host.call_with("files__write", Some(json!({ "path": path }))).await;
        assert_eq!(outcome.state(), CallState::Refused, "{path}");
    }
    assert_eq!(host.asked().len(), 1);
    let saved = stage.reader().approvals().unwrap().remove(0);
    assert_eq!((saved.approval.effect, saved.approval.scope), (SavedEffect::Deny, Scope::Any));
    let item = stage.reader().inbox(10).unwrap().remove(0);
    assert_eq!((item.kind.as_str(), item.server.as_deref()), ("approval", Some("files")));
    assert_eq!((item.answer.as_deref(), item.ended_at.is_some()), (Some("never"), true));
    let approvals = AuditFilter { kind: Some(kind::APPROVAL.to_owned()), limit: 9, ..AuditFilter::default() };
    let event = stage.reader().audit(&approvals).unwrap().remove(0);
    assert!(event.details.contains(r#""term":"always""#) && event.details.contains("refused"), "{event:?}");
}

#[tokio::test]
async fn a_store_that_cannot_write_refuses_or_lets_pass_as_required() {
    for (requirement, expected) in
        [(Requirement::Required, CallState::Refused), (Requirement::BestEffort, CallState::Succeeded)]
    {
        let (stage, server) = (Stage::new(), files());
        let store = stage.open();
        let host = host(&server, &store, requirement).start().await;
        host.ready("files").await;
        stage.tamper("ALTER TABLE calls RENAME TO away");
        assert_eq!(host.call("files__write").await.state(), expected);
        assert_eq!(server.seen("tools/call").len(), usize::from(expected == CallState::Succeeded));
        assert_eq!((store.failed_writes() > 0, host.host.unrecorded_calls()), (true, 1));
        stage.tamper("ALTER TABLE away RENAME TO calls");
        assert_eq!(host.call("files__write").await.state(), CallState::Succeeded, "the store has recovered");
        assert_eq!(calls(&stage)[0].state, CallState::Succeeded);
    }
}

/// Approves once the call is recorded as pending and the store can write no call any more.
struct LateApproval {
    stage: Arc<Stage>,
}

impl Answerer for LateApproval {
    fn modes(&self) -> ElicitationModes {
        ElicitationModes::Nothing
    }

    fn answer<'a>(&'a self, _: &'a InboxItem) -> BoxFuture<'a, InboxAnswer> {
        Box::pin(async {
            while calls(&self.stage).is_empty() {
                tokio::task::yield_now().await;
            }
            self.stage.tamper("ALTER TABLE calls RENAME TO away");
            InboxAnswer::Approval(ApprovalAnswer::approved_for(ApprovalTerm::Once, "test"))
        })
    }
}

/// Another process would close it as not sent, and its repetition would be sent again.
#[tokio::test]
async fn a_call_that_is_recorded_as_pending_is_not_sent_without_a_further_record() {
    let (stage, server) = (Arc::new(Stage::new()), files());
    let store = stage.open();
    let mut builder = host(&server, &store, Requirement::BestEffort).asking(ApprovalAnswer::Unavailable);
    builder.ports.answerer = Arc::new(LateApproval { stage: Arc::clone(&stage) });
    let host = builder.start().await;
    host.ready("files").await;
    let outcome = host.call("files__write").await;
    assert!(matches!(outcome, CallOutcome::Refused(Refusal::NotRecorded(_))), "{outcome}");
    assert!(server.seen("tools/call").is_empty());
    stage.tamper("ALTER TABLE away RENAME TO calls");
}

#[tokio::test]
async fn a_call_of_an_agent_keeps_its_conversation_and_notes_are_appended() {
    let (stage, server) = (Stage::new(), files());
    let store = stage.open();
    let recorder = StoreRecorder::new(store.clone(), Requirement::BestEffort, "chat");
    let conversation = Uuid::now_v7().to_string();
    let head = ConversationHead {
        id: conversation.clone(),
        title: "Tidy up".to_owned(),
        model: "scripted".to_owned(),
        surface: "chat",
    };
    recorder.put(&head).await.unwrap();
    let message = ConversationMessage { seq: 1, role: "user", text: "hello".to_owned(), body: "{}".to_owned() };
    recorder.append(&conversation, message.clone()).await.unwrap();
    let unnamed = recorder.append("no id", message).await;
    assert!(matches!(unnamed, Err(RecordsError::Invalid(_))), "{unnamed:?}");
    let unnamed = recorder.put(&ConversationHead { id: "no id".to_owned(), ..head }).await;
    assert!(matches!(unnamed, Err(RecordsError::Invalid(_))), "{unnamed:?}");

    let host = host(&server, recorder.store(), Requirement::BestEffort).start().await;
    host.ready("files").await;
    let request = CallRequest::tool(Caller::Agent("a".into()), "files__write".parse().unwrap(), None);
    let conversation: Arc<str> = conversation.into();
    let request = CallRequest { conversation: Some(conversation.clone()), surface: Surface::Chat, ..request };
    drop(host.call_of(request).await);
    let of_it = CallFilter { conversation: Some(conversation.to_string()), limit: 9, ..CallFilter::default() };
    assert_eq!(stage.reader().calls(&of_it).unwrap().len(), 1);
    recorder.note(AuditNote::of_server(kind::SIGN_IN, &"files".parse().unwrap(), json!({ "change": "signed-in" })));
    store.append_audit(Default::default()).await.unwrap();
    let sign_ins = AuditFilter { kind: Some(kind::SIGN_IN.to_owned()), limit: 9, ..AuditFilter::default() };
    assert_eq!(stage.reader().audit(&sign_ins).unwrap()[0].server.as_deref(), Some("files"));
}
