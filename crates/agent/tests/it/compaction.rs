//! A conversation is kept within the context window of its model.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::{StreamExt, stream, stream::BoxStream};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use toolway_agent::{Agent, AgentEvent, Budget, Compacted, ContextPart, Conversation, Stop};
use toolway_host::policy::{ApprovalAnswer, ApprovalTerm};
use toolway_model::{
    Message, Model, ModelError, ModelErrorKind, ModelEvent, ModelRequest, Part, Purpose, RawItems, Role, StopReason,
    ToolCall, Usage, Vendor,
};
use toolway_wire::json::Raw;

use crate::{files_host, options};

const WINDOW: u64 = 4_000;

/// A model that calls a tool in every turn, and refuses what exceeds its window.
#[derive(Debug)]
struct Parrot {
    vendor: Vendor,
    window: Option<u64>,
    requests: Mutex<Vec<ModelRequest>>,
    /// Whether it fails when it is asked for a summary.
    is_mute: AtomicBool,
}

impl Parrot {
    fn new(vendor: Vendor) -> Arc<Self> {
        Self::with_window(vendor, Some(WINDOW))
    }

    fn with_window(vendor: Vendor, window: Option<u64>) -> Arc<Self> {
        Arc::new(Self { vendor, window, requests: Mutex::default(), is_mute: AtomicBool::new(false) })
    }

    fn reply(&self, request: &ModelRequest) -> Result<Message, ModelErrorKind> {
        if size(request) > WINDOW {
            return Err(ModelErrorKind::ContextExceeded);
        }
        let raw = Some(RawItems { vendor: self.vendor, model: self.name().to_owned(), items: Vec::new() });
        let message = |part| Ok(Message { role: Role::Assistant, parts: vec![part], raw, task: None, attached: None });
        let text = |text: String| Part::Text { text };
        if request.purpose == Purpose::Summary {
            if self.is_mute.load(Ordering::Relaxed) {
                return Err(ModelErrorKind::RateLimited);
            }
            let asked = request.messages[0].text();
            let before = asked.split("Conversation:").next().unwrap_or_default().contains("It began with 0");
            let is_first = before || asked.contains("message 0 ");
            return message(text(if is_first { "It began with 0." } else { "The beginning is lost." }.to_owned()));
        }
        let last = request.messages.last().unwrap();
        match last.role {
            Role::User => {
                let arguments = Raw::of(&serde_json::json!({ "path": last.text(), "filler": "x".repeat(600) }));
                let id = format!("call-{}", self.requests.lock().len());
                message(Part::ToolCall(ToolCall { id, name: "files__read".to_owned(), arguments }))
            }
            _ => message(text(format!("done, {} bytes", "y".repeat(100).len()))),
        }
    }
}

impl Model for Parrot {
    fn name(&self) -> &str {
        self.vendor.as_str()
    }

    fn vendor(&self) -> Vendor {
        self.vendor
    }

    fn context_window(&self) -> Option<u64> {
        self.window
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'_, Result<ModelEvent, ModelError>> {
        let usage = Usage { input_tokens: size(&request), output_tokens: 20, ..Usage::default() };
        let reply = self.reply(&request);
        self.requests.lock().push(request);
        let events = match reply {
            Err(kind) => vec![Err(ModelError::new(self.name(), kind))],
            Ok(message) => {
                let calls = message.tool_calls().next().is_some();
                let reason = if calls { StopReason::ToolCalls } else { StopReason::EndTurn };
                vec![Ok(ModelEvent::Usage(usage)), Ok(ModelEvent::End { reason, message })]
            }
        };
        stream::iter(events).boxed()
    }
}

/// Tokens of a request, as this vendor counts them.
fn size(request: &ModelRequest) -> u64 {
    let messages = serde_json::to_string(&request.messages).unwrap().len();
    let tools: usize = request.tools.iter().map(|tool| tool.input_schema.to_string().len() + tool.name.len()).sum();
    ((messages + tools + request.system.len()) / 4) as u64
}

/// A conversation with what happened in it.
struct Talk {
    agent: Agent,
    conversation: Conversation,
    compacted: Vec<Compacted>,
}

impl Talk {
    async fn say(&mut self, text: String) -> Stop {
        let compacted = Mutex::new(Vec::new());
        let mut observe = |event: AgentEvent| {
            if let AgentEvent::Compacted(event) = event {
                compacted.lock().push(event);
            }
        };
        let (said, cancel) = (vec![Message::user(text)], CancellationToken::new());
        let answer = self.agent.answer(&mut self.conversation, said, &cancel, &mut observe).await.unwrap();
        self.compacted.extend(compacted.into_inner());
        answer.stop
    }

    async fn talk(&mut self, turns: std::ops::Range<usize>) {
        for turn in turns {
            assert_eq!(self.say(format!("message {turn} of the user")).await, Stop::Done, "turn {turn}");
        }
    }
}

async fn talk(model: &Arc<Parrot>) -> Talk {
    let answer = ApprovalAnswer::approved_for(ApprovalTerm::Conversation, "test");
    let host = files_host(Some(answer)).await;
    let agent = Agent::new(host.host.clone(), Arc::<Parrot>::clone(model), options());
    Talk { agent, conversation: Conversation::new(None), compacted: Vec::new() }
}

