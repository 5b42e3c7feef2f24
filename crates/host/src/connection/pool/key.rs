//! Which caller connection a request needs: by its caller, the caller's capabilities, and its session.

use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};
use toolway_config::server::Sharing;
use toolway_wire::{
    json::Raw,
    message::ClientCapabilities,
    up::{CapabilityScope, Peer, SessionSupport},
};

use crate::{
    call::{Caller, CallerContext},
    connection::sign_in::Account,
    sampling::SamplingOffer,
};

/// Requests with the same key can share a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallerConnectionKey {
    pub(crate) caller: Caller,
    pub(crate) profile: CapabilityProfile,
    /// The caller's session, if each has its own connections.
    pub(crate) session: Option<Arc<str>>,
    /// How the server is reached.
    pub(crate) reach: ServerReach,
}

/// How a caller connection reaches its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ServerReach {
    /// In the way of the shared connection.
    AsShared,
    /// With a session, although the shared connection has none: the caller answers requests that only a session carries.
    WithSession,
    /// Without a session, although the shared connection has one: the tool sends server requests as results.
    Stateless,
}

/// Client capabilities in normal form: equal if they permit the same server requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CapabilityProfile {
    /// Whether it answers `roots/list`, and announces changes.
    pub roots: RootsOffer,
    /// What it supports of sampling.
    pub sampling: SamplingOffer,
    /// Whether it supports elicitation by form.
    pub forms: bool,
    /// Whether it supports elicitation by URL.
    pub addresses: bool,
    /// Whether it renders UI pages of tools (MCP Apps), as HTML.
    pub pages: bool,
}

/// What a client supports of roots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RootsOffer {
    /// It answers no `roots/list`.
    Nothing,
    /// It answers `roots/list`.
    Listed,
    /// It answers `roots/list` and announces changes.
    Announced,
    /// It answers none; the server gets the roots of the configuration, which are the same for all such callers.
    Configured,
    /// The same, with roots that are configured for this client.
    ConfiguredForClient,
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestOrigin<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) capabilities: Option<&'a ClientCapabilities>,
    pub(crate) session: Option<&'a Arc<str>>,
    /// Id of the task it concerns.
    pub(crate) task: Option<&'a str>,
    /// Raw name of the tool it calls.
    pub(crate) tool: Option<&'a str>,
    /// What the server is told of roots if the caller declares none.
    pub(crate) configured_roots: RootsOffer,
    /// What the server is told of sampling, if that is not what the caller declared.
    pub(crate) sampling: Option<SamplingOffer>,
    /// Whether the inbox answers forms and URLs if the caller answers none.
    pub(crate) waits_in_inbox: bool,
}

/// The extension of UI pages, and the only content type that it defines.
const UI: &str = "io.modelcontextprotocol/ui";
const PAGE_TYPE: &str = "text/html;profile=mcp-app";

static WITH_TOOLS: LazyLock<Raw> = LazyLock::new(|| Raw::of(&json!({ "tools": [] })));
static BY_ADDRESS: LazyLock<Raw> = LazyLock::new(|| Raw::of(&json!({ "mode": "url" })));

impl<'a> RequestOrigin<'a> {
    pub(crate) fn of(caller_context: &'a CallerContext) -> Self {
        Self {
            caller: &caller_context.caller,
            capabilities: caller_context.capabilities.as_ref(),
            session: caller_context.session.as_ref(),
            task: None,
            tool: None,
            configured_roots: RootsOffer::Nothing,
            sampling: None,
            waits_in_inbox: false,
        }
    }

    /// What the server is told of the caller's capabilities, in normal form.
    pub(crate) fn profile(&self) -> CapabilityProfile {
        let declared = self.capabilities.map_or(CapabilityProfile::NOTHING, CapabilityProfile::of);
        let roots = match declared.roots {
            RootsOffer::Nothing => self.configured_roots,
            offered => offered,
        };
        let waits = self.waits_in_inbox && !declared.forms && !declared.addresses;
        let forms = declared.forms || waits;
        let addresses = declared.addresses || waits;
        let sampling = self.sampling.unwrap_or(declared.sampling);
        CapabilityProfile { roots, sampling, forms, addresses, ..declared }
    }

