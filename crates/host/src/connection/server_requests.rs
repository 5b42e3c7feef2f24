//! Recognises a tool that sends its server requests as a result of type `input_required`, which only a connection without a
//! session can carry.
//!
//! Libraries that serve both eras replace such a result in a session by an error of their own. It has no code, so the text
//! decides; a wrong guess costs one connection that was not needed.

use toolway_wire::exchange::Outcome;

/// Names of that result in such errors: the type of the Python SDK, and the spellings of the TypeScript SDK.
const NAMES: [&str; 3] = ["InputRequired", "input-required", "input_required"];
/// Longer errors are not searched.
const MAX_BYTES: usize = 4 * 1024;

/// Whether the outcome is the error in place of an `input_required` result.
pub(super) fn is_refused_result(outcome: &Outcome) -> bool {
    let Outcome::Refused(error) = outcome else { return false };
    let text = error.raw().text();
    text.len() <= MAX_BYTES && NAMES.iter().any(|name| text.contains(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolway_wire::{exchange::Outcome, json::Raw, message::RpcError};

    use super::{MAX_BYTES, is_refused_result};

    #[test]
    fn refused_results_that_ask_are_recognised() {
        // FastMCP 4, and the TypeScript SDK 2 with `legacyShim: false`.
        let fastmcp = "Tool 'irr' returned an InputRequiredResult to request client input, but the multi-round-trip \
                       result type (SEP-2322) only exists at MCP 2026-07-28; this connection negotiated '2025-11-25'.";
        let typescript = "Handler for tools/call returned an input-required result, but this request is served on \
                          protocol revision 2025-11-25, which has no input_required vocabulary";
        let refused = |text: &str| Outcome::Refused(RpcError::new(-32602, text));
        assert!(is_refused_result(&refused(fastmcp)) && is_refused_result(&refused(typescript)));
        assert!(!is_refused_result(&refused("unknown tool")));
        assert!(!is_refused_result(&refused(&fastmcp.repeat(MAX_BYTES))));
        let said = Raw::of(&json!({ "content": [{ "type": "text", "text": fastmcp }] }));
        assert!(!is_refused_result(&Outcome::Answered(said)), "a tool may mention it in its result");
    }
}
