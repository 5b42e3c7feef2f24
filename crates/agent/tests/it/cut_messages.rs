//! Stories about messages of a model that are not complete, and about vendors that report no tokens.

use std::sync::Arc;

use futures_util::{StreamExt, stream::BoxStream};
use tokio_util::sync::CancellationToken;
use toolway_agent::{Agent, AgentOptions, Answer, Budget, CallState, Conversation, Stop};
use toolway_host::policy::ApprovalAnswer;
use toolway_model::{Message, Model, ModelError, ModelEvent, ModelRequest, ScriptedModel, StopReason, Vendor};
use toolway_testkit::test_host::TestHost;

use crate::{ask, files_host, options};

/// A scripted model whose messages with calls end for another reason.
#[derive(Debug)]
struct CutModel(ScriptedModel, StopReason);

impl Model for CutModel {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn vendor(&self) -> Vendor {
        self.0.vendor()
    }

    fn context_window(&self) -> Option<u64> {
        None
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'_, Result<ModelEvent, ModelError>> {
        let cut = |event| match event {
            Ok(ModelEvent::End { reason: StopReason::ToolCalls, message }) => {
                Ok(ModelEvent::End { reason: self.1.clone(), message })
            }
            other => other,
        };
        self.0.stream(request).map(cut).boxed()
    }
}

async fn answer_of(host: &TestHost, reason: StopReason, script: &str) -> (Answer, Conversation) {
    let model = Arc::new(CutModel(ScriptedModel::parse("cut", script).unwrap(), reason));
    let agent = Agent::new(host.host.clone(), model, options());
    let (mut conversation, cancel) = (Conversation::new(None), CancellationToken::new());
    let answer = agent.answer(&mut conversation, vec![Message::user("do it")], &cancel, &mut |_| {}).await.unwrap();
    (answer, conversation)
}

const WRITES: &str = r#"{"text": "Writing.", "calls": [{"tool": "files__write"}, {"tool": "files__write"}]}"#;

#[tokio::test]
async fn calls_of_a_message_cut_at_the_token_limit_are_not_made_and_the_model_is_told() {
    let host = files_host(Some(ApprovalAnswer::approved("test"))).await;
    let told = r#"{"expect": [{"contains": "cut at the limit", "error": true}, {"error": true}], "text": "I see."}"#;
    let script = format!(r#"{{"turns": [{WRITES}, {told}]}}"#);
    let (answer, _) = answer_of(&host, StopReason::MaxTokens, &script).await;
    let states: Vec<CallState> = answer.calls.iter().map(|call| call.state).collect();
    assert_eq!((answer.text.as_str(), states), ("I see.", vec![CallState::Failed; 2]));
    assert!(host.records().is_empty(), "a call without its arguments reached the server");
}

#[tokio::test]
async fn a_model_whose_messages_are_cut_again_and_again_is_stopped() {
    let host = files_host(Some(ApprovalAnswer::approved("test"))).await;
    let script = format!(r#"{{"turns": [{}]}}"#, [WRITES; 9].join(", "));
    let (answer, conversation) = answer_of(&host, StopReason::MaxTokens, &script).await;
    assert_eq!((answer.stop, answer.turns, conversation.messages().len()), (Stop::MaxOutput, 3, 7));
}

#[tokio::test]
async fn calls_of_a_refused_message_are_not_made_and_its_text_is_kept() {
    let host = files_host(Some(ApprovalAnswer::approved("test"))).await;
    let (answer, conversation) = answer_of(&host, StopReason::Refused, &format!(r#"{{"turns": [{WRITES}]}}"#)).await;
    assert_eq!((answer.stop, answer.text.as_str(), answer.calls.len()), (Stop::Refused, "Writing.", 0));
    assert!(host.records().is_empty());
    let last = conversation.messages().last().unwrap();
    assert_eq!((last.tool_calls().count(), &last.raw), (0, &None), "a call without a result stays in the conversation");
}

#[tokio::test]
async fn the_token_limit_holds_for_a_vendor_that_reports_no_tokens() {
    let host = files_host(Some(ApprovalAnswer::approved("test"))).await;
    let turns: Vec<String> =
        (0..9).map(|n| format!(r#"{{"calls": [{{"tool": "files__read", "arguments": {{"n": {n}}}}}]}}"#)).collect();
    let script = format!(r#"{{"turns": [{}]}}"#, turns.join(", "));
    let budget = Budget { tokens: Some(1), ..Budget::default() };
    let (answer, _) = ask(&host, &script, AgentOptions { budget, ..options() }).await;
    assert_eq!((answer.stop, answer.turns, answer.usage.input_tokens), (Stop::MaxTokens, 1, 0));
}
