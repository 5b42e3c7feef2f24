//! Results of `resources/read` that are used again for a while: for the same caller, server and URI, over the same connection.
//!
//! Only calls that say how old a result may be use them; calls of gateway clients do not. A call that is answered from here
//! was found and decided on like any other, and has a record. A result is dropped when its server announces a change of it
//! or of its list, when a tool or a task of the server may have written, with its connection, and after its time.

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use toolway_config::ServerName;
use toolway_wire::{
    budget::{Kept, MemoryBudget},
    exchange::Outcome,
    json::Raw,
    notice::{List, Notice, SubscriptionFilter},
    up::Peer,
};

use super::{CallKind, CallRequest, Caller};
use crate::{
    connection::{Connection, InFlightCall, WantedServer},
    host::Inner,
    policy::{Grant, Subject},
};

/// Bytes of all results.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of one result.
const MAX_RESULT: usize = 2 * 1024 * 1024;
/// Results that are kept. Each may have a subscription of its own.
const MAX_RESULTS: usize = 32;

/// The results of a host.
#[derive(Debug)]
pub(crate) struct ResourceCache {
    memory: MemoryBudget,
    // Nothing awaits under this lock.
    results: Mutex<HashMap<ResourceKey, KeptResource>>,
    /// How often results of a server were dropped because something may have been written there.
    writes: Mutex<HashMap<ServerName, u64>>,
    /// Number of the last result.
    last: AtomicU64,
}

/// Whose result it is. Callers never share one: a server may show each another content.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ResourceKey {
    caller: Caller,
    server: ServerName,
    uri: String,
}

#[derive(Debug)]
struct KeptResource {
    number: u64,
    /// Holds its charge.
    result: Raw,
    read_at: Instant,
    /// How long the server lets it be used; `None`: it does not say.
    server_time: Option<Duration>,
    /// The entry and the connection that it was read over.
    wanted: Arc<WantedServer>,
    generation: u64,
    /// Ends the task that waits for changes.
    _watch: DropGuard,
}

impl ResourceCache {
    pub(crate) fn new(memory: &MemoryBudget) -> Self {
        Self {
            memory: memory.keeping(Kept::Resource),
            results: Mutex::default(),
            writes: Mutex::default(),
            last: AtomicU64::new(0),
        }
    }

    /// The result of an earlier call that may answer this one.
    pub(super) fn find(&self, request: &CallRequest, grant: &Grant, connection: &Connection) -> Option<Raw> {
        let key = key_of(request, grant.subject())?;
        let generation = connection.live().peer.as_ref().map(|(generation, _)| *generation)?;
        let wanted = connection.wanted();
        let mut results = self.results.lock();
        let kept = results.get(&key)?;
        let most = kept.server_time.map_or(request.max_age, |time| time.min(request.max_age));
        let is_current = kept.generation == generation && Arc::ptr_eq(&kept.wanted, &wanted);
        if is_current && kept.read_at.elapsed() < most {
            return Some(kept.result.clone());
        }
        results.remove(&key);
        None
    }

    /// How often something may have been written at a server: a read that was sent before is not kept after the next time.
    pub(super) fn writes_of(&self, server: &ServerName) -> u64 {
        self.writes.lock().get(server).copied().unwrap_or_default()
    }

    /// Keeps the outcome of a read, and waits for changes of it until it is dropped.
    pub(super) fn keep(host: &Arc<Inner>, request: &CallRequest, sent: &InFlightCall, outcome: &Outcome) {
        let Outcome::Answered(result) = outcome else { return };
        let Some(key) = key_of(request, sent.permit().subject()) else { return };
        let Some((generation, peer)) = sent.shared_peer() else { return };
        let server_time = peer.result_lifetime(result);
        let bytes = result.as_bytes().len();
        if MAX_RESULT < bytes || server_time.is_some_and(|time| time.is_zero()) {
            return;
        }
        let cache = &host.resource_cache;
        let Ok(charge) = cache.memory.of_server(key.server.as_str()).charge(bytes) else { return };
        let number = cache.last.fetch_add(1, Ordering::Relaxed) + 1;
        let watch = CancellationToken::new();
        let kept = KeptResource {
            number,
            result: result.kept(charge),
            read_at: Instant::now(),
            server_time,
            wanted: sent.connection.wanted(),
            generation,
            _watch: watch.clone().drop_guard(),
        };
        if !cache.insert(key.clone(), kept, sent.writes_before) {
            return;
        }
        let time = server_time.map_or(request.max_age, |time| time.min(request.max_age));
        let followed = FollowedResource { key, number, time };
        host.spawn(followed.follow(Arc::downgrade(host), host.stop_token(), peer.clone(), watch));
    }

