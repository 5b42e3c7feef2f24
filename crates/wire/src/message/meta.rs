//! `_meta`: the keys the protocol owns, and which of them belong to one hop only.

use super::splice::{self, Edit};
use crate::json::{Kind, Raw, scan};

/// Modern: the revision of this request.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Modern: what the caller can be asked.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Modern: who calls, for display.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// Modern: who answers, for display.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// Modern: which logs this request wants.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Modern: which listen a notification belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// Legacy: which task a message belongs to.
pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
/// Ours, in a session: what the asking side calls its question, where it has a name for it. So a key survives a session.
pub const ASK_KEY: &str = "toolway/ask-key";
/// Both: under which token progress is reported.
pub const PROGRESS_TOKEN: &str = "progressToken";

/// Keys that say something about one hop and never cross to the next.
pub const HOP_KEYS: [&str; 9] = [
    PROTOCOL_VERSION,
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    SERVER_INFO,
    LOG_LEVEL,
    SUBSCRIPTION_ID,
    RELATED_TASK,
    ASK_KEY,
    PROGRESS_TOKEN,
];

/// `_meta` of `params` or of a result.
pub fn of(body: Option<&Raw>) -> Option<Raw> {
    body.and_then(|body| body.get("_meta"))
}

/// One key of `_meta`.
pub fn value(body: Option<&Raw>, key: &str) -> Option<Raw> {
    of(body).and_then(|meta| meta.get(key))
}

/// The params with everything removed that belongs to the hop they came over.
pub fn without_hop_keys(params: &Raw) -> Raw {
    match params.get("_meta") {
        Some(meta) => without_hop_keys_of(params, &meta),
        None => params.clone(),
    }
}

/// As [`without_hop_keys`], for whoever has `_meta` at hand.
pub(crate) fn without_hop_keys_of(params: &Raw, meta: &Raw) -> Raw {
    let (mut of_hop, mut others) = (false, false);
    meta.each_member(|key, _| match is_hop_key(&meta.as_bytes()[key]) {
        true => of_hop = true,
        false => others = true,
    });
    match (of_hop, others) {
        (false, _) => params.clone(),
        (true, false) => splice::edited(params, &[Edit::Remove("_meta")]),
        (true, true) => {
            let rest = splice::edited(meta, &HOP_KEYS.map(Edit::Remove));
            splice::edited(params, &[Edit::Set("_meta", rest)])
        }
    }
}

fn is_hop_key(literal: &[u8]) -> bool {
    HOP_KEYS.iter().any(|key| scan::key_is(literal, key))
}

/// The `_meta` of `params` with further keys set, as an edit of the params; what is no object gives way to one.
pub fn with_keys(params: Option<&Raw>, keys: &[Edit<'_>]) -> Edit<'static> {
    let meta = of(params).filter(|meta| meta.kind() == Kind::Object).unwrap_or_else(Raw::empty_object);
    Edit::Set("_meta", splice::edited(&meta, keys))
}

#[cfg(test)]
mod tests {
    use super::{Edit, splice, with_keys, without_hop_keys};
    use crate::json::Raw;

    #[test]
    fn hop_keys_stay_behind_and_others_cross() {
        let params = Raw::parse(r#"{"name":"x","_meta":{"progressToken":7,"traceparent":"00-a-b-01"}}"#).unwrap();
        assert_eq!(without_hop_keys(&params).to_string(), r#"{"name":"x","_meta":{"traceparent":"00-a-b-01"}}"#);
        let params = Raw::parse(r#"{"_meta":{"progressToken":7},"name":"x"}"#).unwrap();
        assert_eq!(without_hop_keys(&params).to_string(), r#"{"name":"x"}"#);
        let params = Raw::parse(r#"{"_meta":{"a":1,"progress\u0054oken":7,"b":2},"name":"x"}"#).unwrap();
        assert_eq!(without_hop_keys(&params).to_string(), r#"{"_meta":{"a":1,"b":2},"name":"x"}"#);
        let params = Raw::parse(r#"{"_meta":{"a":1},"name":"x"}"#).unwrap();
        assert_eq!(without_hop_keys(&params), params);
    }

    #[test]
    fn a_meta_that_is_no_object_keeps_nothing_of_ours_out() {
        let token = [Edit::Set("progressToken", Raw::of(&7))];
        for meta in ["null", "\"x\"", "[]", "{}"] {
            let params = Raw::parse(format!(r#"{{"_meta":{meta},"name":"x"}}"#)).unwrap();
            let after = splice::edited(&params, &[with_keys(Some(&params), &token)]);
            assert_eq!(after.to_string(), r#"{"_meta":{"progressToken":7},"name":"x"}"#);
        }
    }
}
