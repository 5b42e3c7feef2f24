//! A conversation: its messages, and the log that keeps them.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use toolway_host::{
    Host,
    conversation::{ConversationHead, ConversationLog, ConversationMessage, ConversationNote},
    policy::SeenUrls,
    record::RecordsError,
};
use toolway_model::{Message, ModelRequest, Part, ResultPart, Role, SentRequest, StopReason, ToolResult};
use uuid::Uuid;

use crate::{
    agent::AgentError,
    assistant::{self, Assistant, StoredAssistant, UnreadableAssistant},
    budget::Stop,
    compaction::{self, Compaction},
    context::Measure,
    event::MadeCall,
    kept_message::{self, Keeping},
    replay::{Asked, RequestLog, RequestToKeep, SummarySource},
    seen,
};

/// Characters of the title.
const TITLE: usize = 80;

/// A conversation with a model.
#[derive(Clone)]
pub struct Conversation {
    id: Arc<str>,
    messages: Vec<Message>,
    log: Option<Arc<dyn ConversationLog>>,
    /// URLs of the user and of results.
    seen: Arc<SeenUrls>,
    keeping: Keeping,
    /// What requests have instead of older messages.
    compaction: Compaction,
    /// What the vendor counted of the last request, and the model's name.
    measured: Option<(String, Measure)>,
    /// The note about its assistant, as it is stored.
    assistant: Option<String>,
    /// Its requests, for a replay.
    requests: RequestLog,
    /// Whether another process has continued it. Nothing of it is stored from then on.
    is_continued: bool,
}

/// Ids of the records of calls, by the ids that the model gave the calls. Stored beside a message with results, and never
/// sent to a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordIds {
    /// The ids; empty for a message without results, and for one stored before ids were kept.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub records: BTreeMap<String, String>,
}

/// A message as it is stored.
#[derive(Serialize)]
struct StoredBody<'a> {
    #[serde(flatten)]
    message: &'a Message,
    #[serde(flatten)]
    records: &'a RecordIds,
}

impl Conversation {
    /// A new conversation. With a log, every message is stored before the next step.
    pub fn new(log: Option<Arc<dyn ConversationLog>>) -> Self {
        let id = Uuid::now_v7().to_string().into();
        Self::of(id, Vec::new(), SeenUrls::default(), log)
    }

    /// A stored conversation. Calls without results, left by a process that ended, get the recorded answer or an error as
    /// result before the next answer.
    pub fn resume(id: &str, messages: Vec<Message>, log: Option<Arc<dyn ConversationLog>>) -> Self {
        let seen = SeenUrls::default();
        (0..messages.len()).for_each(|index| seen::note(&seen, &messages[..index], &messages[index]));
        Self::of(id.into(), messages, seen, log)
    }

    fn of(id: Arc<str>, messages: Vec<Message>, seen: SeenUrls, log: Option<Arc<dyn ConversationLog>>) -> Self {
        let keeping = Keeping::default();
        let compaction = Compaction::default();
        Self {
            id,
            messages,
            log,
            seen: Arc::new(seen),
            keeping,
            compaction,
            measured: None,
            assistant: None,
            requests: RequestLog::default(),
            is_continued: false,
        }
    }

    /// The same conversation with what is kept about it in the store. A note that cannot be read is ignored.
    #[must_use]
    pub fn with_notes(mut self, notes: &[ConversationNote]) -> Self {
        let note = notes.iter().find(|note| note.name == compaction::NOTE);
        let kept = note.and_then(|note| serde_json::from_str::<Compaction>(&note.body).ok());
        // It speaks of messages that may not have been stored.
        let count = self.messages.len();
        if let Some(kept) = kept.filter(|kept| kept.summarised() <= count) {
            self.compaction = kept;
        }
        self.assistant = notes.iter().find(|note| note.name == assistant::NOTE).map(|note| note.body.clone());
        self
    }

