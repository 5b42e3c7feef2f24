//! The events of a chat turn, as pages get them.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use toolway_agent::{
    AgentError, AgentEvent, Answer, CallProgress, ContextMeter, EndedCall, EndedTask, StartedCall,
    model::{ModelError, ModelErrorKind, ModelEvent, ResultPart, Usage},
};
use toolway_host::{Host, visible::StreamedText};

use super::{ConversationUsage, InProgress, Turns};
use crate::{
    backend::ConsoleBackend,
    ring::EventRing,
    view::{
        conversation::{contents, context, tool_title},
        cut,
    },
};

/// Bytes of an answer in progress that a second page gets.
const MAX_PARTIAL: usize = 256 * 1024;
/// Bytes of a result in an event; the stored conversation has the rest.
const MAX_RESULT: usize = 64 * 1024;
/// Bytes of the images of a result in an event; the stored conversation has the rest.
const MAX_IMAGES: usize = 5 * 1024 * 1024 + 512 * 1024;

/// Publishes the events of one turn.
pub(super) struct Publisher {
    host: Host,
    backend: Arc<dyn ConsoleBackend>,
    /// Name of the model.
    model: String,
    ring: EventRing,
    pub(super) id: String,
    in_progress: Arc<Mutex<InProgress>>,
    /// Pieces of the answer that are not complete. No await under these locks.
    text: Mutex<StreamedText>,
    reasoning: Mutex<StreamedText>,
}

impl Publisher {
    /// Events of a turn of this conversation; `in_progress` is what it has not finished.
    pub(super) fn new(turns: &Turns, model: &str, id: String, in_progress: Arc<Mutex<InProgress>>) -> Self {
        Self {
            host: turns.host.clone(),
            backend: Arc::clone(&turns.backend),
            model: model.to_owned(),
            ring: turns.ring.clone(),
            id,
            in_progress,
            text: Mutex::default(),
            reasoning: Mutex::default(),
        }
    }

    /// What tokens of the model cost, if its price is configured.
    pub(super) fn cost(&self, used: &Usage) -> Option<f64> {
        self.backend.cost(&self.model, used)
    }

    /// How full the context window is, and what the conversation used so far.
    pub(super) fn context(&self, meter: &ContextMeter, used: ConversationUsage) {
        self.publish("context", context(meter, used));
    }

    pub(super) fn publish(&self, kind: &str, mut event: Value) {
        event["conversation"] = json!(self.id);
        event["type"] = json!(kind);
        self.ring.publish("chat", &event);
    }

    /// Publishes the messages that wait.
    pub(super) fn queue(&self, mut view: Value) {
        view["conversation"] = json!(self.id);
        self.ring.publish("queue", &view);
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
                let mut in_progress = self.in_progress.lock();
                if in_progress.partial.len() + text.len() <= MAX_PARTIAL {
                    in_progress.partial.push_str(&text);
                }
                drop(in_progress);
                let complete = self.text.lock().push(&text);
                self.publish_text("text", &complete);
            }
            AgentEvent::Model(ModelEvent::Reasoning(text)) => {
                let complete = self.reasoning.lock().push(&text);
                self.publish_text("reasoning", &complete);
            }
            AgentEvent::Model(_) => {}
            AgentEvent::Usage(usage) => {
                self.in_progress.lock().partial.clear();
                let mut view = usage_view(&usage);
                view["cost"] = json!(self.cost(&usage));
                self.publish("usage", view);
            }
            AgentEvent::CallStarted(StartedCall { call, tool, call_id }) => {
                let (arguments, id) = (call.arguments_value(), call.id);
                let title = tool_title(&self.host, &tool);
                let view = json!({ "id": id, "name": tool, "title": title, "arguments": arguments, "callId": call_id });
                self.in_progress.lock().calls.push(view.clone());
                self.publish("call", view);
            }
            AgentEvent::CallProgress(progress) => {
                let CallProgress { id, progress, total, message } = progress;
                let message = message.as_deref().map(cut);
                self.publish("progress", json!({ "id": id, "progress": progress, "total": total, "text": message }));
            }
            AgentEvent::CallEnded(ended) => {
                self.in_progress.lock().calls.retain(|call| call["id"] != ended.result.call_id);
                self.publish("result", result_view(&ended));
            }
            AgentEvent::TaskEnded(task) => self.publish("task", task_view(&task)),
            AgentEvent::LeftOut(reason) => self.publish("notice", json!({ "text": reason })),
            AgentEvent::Attached(attached) => self.publish("notice", json!({ "text": attached.words() })),
            AgentEvent::Compacted(compacted) => self.publish("compacted", json!({ "text": compacted.words() })),
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
            Err(error @ AgentError::Continued) => {
                let hint = "open the conversation again to see its messages; yours was not stored";
                self.publish("error", json!({ "message": error.to_string(), "hint": hint }));
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
