//! What each server is told, for each caller: the roots of the command, of the configuration and of the gateway's clients.
//!
//! A server gets, for a gateway client that declares roots, the client's own and those configured for it; for others, those
//! of the command, the top level, the server and the client, equal ones once.

use std::{
    collections::BTreeMap,
    fmt,
    path::PathBuf,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Semaphore;
use toolway_config::{RootSetting, ServerName, Settings, roots::expand_home};
use toolway_wire::{
    budget::Charge,
    exchange::Answer,
    json::Raw,
    message::{ClientCapabilities, splice},
};

use super::{ClientRootBound, GivenRoot, Root, RootOrigin, SuppliedRoots, supplied::KeptRoots};
use crate::{
    call::Caller,
    connection::{RootsOffer, WantedSet},
    record::{AuditNote, CallRecorder, kind},
};

/// The roots of a host, at all levels.
pub(crate) struct RootsBook {
    /// Those of the command or of the embedding program.
    given: Vec<Root>,
    /// What bounds the roots of clients if the configuration does not.
    default_bound: ClientRootBound,
    home: Option<PathBuf>,
    recorder: Option<Arc<dyn CallRecorder>>,
    // Nothing awaits under these locks.
    levels: Mutex<Levels>,
    /// What clients supplied over HTTP, by name.
    supplied: Mutex<BTreeMap<String, KeptRoots>>,
    /// Serialises what changes the list of one client, in memory and in the store; empty if nothing does.
    turns: Mutex<BTreeMap<String, Weak<Semaphore>>>,
    /// How many roots of each client were dropped last, so that each change is reported once.
    dropped: Mutex<BTreeMap<String, usize>>,
}

/// What can change while the host runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Levels {
    top: Vec<Root>,
    servers: BTreeMap<ServerName, Vec<Root>>,
    clients: BTreeMap<String, Vec<Root>>,
    bound: ClientRootBound,
}

/// Servers and clients whose roots changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RootsChange {
    /// Servers that were told of roots before and are told of others now.
    pub(crate) announced: Vec<ServerName>,
    /// Servers that learn for the first time that there are roots, or that there are none any more.
    pub(crate) reconnected: Vec<ServerName>,
    /// Clients by name.
    pub(crate) clients: Vec<String>,
}

impl RootsBook {
    pub(crate) fn new(
        given: Vec<Root>,
        default_bound: ClientRootBound,
        home: Option<PathBuf>,
        recorder: Option<Arc<dyn CallRecorder>>,
    ) -> Self {
        let levels = Levels { bound: default_bound.clone(), ..Levels::default() };
        Self {
            given,
            default_bound,
            home,
            recorder,
            levels: Mutex::new(levels),
            supplied: Mutex::default(),
            turns: Mutex::default(),
            dropped: Mutex::default(),
        }
    }

    /// Replaces what the configuration says; returns what changed.
    pub(crate) fn configure(&self, settings: &Settings, servers: &WantedSet) -> RootsChange {
        let of_setting = |settings: &[RootSetting]| self.resolve(settings);
        let clients = settings.gateway.clients.value.iter();
        let after = Levels {
            top: of_setting(&settings.roots.value),
            servers: servers.iter().map(|(name, wanted)| (name.clone(), of_setting(&wanted.roots))).collect(),
            clients: clients.map(|(name, client)| (name.clone(), of_setting(&client.roots.value))).collect(),
            bound: match &settings.gateway.roots_within.value {
                Some(folders) => ClientRootBound::Within(self.folders(folders)),
                None => self.default_bound.clone(),
            },
        };
        let before = std::mem::replace(&mut *self.levels.lock(), after.clone());
        let mut change = RootsChange::default();
        for server in after.servers.keys().filter(|server| before.servers.contains_key(*server)) {
            let old = before.of(&self.given, Some(server), None, &[]);
            let new = after.of(&self.given, Some(server), None, &[]);
            if old.is_empty() != new.is_empty() {
                change.reconnected.push(server.clone());
            } else if old != new {
                change.announced.push(server.clone());
            }
        }
        let names = before.clients.keys().chain(after.clients.keys());
        let changed = names.filter(|name| before.clients.get(*name) != after.clients.get(*name));
        change.clients = changed.cloned().collect();
        change.clients.dedup();
        change
    }