    /// The same, with a profile for a caller that declared nothing of its own.
    fn profile_or(&self, unsaid: CapabilityProfile) -> CapabilityProfile {
        match self.capabilities {
            Some(_) => self.profile(),
            None => CapabilityProfile { sampling: self.sampling.unwrap_or(unsaid.sampling), ..unsaid },
        }
    }
}

impl CallerConnectionKey {
    /// The key of the connection a request needs; `None` if it uses the shared connection. That serves all requests to
    /// servers that receive capabilities with each request, callers other than gateway clients, and clients without
    /// capabilities if the operator permits sharing. A shared connection with a user's sign-in serves no client, and one
    /// without sign-in serves no client that has signed in.
    pub(crate) fn of(
        origin: RequestOrigin<'_>,
        declares: CapabilityScope,
        sharing: Sharing,
        (base, account): (CapabilityProfile, &Account),
    ) -> Option<Self> {
        let common = account.serves(origin.caller);
        if declares == CapabilityScope::PerRequest && common {
            return None;
        }
        if origin.caller.client().is_none() {
            return Self::of_console(origin, declares, base);
        }
        let profile = origin.profile();
        // The server must not expect capabilities that a caller on the shared connection lacks.
        if sharing == Sharing::Shared && profile == base && profile.is_common() && common {
            return None;
        }
        let session = origin.session.filter(|_| sharing == Sharing::Session).cloned();
        Some(Self { caller: origin.caller.clone(), profile, session, reach: ServerReach::AsShared })
    }

    /// The key of a connection to a server of both eras in the era that the shared connection does not have; `None` if the
    /// request needs no such connection. A caller with capabilities is reached with a session, if it has one itself or is
    /// local; a tool that sends server requests as results is called without one.
    pub(crate) fn in_other_era(
        origin: RequestOrigin<'_>,
        declares: CapabilityScope,
        sharing: Sharing,
        shared: &Peer,
        base: CapabilityProfile,
    ) -> Option<Self> {
        let by_result = || origin.tool.is_some_and(|tool| shared.asks_by_result(tool));
        // A local caller without capabilities of its own has those of the shared connection.
        let unsaid = if origin.caller.client().is_some() { CapabilityProfile::NOTHING } else { base };
        let profile = origin.profile_or(unsaid);
        let caller = match origin.caller {
            // All conversations share one connection.
            Caller::Agent(_) => Caller::Console,
            other => other.clone(),
        };
        let key = |reach, session| Self { caller, profile, session, reach };
        match (declares, shared.session_support()) {
            (CapabilityScope::PerRequest, SessionSupport::Unknown | SessionSupport::Offered) => {
                // What the host answers is not asked of the caller.
                let has_roots = matches!(profile.roots, RootsOffer::Configured | RootsOffer::ConfiguredForClient);
                let is_answered = has_roots || origin.waits_in_inbox;
                let has_session = origin.session.is_some() || origin.caller.client().is_none() || is_answered;
                let wanted = has_session && profile.answers_requests() && !by_result();
                let session = origin.session.filter(|_| sharing == Sharing::Session).cloned();
                wanted.then(|| key(ServerReach::WithSession, session))
            }
            (CapabilityScope::PerConnection, SessionSupport::Offered) if by_result() => {
                Some(key(ServerReach::Stateless, None))
            }
            _ => None,
        }
    }

    /// The key of the user of a gateway, in its console or with a command that left its call to the gateway: these calls may
    /// answer more than the shared connection declares. `None` for other local callers. All share one connection.
    fn of_console(origin: RequestOrigin<'_>, declares: CapabilityScope, base: CapabilityProfile) -> Option<Self> {
        let is_user = matches!(origin.caller, Caller::Agent(_) | Caller::Console | Caller::Terminal);
        origin.capabilities.filter(|_| is_user && declares == CapabilityScope::PerConnection)?;
        let profile = origin.profile();
        (profile != base).then(|| Self::local(&Caller::Console, profile))
    }

    /// The key of a local caller that must not use the shared connection, because a client took it over.
    pub(crate) fn local(caller: &Caller, profile: CapabilityProfile) -> Self {
        Self { caller: caller.clone(), profile, session: None, reach: ServerReach::AsShared }
    }
}

