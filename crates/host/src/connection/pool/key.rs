//! Which line a request belongs on: on whose behalf it is, and what that side can be asked.

use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};
use toolway_config::server::Sharing;
use toolway_wire::{json::Raw, message::ClientCapabilities, up::Declares};

use crate::{
    call::{Caller, OnBehalf},
    connection::{client_face::SamplingOffer, sign_in::Account},
};

/// Requests with the same key can share a line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LineKey {
    pub(crate) caller: Caller,
    pub(crate) profile: CapabilityProfile,
    /// The caller's session, where each has lines of its own.
    pub(crate) session: Option<Arc<str>>,
}

/// What a caller's side can be asked, in the one form that counts: two that say the same are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CapabilityProfile {
    /// Whether it says which folders it works in.
    pub roots: bool,
    /// What a model of its answers.
    pub sampling: SamplingOffer,
    /// Whether it fills in forms.
    pub forms: bool,
    /// Whether it opens addresses.
    pub addresses: bool,
}

/// What a request says of its caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) capabilities: Option<&'a ClientCapabilities>,
    pub(crate) session: Option<&'a Arc<str>>,
    /// The task it is about.
    pub(crate) task: Option<&'a str>,
}

static WITH_TOOLS: LazyLock<Raw> = LazyLock::new(|| Raw::of(&json!({ "tools": [] })));
static BY_ADDRESS: LazyLock<Raw> = LazyLock::new(|| Raw::of(&json!({ "mode": "url" })));

impl<'a> Asker<'a> {
    pub(crate) fn of(on_behalf: &'a OnBehalf) -> Self {
        Self {
            caller: &on_behalf.caller,
            capabilities: on_behalf.capabilities.as_ref(),
            session: on_behalf.session.as_ref(),
            task: None,
        }
    }
}

impl LineKey {
    /// The line a request needs; none where the connection itself serves it: a server that is told with each request
    /// what can be asked, callers that are not clients of the gateway, and clients that cannot be asked anything where
    /// the operator lets them share. A connection that is made with somebody's own sign-in serves no client, ever, and one
    /// that is made with none serves no client that has signed in.
    pub(crate) fn of(
        asker: Asker<'_>,
        declares: Declares,
        sharing: Sharing,
        (base, account): (CapabilityProfile, &Account),
    ) -> Option<Self> {
        let common = account.serves(asker.caller);
        if declares == Declares::EachTime && common || asker.caller.client().is_none() {
            return None;
        }
        let profile = asker.capabilities.map_or(CapabilityProfile::NOTHING, CapabilityProfile::of);
        // Whoever shares the connection must not be able to do less than the server was told.
        let nothing = profile == CapabilityProfile::NOTHING && base == CapabilityProfile::NOTHING;
        if sharing == Sharing::Shared && nothing && common {
            return None;
        }
        let session = asker.session.filter(|_| sharing == Sharing::Session).cloned();
        Some(Self { caller: asker.caller.clone(), profile, session })
    }
}

impl CapabilityProfile {
    /// Nothing can be asked.
    pub const NOTHING: Self = Self { roots: false, sampling: SamplingOffer::Nothing, forms: false, addresses: false };

    /// What these capabilities come to.
    pub fn of(capabilities: &ClientCapabilities) -> Self {
        // Most clients declare nothing, and say so in these words.
        if capabilities.0.as_bytes() == b"{}" {
            return Self::NOTHING;
        }
        let can = |method, params| capabilities.lacks(method, params).is_none();
        let sampling = match can("sampling/createMessage", None) {
            true if can("sampling/createMessage", Some(&WITH_TOOLS)) => SamplingOffer::WithTools,
            true => SamplingOffer::Messages,
            false => SamplingOffer::Nothing,
        };
        Self {
            roots: can("roots/list", None),
            sampling,
            forms: can("elicitation/create", None),
            addresses: can("elicitation/create", Some(&BY_ADDRESS)),
        }
    }