    fn resolve(&self, settings: &[RootSetting]) -> Vec<Root> {
        let root = |setting: &RootSetting| match setting.uri(self.home.as_deref()) {
            Ok(uri) => Some(Root { uri, name: setting.name.clone() }),
            Err(error) => {
                tracing::warn!(root = ?setting.location, %error, "a root of the configuration is left out");
                None
            }
        };
        settings.iter().filter(|setting| setting.enabled).filter_map(root).collect()
    }

    fn folders(&self, written: &[String]) -> Vec<PathBuf> {
        written.iter().filter_map(|folder| expand_home(folder, self.home.as_deref()).ok()).collect()
    }

    /// The roots that a server gets for a caller that declares none itself; `None`: outside the calls of one client.
    pub(crate) fn roots(&self, server: &ServerName, client: Option<&str>) -> Vec<Root> {
        let supplied = client.map(|client| self.supplied_by(client)).unwrap_or_default();
        self.levels.lock().of(&self.given, Some(server), client, &supplied)
    }

    /// The roots that a server is told of, with what gives them: for all callers first, then for single clients. One that
    /// is given to all callers twice is there once.
    pub(crate) fn given(&self, server: &ServerName) -> Vec<GivenRoot> {
        let levels = self.levels.lock().clone();
        let of = |roots: &[Root], origin: RootOrigin| {
            let given = |root: &Root| GivenRoot { root: root.clone(), origin: origin.clone() };
            roots.iter().map(given).collect::<Vec<_>>()
        };
        let of_server = levels.servers.get(server).map(Vec::as_slice).unwrap_or_default();
        let all = [
            of(&self.given, RootOrigin::Command),
            of(&levels.top, RootOrigin::AllServers),
            of(of_server, RootOrigin::Server),
        ];
        let mut given: Vec<GivenRoot> = Vec::new();
        for root in all.into_iter().flatten() {
            if given.iter().all(|known| !is_same(&known.root.uri, &root.root.uri)) {
                given.push(root);
            }
        }
        for (client, roots) in &levels.clients {
            given.extend(of(roots, RootOrigin::Client(client.clone())));
        }
        let clients: Vec<String> = self.supplied.lock().keys().cloned().collect();
        for client in clients {
            given.extend(of(&self.supplied_by(&client), RootOrigin::SuppliedBy(client)));
        }
        given
    }

    /// The roots that a client supplied and that are passed on now: the bound, or a link in a path, may have changed.
    pub(crate) fn supplied_by(&self, client: &str) -> Vec<Root> {
        let Some(supplied) = self.supplied.lock().get(client).map(|kept| Arc::clone(&kept.roots)) else {
            return Vec::new();
        };
        let bound = self.levels.lock().bound.clone();
        supplied.iter().filter(|root| bound.admits(&root.uri)).cloned().collect()
    }

    /// Divides a list that a client supplies by what bounds it now. Reads the file system.
    pub(crate) fn admitted(&self, roots: Vec<Root>) -> SuppliedRoots {
        let bound = self.levels.lock().bound.clone();
        let (kept, dropped): (Vec<Root>, Vec<Root>) = roots.into_iter().partition(|root| bound.admits(&root.uri));
        SuppliedRoots { kept, dropped: dropped.into_iter().map(|root| root.uri).collect() }
    }

    /// Replaces what a client supplied; returns whether it changed.
    pub(crate) fn supply(&self, client: &str, roots: Vec<Root>, charge: Charge) -> bool {
        let mut supplied = self.supplied.lock();
        let before = supplied.remove(client).map(|kept| kept.roots);
        let is_changed = before.as_deref().unwrap_or_default() != roots.as_slice();
        if !roots.is_empty() {
            supplied.insert(client.to_owned(), KeptRoots { roots: roots.into(), _charge: charge });
        }
        is_changed
    }

