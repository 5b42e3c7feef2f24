//! Stories about answers that are interrupted.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use toolway_agent::{Agent, AgentEvent, Budget, CallState, Conversation, Stop};
use toolway_host::{call::CallId, policy::ApprovalAnswer};
use toolway_model::{Message, Role, ScriptedModel};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    test_host::TestHost,
};

use crate::{files_host, options};

fn agent(host: &TestHost, script: &str) -> Agent {
    Agent::new(host.host.clone(), Arc::new(ScriptedModel::parse("script", script).unwrap()), options())
}

#[tokio::test]
async fn a_cancelled_answer_keeps_what_the_model_said() {
    let host = files_host(None).await;
    let agent = agent(&host, r#"{"turns": [{"text": "one two three four", "delayMs": 50}, {"text": "again"}]}"#);
    let (cancel, mut conversation) = (CancellationToken::new(), Conversation::new(None));
    let stop = cancel.clone();
    let mut observe = move |event: AgentEvent| {
        if matches!(event, AgentEvent::Model(toolway_model::ModelEvent::Text(text)) if text == "two ") {
            stop.cancel();
        }
    };
    let answer = agent.answer(&mut conversation, vec![Message::user("count")], &cancel, &mut observe).await.unwrap();
    assert_eq!((answer.stop, answer.text.as_str()), (Stop::Cancelled, "one two "));
    let messages = vec![Message::user("go on")];
    let answer = agent.answer(&mut conversation, messages, &CancellationToken::new(), &mut |_| {}).await.unwrap();
    assert_eq!(answer.text, "again");
    let roles: Vec<Role> = conversation.messages().iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::User, Role::Assistant]);
}

#[tokio::test]
async fn the_model_reads_once_that_another_surface_cancelled_its_call() {
    let files = FixtureServer::new("files").tool_that("wait", "Wait", Behaviour::Wait);
    let host = TestHost::with(&files, "files").start().await;
    host.answering(ApprovalAnswer::approved("test"));
    host.ready("files").await;
    let agent = agent(&host, r#"{"turns": [{"calls": [{"tool": "files__wait"}]}, {"text": "Never mind."}]}"#);
    let mut conversation = Conversation::new(None);
    let cancel = CancellationToken::new();
    let (sender, started) = tokio::sync::oneshot::channel();
    let mut sender = Some(sender);
    let mut observe = move |event: AgentEvent| {
        if let AgentEvent::CallStarted(call) = event {
            sender.take().unwrap().send(call.call_id.unwrap()).unwrap();
        }
    };
    let answering = agent.answer(&mut conversation, vec![Message::user("wait")], &cancel, &mut observe);
    let cancelling = async {
        let id = u128::from_str_radix(&started.await.unwrap().replace('-', ""), 16).unwrap();
        files.until_received("tools/call", 1).await;
        assert!(host.host.cancel_call(CallId::from_u128(id), "cancelled in the console"));
    };
    let (answer, ()) = tokio::join!(answering, cancelling);
    assert_eq!(answer.unwrap().calls[0].state, CallState::Cancelled);
    let result = serde_json::to_string(&conversation.messages()[2]).unwrap();
    assert!(result.contains("cancelled: the call ended before its answer"), "{result}");
    assert_eq!(result.matches("cancelled").count(), 1, "{result}");
}

#[tokio::test]
async fn a_cancelled_call_is_cancelled_at_the_server_and_has_a_result() {
    let files = FixtureServer::new("files").tool_that("wait", "Wait", Behaviour::Wait).tool("read", "Read");
    let host = TestHost::with(&files, "files").start().await;
    host.answering(ApprovalAnswer::approved("test"));
    host.ready("files").await;
    let script = r#"{"turns": [{"text": "Waiting.", "calls": [{"tool": "files__wait"}, {"tool": "files__read"}]}]}"#;
    let agent = agent(&host, script);
    let (cancel, mut conversation) = (CancellationToken::new(), Conversation::new(None));
    let stop = cancel.clone();
    let mut observe = move |event: AgentEvent| {
        if matches!(event, AgentEvent::CallEnded(_)) {
            stop.cancel();
        }
    };
    let answer = agent.answer(&mut conversation, vec![Message::user("wait")], &cancel, &mut observe).await.unwrap();
    let states: Vec<CallState> = answer.calls.iter().map(|call| call.state).collect();
    assert_eq!((answer.stop, states), (Stop::Cancelled, vec![CallState::Cancelled, CallState::Succeeded]));
    assert_eq!(conversation.messages().last().unwrap().role, Role::Tool);
    assert!(answer.calls[0].call_id.is_some(), "the cancelled call has a record");
}

#[tokio::test]
async fn the_time_limit_ends_a_slow_message_and_its_text_is_kept() {
    let host = files_host(None).await;
    let script = format!(r#"{{"turns": [{{"text": "{}", "delayMs": 1000}}]}}"#, "word ".repeat(100));
    let model = Arc::new(ScriptedModel::parse("script", &script).unwrap());
    let budget = Budget { time: Some(std::time::Duration::from_millis(1)), ..Budget::default() };
    let agent = Agent::new(host.host.clone(), model, toolway_agent::AgentOptions { budget, ..options() });
    let mut conversation = Conversation::new(None);
    let messages = vec![Message::user("talk")];
    let answer = agent.answer(&mut conversation, messages, &CancellationToken::new(), &mut |_| {}).await.unwrap();
    assert_eq!(answer.stop, Stop::MaxTime);
}

#[tokio::test]
async fn an_answer_runs_in_a_task_of_its_own() {
    let host = files_host(Some(ApprovalAnswer::approved("test"))).await;
    let script = r#"{"turns": [{"calls": [{"tool": "files__read"}]}, {"text": "done"}]}"#;
    let agent = agent(&host, script);
    let task = tokio::runtime::Handle::current().spawn(async move {
        let mut conversation = Conversation::new(None);
        let messages = vec![Message::user("read")];
        agent.answer(&mut conversation, messages, &CancellationToken::new(), &mut |_| {}).await
    });
    assert_eq!(task.await.unwrap().unwrap().text, "done");
}

#[tokio::test]
async fn calls_of_a_process_that_ended_get_a_result_when_the_conversation_goes_on() {
    let host = files_host(None).await;
    let call =
        r#"{"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "name": "files__read", "arguments": {}}]}"#;
    let stored = vec![Message::user("read"), serde_json::from_str(call).unwrap()];
    let mut conversation = Conversation::resume("c1", stored, None);
    let agent = agent(&host, r#"{"turns": [{"text": "resumed"}]}"#);
    let messages = vec![Message::user("go on")];
    agent.answer(&mut conversation, messages, &CancellationToken::new(), &mut |_| {}).await.unwrap();
    let roles: Vec<Role> = conversation.messages().iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool, Role::User, Role::Assistant]);
}
