//! A script instead of a model: for the demo, for guides and for tests. Needs no network and no key.
//!
//! The format is JSON, `{"turns": [turn, …]}`. Each request to the model takes the next turn:
//!
//! | key | meaning | default |
//! |---|---|---|
//! | `expect` | checks on the results of the previous turn's calls, in order: `contains`, `error` | none |
//! | `heard` | texts of which each must be in a message after the model's last one and its results | none |
//! | `reasoning` | reasoning to show | none |
//! | `text` | text of the answer, streamed word by word | none |
//! | `calls` | tool calls: `tool` (public name), `arguments` (an object) | none |
//! | `delayMs` | pause between two words, at most 1000 | 0 |
//!
//! `{{result}}` in `text` stands for the text of the first result of the previous turn, `{{task}}` in `arguments` for the id
//! of the background task that was started last. A turn without calls ends the model's answer; the next turn answers the
//! user's next message. A request for a summary of older turns takes no turn. A conversation that goes on after the last turn is an
//! error, and so is a result that does not fit its expectation.

use std::{path::Path, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream, stream::BoxStream};
use parking_lot::Mutex;
use serde::Deserialize;
use toolway_wire::json::Raw;

use crate::{
    Encoding, Message, Model, ModelError, ModelErrorKind, ModelEvent, ModelRequest, Part, Purpose, RawItems,
    ResultPart, Role, StopReason, ToolCall, ToolResult, Usage, Vendor, raw_json,
};

/// Bytes that a script may have.
const MAX_SCRIPT: u64 = 4 * 1024 * 1024;
/// Longest pause between two words.
const MAX_DELAY: u64 = 1_000;

