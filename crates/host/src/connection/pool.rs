//! The connection pool of one server: connections reserved for callers that cannot use the shared one.
//!
//! A server with sessions learns the client's capabilities once, in the handshake, and its requests (elicitation, sampling,
//! roots) do not name the call they belong to. So each client of the gateway has its own connections, one key per set of
//! capabilities ([`key`]). The shared connection, from which the catalog is built, serves all other callers, unless one
//! client has taken it over ([`takeover`]).
//!
//! Calls run in parallel on a connection. If a server request could belong to several calls, no caller sees it, and from
//! then on the server receives one interactive call at a time. A call that waits for an answer does not block others: they
//! use another connection, up to a bound ([`state`]). A connection is dialled on first use ([`dial`]); a call holds a
//! [`lease`] on it. It closes after idle time, and with the shared connection. [`parked`] selects the call to end when all
//! connections wait for answers.

mod caller_connection;
mod dial;
mod dial_backoff;
pub(crate) mod key;
mod lease;
mod list_follower;
mod parked;
mod profile_listings;
mod state;
mod takeover;
mod tasks;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use toolway_config::{Secret, ServerName};
use toolway_wire::{exchange::ServerRequestHandler, json::Raw, task::Task, up::Peer};

pub use self::key::{CapabilityProfile, RootsOffer};
use self::{
    caller_connection::CallerConnection,
    profile_listings::ProfileListings,
    state::{Arrival, Concurrency, PoolState, Selection},
    takeover::Takeover,
};
pub(crate) use self::{
    key::{CallerConnectionKey, RequestOrigin, ServerReach},
    lease::CallerLease,
    list_follower::ListingAttempt,
    state::Interactivity,
    takeover::SharedProcess,
};
use super::{
    client_features::ClientFeatures,
    sign_in::{Account, SignIns},
    state::NotConnected,
    supervisor::HostContext,
    usage::UsageCounter,
    wanted::WantedServer,
};
use crate::{
    call::Caller,
    catalog::{Listing, listing_table::ServerListings},
    policy::Refusal,
    whose_move::WhoseMove,
};

/// The connections to one server that are reserved for callers.
pub(crate) struct ConnectionPool {
    server: ServerName,
    context: Arc<HostContext>,
    // Nothing awaits under this lock.
    state: Mutex<PoolState>,
    /// Notified when a connection was added or has to be closed.
    changed: Notify,
    /// Set after a server request that could belong to several calls: interactive calls are sent one at a time.
    one_at_a_time: Arc<AtomicBool>,
    /// Capabilities declared on the shared connection, as of its last dial. Nothing awaits under this lock.
    shared_profile: Mutex<CapabilityProfile>,
    /// Permits one interactive call at a time on the shared connection.
    shared_turn: Arc<Semaphore>,
    uses: Arc<UsageCounter>,
    /// What the server lists to each profile. Nothing awaits under this lock.
    profile_listings: Mutex<ProfileListings>,
    /// Where its listings are kept.
    listings: ServerListings,
    /// Lists of callers that are read at the same time.
    list_turns: Arc<Semaphore>,
    /// Notified when an attempt to find out a profile's listing has ended.
    discovered: Notify,
    /// Whether a client may take over the shared connection. Nothing awaits under this lock.
    takeover: Mutex<Takeover>,
}

/// What a caller connection is dialled with: the entry of the server, the shared connection, and its listing.
pub(crate) struct DialContext<'a> {
    pub(crate) wanted: &'a WantedServer,
    pub(crate) shared: &'a Peer,
    /// The callers that may use the shared connection.
    pub(crate) account: &'a Account,
    pub(crate) listing: &'a (dyn Fn() -> Option<Arc<Listing>> + Sync),
    /// The process of the shared connection, if a client may take it over.
    pub(crate) process: Option<SharedProcess<'a>>,
}

/// Why a request got no lease.
#[derive(Debug)]
pub(crate) enum NoLease {
    /// The server is not connected.
    NotConnected(NotConnected),
    /// Too many calls or connections.
    Refused(Refusal),
}

