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
        // A result may have two of them, and neither crosses.
        Some(meta) => match Kinds::of(&meta) {
            Kinds { of_hop: false, .. } => params.clone(),
            Kinds { others: false, .. } => splice::edited(params, &[Edit::Remove("_meta")]),
            Kinds { .. } => {
                let rest = splice::edited(&meta, &HOP_KEYS.map(Edit::Remove));
                splice::edited(params, &[Edit::Set("_meta", rest)])
            }
        },
        None => params.clone(),
    }
}

/// What kinds of keys a `_meta` has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kinds {
    /// Some that belong to the hop it came over.
    of_hop: bool,
    /// Some that do not.
    others: bool,
    /// The token that progress is reported under.
    pub(crate) progress_token: bool,
}

impl Kinds {
    /// Those of this `_meta`.
    pub(crate) fn of(meta: &Raw) -> Self {
        let mut kinds = Self::default();
        meta.each_member(|key, _| {
            kinds.take(&meta.as_bytes()[key]);
        });
        kinds
    }

    /// One more key, quotes included; whether it is one of those that belong to the hop.
    pub(crate) fn take(&mut self, literal: &[u8]) -> bool {
        let of_hop = is_hop_key(literal);
        self.of_hop |= of_hop;
        self.others |= !of_hop;
        self.progress_token |= of_hop && scan::key_is(literal, PROGRESS_TOKEN);
        of_hop
    }

    /// Whether there is a `_meta` left where those of the hop are gone.
    pub(crate) fn cross(self) -> bool {
        self.others || !self.of_hop
    }

    /// The params with everything removed that belongs to the hop they came over; `meta` is theirs, and they have one.
    pub(crate) fn without_hop_keys(self, params: &Raw, meta: &Raw) -> Raw {
        match (self.of_hop, self.others) {
            (false, _) => params.clone(),
            (true, false) => splice::without(params, meta),
            (true, true) => splice::replaced(params, meta, &splice::edited(meta, &HOP_KEYS.map(Edit::Remove))),
        }
    }
}

/// Whether a key says something about one hop only. Most are written as they are read.
fn is_hop_key(literal: &[u8]) -> bool {
    let plain = literal.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or_default();
    HOP_KEYS.iter().any(|key| plain == key.as_bytes())
        || memchr::memchr(b'\\', plain).is_some() && HOP_KEYS.iter().any(|key| scan::key_is(literal, key))
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
