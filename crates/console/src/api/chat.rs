//! `/api/v1/chat`: one message of the user; the turn streams as events.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::json;
use toolway_agent::{AgentOptions, Budget, Conversation, model::Message};
use toolway_config::PolicyMode;
use toolway_host::policy::Surface;
use uuid::Uuid;

use super::{Answered, blocking, calls::records, conversations::unknown, done};
use crate::{backend::AgentSettings, console::Console, error::ApiError, reply, turns::NotStarted};

/// A message of the user.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Said {
    conversation: Option<String>,
    text: String,
    model: Option<String>,
    mode: Option<String>,
}

pub(super) async fn start(console: &Console, said: Said) -> Answered {
    if said.text.trim().is_empty() {
        return Err(ApiError::bad_request("the message is empty"));
    }
    let mode = said.mode.as_deref().filter(|mode| !mode.is_empty()).map(|mode| {
        let unknown = || ApiError::bad_request("`mode` must be `ask`, `writes` or `allow`");
        PolicyMode::parse(mode).ok_or_else(unknown)
    });
    let mode = mode.transpose()?;
    let (backend, name) = (Arc::clone(&console.backend), said.model.clone());
    let (model, settings) =
        blocking(move || (backend.model(name.as_deref().filter(|name| !name.is_empty())), backend.settings())).await?;
    let (reserved, conversation) = match said.conversation.as_deref().filter(|id| !id.is_empty()) {
        Some(id) => {
            let id: Uuid = id.parse().map_err(|_| unknown())?;
            let reserved = console.turns.reserve(&id.to_string()).map_err(refused)?;
            (reserved, resume(console, id).await?)
        }
        None => {
            records(console)?;
            let conversation = Conversation::new(console.turns.log.clone());
            (console.turns.reserve(conversation.id()).map_err(refused)?, conversation)
        }
    };
    let id = Arc::clone(conversation.id());
    let options = options(settings.agent, mode);
    console.turns.start(reserved, conversation, said.text, model?, options).map_err(refused)?;
    reply::json(&json!({ "conversation": &*id }))
}

pub(super) fn cancel(console: &Console, id: &str) -> Answered {
    if console.turns.cancel(id) {
        return done();
    }
    Err(ApiError::conflict("no answer of the model is in progress in this conversation"))
}

/// A stored conversation with its messages.
async fn resume(console: &Console, id: Uuid) -> Result<Conversation, ApiError> {
    let records = records(console)?;
    records.conversation(id).await?.ok_or_else(unknown)?;
    let messages = records.messages(id).await?;
    let messages: Result<Vec<Message>, _> =
        messages.iter().map(|message| serde_json::from_str(&message.body)).collect();
    let messages = messages.map_err(|error| ApiError::internal(format!("a stored message cannot be read: {error}")))?;
    Ok(Conversation::resume(&id.to_string(), messages, console.turns.log.clone()))
}

fn options(settings: AgentSettings, mode: Option<PolicyMode>) -> AgentOptions {
    AgentOptions {
        surface: Surface::Console,
        system: settings.system,
        servers: None,
        budget: Budget::default(),
        max_output: None,
        resources: settings.resources,
        prompts: settings.prompts,
        answer_schema: None,
        mode,
    }
}

fn refused(why: NotStarted) -> ApiError {
    match why {
        NotStarted::Busy => ApiError::conflict("the model is still answering in this conversation")
            .hint("wait for the answer, or cancel it"),
        NotStarted::TooMany => {
            ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many_turns", "too many conversations are running")
        }
        NotStarted::Stopping => {
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "the console is shutting down")
        }
        NotStarted::OverBudget(error) => super::over_budget(error),
    }
}