/// Status of a caller connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerConnectionStatus {
    /// The caller it is reserved for.
    pub caller: Caller,
    /// Capabilities declared to the server.
    pub profile: CapabilityProfile,
    /// Calls in flight.
    pub calls: usize,
    /// Calls in flight that wait for an answer to a server request.
    pub parked: usize,
    /// Process id, if the server is a process.
    pub process: Option<u32>,
    /// Session id assigned by the server, for the operator only.
    pub session_id: Option<Secret>,
}

/// A list changed for some callers only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerListChange {
    /// The server whose list changed.
    pub server: ServerName,
    /// The caller whose connection reported the change; `None` if the listing of a whole profile was discovered.
    pub caller: Option<Caller>,
}

/// A log message outside of calls, on the connection of one caller.
#[derive(Clone, Debug)]
pub struct CallerLog {
    /// The server that sent it.
    pub server: ServerName,
    /// The caller that the connection is reserved for.
    pub caller: Caller,
    /// The caller's session, if each has its own connection.
    pub session: Option<Arc<str>>,
    /// `level`, `logger` and `data`, unchanged.
    pub params: Raw,
}

/// How long an idle connection is kept if the server has no `idleStop`.
pub(crate) const IDLE: Duration = Duration::from_secs(5 * 60);
/// Caller connections whose lists are read at the same time: equal lists of the others are then shared at once, and the
/// share of the server is not used up by lists that are only being read.
const LISTS_AT_ONCE: usize = 2;
/// Calls that may queue for one key; further ones are refused at once.
const WAITING: usize = 256;

// === impl ConnectionPool ===

impl ConnectionPool {
    pub(crate) fn new(server: ServerName, context: Arc<HostContext>, uses: Arc<UsageCounter>, seed: u64) -> Arc<Self> {
        let listings = context.listings.of(&server);
        let shared_profile = profile_of(&context.features(&server));
        Arc::new(Self {
            server,
            context,
            state: Mutex::new(PoolState::new(seed)),
            changed: Notify::new(),
            one_at_a_time: Arc::default(),
            shared_profile: Mutex::new(shared_profile),
            shared_turn: Arc::new(Semaphore::new(1)),
            uses,
            profile_listings: Mutex::new(ProfileListings::new(listings.clone())),
            listings,
            list_turns: Arc::new(Semaphore::new(LISTS_AT_ONCE)),
            discovered: Notify::new(),
            takeover: Mutex::default(),
        })
    }

    /// Capabilities declared on the shared connection.
    pub(crate) fn shared_profile(&self) -> CapabilityProfile {
        *self.shared_profile.lock()
    }

    /// Whether forms and URLs in calls of this caller wait in the inbox.
    pub(crate) fn waits_in_inbox(&self, caller: &Caller) -> bool {
        self.context.waits_in_inbox(caller)
    }

    /// What the server is told of roots for a caller that declares none itself.
    pub(crate) fn roots_offer(&self, caller: &Caller) -> RootsOffer {
        self.context.roots.offer(&self.server, caller)
    }

    /// What all connections of the host share.
    pub(crate) fn context(&self) -> &HostContext {
        &self.context
    }

    /// The sign-ins of all connections.
    pub(crate) fn sign_ins(&self) -> &SignIns {
        &self.context.dialer.sign_ins
    }

    /// The client features for a new shared connection.
    pub(crate) fn begin_shared(&self) -> ClientFeatures {
        let features = self.shared_features();
        *self.shared_profile.lock() = profile_of(&features);
        features
    }

    /// The client features offered on the shared connection.
    pub(crate) fn shared_features(&self) -> ClientFeatures {
        ClientFeatures { ambiguous: Some(Arc::clone(&self.one_at_a_time)), ..self.context.features(&self.server) }
    }

    /// Waits for the turn on the shared connection; `None` if calls may run in parallel.
    pub(crate) async fn shared_turn(
        &self,
        interactivity: Interactivity,
        max_wait: Duration,
    ) -> Result<Option<OwnedSemaphorePermit>, Refusal> {
        if interactivity == Interactivity::NonInteractive
            || !self.shared_profile().asks_a_person()
            || !self.one_at_a_time.load(Ordering::SeqCst)
        {
            return Ok(None);
        }
        let turn = tokio::time::timeout(max_wait, Arc::clone(&self.shared_turn).acquire_owned()).await;
        // The semaphore is never closed.
        turn.ok().and_then(Result::ok).map(Some).ok_or_else(|| busy(max_wait))
    }

