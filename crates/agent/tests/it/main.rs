//! Stories about the agent, with a scripted model and real servers in the same process.
#![expect(clippy::unwrap_used, reason = "setup of a story is part of the test")]

mod answer_schema;
mod attaching;
mod cancelling;
mod compaction;
mod continued;
mod cut_messages;
mod everyday;
mod example;
mod hosts;
mod instructions;
mod replaying;
mod searching;
mod vendor_requests;

use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use toolway_agent::{Agent, AgentEvent, AgentOptions, Answer, Budget, CallState, Conversation, Stop};
use toolway_host::{
    policy::{ApprovalAnswer, ApprovalTerm, Surface},
    record::Delivery,
};
use toolway_model::{Message, ScriptedModel};
use toolway_testkit::{fixture_server::FixtureServer, test_host::TestHost};

fn options() -> AgentOptions {
    AgentOptions {
        surface: Surface::Chat,
        system: "Be brief.".to_owned(),
        servers: None,
        budget: Budget::default(),
        max_output: None,
        resources: true,
        prompts: true,
        answer_schema: None,
        mode: None,
        context: toolway_agent::ContextOptions::default(),
        reading: toolway_agent::ResourceOptions::default(),
        assistant: None,
    }
}

async fn files_host(answer: Option<ApprovalAnswer>) -> TestHost {
    let files = FixtureServer::new("files").tool("read", "Read").tool("write", "Write");
    let host = TestHost::with(&files, "files").start().await;
    answer.into_iter().for_each(|answer| host.answering(answer));
    host.ready("files").await;
    host
}

async fn answer_with(agent: &Agent) -> Answer {
    let (mut conversation, cancel) = (Conversation::new(None), CancellationToken::new());
    agent.answer(&mut conversation, vec![Message::user("do it")], &cancel, &mut |_| {}).await.unwrap()
}

async fn ask(host: &TestHost, script: &str, options: AgentOptions) -> (Answer, Vec<String>) {
    let model = Arc::new(ScriptedModel::parse("script", script).unwrap());
    let agent = Agent::new(host.host.clone(), model, options);
    let mut conversation = Conversation::new(None);
    let seen = Mutex::new(Vec::new());
    let mut observe = |event: AgentEvent| match event {
        AgentEvent::CallStarted(call) => seen.lock().push(format!("started {}", call.tool)),
        AgentEvent::CallEnded(call) => seen.lock().push(format!("{} {}", call.made.state.as_str(), call.made.name)),
        _ => {}
    };
    let answer = agent
        .answer(&mut conversation, vec![Message::user("do it")], &CancellationToken::new(), &mut observe)
        .await
        .unwrap();
    (answer, seen.into_inner())
}

#[tokio::test]
async fn a_call_is_approved_made_and_recorded_under_the_conversation() {
    let host = files_host(Some(ApprovalAnswer::approved("test"))).await;
    let script = r#"{"turns": [
        {"text": "Reading.", "calls": [{"tool": "files__read", "arguments": {"path": "a"}}]},
        {"expect": [{"error": false}], "text": "Done."}]}"#;
    let (answer, seen) = ask(&host, script, options()).await;
    assert_eq!((answer.text.as_str(), answer.stop, answer.turns), ("Done.", Stop::Done, 2));
    assert_eq!(seen, ["started files__read", "succeeded files__read"]);
    let record = &host.records()[0];
    assert_eq!(answer.calls[0].call_id, Some(record.id.to_string()));
    assert_eq!((record.surface, record.caller.label().as_str()), (Surface::Chat, "agent"));
    assert!(record.conversation.is_some());
    assert_eq!(record.approved_by.as_deref(), Some("test"));
}

#[tokio::test]
async fn a_call_that_no_user_can_approve_is_refused_and_the_model_is_told() {
    let host = files_host(None).await;
    let script = r#"{"turns": [
        {"calls": [{"tool": "files__write"}]},
        {"expect": [{"contains": "requires approval", "error": true}], "text": "I may not."}]}"#;
    let (answer, _) = ask(&host, script, AgentOptions { surface: Surface::Run, ..options() }).await;
    assert_eq!(answer.calls[0].state, CallState::ApproverUnavailable);
    assert_eq!(answer.text, "I may not.");
}

#[tokio::test]
async fn parallel_calls_keep_their_order_and_unknown_tools_are_errors() {
    let always = ApprovalAnswer::approved_for(ApprovalTerm::Conversation, "test");
    let host = files_host(Some(always)).await;
    let script = r#"{"turns": [
        {"calls": [{"tool": "files__read"}, {"tool": "files__nothing"}, {"tool": "files__write"}]},
        {"expect": [{"error": false}, {"contains": "unknown tool", "error": true}, {"error": false}], "text": "ok"}]}"#;
    let (answer, _) = ask(&host, script, options()).await;
    let states: Vec<_> = answer.calls.iter().map(|call| call.state).collect();
    assert_eq!(states, [CallState::Succeeded, CallState::Failed, CallState::Succeeded]);
}

#[tokio::test]
async fn a_model_that_repeats_itself_is_stopped() {
    let host = files_host(Some(ApprovalAnswer::approved("test"))).await;
    let turn = r#"{"calls": [{"tool": "files__read", "arguments": {"path": "a"}}]}"#;
    let script = format!(r#"{{"turns": [{}]}}"#, vec![turn; 20].join(","));
    let (answer, _) = ask(&host, &script, options()).await;
    assert_eq!(answer.stop, Stop::Loop);
    let made = host.records().into_iter().filter(|record| record.outcome == Some(Delivery::Answered)).count();
    assert_eq!(made, 3, "identical calls are made three times");
}

#[tokio::test]
async fn budgets_end_an_answer() {
    let host = files_host(Some(ApprovalAnswer::approved("test"))).await;
    let turns: Vec<String> =
        (0..9).map(|n| format!(r#"{{"calls": [{{"tool": "files__read", "arguments": {{"n": {n}}}}}]}}"#)).collect();
    let script = format!(r#"{{"turns": [{}]}}"#, turns.join(","));
    let budget = Budget { turns: 2, ..Budget::default() };
    assert_eq!(ask(&host, &script, AgentOptions { budget, ..options() }).await.0.stop, Stop::MaxTurns);
    let budget = Budget { tool_calls: 3, ..Budget::default() };
    assert_eq!(ask(&host, &script, AgentOptions { budget, ..options() }).await.0.stop, Stop::MaxToolCalls);
}
