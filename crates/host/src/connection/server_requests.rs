//! Recognises that a server failed to send a request of its own, because it was reached without a session.
//!
//! Libraries that serve both eras refuse to send such a request and name its method in the error, which becomes the result
//! of the tool. There is no code for it, so the text decides; a wrong guess costs a session that was not needed.

use toolway_wire::{exchange::Outcome, message::ClientCapabilities};

/// The requests that a server may send in a session.
const METHODS: [&str; 3] = ["elicitation/create", "sampling/createMessage", "roots/list"];
/// Longer results are not searched: an error is short.
const MAX_BYTES: usize = 4 * 1024;

/// Whether the outcome says that a request could not be sent which a client with these capabilities answers.
pub(super) fn is_refused_push(outcome: &Outcome, capabilities: &ClientCapabilities) -> bool {
    let text = match outcome {
        Outcome::Answered(result) if result.as_bytes().len() <= MAX_BYTES => result.text(),
        Outcome::Refused(error) => error.raw().text(),
        _ => return false,
    };
    METHODS.iter().any(|method| text.contains(method) && capabilities.lacks(method, None).is_none())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolway_wire::{
        exchange::Outcome,
        json::Raw,
        message::{ClientCapabilities, RpcError},
    };

    use super::{MAX_BYTES, is_refused_push};

    #[test]
    fn refused_requests_of_servers_are_recognised() {
        let forms = ClientCapabilities(Raw::of(&json!({ "elicitation": {} })));
        let answered =
            |text: &str| Outcome::Answered(Raw::of(&json!({ "content": [{ "type": "text", "text": text }] })));
        // The TypeScript SDK 2.
        let typescript = "Server-to-client requests are not available on protocol revision 2026-07-28: \
                          'elicitation/create' cannot be sent while serving a request on that revision.";
        assert!(is_refused_push(&answered(typescript), &forms));
        assert!(is_refused_push(&Outcome::Refused(RpcError::new(-32603, typescript)), &forms));
        assert!(!is_refused_push(&answered(typescript), &ClientCapabilities::none()));
        assert!(!is_refused_push(&answered("the weather is fine"), &forms));
        assert!(!is_refused_push(&answered(&typescript.repeat(MAX_BYTES)), &forms));
        assert!(!is_refused_push(&Outcome::Cancelled, &forms));
    }
}
