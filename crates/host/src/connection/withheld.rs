//! Server requests that the configuration withholds from a server (`sampling`, `elicitation`): it is not told that they
//! can be answered, and one that comes anyway is refused.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use toolway_config::server::Withheld;
use toolway_wire::{
    exchange::{Answer, ServerRequestDetails, ServerRequestHandler},
    message::{
        ClientCapabilities,
        splice::{self, Edit},
    },
};

/// The capabilities without those that are withheld.
pub(crate) fn remaining(capabilities: &ClientCapabilities, withheld: Withheld) -> ClientCapabilities {
    let parts = [("sampling", withheld.sampling), ("elicitation", withheld.elicitation)];
    let is_declared = |(key, withheld): &(&'static str, bool)| *withheld && capabilities.0.get(key).is_some();
    let edits: Vec<Edit<'_>> = parts.into_iter().filter(is_declared).map(|(key, _)| Edit::Remove(key)).collect();
    if edits.is_empty() { capabilities.clone() } else { ClientCapabilities(splice::edited(&capabilities.0, &edits)) }
}

/// Restricts a handler; unchanged if nothing is withheld.
pub(super) fn restricted(handler: Arc<dyn ServerRequestHandler>, withheld: Withheld) -> Arc<dyn ServerRequestHandler> {
    if withheld == Withheld::default() { handler } else { Arc::new(Restricted { handler, withheld }) }
}

struct Restricted {
    handler: Arc<dyn ServerRequestHandler>,
    withheld: Withheld,
}

impl ServerRequestHandler for Restricted {
    fn capabilities(&self) -> ClientCapabilities {
        remaining(&self.handler.capabilities(), self.withheld)
    }

    fn answer(&self, request: ServerRequestDetails) -> BoxFuture<'_, Answer> {
        let is_withheld = match request.method.as_str() {
            "sampling/createMessage" => self.withheld.sampling,
            "elicitation/create" => self.withheld.elicitation,
            _ => false,
        };
        if is_withheld { Box::pin(async { Answer::Unavailable }) } else { self.handler.answer(request) }
    }

    fn ambiguous(&self, request: &ServerRequestDetails) {
        self.handler.ambiguous(request);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolway_config::server::Withheld;
    use toolway_wire::{json::Raw, message::ClientCapabilities};

    use super::remaining;

    #[test]
    fn withheld_capabilities_are_not_declared() {
        let declared = json!({ "roots": {}, "sampling": { "tools": {} }, "elicitation": {} });
        let left = |sampling: bool, elicitation: bool| -> Value {
            let capabilities = ClientCapabilities(Raw::of(&declared));
            remaining(&capabilities, Withheld { sampling, elicitation }).0.read().unwrap()
        };
        assert_eq!(left(false, false), declared);
        assert_eq!(left(true, false), json!({ "roots": {}, "elicitation": {} }));
        assert_eq!(left(true, true), json!({ "roots": {} }));
    }
}