    /// Permits caller connections.
    pub(crate) fn open(&self) {
        self.state.lock().open = true;
    }

    /// Removes all connections until [`Self::open`]; returns the peers to close.
    pub(crate) fn close(&self) -> Vec<Peer> {
        self.profile_listings.lock().forget();
        self.state.lock().close()
    }

    /// Removes all connections; each closes with the last of its calls.
    pub(crate) fn retire(&self) {
        let mut state = self.state.lock();
        let connections: Vec<_> = state.entries.iter().map(|entry| Arc::clone(&entry.connection)).collect();
        connections.iter().for_each(|connection| state.remove(connection));
    }

    /// Removes the connections that were idle for this long.
    pub(crate) fn expire_idle(&self, idle: Duration) {
        self.state.lock().expire_idle(idle, Instant::now());
    }

    /// When the next connection may expire.
    pub(crate) fn due(&self, idle: Duration) -> Option<Instant> {
        self.state.lock().due(idle, Instant::now())
    }

    /// Resolves when a connection was added or has to be closed.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The status of each connection.
    pub(crate) fn status(&self) -> Vec<CallerConnectionStatus> {
        let state = self.state.lock();
        let shown = |entry: &state::PoolEntry| CallerConnectionStatus {
            caller: entry.connection.key.caller.clone(),
            profile: entry.connection.key.profile,
            calls: entry.calls,
            parked: entry.parked.len(),
            process: entry.connection.monitor().process().filter(|_| entry.connection.peer().is_some()),
            session_id: entry.connection.peer().and_then(Peer::session).map(Secret::new),
        };
        state.entries.iter().map(shown).collect()
    }

    /// Leases a connection of this key, dialling it if needed. `task` selects the connection that keeps the task.
    pub(crate) async fn lease(
        self: &Arc<Self>,
        key: &CallerConnectionKey,
        interactivity: Interactivity,
        max_wait: Duration,
        context: DialContext<'_>,
        task: Option<&str>,
    ) -> Result<CallerLease, NoLease> {
        // A caller without capabilities receives no server requests, so it need not be alone.
        let interactivity =
            if key.profile == CapabilityProfile::NOTHING { Interactivity::NonInteractive } else { interactivity };
        let at_task = task.and_then(|task| self.state.lock().use_for_task(task, key, interactivity));
        let lease = match at_task {
            Some(connection) => self.lease_on(connection, interactivity),
            None => match self.select(key, interactivity, Arrival::New)? {
                Ok(lease) => lease,
                // Boxed, as below: few calls wait.
                Err(queue) => {
                    let waiting =
                        Box::pin(tokio::time::timeout(max_wait, self.wait_in_queue(key, interactivity, queue))).await;
                    waiting.unwrap_or_else(|_| Err(NoLease::Refused(busy(max_wait))))?
                }
            },
        };
        // Boxed: the future is large and rarely needed, and every call would carry it otherwise.
        let dialled =
            lease.connection.established.get_or_try_init(|| Box::pin(self.dial(&lease.connection, &context))).await;
        dialled.map_err(NoLease::NotConnected)?;
        Ok(lease)
    }

    /// Waits in this queue for a lease.
    async fn wait_in_queue(
        self: &Arc<Self>,
        key: &CallerConnectionKey,
        interactivity: Interactivity,
        mut queue: Arc<caller_connection::Queue>,
    ) -> Result<CallerLease, NoLease> {
        let first = Arc::clone(&queue);
        let _slot = first.join(WAITING).ok_or_else(|| NoLease::Refused(busy(Duration::ZERO)))?;
        let _front = first.front.acquire().await;
        loop {
            let here = Arc::clone(&queue);
            // Registered before the check, so that no change in between is missed.
            let moved = here.moved.notified();
            match self.select(key, interactivity, Arrival::Queued)? {
                Ok(lease) => return Ok(lease),
                Err(other) if !Arc::ptr_eq(&other, &here) => queue = other,
                Err(_) => tokio::select! {
                    () = moved => {}
                    () = self.wait_for_preemption(key) => self.preempt(key),
                },
            }
        }
    }