impl CapabilityProfile {
    /// No capabilities.
    pub const NOTHING: Self = Self {
        roots: RootsOffer::Nothing,
        sampling: SamplingOffer::Nothing,
        forms: false,
        addresses: false,
        pages: false,
    };

    /// Normalizes the capabilities.
    pub fn of(capabilities: &ClientCapabilities) -> Self {
        // Fast path: most clients declare `{}`.
        if capabilities.0.as_bytes() == b"{}" {
            return Self::NOTHING;
        }
        let can = |method, params| capabilities.lacks(method, params).is_none();
        let sampling = match can("sampling/createMessage", None) {
            true if can("sampling/createMessage", Some(&WITH_TOOLS)) => SamplingOffer::WithTools,
            true => SamplingOffer::Messages,
            false => SamplingOffer::Nothing,
        };
        let announces = || capabilities.0.get("roots").and_then(|roots| roots.get("listChanged"));
        let roots = match can("roots/list", None) {
            true if announces().is_some_and(|flag| flag.as_bytes() == b"true") => RootsOffer::Announced,
            true => RootsOffer::Listed,
            false => RootsOffer::Nothing,
        };
        Self {
            roots,
            sampling,
            forms: can("elicitation/create", None),
            addresses: can("elicitation/create", Some(&BY_ADDRESS)),
            pages: renders_pages(capabilities),
        }
    }

    /// Whether all callers that answer no server request have the same: nothing, or the roots of the configuration.
    pub(crate) fn is_common(self) -> bool {
        !self.asks_a_person() && !self.pages && matches!(self.roots, RootsOffer::Nothing | RootsOffer::Configured)
    }

    /// Whether a server may send requests other than `roots/list`.
    pub(crate) fn asks_a_person(self) -> bool {
        Self { roots: RootsOffer::Nothing, pages: false, ..self } != Self::NOTHING
    }

    /// Whether a server may send requests to such a client.
    pub(crate) fn answers_requests(self) -> bool {
        Self { pages: false, ..self } != Self::NOTHING
    }

    /// The capabilities as declared to a server.
    pub fn capabilities(self) -> ClientCapabilities {
        let mut declared = Map::new();
        match self.roots {
            RootsOffer::Nothing => {}
            RootsOffer::Listed => drop(declared.insert("roots".to_owned(), json!({}))),
            RootsOffer::Announced | RootsOffer::Configured | RootsOffer::ConfiguredForClient => {
                drop(declared.insert("roots".to_owned(), json!({ "listChanged": true })))
            }
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
        if self.pages {
            declared.insert("extensions".to_owned(), json!({ UI: { "mimeTypes": [PAGE_TYPE] } }));
        }
        ClientCapabilities(Raw::of(&Value::Object(declared)))
    }
}

fn renders_pages(capabilities: &ClientCapabilities) -> bool {
    let types = capabilities.0.get("extensions").and_then(|all| all.get(UI)).and_then(|ui| ui.get("mimeTypes"));
    types.is_some_and(|types| types.elements().iter().any(|one| one.as_str().as_deref() == Some(PAGE_TYPE)))
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, sync::Arc};

    use serde_json::{Value, json};
    use toolway_config::server::Sharing;
    use toolway_wire::{json::Raw, message::ClientCapabilities, up::CapabilityScope};

    use super::{CallerConnectionKey, CapabilityProfile, RequestOrigin, RootsOffer};
    use crate::{call::Caller, connection::sign_in::Account};

    fn capabilities(value: &Value) -> ClientCapabilities {
        ClientCapabilities(Raw::of(value))
    }

