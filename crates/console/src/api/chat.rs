//! `/api/v1/chat`: one message of the user; the turn streams as events. `attachments.rs` has what is attached to it.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use toolway_agent::{AgentOptions, Assistant, Budget, StoredAssistant, UnreadableAssistant, model::Role};
use toolway_config::PolicyMode;
use toolway_host::policy::Surface;
use uuid::Uuid;

use super::{Answered, Query, attachments, blocking, calls::records, done};
use crate::{
    backend::{AgentSettings, ConsoleBackend, Problem},
    console::Console,
    error::ApiError,
    reply,
    turns::{ConversationUsage, Resumed, TurnSettings, UserMessage},
    view::conversation,
};

/// A message of the user.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Said {
    conversation: Option<String>,
    text: String,
    /// Ids of what is attached.
    #[serde(default)]
    attachments: Vec<Uuid>,
    /// Where the conversation branches off another one.
    branch: Option<Branch>,
    /// Whether the message waits if the model is still answering.
    #[serde(default)]
    queue: bool,
    assistant: Option<String>,
    model: Option<String>,
    mode: Option<String>,
}

/// The beginning of a branch: the messages of a conversation before one of the user.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Branch {
    conversation: Uuid,
    before: i64,
}

/// How a turn without a message is answered.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HowToGoOn {
    pub(super) model: Option<String>,
    pub(super) mode: Option<String>,
}

/// What becomes of messages that wait.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueChange {
    /// The message that is taken back; `None`: those that wait for the user are sent.
    remove: Option<Uuid>,
}

pub(super) async fn start(console: &Console, said: Said) -> Answered {
    if said.text.trim().is_empty() {
        return Err(ApiError::bad_request("the message is empty"));
    }
    let mode = policy_mode(said.mode.as_deref())?;
    let id = said.conversation.as_deref().filter(|id| !id.is_empty());
    let id: Option<Uuid> = id.map(parse_id).transpose()?;
    let attachments = match id {
        Some(id) => console.drafts.find(id, &said.attachments)?,
        None => Vec::new(),
    };
    let message = UserMessage { text: said.text, attachments };
    let mut how = TurnChoice { model: said.model, mode, assistant: said.assistant, stored: None };
    let is_new = id.is_none_or(|id| console.drafts.is_new(id));
    if let Some(id) = id.filter(|id| said.queue && !is_new && console.turns.must_wait(&id.to_string())) {
        how.stored = stored_assistant(console, id).await?;
        let Chosen { settings, .. } = settings(console, how).await?;
        check(console, &settings, &message)?;
        let queued = console.turns.enqueue(&id.to_string(), message, settings)?;
        console.drafts.sent(id, &said.attachments);
        return reply::json(&json!({ "conversation": id.to_string(), "queued": queued.to_string() }));
    }
    let id = id.unwrap_or_else(Uuid::now_v7);
    let reserved = console.turns.reserve(&id.to_string())?;
    let conversation = match said.branch {
        Some(branch) if is_new => console.turns.branch(id, branch.conversation, branch.before).await?,
        Some(_) => return Err(ApiError::bad_request("a branch is a new conversation")),
        None if is_new => {
            records(console)?;
            console.turns.new_conversation(id)
        }
        None => console.turns.load(id).await?.ok_or_else(ApiError::unknown_conversation)?,
    };
    how.stored = conversation.assistant().map_err(|error| unreadable(&error))?;
    let Chosen { settings, changes } = settings(console, how).await?;
    check(console, &settings, &message)?;
    let assistant = settings.options.assistant.as_ref().map(|assistant| assistant.name().to_string());
    console.turns.start(reserved, conversation, Some(message), settings)?;
    console.drafts.sent(id, &said.attachments);
    reply::json(&json!({ "conversation": id.to_string(), "assistant": assistant, "assistantChanges": changes }))
}

/// Checks that the model takes what is attached.
fn check(console: &Console, settings: &TurnSettings, message: &UserMessage) -> Result<(), ApiError> {
    console.turns.check(settings, &message.attachments).map_err(|error| attachments::refused(&error))
}

/// Asks the model again after a turn that failed. Nothing that was answered is asked again, and no call is made again.
pub(super) async fn retry(console: &Console, id: &str, how: HowToGoOn) -> Answered {
    let id = parse_id(id)?;
    let reserved = console.turns.reserve(&id.to_string())?;
    let conversation = console.turns.load(id).await?.ok_or_else(ApiError::unknown_conversation)?;
    if conversation.messages().last().is_none_or(|last| last.role == Role::Assistant) {
        let error = ApiError::conflict("the model has answered already");
        return Err(error.hint("retry the message instead"));
    }
    let stored = conversation.assistant().map_err(|error| unreadable(&error))?;
    let mode = policy_mode(how.mode.as_deref())?;
    let how = TurnChoice { model: how.model, mode, assistant: None, stored };
    let Chosen { settings, .. } = settings(console, how).await?;
    console.turns.start(reserved, conversation, None, settings)?;
    done()
}

/// Takes back a message that waits, with what is attached to it; or sends those that wait for the user.
pub(super) fn queue(console: &Console, id: &str, change: &QueueChange) -> Answered {
    let id = parse_id(id)?;
    let gone = || ApiError::conflict("the message does not wait any more");
    let Some(queued) = change.remove else {
        return if console.turns.release(&id.to_string()) { done() } else { Err(gone()) };
    };
    let UserMessage { text, attachments } = console.turns.take_back(&id.to_string(), queued).ok_or_else(gone)?;
    let attachments = attachments.into_iter().map(|attachment| console.drafts.add(id, attachment));
    reply::json(&json!({ "text": text, "attachments": attachments.collect::<Result<Vec<_>, _>>()? }))
}