/// A model that follows a script.
#[derive(Debug)]
pub struct ScriptedModel {
    name: String,
    turns: Arc<[Turn]>,
    /// The next turn. No await under this lock.
    next: Mutex<usize>,
    context_window: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    turns: Vec<Turn>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct Turn {
    expect: Vec<Expectation>,
    heard: Vec<String>,
    reasoning: Option<String>,
    text: Option<String>,
    calls: Vec<ScriptedCall>,
    delay_ms: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expectation {
    contains: Option<String>,
    error: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedCall {
    tool: String,
    #[serde(default = "Raw::empty_object", with = "raw_json::one")]
    arguments: Raw,
}

/// Why a script cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("script `{path}`: {error}")]
    Unreadable {
        /// Path of the script.
        path: String,
        /// Cause reported by the system.
        error: std::io::Error,
    },
    /// The file is larger than a script may be.
    #[error("script `{path}` is larger than {MAX_SCRIPT} bytes")]
    TooLarge {
        /// Path of the script.
        path: String,
    },
    /// The text is not a script.
    #[error("script `{path}`: {error}")]
    Invalid {
        /// Path of the script.
        path: String,
        /// Cause, with line and column.
        error: serde_json::Error,
    },
}

impl ScriptedModel {
    /// Reads a script.
    pub fn read(name: impl Into<String>, path: &Path) -> Result<Self, ScriptError> {
        let shown = path.display().to_string();
        let unreadable = |error| ScriptError::Unreadable { path: shown.clone(), error };
        if std::fs::metadata(path).map_err(unreadable)?.len() > MAX_SCRIPT {
            return Err(ScriptError::TooLarge { path: shown });
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        Self::parse(name, &text).map_err(|error| ScriptError::Invalid { path: shown.clone(), error })
    }

    /// Parses a script.
    pub fn parse(name: impl Into<String>, text: &str) -> Result<Self, serde_json::Error> {
        let script: Script = serde_json::from_str(text)?;
        Ok(Self { name: name.into(), turns: script.turns.into(), next: Mutex::new(0), context_window: None })
    }

    /// The same script, for conversations of at most this many tokens.
    #[must_use]
    pub fn with_context_window(self, context_window: Option<u64>) -> Self {
        Self { context_window, ..self }
    }

    /// The turns of this script that the conversation already has.
    fn taken(&self, request: &ModelRequest) -> usize {
        let is_ours = |raw: &RawItems| raw.vendor == Vendor::Scripted && raw.model == self.name;
        request.messages.iter().filter(|message| message.raw.as_ref().is_some_and(is_ours)).count()
    }

    fn take_turn(&self, request: &ModelRequest) -> Result<(usize, Turn), String> {
        let mut next = self.next.lock();
        // A conversation may go on with another instance of the same script.
        *next = self.taken(request).max(*next);
        let turn = self.turns.get(*next).ok_or_else(|| format!("it has only {} turns", self.turns.len()))?;
        let results = last_results(request);
        for (index, expected) in turn.expect.iter().enumerate() {
            let Some(result) = results.get(index) else {
                return Err(format!("turn {}: result {} is missing", *next + 1, index + 1));
            };
            expected.check(result).map_err(|why| format!("turn {}: result {} {why}", *next + 1, index + 1))?;
        }
        let heard = |text: &&String| last_messages(request).any(|message| message.text().contains(text.as_str()));
        if let Some(missing) = turn.heard.iter().find(|text| !heard(text)) {
            return Err(format!("turn {}: no message contains `{missing}`", *next + 1));
        }
        *next += 1;
        Ok((*next, turn.clone()))
    }
}

impl Model for ScriptedModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn vendor(&self) -> Vendor {
        Vendor::Scripted
    }

    fn context_window(&self) -> Option<u64> {
        self.context_window
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'_, Result<ModelEvent, ModelError>> {
        let sent = ModelEvent::Sent(Encoding::scripted(&self.name).encode(&request));
        if request.purpose == Purpose::Summary {
            return stream::iter(std::iter::once(sent).chain(summary(&self.name)).map(Ok)).boxed();
        }
        let events = match self.take_turn(&request) {
            Ok((number, turn)) => turn.events(number, &self.name, &request),
            Err(why) => vec![Err(ModelError::new(&self.name, ModelErrorKind::Script(why)))],
        };
        let events = std::iter::once(Ok(sent)).chain(events).collect::<Vec<_>>();
        let delay = self.turns.get(self.next.lock().saturating_sub(1)).map_or(0, |turn| turn.delay_ms.min(MAX_DELAY));
        let paused = stream::iter(events).then(move |event| async move {
            if delay > 0 && matches!(event, Ok(ModelEvent::Text(_))) {
                tokio::time::sleep(Duration::from_millis(delay)).await;
            }
            event
        });
        paused.boxed()
    }
}

/// The answer to a request for a summary.
fn summary(model: &str) -> Vec<ModelEvent> {
    let text = "A script has no summary.".to_owned();
    let raw = RawItems { vendor: Vendor::Scripted, model: model.to_owned(), items: Vec::new() };
    let message =
        Message { role: Role::Assistant, parts: vec![Part::Text { text }], raw: Some(raw), task: None, attached: None };
    vec![ModelEvent::Usage(Usage::default()), ModelEvent::End { reason: StopReason::EndTurn, message }]
}

// === impl Turn ===

impl Turn {
    fn events(self, number: usize, model: &str, request: &ModelRequest) -> Vec<Result<ModelEvent, ModelError>> {
        let (mut events, mut parts) = (Vec::new(), Vec::new());
        if let Some(text) = self.reasoning {
            events.push(ModelEvent::Reasoning(text.clone()));
            parts.push(Part::Reasoning { text });
        }
        if let Some(text) = self.text {
            let result = last_results(request).first().map(|result| result_text(result)).unwrap_or_default();
            let text = text.replace("{{result}}", &result);
            events.extend(text.split_inclusive(' ').map(|word| ModelEvent::Text(word.to_owned())));
            parts.push(Part::Text { text });
        }
        let reason = if self.calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolCalls };
        for (index, call) in self.calls.into_iter().enumerate() {
            let arguments = with_task(call.arguments, request);
            let call = ToolCall { id: format!("call-{number}-{index}"), name: call.tool, arguments };
            events.extend([
                ModelEvent::ToolCallStart { index, id: call.id.clone(), name: call.name.clone() },
                ModelEvent::ToolCallArguments { index, delta: call.arguments.to_string() },
                ModelEvent::ToolCallEnd { index },
            ]);
            parts.push(Part::ToolCall(call));
        }
        let raw = RawItems { vendor: Vendor::Scripted, model: model.to_owned(), items: Vec::new() };
        let message = Message { role: Role::Assistant, parts, raw: Some(raw), task: None, attached: None };
        events.extend([ModelEvent::Usage(Usage::default()), ModelEvent::End { reason, message }]);
        events.into_iter().map(Ok).collect()
    }
}

// === impl Expectation ===

impl Expectation {
    fn check(&self, result: &ToolResult) -> Result<(), String> {
        if let Some(expected) = self.error
            && expected != result.is_error
        {
            return Err(if expected {
                "is not an error".to_owned()
            } else {
                format!("is an error: {}", result_text(result))
            });
        }
        match &self.contains {
            Some(text) if !result_text(result).contains(text) => {
                Err(format!("does not contain `{text}`: {}", result_text(result)))
            }
            _ => Ok(()),
        }
    }
}

/// Arguments with the id of the background task that was started last.
fn with_task(arguments: Raw, request: &ModelRequest) -> Raw {
    let text = arguments.to_string();
    if !text.contains("{{task}}") {
        return arguments;
    }
    let results = request.messages.iter().rev().flat_map(|message| &message.parts).filter_map(|part| match part {
        Part::ToolResult(result) => Some(result_text(result)),
        _ => None,
    });
    let id = |text: String| Some(text.strip_prefix("started, id ")?.split_once(';')?.0.to_owned());
    let id = results.filter_map(id).next().unwrap_or_default();
    Raw::parse(text.replace("{{task}}", &id)).unwrap_or(arguments)
}

/// The results after the model's last message.
fn last_results(request: &ModelRequest) -> Vec<&ToolResult> {
    let Some(last) = request.messages.iter().rfind(|message| message.role != Role::User) else { return Vec::new() };
    let results = last.parts.iter().filter_map(|part| match part {
        Part::ToolResult(result) => Some(result),
        _ => None,
    });
    results.collect()
}

/// The messages after the model's last one and its results.
fn last_messages(request: &ModelRequest) -> impl Iterator<Item = &Message> {
    request.messages.iter().rev().take_while(|message| message.role == Role::User)
}

fn result_text(result: &ToolResult) -> String {
    let texts = result.content.iter().map(|part| match part {
        ResultPart::Text { text } => text.as_str(),
        ResultPart::Image(_) => "[image]",
        ResultPart::Audio(_) => "[audio]",
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use futures_util::TryStreamExt;

    use super::*;

    async fn answer(model: &ScriptedModel, messages: &[Message]) -> Result<Message, ModelError> {
        let request = ModelRequest { messages: messages.to_vec(), ..ModelRequest::default() };
        let events: Vec<ModelEvent> = model.stream(request).try_collect().await?;
        let Some(ModelEvent::End { message, .. }) = events.into_iter().last() else { panic!("an end") };
        Ok(message)
    }

    fn result(text: &str, is_error: bool) -> Message {
        let content = vec![ResultPart::Text { text: text.to_owned() }];
        Message::tool_results([ToolResult {
            call_id: "call-1-0".to_owned(),
            name: "read".to_owned(),
            content,
            is_error,
        }])
    }

    const SCRIPT: &str = r#"{"turns": [
        {"text": "Reading.", "calls": [{"tool": "files__read", "arguments": {"path": "a"}}]},
        {"expect": [{"contains": "hello", "error": false}], "text": "It says {{result}}."}
    ]}"#;

    #[tokio::test]
    async fn a_script_calls_a_tool_and_uses_its_result() {
        let model = ScriptedModel::parse("demo", SCRIPT).unwrap();
        let mut messages = vec![Message::user("read it")];
        let first = answer(&model, &messages).await.unwrap();
        let call = first.tool_calls().next().unwrap();
        assert_eq!((call.name.as_str(), &call.arguments), ("files__read", &Raw::parse(r#"{"path": "a"}"#).unwrap()));
        messages.extend([first, result("hello", false)]);
        assert_eq!(answer(&model, &messages).await.unwrap().text(), "It says hello.");
        let error = answer(&model, &messages).await.unwrap_err();
        assert_eq!(error.to_string(), "model `demo`: script: it has only 2 turns");
    }

    #[tokio::test]
    async fn a_conversation_goes_on_with_another_instance_of_the_script() {
        let script = r#"{"turns": [{"text": "One."}, {"text": "Two."}]}"#;
        let model = || ScriptedModel::parse("demo", script).unwrap();
        let mut messages = vec![Message::user("go")];
        messages.push(answer(&model(), &messages).await.unwrap());
        messages.push(Message::user("on"));
        assert_eq!(answer(&model(), &messages).await.unwrap().text(), "Two.");
        assert_eq!(answer(&model(), &[Message::user("anew")]).await.unwrap().text(), "One.");
    }

    #[tokio::test]
    async fn an_unexpected_result_is_an_error() {
        for (given, expected) in [
            (result("bye", false), "turn 2: result 1 does not contain `hello`: bye"),
            (result("hello", true), "turn 2: result 1 is an error: hello"),
            (Message::user("never mind"), "turn 2: result 1 is missing"),
        ] {
            let model = ScriptedModel::parse("demo", SCRIPT).unwrap();
            let first = answer(&model, &[Message::user("read it")]).await.unwrap();
            let error = answer(&model, &[first, given]).await.unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::Script(expected.to_owned()));
        }
    }

    #[test]
    fn an_invalid_script_names_line_and_key() {
        let error = ScriptedModel::parse("demo", "{\"turns\": [\n{\"say\": \"hi\"}]}").unwrap_err().to_string();
        assert!(error.contains("`say`") && error.contains("line 2"), "{error}");
    }
}