    fn select(
        self: &Arc<Self>,
        key: &CallerConnectionKey,
        interactivity: Interactivity,
        arrival: Arrival,
    ) -> Result<Result<CallerLease, Arc<caller_connection::Queue>>, NoLease> {
        let concurrency =
            if self.one_at_a_time.load(Ordering::SeqCst) { Concurrency::OneAtATime } else { Concurrency::Parallel };
        let mut state = self.state.lock();
        let before = state.entries.len();
        let selection = state.select(key, interactivity, concurrency, arrival, Instant::now());
        if before < state.entries.len() || !state.evicted.is_empty() {
            self.changed.notify_one();
        }
        match selection {
            Selection::Use(connection) => Ok(Ok(self.lease_on(connection, interactivity))),
            Selection::Wait(queue) => Ok(Err(queue)),
            Selection::Full(limit, whose) => {
                Err(NoLease::Refused(Refusal::Busy { limit, whose, waited: Duration::ZERO }))
            }
            Selection::Closed => Err(NoLease::NotConnected(disconnected())),
        }
    }

    fn lease_on(self: &Arc<Self>, connection: Arc<CallerConnection>, interactivity: Interactivity) -> CallerLease {
        CallerLease::new(self, connection, interactivity)
    }

    /// Whether a caller has this task, or any if `None`, in progress.
    pub(crate) fn has_task(&self, caller: &Caller, task: Option<&str>) -> bool {
        self.state.lock().tasks.has(caller, task, Instant::now())
    }

    /// Records a caller's task on the shared connection.
    pub(crate) fn keep_shared_task(&self, task: &Task, caller: &Caller) {
        self.state.lock().tasks.keep_shared(task.id.clone(), task.ttl, caller, Instant::now());
    }

    /// Announces on the connections of all callers that the configured roots changed.
    pub(crate) fn announce_configured_roots_changed(&self) {
        self.announce_roots(|key| {
            matches!(key.profile.roots, RootsOffer::Configured | RootsOffer::ConfiguredForClient)
        });
    }

    /// Announces on the connections that a caller, or one of its sessions, uses that the roots changed.
    pub(crate) fn announce_roots_changed(&self, caller: &Caller, session: Option<&str>) {
        self.announce_roots(|key| {
            key.caller == *caller && (key.session.is_none() || session.is_none() || key.session.as_deref() == session)
        });
    }

    fn announce_roots(&self, uses: impl Fn(&CallerConnectionKey) -> bool) {
        let state = self.state.lock();
        let used = state.entries.iter().filter(|entry| uses(&entry.connection.key));
        for peer in used.filter_map(|entry| entry.connection.peer()) {
            if let Err(error) = peer.announce_roots_changed() {
                tracing::debug!(server = %self.server, %error, "cannot announce changed roots");
            }
        }
    }

    /// Removes the connections of a caller, or of one of its sessions; each closes with the last of its calls. Also forgets
    /// the caller's tasks: a later caller of the same name is another one.
    pub(crate) fn remove_caller(&self, caller: &Caller, session: Option<&str>) {
        let mut state = self.state.lock();
        if session.is_none() {
            state.tasks.forget(caller);
        }
        self.takeover.lock().forget(caller, session);
        let theirs = |key: &CallerConnectionKey| {
            key.caller == *caller && session.is_none_or(|session| key.session.as_deref() == Some(session))
        };
        let connections: Vec<_> = state.entries.iter().map(|entry| Arc::clone(&entry.connection)).collect();
        connections
            .iter()
            .filter(|connection| theirs(&connection.key))
            .for_each(|connection| state.remove_soon(connection, Instant::now()));
        self.changed.notify_one();
    }
}

/// The capabilities that these features declare, in normal form.
fn profile_of(features: &ClientFeatures) -> CapabilityProfile {
    let profile = CapabilityProfile::of(&ServerRequestHandler::capabilities(features));
    match features.declares_configured_roots() {
        true => CapabilityProfile { roots: RootsOffer::Configured, ..profile },
        false => profile,
    }
}

fn busy(waited: Duration) -> Refusal {
    Refusal::Busy { limit: 1, whose: "to a server that accepts one interactive call at a time", waited }
}

fn disconnected() -> NotConnected {
    NotConnected::known("the server was disconnected meanwhile", WhoseMove::Operator)
}

impl std::fmt::Debug for ConnectionPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectionPool").field("server", &self.server).finish_non_exhaustive()
    }
}
