//! `_meta`: the keys of the protocol, and which of them belong to one hop only.

use super::splice::{self, Edit};
use crate::json::{JsonKind, Raw, scan};

/// Modern: protocol revision of this request.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Modern: client capabilities.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Modern: client information, for display.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// Modern: server information, for display.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// Modern: log level for this request.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Modern: subscription that a notification belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// Legacy: task that a message belongs to.
pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
/// Toolway, in a session: key of a server request, so that the key survives a legacy hop.
pub const ASK_KEY: &str = "toolway/ask-key";
/// Both eras: token for progress notifications.
pub const PROGRESS_TOKEN: &str = "progressToken";

/// Keys that belong to one hop and are not forwarded.
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

/// Value of one key of `_meta`.
pub fn value(body: Option<&Raw>, key: &str) -> Option<Raw> {
    of(body).and_then(|meta| meta.get(key))
}

/// The params without hop keys.
pub fn without_hop_keys(params: &Raw) -> Raw {
    match params.get("_meta") {
        // A result may have two `_meta` members; neither is forwarded.
        Some(meta) => match MetaKeyKinds::of(&meta) {
            MetaKeyKinds { of_hop: false, .. } => params.clone(),
            MetaKeyKinds { others: false, .. } => splice::edited(params, &[Edit::Remove("_meta")]),
            MetaKeyKinds { .. } => {
                let rest = splice::edited(&meta, &HOP_KEYS.map(Edit::Remove));
                splice::edited(params, &[Edit::Set("_meta", rest)])
            }
        },
        None => params.clone(),
    }
}

/// Kinds of keys in a `_meta`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MetaKeyKinds {
    /// Hop keys are present.
    of_hop: bool,
    /// Other keys are present.
    others: bool,
    /// A progress token is present.
    pub(crate) progress_token: bool,
}

impl MetaKeyKinds {
    /// Kinds of keys of this `_meta`.
    pub(crate) fn of(meta: &Raw) -> Self {
        let mut kinds = Self::default();
        meta.each_member(|key, _| {
            kinds.take(&meta.as_bytes()[key]);
        });
        kinds
    }

    /// Adds a key (quotes included); returns whether it is a hop key.
    pub(crate) fn take(&mut self, literal: &[u8]) -> bool {
        let of_hop = is_hop_key(literal);
        self.of_hop |= of_hop;
        self.others |= !of_hop;
        self.progress_token |= of_hop && scan::key_is(literal, PROGRESS_TOKEN);
        of_hop
    }

    /// Whether a `_meta` remains without its hop keys.
    pub(crate) fn cross(self) -> bool {
        self.others || !self.of_hop
    }

    /// The params without hop keys; `meta` is their `_meta`.
    pub(crate) fn without_hop_keys(self, params: &Raw, meta: &Raw) -> Raw {
        match (self.of_hop, self.others) {
            (false, _) => params.clone(),
            (true, false) => splice::without(params, meta),
            (true, true) => splice::replaced(params, meta, &splice::edited(meta, &HOP_KEYS.map(Edit::Remove))),
        }
    }
}

/// Whether a key literal is a hop key. Most literals have no escapes.
fn is_hop_key(literal: &[u8]) -> bool {
    let plain = literal.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or_default();
    HOP_KEYS.iter().any(|key| plain == key.as_bytes())
        || memchr::memchr(b'\\', plain).is_some() && HOP_KEYS.iter().any(|key| scan::key_is(literal, key))
}

/// Edit of the params that sets keys in `_meta`; a `_meta` that is not an object is replaced.
pub fn with_keys(params: Option<&Raw>, keys: &[Edit<'_>]) -> Edit<'static> {
    let meta = of(params).filter(|meta| meta.kind() == JsonKind::Object).unwrap_or_else(Raw::empty_object);
    Edit::Set("_meta", splice::edited(&meta, keys))
}

#[cfg(test)]
mod tests {
    use super::{Edit, splice, with_keys, without_hop_keys};
    use crate::json::Raw;

    #[test]
    fn hop_keys_are_removed_and_others_kept() {
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
    fn meta_that_is_not_an_object_is_replaced() {
        let token = [Edit::Set("progressToken", Raw::of(&7))];
        for meta in ["null", "\"x\"", "[]", "{}"] {
            let params = Raw::parse(format!(r#"{{"_meta":{meta},"name":"x"}}"#)).unwrap();
            let after = splice::edited(&params, &[with_keys(Some(&params), &token)]);
            assert_eq!(after.to_string(), r#"{"_meta":{"progressToken":7},"name":"x"}"#);
        }
    }
}