    /// Drops the results of a server, because a tool of it may have changed what they are about, and those of reads that
    /// were sent and are not answered.
    pub(crate) fn forget_server(&self, server: &ServerName) {
        let mut results = self.results.lock();
        *self.writes.lock().entry(server.clone()).or_default() += 1;
        results.retain(|key, _| key.server != *server);
    }

    /// Drops the results of a caller.
    pub(crate) fn forget_caller(&self, caller: &Caller) {
        self.results.lock().retain(|key, _| key.caller != *caller);
    }

    /// Makes room by dropping the oldest; `false` if something may have been written since `writes_before`.
    fn insert(&self, key: ResourceKey, kept: KeptResource, writes_before: u64) -> bool {
        let mut results = self.results.lock();
        if self.writes_of(&key.server) != writes_before {
            return false;
        }
        results.remove(&key);
        let bytes = |results: &HashMap<ResourceKey, KeptResource>| -> usize {
            results.values().map(|kept| kept.result.as_bytes().len()).sum()
        };
        let size = kept.result.as_bytes().len();
        while MAX_RESULTS <= results.len() || MAX_BYTES < bytes(&results) + size {
            let oldest = results.iter().min_by_key(|(_, kept)| kept.number).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { break };
            results.remove(&oldest);
        }
        results.insert(key, kept);
        true
    }

    /// Drops one result, unless a newer one took its place.
    fn forget(&self, key: &ResourceKey, number: u64) {
        let mut results = self.results.lock();
        if results.get(key).is_some_and(|kept| kept.number == number) {
            results.remove(key);
        }
    }
}

/// The key of a call that may use results again; `None` for every other call.
fn key_of(request: &CallRequest, subject: &Subject) -> Option<ResourceKey> {
    let is_read = subject.kind == CallKind::Resource && request.target.kind() == CallKind::Resource;
    if request.max_age.is_zero() || !is_read || request.whole.is_some() {
        return None;
    }
    Some(ResourceKey { caller: request.caller.clone(), server: subject.server.clone(), uri: subject.raw_name.clone() })
}

/// A result that is dropped when its server announces a change, and after its time.
struct FollowedResource {
    key: ResourceKey,
    number: u64,
    time: Duration,
}

impl FollowedResource {
    async fn follow(self, host: Weak<Inner>, stop: CancellationToken, peer: Peer, watch: CancellationToken) {
        let Self { key, number, time } = self;
        tokio::select! {
            () = watch.cancelled() => {}
            () = stop.cancelled() => {}
            () = tokio::time::sleep(time) => {}
            () = changed(peer, &key.uri) => {}
        }
        if let Some(host) = host.upgrade() {
            host.resource_cache.forget(&key, number);
        }
    }
}

/// Resolves when the server announces a change; never if it announces none.
async fn changed(peer: Peer, uri: &str) {
    let capabilities = &peer.profile().capabilities;
    let uris = if capabilities.flag("resources", "subscribe") { vec![uri.to_owned()] } else { Vec::new() };
    let resources = capabilities.flag("resources", "listChanged");
    let wanted = SubscriptionFilter { resources, uris, ..SubscriptionFilter::default() };
    let opened = if wanted == SubscriptionFilter::default() { None } else { Some(peer.listen(wanted).await) };
    // A subscription does not keep the connection open.
    drop(peer);
    let Some(Ok(mut subscription)) = opened else { return std::future::pending().await };
    loop {
        match subscription.next().await {
            Some(Notice::Updated { .. } | Notice::Changed(List::Resources) | Notice::Missed(_)) | None => return,
            Some(_) => {}
        }
    }
}
