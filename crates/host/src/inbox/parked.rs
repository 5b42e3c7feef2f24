//! Forms and URLs in calls that another process holds: a command without a user leaves them to the inbox of a running gateway.
//!
//! Approval requests and sampling requests are never parked: they are answered to the process that holds the call.

use std::sync::Arc;

use futures_util::future::pending;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolway_config::ServerName;
use toolway_wire::{json::Raw, message::splice};
use uuid::Uuid;

use super::{ElicitationAnswer, Inbox, InboxAnswer, InboxContent, InboxItem, ItemOrigin};
use crate::{
    call::{CallId, Caller},
    policy::Surface,
};

/// A form or URL on its way to the inbox of another process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ParkedRequest {
    /// UUIDv7 of the item, the same in both processes.
    pub id: String,
    /// Server that asks.
    pub server: String,
    /// Surface of the call: `call`, `run` or `chat`.
    pub surface: String,
    /// The call it belongs to.
    pub call: Option<String>,
    /// Conversation of the call.
    pub conversation: Option<String>,
    /// Params of the elicitation, as JSON.
    pub params: String,
}

/// The answer to a parked request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase", deny_unknown_fields)]
pub enum ParkedAnswer {
    /// The user gave these values, or agreed to open the URL.
    Accept {
        /// Values by field.
        content: Map<String, Value>,
    },
    /// The user agreed to open the URL, and it was opened.
    Opened {},
    /// The user said no.
    Decline {},
    /// The user closed it, or no user answered in time.
    Cancel {},
}

/// Why a request was not parked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParkError {
    /// It is not a form or URL of a command.
    #[error("the request cannot wait in the inbox: {0}")]
    Invalid(String),
    /// The inbox has no room for it.
    #[error("too many items wait in the inbox of the gateway")]
    Full,
}

impl ParkedRequest {
    /// The form or URL of an item; `None` for other items.
    pub fn of(item: &InboxItem) -> Option<Self> {
        let params = match &item.content {
            InboxContent::Form { message, form } => {
                splice::object([("message", &Raw::of(message)), ("requestedSchema", &form.to_schema())])
            }
            InboxContent::Url { message, url } => Raw::of(&json!({ "mode": "url", "message": message, "url": url })),
            InboxContent::Approval(_) | InboxContent::Sampling(_) => return None,
        };
        Some(Self {
            id: item.id.clone(),
            server: item.server.to_string(),
            surface: item.surface?.to_string(),
            call: item.call.map(|call| call.to_string()),
            conversation: item.conversation.as_deref().map(str::to_owned),
            params: params.to_string(),
        })
    }

    /// The item that waits here.
    fn into_item(self) -> Result<InboxItem, ParkError> {
        let invalid = |why: &str| ParkError::Invalid(why.to_owned());
        let id: Uuid = self.id.parse().map_err(|_| invalid("its id is not a UUID"))?;
        let server: ServerName = self.server.parse().map_err(|_| invalid("its server has no valid name"))?;
        // Items of other callers are made by their own calls only.
        let (caller, surface) = match Surface::parse(&self.surface) {
            Some(Surface::Call) => (Caller::Terminal, Surface::Call),
            Some(surface @ (Surface::Run | Surface::Chat)) => (Caller::Agent(surface.as_str().into()), surface),
            _ => return Err(invalid("only `call`, `run` and `chat` leave requests to the inbox")),
        };
        let call: Option<CallId> = self.call.map(|call| call.parse()).transpose().map_err(|_| invalid("its call"))?;
        let params = Raw::parse(self.params).map_err(|error| ParkError::Invalid(error.to_string()))?;
        let content = InboxContent::of_elicitation(&params).map_err(ParkError::Invalid)?;
        let conversation = self.conversation.map(Arc::from);
        let origin = ItemOrigin { call, caller, surface, conversation, has_session: false };
        let item = InboxItem::new(server, Some(origin), content);
        Ok(InboxItem { id: id.to_string(), ..item })
    }
}

impl ParkedAnswer {
    /// The answer as the process that holds the call uses it.
    pub fn into_answer(self) -> InboxAnswer {
        InboxAnswer::Elicitation(match self {
            Self::Accept { content } => ElicitationAnswer::Accept(content),
            Self::Opened {} => ElicitationAnswer::Opened,
            Self::Decline {} => ElicitationAnswer::Decline,
            Self::Cancel {} => ElicitationAnswer::Cancel,
        })
    }
}

impl Inbox {
    /// Lets a form or URL of another process wait here until it is answered or expires. Dropping the future withdraws it.
    pub async fn park(&self, request: ParkedRequest) -> Result<ParkedAnswer, ParkError> {
        let item = Arc::new(request.into_item()?);
        let (receiver, place) = self.add(&item).ok_or(ParkError::Full)?;
        let answered = self.answered(&item, receiver, place, |_| Box::pin(pending())).await;
        Ok(match answered {
            InboxAnswer::Elicitation(ElicitationAnswer::Accept(content)) => ParkedAnswer::Accept { content },
            InboxAnswer::Elicitation(ElicitationAnswer::Opened) => ParkedAnswer::Opened {},
            InboxAnswer::Elicitation(ElicitationAnswer::Decline) => ParkedAnswer::Decline {},
            _ => ParkedAnswer::Cancel {},
        })
    }
}
