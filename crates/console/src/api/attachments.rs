//! `/api/v1/chat/ID/upload`, `attach` and `detach`: what a user attaches to the next message of a conversation.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolway_agent::{AttachError, Attachment};
use toolway_host::{
    call::{CallOutcome, CallRequest, Caller, Target},
    catalog::Origin,
    policy::Surface,
};
use toolway_wire::json::Raw;
use uuid::Uuid;

use super::{
    Answered, Query,
    chat::{self, HowToGoOn, parse_id},
    done, servers,
};
use crate::{console::Console, error::ApiError, reply};

/// Characters of the name of a file.
const MAX_NAME: usize = 200;

/// A resource or a prompt of a server.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Offered {
    server: String,
    /// URI of a resource.
    uri: Option<String>,
    /// Name of a prompt at its server.
    prompt: Option<String>,
    /// Arguments of the prompt.
    arguments: Option<Map<String, Value>>,
    model: Option<String>,
    mode: Option<String>,
}

/// What is taken away.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TakenAway {
    id: Uuid,
}

/// The id of a conversation that begins with a message with attachments.
pub(super) fn begin(console: &Console) -> Answered {
    super::calls::records(console)?;
    reply::json(&json!({ "conversation": console.drafts.begin().to_string() }))
}

/// A file of the browser; the body is its bytes.
pub(super) async fn upload(console: &Console, id: &str, query: &Query, body: Bytes) -> Answered {
    let id = known(console, id).await?;
    let name: String = query.get("name").unwrap_or_else(|| "file".to_owned()).chars().take(MAX_NAME).collect();
    let attachment = Attachment::of_bytes(name, body.to_vec()).map_err(|error| refused(&error))?;
    reply::json(&console.drafts.add(id, attachment)?)
}

/// Reads a resource as the model would, or gets a prompt for the user, on the path of a call.
pub(super) async fn attach(console: &Console, id: &str, offered: Offered) -> Answered {
    let id = known(console, id).await?;
    let Offered { server, uri, prompt, arguments, model, mode } = offered;
    let server = servers::find(console, &server)?;
    let settings = chat::reading(console, id, HowToGoOn { model, mode }).await?;
    let agent = console.turns.agent(&settings);
    let conversation = console.turns.new_conversation(id);
    let attachment = match (uri, prompt) {
        (Some(uri), None) => {
            agent.attach_resource(&conversation, &format!("{server}.{uri}")).await.map_err(|error| refused(&error))?
        }
        (None, Some(raw_name)) => {
            let origin = Origin { server, raw_name };
            let request = CallRequest {
                surface: Surface::Console,
                arguments: Some(Raw::of(&Value::Object(arguments.unwrap_or_default()))),
                conversation: Some(conversation.id().clone()),
                // Choosing it is consent, as for a prompt that is previewed.
                ..CallRequest::new(Caller::Console, Target::PromptOf(origin.clone()))
            };
            let CallOutcome::Answered(result) = &console.host.call(request).await else {
                return Err(ApiError::conflict(format!("the prompt `{}` was not got", origin.raw_name)));
            };
            agent.attach_prompt(origin, result)
        }
        _ => return Err(ApiError::bad_request("name either the `uri` of a resource or a `prompt`")),
    };
    reply::json(&console.drafts.add(id, attachment)?)
}

pub(super) fn detach(console: &Console, id: &str, taken: &TakenAway) -> Answered {
    console.drafts.remove(parse_id(id)?, taken.id);
    done()
}

/// Why something is not attached.
pub(super) fn refused(error: &AttachError) -> ApiError {
    match error {
        AttachError::NotRead { outcome, .. } => ApiError::of_outcome(outcome),
        _ => ApiError::new(http::StatusCode::UNPROCESSABLE_ENTITY, "invalid", error.to_string()),
    }
}

/// A conversation that is stored, or that begins with this message.
async fn known(console: &Console, id: &str) -> Result<Uuid, ApiError> {
    let id = parse_id(id)?;
    if console.drafts.is_new(id) || super::calls::records(console)?.conversation(id).await?.is_some() {
        return Ok(id);
    }
    Err(ApiError::unknown_conversation())
}