    /// As a server is told.
    pub fn capabilities(self) -> ClientCapabilities {
        let mut declared = Map::new();
        if self.roots {
            declared.insert("roots".to_owned(), json!({}));
        }
        match self.sampling {
            SamplingOffer::Nothing => {}
            SamplingOffer::Messages => drop(declared.insert("sampling".to_owned(), json!({}))),
            SamplingOffer::WithTools => drop(declared.insert("sampling".to_owned(), json!({ "tools": {} }))),
        }
        let modes = [("form", self.forms), ("url", self.addresses)];
        let modes: Map<String, Value> =
            modes.into_iter().filter(|(_, can)| *can).map(|(mode, _)| (mode.to_owned(), json!({}))).collect();
        if !modes.is_empty() {
            declared.insert("elicitation".to_owned(), modes.into());
        }
        ClientCapabilities(Raw::of(&Value::Object(declared)))
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, sync::Arc};

    use serde_json::{Value, json};
    use toolway_config::server::Sharing;
    use toolway_wire::{json::Raw, message::ClientCapabilities, up::Declares};

    use super::{Asker, CapabilityProfile, LineKey};
    use crate::{call::Caller, connection::sign_in::Account};

    fn capabilities(value: &Value) -> ClientCapabilities {
        ClientCapabilities(Raw::of(value))
    }

    #[test]
    fn what_says_the_same_is_the_same_and_is_told_as_it_is() {
        for (said, told) in [
            (json!({}), json!({})),
            (json!({ "experimental": { "x": 1 }, "tasks": {} }), json!({})),
            (json!({ "elicitation": {} }), json!({ "elicitation": { "form": {} } })),
            (json!({ "elicitation": { "url": {} } }), json!({ "elicitation": { "url": {} } })),
            (
                json!({ "roots": { "listChanged": true }, "sampling": { "context": {} } }),
                json!({ "roots": {}, "sampling": {} }),
            ),
            (json!({ "sampling": { "tools": {} } }), json!({ "sampling": { "tools": {} } })),
        ] {
            let profile = CapabilityProfile::of(&capabilities(&said));
            assert_eq!(profile.capabilities().0.read::<Value>().unwrap(), told, "{said}");
            assert_eq!(CapabilityProfile::of(&profile.capabilities()), profile, "{said}");
        }
    }

    #[test]
    fn who_needs_a_line() {
        let (ada, session) = (Caller::Client("ada".into()), Arc::from("s1"));
        let forms = capabilities(&json!({ "elicitation": {} }));
        let key = |caller, capabilities, declares, sharing| {
            let asker = Asker { caller, capabilities, session: Some(&session), task: None };
            LineKey::of(asker, declares, sharing, (CapabilityProfile::NOTHING, &Account::Common))
        };
        let once = |capabilities, sharing| key(&ada, capabilities, Declares::Once, sharing);
        assert_eq!(key(&ada, Some(&forms), Declares::EachTime, Sharing::Session), None);
        assert_eq!(key(&Caller::Terminal, Some(&forms), Declares::Once, Sharing::Session), None);
        assert_eq!(once(None, Sharing::Shared), None);
        assert!(once(Some(&forms), Sharing::Shared).is_some_and(|key| key.session.is_none()));
        assert!(once(None, Sharing::Caller).is_some_and(|key| key.session.is_none()));
        assert_eq!(once(None, Sharing::Session).unwrap().session, Some(session.clone()));
        assert_ne!(once(None, Sharing::Caller), once(Some(&forms), Sharing::Caller));
        let told_more = CapabilityProfile::of(&forms);
        let asker = Asker { caller: &ada, capabilities: None, session: None, task: None };
        assert!(LineKey::of(asker, Declares::Once, Sharing::Shared, (told_more, &Account::Common)).is_some());
        // Nobody uses what somebody else signed in to, whatever the server is told and however it is shared.
        let personal = (CapabilityProfile::NOTHING, &Account::Personal);
        assert!(LineKey::of(asker, Declares::EachTime, Sharing::Shared, personal).is_some());
        let own = Asker { caller: &Caller::Terminal, ..asker };
        assert_eq!(LineKey::of(own, Declares::EachTime, Sharing::Shared, personal), None);
        // And where nobody's is used, whoever has one uses it.
        let signed_in = Account::Anonymous(Arc::new(HashSet::from(["ada".to_owned()]).into()));
        let anonymous = (CapabilityProfile::NOTHING, &signed_in);
        let ben = Caller::Client("ben".into());
        for declares in [Declares::EachTime, Declares::Once] {
            assert!(LineKey::of(asker, declares, Sharing::Shared, anonymous).is_some());
            assert_eq!(LineKey::of(Asker { caller: &ben, ..asker }, declares, Sharing::Shared, anonymous), None);
        }
    }
}
