//! A server that writes each effect to its own file, for stories about what happened when everything else was killed.

use std::{io, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::{runtime::Handle, sync::mpsc};
use toolway_wire::{
    down::{Caller, Profile, Service, ServiceSubscription},
    exchange::{self, Exchange, ExchangeTimeouts, Outcome, Request},
    json::Raw,
    message::RpcError,
    notice::SubscriptionFilter,
};

use crate::effects::EffectsFile;

/// The server. Its tool `act` appends its argument `id` to the file, waits `afterMs` milliseconds, and answers; `act_again`
/// does the same and is annotated idempotent.
#[derive(Clone, Debug)]
pub struct Witness {
    effects: EffectsFile,
}

impl Witness {
    /// A server that writes to this file.
    pub fn new(effects: EffectsFile) -> Self {
        Self { effects }
    }

    async fn act(&self, request: &Request) -> io::Result<Raw> {
        let arguments = request.param("arguments").unwrap_or_else(Raw::empty_object);
        let id = arguments.get("id").and_then(|id| id.as_str().map(|id| id.into_owned())).unwrap_or_default();
        let after = arguments.get("afterMs").and_then(|after| after.as_u64()).unwrap_or_default();
        self.effects.write(&id)?;
        tokio::time::sleep(Duration::from_millis(after)).await;
        Ok(Raw::of(&json!({ "content": [{ "type": "text", "text": format!("did {id}") }] })))
    }

    async fn answer(self, request: Request) -> Outcome {
        let tool = |name: &str, annotations: serde_json::Value| {
            let properties = json!({ "id": { "type": "string" }, "afterMs": { "type": "integer" } });
            let schema = json!({ "type": "object", "properties": properties, "required": ["id"] });
            json!({ "name": name, "description": "Act", "inputSchema": schema, "annotations": annotations })
        };
        let result = match request.method() {
            "tools/list" => {
                let again = tool("act_again", json!({ "idempotentHint": true }));
                Raw::of(&json!({ "tools": [tool("act", json!({})), again] }))
            }
            "tools/call" => match self.act(&request).await {
                Ok(result) => result,
                Err(error) => return Outcome::Refused(RpcError::new(RpcError::INTERNAL, &error.to_string())),
            },
            _ => return Outcome::Refused(RpcError::new(RpcError::METHOD_NOT_FOUND, "unknown method")),
        };
        Outcome::Answered(result)
    }
}

impl Service for Witness {
    fn profile(&self, _caller: &Caller) -> Profile {
        let info = Raw::of(&json!({ "name": "witness", "version": "1" }));
        Profile { info, capabilities: Raw::of(&json!({ "tools": {} })), instructions: None }
    }

    fn open(&self, request: Request, _caller: &Caller) -> Exchange {
        let (exchange, feed) = exchange::pair(ExchangeTimeouts::unbounded(), 8);
        let answer = self.clone().answer(request);
        // An effect that began is written also if its caller has left.
        Handle::current().spawn(async move { feed.end(answer.await) });
        exchange
    }

    fn listen<'a>(&'a self, wanted: SubscriptionFilter, _caller: &'a Caller) -> BoxFuture<'a, ServiceSubscription> {
        let (_, notices) = mpsc::channel(1);
        Box::pin(std::future::ready(ServiceSubscription { accepted: wanted, notices }))
    }
}