    /// The URIs of the roots of all levels.
    pub(crate) fn uris(&self, server: &ServerName, client: Option<&str>) -> Vec<String> {
        self.roots(server, client).into_iter().map(|root| root.uri).collect()
    }

    /// What a server is told for a caller that declares no roots itself.
    pub(crate) fn offer(&self, server: &ServerName, caller: &Caller) -> RootsOffer {
        let levels = self.levels.lock();
        let has_own = |client| !levels.of_client(client).is_empty() || self.supplied.lock().contains_key(client);
        if caller.client().is_some_and(has_own) {
            return RootsOffer::ConfiguredForClient;
        }
        let of_server = levels.servers.get(server).is_some_and(|roots| !roots.is_empty());
        match self.given.is_empty() && levels.top.is_empty() && !of_server {
            true => RootsOffer::Nothing,
            false => RootsOffer::Configured,
        }
    }

    /// The result of `roots/list` for a caller that declares none itself.
    pub(crate) fn list(&self, server: &ServerName, client: Option<&str>) -> Raw {
        listed(&self.roots(server, client))
    }

    /// The capabilities of a request, with roots if the caller declares none and there are some for it.
    pub(crate) fn declared(
        &self,
        capabilities: ClientCapabilities,
        server: &ServerName,
        caller: &Caller,
    ) -> ClientCapabilities {
        if self.offer(server, caller) == RootsOffer::Nothing || declares_roots(&capabilities) {
            return capabilities;
        }
        ClientCapabilities(splice::edited(&capabilities.0, &[splice::Edit::Set("roots", Raw::empty_object())]))
    }

    /// The answer of a gateway client to `roots/list`, without the roots that are not passed on, and with those that are
    /// configured for it.
    pub(crate) fn complete(&self, client: &str, answer: Answer) -> Answer {
        let Answer::Given(given) = answer else { return answer };
        let bound = self.levels.lock().bound.clone();
        let mut configured = self.levels.lock().of_client(client).to_vec();
        configured.extend(self.supplied_by(client));
        let listed = given.get("roots").map(|roots| roots.elements()).unwrap_or_default();
        let total = listed.len();
        let mut kept: Vec<Raw> = match bound {
            ClientRootBound::Anywhere => listed,
            _ => listed.iter().filter_map(|root| admitted(root, &bound)).collect(),
        };
        self.report_dropped(client, total - kept.len(), &bound);
        let is_new = |root: &&Root| kept.iter().all(|known| uri_of(known).as_deref() != Some(&root.uri));
        let mut added: Vec<Raw> = configured.iter().filter(is_new).map(|root| Raw::of(&shown(root))).collect();
        added.dedup_by_key(|root| uri_of(root));
        if bound == ClientRootBound::Anywhere && added.is_empty() {
            return Answer::Given(given);
        }
        kept.extend(added);
        let roots = splice::array(&kept);
        Answer::Given(match bound {
            ClientRootBound::Anywhere => splice::edited(&given, &[splice::Edit::Set("roots", roots)]),
            // Made anew: another list under the same key, which a server may read instead, is not passed on.
            _ => {
                let meta = given.get("_meta");
                splice::object(meta.iter().map(|meta| ("_meta", meta)).chain([("roots", &roots)]))
            }
        })
    }

    /// What serialises changes of the list of a client. Its permit is held until memory and store agree.
    pub(crate) fn turn_of(&self, client: &str) -> Arc<Semaphore> {
        let mut turns = self.turns.lock();
        if let Some(turn) = turns.get(client).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::new(Semaphore::new(1));
        turns.insert(client.to_owned(), Arc::downgrade(&turn));
        turn
    }