    /// The assistant that it is stored with; `None` if it has none.
    pub fn assistant(&self) -> Result<Option<StoredAssistant>, UnreadableAssistant> {
        self.assistant.as_deref().map(StoredAssistant::parse).transpose()
    }

    /// Stores the assistant of the conversation, unless it is stored already.
    pub(crate) async fn store_assistant(&mut self, assistant: &Assistant) {
        let note = assistant.note(|text| self.keeping.text(text));
        if self.assistant.as_ref() == Some(&note.body) {
            return;
        }
        self.assistant = Some(note.body.clone());
        if let Some(log) = &self.log {
            report(log.keep(&self.id, note).await);
        }
    }

    /// The messages of a request: older ones are shortened or summarised.
    pub(crate) fn view(&self) -> Vec<Message> {
        self.compaction.view(&self.messages)
    }

    pub(crate) fn compaction(&self) -> &Compaction {
        &self.compaction
    }

    pub(crate) fn compact_to(&mut self, compaction: Compaction) {
        self.compaction = compaction;
    }

    /// Stores what requests have instead of older messages.
    pub(crate) async fn store_compaction(&self) {
        let Some(log) = &self.log else { return };
        let mut kept = self.compaction.clone();
        if let Some(summary) = &mut kept.summary {
            summary.text = self.keeping.text(&summary.text);
        }
        let body = serde_json::to_string(&kept).unwrap_or_default();
        report(log.keep(&self.id, ConversationNote { name: compaction::NOTE.to_owned(), body }).await);
    }

    /// Keeps a request for an answer, as it was sent, for a replay.
    pub(crate) async fn keep_request(&mut self, request: &ModelRequest, sent: &SentRequest) {
        let Some(log) = &self.log else { return };
        let asked = Asked::Answer(&self.compaction);
        let Self { messages, keeping, requests, .. } = self;
        report(requests.keep(&**log, &self.id, RequestToKeep { request, sent, asked, messages, keeping }).await);
    }

    /// Keeps a request for a summary, as it was sent, for a replay.
    pub(crate) async fn keep_summary_request(
        &mut self,
        request: &ModelRequest,
        sent: &SentRequest,
        source: SummarySource,
    ) {
        let Some(log) = &self.log else { return };
        let asked = Asked::Summary(source);
        let Self { messages, keeping, requests, .. } = self;
        report(requests.keep(&**log, &self.id, RequestToKeep { request, sent, asked, messages, keeping }).await);
    }

    /// Notes what a vendor counted of a request.
    pub(crate) fn measure(&mut self, model: &str, measure: Measure) {
        self.measured = Some((model.to_owned(), measure));
    }

    /// What the vendor of a model counted of the last request.
    pub(crate) fn measure_of(&self, model: &str) -> Option<Measure> {
        self.measured.as_ref().filter(|(name, _)| name == model).map(|(_, measure)| *measure)
    }

    /// UUIDv7 of the conversation.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// URLs that the user and results named so far, for the one who charges what they keep.
    pub fn seen_urls(&self) -> Arc<SeenUrls> {
        Arc::clone(&self.seen)
    }

    /// URLs that the user and results named so far.
    pub(crate) fn seen(&self) -> &Arc<SeenUrls> {
        &self.seen
    }

    /// The messages so far.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Whether results of calls were not kept, because `store.bodies` was `none`; the model gets placeholders.
    pub fn lacks_results(&self) -> bool {
        kept_message::lack_results(&self.messages)
    }

    /// Stores messages from here on as the records of a host are.
    pub(crate) fn keep_as(&mut self, host: &Host) {
        self.keeping = Keeping::of(host);
    }

    /// Stores the title and model of the conversation.
    pub(crate) async fn begin(&self, text: &str, model: &str, surface: &'static str) {
        let Some(log) = self.log.as_ref().filter(|_| self.messages.is_empty()) else { return };
        let title =
            self.keeping.text(text).split_whitespace().collect::<Vec<_>>().join(" ").chars().take(TITLE).collect();
        let head = ConversationHead { id: self.id.to_string(), title, model: model.to_owned(), surface };
        report(log.put(&head).await);
    }

