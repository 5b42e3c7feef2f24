//! Native tools: functions of the embedding program, offered like the tools of a server.
//!
//! A [`NativeServer`] is one more in-process server ([`Way::InProcess`]): its tools are in the catalog, and their calls are
//! found, validated, decided and recorded as all others. What a tool is and returns is in `native/tool.rs`.

mod tool;

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::{FutureExt, future::BoxFuture};
use serde_json::json;
use tokio::sync::mpsc;
use toolway_config::ServerName;
use toolway_wire::{
    down::{Caller, Profile, Service, ServiceSubscription},
    exchange::{self, Exchange, ExchangeTimeouts, Outcome, Request},
    json::Raw,
    message::RpcError,
    notice::SubscriptionFilter,
};

pub use self::tool::{NativeCall, NativeEffect, NativeOutput, NativeTool};
use crate::{
    catalog::PublicName,
    connection::{WantedServer, Way},
};

/// Tools of the embedding program under one server name. It becomes a [`WantedServer`] for
/// [`HostOptions::servers`](crate::HostOptions::servers).
#[derive(Clone, Debug)]
pub struct NativeServer {
    name: ServerName,
    instructions: Option<String>,
    tools: Vec<NativeTool>,
}

/// A tool that cannot be offered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NativeToolError {
    /// It has no name.
    #[error("a native tool has no name")]
    NoName,
    /// Its input or output schema is not the schema of an object.
    #[error("native tool `{tool}`: its {schema} schema must be an object with `\"type\": \"object\"`")]
    InvalidSchema {
        /// Its name.
        tool: String,
        /// `input` or `output`.
        schema: &'static str,
    },
    /// Two tools have one public name.
    #[error(
        "native tools `{first}` and `{second}` of `{server}` both have the public name `{public}`; rename one of them"
    )]
    NameTaken {
        /// Their server.
        server: ServerName,
        /// The tool that was added before.
        first: String,
        /// The tool that was not added.
        second: String,
        /// Their public name.
        public: PublicName,
    },
}

/// Events of one call that wait for its caller: a native tool sends none but its outcome.
const UNREAD: usize = 4;

// === impl NativeServer ===

impl NativeServer {
    /// A server without tools.
    pub fn new(name: ServerName) -> Self {
        Self { name, instructions: None, tools: Vec::new() }
    }

    /// Sets the instructions for models.
    #[must_use]
    pub fn with_instructions(self, instructions: impl Into<String>) -> Self {
        Self { instructions: Some(instructions.into()), ..self }
    }

    /// Adds a tool.
    pub fn tool(mut self, tool: NativeTool) -> Result<Self, NativeToolError> {
        tool.check()?;
        let public = |tool: &NativeTool| PublicName::prefixed(&self.name, tool.name());
        let name = public(&tool);
        if let Some(first) = self.tools.iter().find(|known| public(known) == name) {
            return Err(NativeToolError::NameTaken {
                server: self.name.clone(),
                first: first.title(),
                second: tool.title(),
                public: name,
            });
        }
        self.tools.push(tool);
        Ok(self)
    }

    fn answer(&self, request: &Request) -> BoxFuture<'static, Result<Raw, RpcError>> {
        match request.method() {
            "tools/list" => {
                let tools: Vec<_> = self.tools.iter().map(NativeTool::definition).collect();
                ready(Ok(Raw::of(&json!({ "tools": tools }))))
            }
            "tools/call" => {
                let name = request.param("name");
                let name = name.as_ref().and_then(Raw::as_str).unwrap_or_default();
                match self.tools.iter().find(|tool| tool.name() == name) {
                    Some(tool) => {
                        let call =
                            NativeCall { arguments: request.param("arguments").unwrap_or_else(Raw::empty_object) };
                        tool.call(call).map(Ok).boxed()
                    }
                    None => ready(Err(RpcError::new(RpcError::INVALID_PARAMS, &format!("unknown tool `{name}`")))),
                }
            }
            other => ready(Err(RpcError::new(RpcError::METHOD_NOT_FOUND, &format!("unknown method `{other}`")))),
        }
    }
}

fn ready(answer: Result<Raw, RpcError>) -> BoxFuture<'static, Result<Raw, RpcError>> {
    std::future::ready(answer).boxed()
}

impl Service for NativeServer {
    fn profile(&self, _caller: &Caller) -> Profile {
        Profile {
            info: Raw::of(&json!({ "name": self.name.as_str(), "version": env!("CARGO_PKG_VERSION") })),
            capabilities: Raw::of(&json!({ "tools": {} })),
            instructions: self.instructions.clone(),
        }
    }

    fn open(&self, request: Request, _caller: &Caller) -> Exchange {
        let (exchange, feed) = exchange::pair(ExchangeTimeouts::unbounded(), UNREAD);
        let answer = self.answer(&request);
        // Ends with its exchange: when the caller leaves, the future of the tool is dropped.
        tokio::runtime::Handle::current().spawn(async move {
            let outcome = tokio::select! {
                answer = AssertUnwindSafe(answer).catch_unwind() => match answer {
                    Ok(Ok(result)) => Outcome::Answered(result),
                    Ok(Err(error)) => Outcome::Refused(error),
                    Err(_panic) => Outcome::Refused(RpcError::new(RpcError::INTERNAL, "the native tool panicked")),
                },
                () = feed.cancelled() => Outcome::Cancelled,
            };
            feed.end(outcome);
        });
        exchange
    }

    fn listen<'a>(&'a self, _wanted: SubscriptionFilter, _caller: &'a Caller) -> BoxFuture<'a, ServiceSubscription> {
        let (_, notices) = mpsc::channel(1);
        std::future::ready(ServiceSubscription { accepted: SubscriptionFilter::default(), notices }).boxed()
    }
}

impl From<NativeServer> for WantedServer {
    fn from(server: NativeServer) -> Self {
        Self::new(server.name.clone(), Way::InProcess(Arc::new(server)))
    }
}