/// Every result follows its call, and no call is without a result; the first message is the user's.
fn check(request: &ModelRequest) {
    assert_eq!(request.messages[0].role, Role::User);
    let mut open: Vec<String> = Vec::new();
    for message in &request.messages {
        if message.role != Role::Tool {
            assert!(open.is_empty(), "a call without a result: {open:?}");
        }
        open.extend(message.tool_calls().map(|call| call.id.clone()));
        for part in &message.parts {
            let Part::ToolResult(result) = part else { continue };
            assert!(open.contains(&result.call_id), "a result without its call: {}", result.call_id);
            open.retain(|id| *id != result.call_id);
        }
    }
}

#[tokio::test]
async fn two_hundred_turns_fit_into_four_thousand_tokens_through_a_change_of_vendor() {
    let first = Parrot::new(Vendor::Anthropic);
    let second = Parrot::new(Vendor::Gemini);
    let mut talk = talk(&first).await;
    talk.talk(0..120).await;
    talk.agent = talk.agent.with_model(Arc::<Parrot>::clone(&second));
    talk.talk(120..200).await;
    let requests: Vec<ModelRequest> = first.requests.lock().iter().chain(&*second.requests.lock()).cloned().collect();
    let largest = requests.iter().map(size).max().unwrap();
    assert!(largest <= WINDOW, "{largest}");
    requests.iter().filter(|request| request.purpose == Purpose::Answer).for_each(check);
    let summaries = requests.iter().filter(|request| request.purpose == Purpose::Summary).count();
    assert!((10..100).contains(&summaries), "{summaries} summaries");
    let last = requests.last().unwrap();
    let texts: Vec<String> = last.messages.iter().map(Message::text).collect();
    assert!(texts[0].contains("It began with 0."), "the summary keeps what earlier ones had: {}", texts[0]);
    for turn in 196..200 {
        assert!(texts.contains(&format!("message {turn} of the user")), "turn {turn} is kept");
    }
    // Originals stay: a question, a call, a result and an answer for each turn.
    assert_eq!(talk.conversation.messages().len(), 800);
    let meter = talk.agent.context(&talk.conversation);
    assert!(meter.parts.iter().any(|part| part.part == ContextPart::Summary) && meter.share() <= 1.0, "{meter:?}");
}

#[tokio::test]
async fn a_refusal_for_length_compacts_and_repeats_once() {
    // The window is not configured, so that only the vendor knows it.
    let model = Parrot::with_window(Vendor::Openai, None);
    let mut talk = talk(&model).await;
    talk.talk(0..30).await;
    assert!(!talk.compacted.is_empty());
    let refused = model.requests.lock().iter().filter(|request| size(request) > WINDOW).count();
    assert!(refused >= 1 && refused <= talk.compacted.len(), "{refused}");
    // What cannot be shortened is refused for good.
    let (said, cancel) = (vec![Message::user("z".repeat(40_000))], CancellationToken::new());
    let asked = model.requests.lock().len();
    let error = talk.agent.answer(&mut talk.conversation, said, &cancel, &mut |_| {}).await.unwrap_err();
    assert!(error.to_string().contains("context window"), "{error}");
    let answers = |request: &&ModelRequest| request.purpose == Purpose::Answer;
    assert!(model.requests.lock()[asked..].iter().filter(answers).count() <= 2);
}

#[tokio::test]
async fn long_results_of_one_turn_are_shortened_and_the_last_ones_stay() {
    let model = Parrot::new(Vendor::Openai);
    let mut talk = talk(&model).await;
    talk.talk(0..3).await;
    let meter = talk.agent.context(&talk.conversation);
    assert!(meter.used > 0 && meter.window == WINDOW, "{meter:?}");
    talk.say("w".repeat(2_000)).await;
    assert_eq!(talk.compacted[0].summarised, 0, "the last four turns are not summarised");
    let requests = model.requests.lock();
    let results: Vec<usize> = requests
        .last()
        .unwrap()
        .messages
        .iter()
        .filter_map(|message| match &message.parts[0] {
            Part::ToolResult(result) => Some(serde_json::to_string(result).unwrap().len()),
            _ => None,
        })
        .collect();
    assert!(results[0] < 600 && results.last().unwrap() > &600, "{results:?}");
}

#[tokio::test]
async fn a_summary_that_fails_or_exceeds_the_budget_does_not_end_the_conversation() {
    let model = Parrot::new(Vendor::Openai);
    model.is_mute.store(true, Ordering::Relaxed);
    let mut talk = talk(&model).await;
    talk.talk(0..8).await;
    assert!(talk.compacted.iter().all(|compacted| compacted.summarised == 0));
    model.is_mute.store(false, Ordering::Relaxed);
    let cancel = CancellationToken::new();
    let none = talk.agent.with_budget(Budget { turns: 0, ..Budget::default() });
    assert_eq!(none.compact(&mut talk.conversation, &cancel, &mut |_| {}).await.unwrap(), None);
    let compacted = talk.agent.compact(&mut talk.conversation, &cancel, &mut |_| {}).await.unwrap().unwrap();
    assert_eq!(compacted.summarised, 16, "four of eight turns, four messages each");
    assert!(compacted.after < compacted.before);
}