    /// The list of a client as it is in memory.
    pub(crate) fn supplied_list(&self, client: &str) -> Vec<Root> {
        self.supplied.lock().get(client).map(|kept| kept.roots.to_vec()).unwrap_or_default()
    }

    /// Forgets what a client supplied; returns whether there was something.
    pub(crate) fn forget_supplied(&self, client: &str) -> bool {
        self.supplied.lock().remove(client).is_some()
    }

    /// Tells the operator how many roots of a list that a client supplied are dropped.
    pub(crate) fn report_supplied(&self, client: &str, dropped: usize) {
        let bound = self.levels.lock().bound.clone();
        self.report_dropped(client, dropped, &bound);
    }

    /// Tells the operator, in the log and in the audit log, how many roots of a client are dropped.
    fn report_dropped(&self, client: &str, dropped: usize, bound: &ClientRootBound) {
        let before = match dropped {
            0 => self.dropped.lock().remove(client),
            dropped => self.dropped.lock().insert(client.to_owned(), dropped),
        };
        if dropped == 0 || before == Some(dropped) {
            return;
        }
        let why = match bound {
            ClientRootBound::Within(_) => "they are not within `gateway.rootsWithin`",
            _ => "others can reach the gateway, and `gateway.rootsWithin` is not set",
        };
        tracing::warn!(client, dropped, why, "roots of a client are not passed on to servers");
        if let Some(recorder) = &self.recorder {
            let caller = Some(Caller::Client(client.into()).label());
            let details = json!({ "method": "roots/list", "dropped": dropped, "reason": why });
            let kind = kind::SERVER_REQUEST;
            recorder.note(AuditNote { kind, caller, server: None, subject: None, call: None, details });
        }
    }
}

impl fmt::Debug for RootsBook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RootsBook").field("levels", &*self.levels.lock()).finish_non_exhaustive()
    }
}

impl Levels {
    /// The roots of all levels, equal ones once.
    fn of(&self, given: &[Root], server: Option<&ServerName>, client: Option<&str>, supplied: &[Root]) -> Vec<Root> {
        let of_server = server.and_then(|server| self.servers.get(server)).into_iter().flatten();
        let of_client = client.map(|client| self.of_client(client)).into_iter().flatten();
        let mut roots: Vec<Root> = Vec::new();
        for root in given.iter().chain(&self.top).chain(of_server).chain(of_client).chain(supplied) {
            if roots.iter().all(|known| !is_same(&known.uri, &root.uri)) {
                roots.push(root.clone());
            }
        }
        roots
    }

    fn of_client(&self, client: &str) -> &[Root] {
        self.clients.get(client).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Whether a caller answers `roots/list` itself.
pub(crate) fn declares_roots(capabilities: &ClientCapabilities) -> bool {
    capabilities.lacks("roots/list", None).is_none()
}

/// Whether two URIs name the same root: a final `/` makes no difference.
fn is_same(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

/// A root that a bound admits, with the members that were looked at and no others: keys that occur twice, or that differ only
/// in case, are read differently by servers.
fn admitted(root: &Raw, bound: &ClientRootBound) -> Option<Raw> {
    let keys = ["uri", "name", "_meta"];
    uri_of(root).filter(|uri| bound.admits(uri))?;
    let members = root.fields(keys);
    Some(splice::object(keys.into_iter().zip(&members).filter_map(|(key, member)| Some((key, member.as_ref()?)))))
}

fn uri_of(root: &Raw) -> Option<String> {
    root.get("uri").as_ref().and_then(Raw::as_str).map(std::borrow::Cow::into_owned)
}

fn listed(roots: &[Root]) -> Raw {
    Raw::of(&json!({ "roots": roots.iter().map(shown).collect::<Vec<_>>() }))
}

fn shown(root: &Root) -> serde_json::Value {
    match &root.name {
        Some(name) => json!({ "uri": root.uri, "name": name }),
        None => json!({ "uri": root.uri }),
    }
}