    #[test]
    fn equivalent_capabilities_are_normalized() {
        for (given, normalized) in [
            (json!({}), json!({})),
            (json!({ "experimental": { "x": 1 }, "tasks": {} }), json!({})),
            (json!({ "elicitation": {} }), json!({ "elicitation": { "form": {} } })),
            (json!({ "elicitation": { "url": {} } }), json!({ "elicitation": { "url": {} } })),
            (
                json!({ "roots": { "listChanged": false, "x": 1 }, "sampling": { "context": {} } }),
                json!({ "roots": {}, "sampling": {} }),
            ),
            (json!({ "roots": { "listChanged": true } }), json!({ "roots": { "listChanged": true } })),
            (json!({ "sampling": { "tools": {} } }), json!({ "sampling": { "tools": {} } })),
            (
                json!({ "extensions": { "io.modelcontextprotocol/ui": { "mimeTypes": ["text/html;profile=mcp-app"] }, "x/y": {} } }),
                json!({ "extensions": { "io.modelcontextprotocol/ui": { "mimeTypes": ["text/html;profile=mcp-app"] } } }),
            ),
            (json!({ "extensions": { "io.modelcontextprotocol/ui": {} } }), json!({})),
        ] {
            let profile = CapabilityProfile::of(&capabilities(&given));
            assert_eq!(profile.capabilities().0.read::<Value>().unwrap(), normalized, "{given}");
            assert_eq!(CapabilityProfile::of(&profile.capabilities()), profile, "{given}");
        }
    }

    #[test]
    fn requests_that_need_a_caller_connection() {
        let (ada, session) = (Caller::Client("ada".into()), Arc::from("s1"));
        let forms = capabilities(&json!({ "elicitation": {} }));
        let key = |caller, capabilities, declares, sharing| {
            let origin = RequestOrigin {
                caller,
                capabilities,
                session: Some(&session),
                task: None,
                tool: None,
                configured_roots: RootsOffer::Nothing,
                sampling: None,
                waits_in_inbox: false,
            };
            CallerConnectionKey::of(origin, declares, sharing, (CapabilityProfile::NOTHING, &Account::Common))
        };
        let once = |capabilities, sharing| key(&ada, capabilities, CapabilityScope::PerConnection, sharing);
        assert_eq!(key(&ada, Some(&forms), CapabilityScope::PerRequest, Sharing::Session), None);
        // A call that a command left to the gateway answers what those of the console do.
        let local = |caller, declared| key(caller, declared, CapabilityScope::PerConnection, Sharing::Session);
        assert_eq!(local(&Caller::Terminal, Some(&forms)), local(&Caller::Console, Some(&forms)));
        assert!(local(&Caller::Terminal, Some(&forms)).is_some_and(|key| key.session.is_none()));
        assert_eq!([local(&Caller::Terminal, None), local(&Caller::Program, Some(&forms))], [None, None]);
        assert_eq!(once(None, Sharing::Shared), None);
        assert!(once(Some(&forms), Sharing::Shared).is_some_and(|key| key.session.is_none()));
        assert!(once(None, Sharing::Caller).is_some_and(|key| key.session.is_none()));
        assert_eq!(once(None, Sharing::Session).unwrap().session, Some(session.clone()));
        assert_ne!(once(None, Sharing::Caller), once(Some(&forms), Sharing::Caller));
        let more = CapabilityProfile::of(&forms);
        let origin = RequestOrigin {
            caller: &ada,
            capabilities: None,
            session: None,
            task: None,
            tool: None,
            configured_roots: RootsOffer::Nothing,
            sampling: None,
            waits_in_inbox: false,
        };
        assert!(
            CallerConnectionKey::of(origin, CapabilityScope::PerConnection, Sharing::Shared, (more, &Account::Common))
                .is_some()
        );
        // No client uses the sign-in of another user, whatever the server's capabilities and sharing.
        let personal = (CapabilityProfile::NOTHING, &Account::Personal);
        assert!(CallerConnectionKey::of(origin, CapabilityScope::PerRequest, Sharing::Shared, personal).is_some());
        let own = RequestOrigin { caller: &Caller::Terminal, ..origin };
        assert_eq!(CallerConnectionKey::of(own, CapabilityScope::PerRequest, Sharing::Shared, personal), None);
        // If the shared connection has no sign-in, clients with their own use theirs.
        let signed_in = Account::Anonymous(Arc::new(HashSet::from(["ada".to_owned()]).into()));
        let anonymous = (CapabilityProfile::NOTHING, &signed_in);
        let ben = Caller::Client("ben".into());
        for declares in [CapabilityScope::PerRequest, CapabilityScope::PerConnection] {
            assert!(CallerConnectionKey::of(origin, declares, Sharing::Shared, anonymous).is_some());
            assert_eq!(
                CallerConnectionKey::of(RequestOrigin { caller: &ben, ..origin }, declares, Sharing::Shared, anonymous),
                None
            );
        }
    }
}
