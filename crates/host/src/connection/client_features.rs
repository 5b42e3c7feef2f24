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
use tokio::time::Instant;
use toolway_config::ServerName;
use toolway_wire::{
    exchange::{Answer, ServerRequestDetails, ServerRequestHandler},
    json::Raw,
    message::{
        ClientCapabilities,
        splice::{self, Edit},
    },
};

use super::{client_sessions::ClientSessions, pool::RootsOffer};
use crate::{
    call::Caller,
    inbox::{
        Answerer, ElicitationModes, Inbox, InboxAnswer, InboxContent, InboxItem, ItemOrigin, opened_urls::OpenedUrls,
    },
    roots::book::{RootsBook, declares_roots},
    sampling::{Sampler, SamplingOffer, SamplingRequest, answering::SamplingDesk},
};

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
    pub(crate) roots: Arc<RootsBook>,
    /// The URLs that were accepted in the call; `None` outside a call.
    pub(crate) urls: Option<Arc<OpenedUrls>>,
    /// Declared instead of what the ports offer, if surfaces answer the requests of their calls.
    pub(crate) declared: Option<ClientCapabilities>,
    /// The gateway client that the connection is reserved for.
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
    /// Whether its sessions are asked, or the configuration.
    pub(crate) offer: RootsOffer,
}

// === impl ClientFeatures ===

impl ServerRequestHandler for ClientFeatures {
    fn capabilities(&self) -> ClientCapabilities {
        let capabilities = self.declared.clone().unwrap_or_else(|| ClientCapabilities(Raw::of(&self.offered())));
        if self.client.is_some() || declares_roots(&capabilities) || !self.has_roots() {
            return capabilities;
        }
        let roots = Raw::of(&json!({ "listChanged": true }));
        ClientCapabilities(splice::edited(&capabilities.0, &[Edit::Set("roots", roots)]))
    }

    fn answer(&self, request: ServerRequestDetails) -> BoxFuture<'_, Answer> {
        let answer = async move {
            match request.method.as_str() {
                "elicitation/create" => self.elicit(&request).await,
                "sampling/createMessage" => self.sample(request).await,
                "roots/list" => match &self.client {
                    Some(client) => self.roots_of(client, request).await,
                    None if self.has_roots() => Answer::Given(self.roots.list(&self.server, None)),
                    None => Answer::Unavailable,
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
        // The roots of a client, and those of the configuration, are the same for all calls.
        let matters = request.method != "roots/list" || self.client.is_none() && !self.has_roots();
        if let Some(ambiguous) = self.ambiguous.as_ref().filter(|_| matters) {
            ambiguous.store(true, Ordering::SeqCst);
        }
    }
}

impl ClientFeatures {
    /// Whether the roots that it declares are those of the configuration.
    pub(crate) fn declares_configured_roots(&self) -> bool {
        self.has_roots() && !self.declared.as_ref().is_some_and(declares_roots)
    }

    fn has_roots(&self) -> bool {
        !self.roots.roots(&self.server, None).is_empty()
    }

    /// The roots of a gateway client: its own and those configured for it, or those configured for all.
    async fn roots_of(&self, client: &ClientRoots, request: ServerRequestDetails) -> Answer {
        let principal = client.caller.client().unwrap_or_default();
        match client.offer {
            RootsOffer::Configured | RootsOffer::ConfiguredForClient => {
                Answer::Given(self.roots.list(&self.server, Some(principal)))
            }
            RootsOffer::Nothing | RootsOffer::Listed | RootsOffer::Announced => {
                let answer = client.sessions.roots(&client.caller, client.session.as_ref(), request).await;
                self.roots.complete(principal, answer)
            }
        }
    }

    /// Answers a form or URL. A URL that was accepted in this call before is not asked about again.
    async fn elicit(&self, request: &ServerRequestDetails) -> Answer {
        let text = |key: &str| request.params.as_ref()?.get(key)?.as_str().map(std::borrow::Cow::into_owned);
        let url = text("url").filter(|_| text("mode").as_deref() == Some("url"));
        if let (Some(url), Some(urls)) = (&url, &self.urls)
            && request.may_be_repeated()
            && let Some(answer) = urls.accept_again(url).await
        {
            return answer.into_wire(true);
        }
        let asked = Instant::now();
        match self.ask_user(request).await {
            Ok(answer) => {
                if let Some((url, urls)) = url.as_deref().zip(self.urls.as_ref()) {
                    urls.remember(url, &answer, asked);
                }
                answer.into_wire(url.is_some())
            }
            Err(answer) => answer,
        }
    }

    /// Puts a form or URL into the inbox; fails with the answer to a kind that is not offered.
    pub(crate) async fn ask_user(&self, request: &ServerRequestDetails) -> Result<InboxAnswer, Answer> {
        let item = InboxItem::elicitation(&self.server, request, self.origin.clone()).map_err(Answer::Refused)?;
        let is_url = matches!(item.content, InboxContent::Url { .. });
        let is_offered = match self.answerer.modes() {
            ElicitationModes::Nothing => false,
            ElicitationModes::Forms => !is_url,
            ElicitationModes::FormsAndUrls => true,
        };
        if !is_offered {
            return Err(Answer::Unavailable);
        }
        let answerer = Arc::clone(&self.answerer);
        let answers =
            |item: Arc<InboxItem>| -> BoxFuture<'_, _> { Box::pin(async move { answerer.answer(&item).await }) };
        Ok(self.inbox.wait(item, answers).await)
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
        Value::Object(offered)
    }
}

impl fmt::Debug for ClientFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientFeatures").field("server", &self.server).field("offered", &self.offered()).finish()
    }
}