/// How full the context window of a model is with a conversation, as it would be asked now.
pub(super) async fn context(console: &Console, id: &str, query: &Query) -> Answered {
    let id = parse_id(id)?;
    let records = records(console)?;
    let notes = records.conversation_notes(id).await?;
    let stored = stored_assistant(console, id).await?;
    let how = TurnChoice { model: query.get("model"), mode: None, assistant: None, stored };
    let Chosen { settings, .. } = settings(console, how).await?;
    let conversation = console.turns.read(id).await?.ok_or_else(ApiError::unknown_conversation)?;
    let used = ConversationUsage::of_notes(&notes);
    reply::json(&conversation::context(&console.turns.meter(&settings, &conversation), used))
}

async fn stored_assistant(console: &Console, id: Uuid) -> Result<Option<StoredAssistant>, ApiError> {
    let notes = records(console)?.conversation_notes(id).await?;
    StoredAssistant::of_notes(&notes).map_err(|error| unreadable(&error))
}

/// The settings of a turn that reads what a user attaches, for a conversation.
pub(super) async fn reading(console: &Console, id: Uuid, how: HowToGoOn) -> Result<TurnSettings, ApiError> {
    let stored = stored_assistant(console, id).await?;
    let mode = policy_mode(how.mode.as_deref())?;
    let how = TurnChoice { model: how.model, mode, assistant: None, stored };
    Ok(settings(console, how).await?.settings)
}

pub(super) fn parse_id(id: &str) -> Result<Uuid, ApiError> {
    id.parse().map_err(|_| ApiError::unknown_conversation())
}

/// Takes up the background tasks of a conversation that a page has opened.
pub(super) async fn resume(console: &Console, id: &str, how: HowToGoOn) -> Answered {
    let id = parse_id(id)?;
    let mode = policy_mode(how.mode.as_deref())?;
    let stored = stored_assistant(console, id).await?;
    let how = TurnChoice { model: how.model, mode, assistant: None, stored };
    let Chosen { settings, .. } = settings(console, how).await?;
    let reserved = console.turns.reserve(&id.to_string())?;
    let resumed = console.turns.resume(reserved, settings).await?;
    reply::json(&json!({ "running": resumed == Resumed::Told }))
}

pub(super) fn cancel(console: &Console, id: &str) -> Answered {
    if console.turns.cancel(id) {
        return done();
    }
    Err(ApiError::conflict("no answer of the model is in progress in this conversation"))
}

fn policy_mode(word: Option<&str>) -> Result<Option<PolicyMode>, ApiError> {
    let mode = word.filter(|mode| !mode.is_empty()).map(|mode| {
        let unknown = || ApiError::bad_request("`mode` must be `ask`, `writes` or `allow`");
        PolicyMode::parse(mode).ok_or_else(unknown)
    });
    mode.transpose()
}

fn unreadable(error: &UnreadableAssistant) -> ApiError {
    ApiError::conflict(error.to_string()).hint("name an assistant for it")
}

/// What a page chooses for a turn, and what the conversation is stored with.
struct TurnChoice {
    model: Option<String>,
    mode: Option<PolicyMode>,
    assistant: Option<String>,
    stored: Option<StoredAssistant>,
}

/// The settings of a turn, and what has changed of its assistant since the conversation began.
struct Chosen {
    settings: TurnSettings,
    changes: Option<String>,
}

/// The model of this name, or that of the assistant, or the default one, with the configured options.
async fn settings(console: &Console, choice: TurnChoice) -> Result<Chosen, ApiError> {
    let backend = Arc::clone(&console.backend);
    Ok(blocking(move || choice.read(&*backend)).await??)
}

impl TurnChoice {
    fn read(&self, backend: &dyn ConsoleBackend) -> Result<Chosen, Problem> {
        let mut changes = None;
        let assistant = match (self.assistant.as_deref().filter(|name| !name.is_empty()), &self.stored) {
            (Some(name), _) => Some(Assistant::new(name, &backend.assistant(name)?)),
            (None, Some(stored)) => {
                let configured = backend.assistant(&stored.name).ok();
                changes = stored.changes(configured.as_ref());
                Some(Assistant::resumed(stored, configured.as_ref()))
            }
            (None, None) => None,
        };
        let own = assistant.as_ref().and_then(|assistant| assistant.values().model.as_deref());
        let model = backend.model(self.model.as_deref().filter(|name| !name.is_empty()).or(own))?;
        let options = options(backend.settings().agent, self.mode, assistant);
        Ok(Chosen { settings: TurnSettings { model, options }, changes })
    }
}

fn options(settings: AgentSettings, mode: Option<PolicyMode>, assistant: Option<Assistant>) -> AgentOptions {
    let system = assistant.as_ref().and_then(|assistant| assistant.values().system.clone());
    let servers = assistant.as_ref().and_then(|assistant| assistant.servers().cloned());
    let budget = Budget::default();
    let budget = assistant.as_ref().map_or(budget, |assistant| assistant.budget(budget));
    AgentOptions {
        surface: Surface::Console,
        system: system.unwrap_or(settings.system),
        servers,
        budget,
        max_output: None,
        resources: settings.resources,
        prompts: settings.prompts,
        answer_schema: None,
        mode,
        context: settings.context,
        reading: settings.reading,
        assistant,
    }
}
