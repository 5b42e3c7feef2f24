//! `/api/v1/chat`: one message of the user; the turn streams as events.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use toolway_agent::{AgentOptions, Budget, model::Message};
use toolway_config::PolicyMode;
use toolway_host::policy::Surface;
use uuid::Uuid;

use super::{Answered, blocking, calls::records, done};
use crate::{
    backend::AgentSettings,
    console::Console,
    error::ApiError,
    reply,
    turns::{Resumed, TurnSettings},
};

/// A message of the user.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Said {
    conversation: Option<String>,
    text: String,
    model: Option<String>,
    mode: Option<String>,
}

/// How a turn that the end of a task begins is answered.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HowToGoOn {
    model: Option<String>,
    mode: Option<String>,
}

pub(super) async fn start(console: &Console, said: Said) -> Answered {
    if said.text.trim().is_empty() {
        return Err(ApiError::bad_request("the message is empty"));
    }
    let mode = policy_mode(said.mode.as_deref())?;
    let id = said.conversation.as_deref().filter(|id| !id.is_empty());
    let id: Option<Uuid> = id.map(|id| id.parse().map_err(|_| ApiError::unknown_conversation())).transpose()?;
    let (reserved, conversation) = match id {
        Some(id) => {
            let reserved = console.turns.reserve(&id.to_string())?;
            let loaded = console.turns.load(id).await?;
            (reserved, loaded.ok_or_else(ApiError::unknown_conversation)?)
        }
        None => {
            records(console)?;
            let conversation = console.turns.new_conversation();
            (console.turns.reserve(conversation.id())?, conversation)
        }
    };
    let settings = settings(console, said.model, mode).await?;
    let id = Arc::clone(conversation.id());
    console.turns.start(reserved, conversation, vec![Message::user(said.text)], settings)?;
    reply::json(&json!({ "conversation": &*id }))
}

/// Takes up the background tasks of a conversation that a page has opened.
pub(super) async fn resume(console: &Console, id: &str, how: HowToGoOn) -> Answered {
    let id: Uuid = id.parse().map_err(|_| ApiError::unknown_conversation())?;
    let mode = policy_mode(how.mode.as_deref())?;
    let settings = settings(console, how.model, mode).await?;
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

/// The model of this name, or the default one, with the configured options.
async fn settings(
    console: &Console,
    model: Option<String>,
    mode: Option<PolicyMode>,
) -> Result<TurnSettings, ApiError> {
    let backend = Arc::clone(&console.backend);
    let read = move || {
        let model = backend.model(model.as_deref().filter(|name| !name.is_empty()));
        model.map(|model| TurnSettings { model, options: options(backend.settings().agent, mode) })
    };
    Ok(blocking(read).await??)
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
        context: settings.context,
    }
}
