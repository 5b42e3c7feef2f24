//! The events of a chat turn, as pages get them.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use toolway_agent::{
    AgentError, AgentEvent, Answer, CallProgress, EndedCall, EndedTask, StartedCall,
    model::{ModelError, ModelErrorKind, ModelEvent, ResultPart, Usage},
};
use toolway_host::visible::StreamedText;

use crate::{
    ring::EventRing,
    view::{conversation::contents, cut},
};

/// Bytes of an answer in progress that a second page gets.
const MAX_PARTIAL: usize = 256 * 1024;
/// Bytes of a result in an event; the stored conversation has the rest.
const MAX_RESULT: usize = 64 * 1024;
/// Bytes of the images of a result in an event; the stored conversation has the rest.
const MAX_IMAGES: usize = 5 * 1024 * 1024 + 512 * 1024;

/// Publishes the events of one turn.
pub(super) struct Publisher {
    ring: EventRing,
    pub(super) id: String,
    partial: Arc<Mutex<String>>,
    /// Pieces of the answer that are not complete. No await under these locks.
    text: Mutex<StreamedText>,
    reasoning: Mutex<StreamedText>,
}

impl Publisher {
    /// Events of a turn of this conversation; `partial` is the text of its message in progress.
    pub(super) fn new(ring: EventRing, id: String, partial: Arc<Mutex<String>>) -> Self {
        Self { ring, id, partial, text: Mutex::default(), reasoning: Mutex::default() }
    }

    pub(super) fn publish(&self, kind: &str, mut event: Value) {
        event["conversation"] = json!(self.id);
        event["type"] = json!(kind);
        self.ring.publish("chat", &event);
    }

    /// Publishes a piece of text that is complete.
    fn publish_text(&self, kind: &str, text: &str) {
        if !text.is_empty() {
            self.publish(kind, json!({ "text": text }));
        }
    }

    /// Publishes the rest of texts that have ended.
    fn finish_texts(&self) {
        let reasoning = self.reasoning.lock().finish();
        self.publish_text("reasoning", &reasoning);
        let text = self.text.lock().finish();
        self.publish_text("text", &text);
    }

    pub(super) fn event(&self, event: AgentEvent) {
        if !matches!(event, AgentEvent::Model(ModelEvent::Text(_) | ModelEvent::Reasoning(_))) {
            self.finish_texts();
        }
        match event {
            AgentEvent::Model(ModelEvent::Text(text)) => {
                let mut partial = self.partial.lock();
                if partial.len() + text.len() <= MAX_PARTIAL {
                    partial.push_str(&text);
                }
                drop(partial);
                let complete = self.text.lock().push(&text);
                self.publish_text("text", &complete);
            }
            AgentEvent::Model(ModelEvent::Reasoning(text)) => {
                let complete = self.reasoning.lock().push(&text);
                self.publish_text("reasoning", &complete);
            }
            AgentEvent::Model(_) => {}
            AgentEvent::Usage(usage) => {
                self.partial.lock().clear();
                self.publish("usage", usage_view(&usage));
            }
            AgentEvent::CallStarted(StartedCall { call, tool, call_id }) => {
                let (arguments, id) = (call.arguments_value(), call.id);
                self.publish("call", json!({ "id": id, "name": tool, "arguments": arguments, "callId": call_id }));
            }
            AgentEvent::CallProgress(progress) => {
                let CallProgress { id, progress, total, message } = progress;
                let message = message.as_deref().map(cut);
                self.publish("progress", json!({ "id": id, "progress": progress, "total": total, "text": message }));
            }
            AgentEvent::CallEnded(ended) => self.publish("result", result_view(&ended)),
            AgentEvent::TaskEnded(task) => self.publish("task", task_view(&task)),
            AgentEvent::LeftOut(reason) => self.publish("notice", json!({ "text": reason })),
            AgentEvent::Compacted(compacted) => self.publish("notice", json!({ "text": compacted.words() })),
        }
    }

    /// The last event.
    pub(super) fn end(&self, answered: Result<Answer, AgentError>) {
        self.finish_texts();
        match answered {
            Ok(answer) => self.publish("end", json!({ "stopReason": answer.stop.as_str(), "turns": answer.turns })),
            Err(AgentError::Model(error)) => {
                self.publish("error", json!({ "message": error.to_string(), "hint": hint(&error) }));
            }
        }
    }
}

fn usage_view(usage: &Usage) -> Value {
    let Usage { input_tokens, output_tokens, cached_tokens, .. } = usage;
    json!({ "inputTokens": input_tokens, "outputTokens": output_tokens, "cachedTokens": cached_tokens })
}

fn result_view(ended: &EndedCall) -> Value {
    let (text, images) = contents(&ended.result, MAX_IMAGES);
    let text = &text[..text.floor_char_boundary(MAX_RESULT)];
    let problem = ended.problem.as_ref().map(|problem| cut(problem.as_str()));
    json!({
        "id": ended.result.call_id,
        "name": ended.made.name,
        "state": ended.made.state.as_str(),
        "callId": ended.made.call_id,
        "text": text,
        "images": images,
        "problem": problem,
        "durationMs": ended.duration.as_secs_f64() * 1_000.0,
        "waitedMs": ended.waited.as_secs_f64() * 1_000.0,
    })
}

/// A background task of which the model is told that it has ended.
fn task_view(task: &EndedTask) -> Value {
    let texts = task.content.iter().filter_map(|part| match part {
        ResultPart::Text { text } => Some(text.as_str()),
        ResultPart::Image(_) | ResultPart::Audio(_) => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    let text = &text[..text.floor_char_boundary(MAX_RESULT)];
    json!({
        "id": task.row.id,
        "tool": task.row.tool,
        "end": task.end.words(),
        "state": task.end.as_str(),
        "text": text,
    })
}

/// What to do about a model that failed.
fn hint(error: &ModelError) -> Option<&'static str> {
    Some(match error.kind {
        ModelErrorKind::Unauthorized { .. } => "check the key of the model; `toolway models` lists them",
        ModelErrorKind::Unreachable { .. } => "check the address of the model and the network",
        ModelErrorKind::RateLimited | ModelErrorKind::Unavailable { .. } | ModelErrorKind::Cut => "try again later",
        ModelErrorKind::ContextExceeded => "start a new conversation",
        _ => return None,
    })
}
