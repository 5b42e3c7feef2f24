//! What a server may ask of us: elicitation, sampling, roots. Who answers is a port; roots are configuration.
//!
//! A surface that answers the questions of its own calls takes them from the call
//! ([`Relay::next`](crate::call::Relay::next)) and never comes here.

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
    exchange::{Answer, AskHandler, Question},
    json::Raw,
    message::ClientCapabilities,
};

/// Puts a server's form or address before a person.
pub trait Elicitor: Send + Sync {
    /// What it can put before somebody; a server is told, and asks for nothing else.
    fn modes(&self) -> ElicitationModes;

    /// What the person says.
    fn elicit(&self, asked: Asked) -> BoxFuture<'_, Answer>;
}

/// Has a model answer for a server.
pub trait Sampler: Send + Sync {
    /// What can be sampled; a server is told, and asks for nothing else.
    fn offer(&self) -> SamplingOffer;

    /// What the model says.
    fn sample(&self, asked: Asked) -> BoxFuture<'_, Answer>;
}

/// A question and whose it is. The text in it is a stranger's.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Who asks.
    pub server: ServerName,
    /// What.
    pub question: Question,
}

/// What can be put before a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElicitationModes {
    /// Nothing.
    Nothing,
    /// Forms.
    Forms,
    /// Forms, and addresses to open.
    FormsAndAddresses,
}

/// What can be sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SamplingOffer {
    /// Nothing.
    Nothing,
    /// Messages.
    Messages,
    /// Messages, with tools of the server's.
    WithTools,
}

/// A folder or address a server may look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Its URI.
    pub uri: String,
    /// For people.
    pub name: Option<String>,
}

/// Offers nothing: the safe default of both ports.
#[derive(Clone, Copy, Debug, Default)]
pub struct NobodyAnswers;

/// Our face towards one server.
#[derive(Clone)]
pub(crate) struct ClientFace {
    pub(crate) server: ServerName,
    pub(crate) elicitor: Arc<dyn Elicitor>,
    pub(crate) sampler: Arc<dyn Sampler>,
    pub(crate) roots: Arc<[Root]>,
    /// Declared instead of what the ports offer, where surfaces answer for themselves.
    pub(crate) declared: Option<ClientCapabilities>,
    /// Set when the server asks something that could be about several calls.
    pub(crate) asks: Option<Arc<AtomicBool>>,
}

impl Elicitor for NobodyAnswers {
    fn modes(&self) -> ElicitationModes {
        ElicitationModes::Nothing
    }

    fn elicit(&self, _asked: Asked) -> BoxFuture<'_, Answer> {
        Box::pin(async { Answer::Nobody })
    }
}

impl Sampler for NobodyAnswers {
    fn offer(&self) -> SamplingOffer {
        SamplingOffer::Nothing
    }

    fn sample(&self, _asked: Asked) -> BoxFuture<'_, Answer> {
        Box::pin(async { Answer::Nobody })
    }
}

// === impl ClientFace ===

impl AskHandler for ClientFace {
    fn capabilities(&self) -> ClientCapabilities {
        self.declared.clone().unwrap_or_else(|| ClientCapabilities(Raw::of(&self.offered())))
    }

    fn answer(&self, question: Question) -> BoxFuture<'_, Answer> {
        let answer = async move {
            let asked = Asked { server: self.server.clone(), question };
            match asked.question.method.as_str() {
                "elicitation/create" => self.elicitor.elicit(asked).await,
                "sampling/createMessage" => self.sampler.sample(asked).await,
                "roots/list" => Answer::Given(self.listed_roots()),
                _ => Answer::Nobody,
            }
        };
        // A port that panics has not answered; whoever asked is told so.
        let answered = AssertUnwindSafe(answer).catch_unwind();
        Box::pin(async {
            answered.await.unwrap_or_else(|_| {
                tracing::error!("a port panicked while it answered a server");
                Answer::Nobody
            })
        })
    }

    fn ambiguous(&self, _question: &Question) {
        if let Some(asks) = &self.asks {
            asks.store(true, Ordering::SeqCst);
        }
    }
}

impl ClientFace {
    fn offered(&self) -> Value {
        let mut offered = Map::new();
        match self.elicitor.modes() {
            ElicitationModes::Nothing => {}
            ElicitationModes::Forms => drop(offered.insert("elicitation".to_owned(), json!({ "form": {} }))),
            ElicitationModes::FormsAndAddresses => {
                offered.insert("elicitation".to_owned(), json!({ "form": {}, "url": {} }));
            }
        }
        match self.sampler.offer() {
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

impl fmt::Debug for ClientFace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientFace").field("server", &self.server).field("offered", &self.offered()).finish()
    }
}
