//! The client features offered to servers: elicitation, sampling, roots. The inbox answers elicitation, a port
//! sampling; roots are configured.
//!
//! A surface that answers the server requests of its own calls takes them from the call
//! ([`Relay::next`](crate::call::Relay::next)) instead.

use std::{
    fmt,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::{FutureExt, future::BoxFuture};
use serde_json::{Map, Value, json};
use toolway_config::ServerName;
use toolway_wire::{
    exchange::{Answer, ServerRequestDetails, ServerRequestHandler},
    json::Raw,
    message::ClientCapabilities,
};

use super::client_sessions::ClientSessions;
use crate::{
    call::Caller,
    inbox::{Answerer, ElicitationModes, Inbox, InboxContent, InboxItem, ItemOrigin},
    sampling::{Sampler, SamplingOffer, SamplingRequest, answering::SamplingDesk},
};

/// A folder or URL that a server may access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// URI of the root.
    pub uri: String,
    /// Display name.
    pub name: Option<String>,
}

/// What is offered to one server.
#[derive(Clone)]
pub(crate) struct ClientFeatures {
    pub(crate) server: ServerName,
    pub(crate) answerer: Arc<dyn Answerer>,
    pub(crate) inbox: Inbox,
    /// The call that server requests belong to; `None` outside a call.
    pub(crate) origin: Option<ItemOrigin>,
    pub(crate) sampler: Arc<dyn Sampler>,
    /// Decides on sampling requests; `None` outside a call.
    pub(crate) sampling: Option<Box<SamplingDesk>>,
    pub(crate) roots: Arc<[Root]>,
    /// Declared instead of what the ports offer, if surfaces answer the requests of their calls.
    pub(crate) declared: Option<ClientCapabilities>,
    /// The gateway client that the connection is reserved for: asked for its roots, instead of the configuration.
    pub(crate) client: Option<ClientRoots>,
    /// Set when a server request could belong to several calls.
    pub(crate) ambiguous: Option<Arc<AtomicBool>>,
}

/// The sessions of a gateway client that share a connection.
#[derive(Clone)]
pub(crate) struct ClientRoots {
    pub(crate) sessions: Arc<ClientSessions>,
    pub(crate) caller: Caller,
    /// The only session, if each has its own connections.
    pub(crate) session: Option<Arc<str>>,
}

// === impl ClientFeatures ===

impl ServerRequestHandler for ClientFeatures {
    fn capabilities(&self) -> ClientCapabilities {
        self.declared.clone().unwrap_or_else(|| ClientCapabilities(Raw::of(&self.offered())))
    }

    fn answer(&self, request: ServerRequestDetails) -> BoxFuture<'_, Answer> {
        let answer = async move {
            match request.method.as_str() {
                "elicitation/create" => self.elicit(&request).await,
                "sampling/createMessage" => self.sample(request).await,
                "roots/list" => match &self.client {
                    Some(client) => client.sessions.roots(&client.caller, client.session.as_ref(), request).await,
                    None => Answer::Given(self.listed_roots()),
                },
                _ => Answer::Unavailable,
            }
        };
        // A port that panics has not answered; the server gets an error.
        let answered = AssertUnwindSafe(answer).catch_unwind();
        Box::pin(async {
            answered.await.unwrap_or_else(|_| {
                tracing::error!("a port panicked while answering a server request");
                Answer::Unavailable
            })
        })
    }

    fn ambiguous(&self, request: &ServerRequestDetails) {
        // The roots of a client are the same for all its calls.
        let matters = self.client.is_none() || request.method != "roots/list";
        if let Some(ambiguous) = self.ambiguous.as_ref().filter(|_| matters) {
            ambiguous.store(true, Ordering::SeqCst);
        }
    }
}

impl ClientFeatures {
    /// Puts a form or URL into the inbox. A kind that is not offered is refused.
    async fn elicit(&self, request: &ServerRequestDetails) -> Answer {
        let item = match InboxItem::elicitation(&self.server, request, self.origin.clone()) {
            Ok(item) => item,
            Err(error) => return Answer::Refused(error),
        };
        let is_url = matches!(item.content, InboxContent::Url { .. });
        let is_offered = match self.answerer.modes() {
            ElicitationModes::Nothing => false,
            ElicitationModes::Forms => !is_url,
            ElicitationModes::FormsAndUrls => true,
        };
        if !is_offered {
            return Answer::Unavailable;
        }
        let answerer = Arc::clone(&self.answerer);
        let answers =
            |item: Arc<InboxItem>| -> BoxFuture<'_, _> { Box::pin(async move { answerer.answer(&item).await }) };
        self.inbox.wait(item, answers).await.into_wire(is_url)
    }

    /// Lets the model answer, if that is allowed. Outside a call nothing is answered.
    async fn sample(&self, request: ServerRequestDetails) -> Answer {
        let Some((origin, desk)) = self.origin.clone().zip(self.sampling.as_ref()) else { return Answer::Unavailable };
        let called = desk.called.clone();
        desk.answer(SamplingRequest { server: self.server.clone(), origin, called, request }).await
    }

    fn offered(&self) -> Value {
        let mut offered = Map::new();
        match self.answerer.modes() {
            ElicitationModes::Nothing => {}
            ElicitationModes::Forms => drop(offered.insert("elicitation".to_owned(), json!({ "form": {} }))),
            ElicitationModes::FormsAndUrls => {
                offered.insert("elicitation".to_owned(), json!({ "form": {}, "url": {} }));
            }
        }
        match self.sampler.offer(&self.server) {
            SamplingOffer::Nothing => {}
            SamplingOffer::Messages => drop(offered.insert("sampling".to_owned(), json!({}))),
            SamplingOffer::WithTools => drop(offered.insert("sampling".to_owned(), json!({ "tools": {} }))),
        }
        if !self.roots.is_empty() {
            offered.insert("roots".to_owned(), json!({}));
        }
        Value::Object(offered)
    }

    fn listed_roots(&self) -> Raw {
        let root = |root: &Root| match &root.name {
            Some(name) => json!({ "uri": root.uri, "name": name }),
            None => json!({ "uri": root.uri }),
        };
        Raw::of(&json!({ "roots": self.roots.iter().map(root).collect::<Vec<_>>() }))
    }
}

impl fmt::Debug for ClientFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientFeatures").field("server", &self.server).field("offered", &self.offered()).finish()
    }
}
