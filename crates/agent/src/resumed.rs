//! Calls of a conversation that a process left without results: what the model is told of them when it is resumed. They are
//! not made again.

use toolway_host::{
    call::CallOutcome,
    record::{Delivery, IdempotencyKey, StoredCall},
};
use toolway_model::{Message, Role, ToolCall, ToolResult};
use toolway_wire::json::Raw;

use crate::{
    agent::Agent,
    content::Structured,
    conversation::Conversation,
    result::{self, Showing},
};

/// What is said of a call without a recorded answer.
const INTERRUPTED: &str = "the call was interrupted";

impl Conversation {
    /// The key of a call of its last message, under which the call is found again.
    pub(crate) fn key_of(&self, call: &ToolCall) -> IdempotencyKey {
        IdempotencyKey::of_conversation(self.id(), self.messages().len().saturating_sub(1), &call.id)
    }
}

impl Agent {
    /// Answers calls of the last message that have no result, because vendors refuse a call without one: with the recorded
    /// answer, or with what is known of the outcome.
    pub(crate) async fn close_open_calls(&self, conversation: &mut Conversation) {
        let last = conversation.messages().last().filter(|message| message.role == Role::Assistant);
        let open: Vec<ToolCall> = last.into_iter().flat_map(Message::tool_calls).cloned().collect();
        let mut results = Vec::with_capacity(open.len());
        for call in &open {
            let found = self.host.call_under(conversation.key_of(call)).await;
            results.push(self.resumed_result(call, found));
        }
        if !results.is_empty() {
            conversation.push(Message::tool_results(results)).await;
        }
    }

    fn resumed_result(&self, call: &ToolCall, found: Option<StoredCall>) -> ToolResult {
        // Without a record that says otherwise, the call may have been sent.
        let delivery = found.as_ref().and_then(|found| found.row.outcome).unwrap_or(Delivery::Unknown);
        let id = found.as_ref().map(|found| found.row.id.to_string()).unwrap_or_default();
        let tool = found.as_ref().and_then(|found| found.row.tool.as_deref()).unwrap_or_default();
        let structured = Structured::of(&self.host.own_catalog(), tool);
        let answer = found.and_then(|found| found.body.result).and_then(|text| Raw::parse(text).ok());
        match answer.filter(|_| delivery == Delivery::Answered) {
            Some(answer) => {
                let outcome = CallOutcome::Answered(answer);
                let redactor = self.host.redactor();
                let showing = Showing { result_id: &id, structured, page: self.page_size(), redactor: &redactor };
                let shown = result::show(call, &outcome, delivery, &showing);
                if let Some(rest) = shown.rest {
                    self.kept.keep(&id, rest);
                }
                shown.result
            }
            None if delivery == Delivery::Answered => {
                let text = format!("{INTERRUPTED}; the server answered, and the result is not kept");
                result::error(&call.id, &call.name, text)
            }
            None => result::error(&call.id, &call.name, delivery.said_after(INTERRUPTED)),
        }
    }
}