    /// Adds a message and stores it.
    pub(crate) async fn push(&mut self, message: Message) {
        self.push_with(message, &RecordIds::default()).await;
    }

    /// Adds the results of calls and stores them with the ids of their records.
    pub(crate) async fn push_results(&mut self, made: &[MadeCall], results: Vec<ToolResult>) {
        let ids = made.iter().zip(&results);
        let ids = ids.filter_map(|(made, result)| Some((result.call_id.clone(), made.call_id.clone()?)));
        let records = RecordIds { records: ids.collect() };
        self.push_with(Message::tool_results(results), &records).await;
    }

    async fn push_with(&mut self, message: Message, records: &RecordIds) {
        seen::note(&self.seen, &self.messages, &message);
        let seq = self.messages.len();
        let stored = self.log.as_ref().map(|log| {
            let kept = self.keeping.message(&message);
            log.append(&self.id, stored(seq, &kept, records))
        });
        self.messages.push(message);
        let Some(stored) = stored else { return };
        match stored.await {
            // What follows would stand behind messages of the other process.
            Err(RecordsError::Continued) => {
                self.is_continued = true;
                self.log = None;
            }
            stored => report(stored),
        }
    }

    /// Fails if another process has continued the conversation: its messages are not those that are stored.
    pub(crate) fn check_own(&self) -> Result<(), AgentError> {
        if self.is_continued { Err(AgentError::Continued) } else { Ok(()) }
    }

    /// Adds a message of the model. If it was interrupted, or refused, its calls are left out and never made; the error
    /// says why the answer ends.
    pub(crate) async fn push_reply(
        &mut self,
        message: Message,
        end: Result<StopReason, Stop>,
    ) -> Result<StopReason, Stop> {
        let end = match end {
            Ok(StopReason::Refused) if message.tool_calls().next().is_some() => Err(Stop::Refused),
            end => end,
        };
        match &end {
            Ok(_) => self.push(message).await,
            Err(_) => self.push_partial(message).await,
        }
        end
    }

    /// Adds what the model said before it was interrupted, if anything.
    pub(crate) async fn push_partial(&mut self, message: Message) {
        let parts = without_calls(message.parts);
        if !parts.is_empty() {
            self.push(Message { parts, raw: None, ..message }).await;
        }
    }
}

fn without_calls(parts: Vec<Part>) -> Vec<Part> {
    parts.into_iter().filter(|part| !matches!(part, Part::ToolCall(_))).collect()
}

fn stored(seq: usize, message: &Message, records: &RecordIds) -> ConversationMessage {
    let role = match message.role {
        Role::User if message.attached.is_some() => "attachment",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let body = serde_json::to_string(&StoredBody { message, records }).unwrap_or_default();
    ConversationMessage { seq, role, text: plain_text(message), body }
}

/// The text of a message with its calls and results, for search.
fn plain_text(message: &Message) -> String {
    let texts = message.parts.iter().map(|part| match part {
        Part::Text { text } => text.clone(),
        Part::ToolCall(call) => format!("{} {}", call.name, call.arguments),
        Part::ToolResult(result) => result
            .content
            .iter()
            .map(|part| match part {
                ResultPart::Text { text } => text.as_str(),
                ResultPart::Image(_) => "[image]",
                ResultPart::Audio(_) => "[audio]",
            })
            .collect::<Vec<_>>()
            .join("\n"),
        Part::Image(_) => "[image]".to_owned(),
        Part::Audio(_) => "[audio]".to_owned(),
        Part::Reasoning { .. } => String::new(),
    });
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

fn report(result: Result<(), RecordsError>) {
    if let Err(error) = result {
        tracing::error!(%error, "cannot store the conversation");
    }
}

impl std::fmt::Debug for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conversation").field("id", &self.id).field("messages", &self.messages.len()).finish()
    }
}
