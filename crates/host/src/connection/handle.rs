//! The handle of a connection: its current state, the lease a request needs, and the commands to its supervisor.
//! [`super::in_flight_call`] sends requests, [`super::wake`] wakes a server that is not connected.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::{mpsc, oneshot, watch};
use toolway_config::{ServerName, server::Sharing};
use toolway_wire::{
    error::WireError,
    exchange::LogLevel,
    up::{CapabilityScope, EraChoice, Peer},
};

use super::{
    in_flight_call::Lease,
    pool::{
        CallerConnectionKey, ConnectionPool, DialContext, Interactivity, ListingAttempt, NoLease, RequestOrigin,
        ServerReach, SharedProcess,
    },
    sign_in::Account,
    state::{Phase, ServerStatus, StopReason},
    stderr_tail::StderrTail,
    stdio::ProcessMonitor,
    supervisor::HostContext,
    usage::{ListenerGuard, UsageCounter},
    wake::ReadyPeer,
    wanted::WantedServer,
};
use crate::{call::Caller, catalog::Listing, policy::limit::ServerSlots, record::redact::Redactor};

/// One server. Cloning is cheap; every clone is the same connection.
#[derive(Clone)]
pub(crate) struct Connection {
    shared: Arc<Shared>,
}

/// State shared by a supervisor and the handles.
pub(crate) struct Shared {
    pub(crate) name: ServerName,
    pub(crate) live: watch::Sender<Arc<ConnectionSnapshot>>,
    pub(crate) stderr_tail: StderrTail,
    pub(crate) monitor: ProcessMonitor,
    wanted: watch::Sender<Arc<WantedServer>>,
    orders: mpsc::Sender<SupervisorCommand>,
    pub(crate) pool: Arc<ConnectionPool>,
    /// Generation of the last peer that was reported as misbehaving.
    suspected: AtomicU64,
    slots: Arc<ServerSlots>,
    uses: Arc<UsageCounter>,
}

/// The state of a connection at one moment.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionSnapshot {
    pub(crate) status: Arc<ServerStatus>,
    /// The peer, and its generation: the number of the connection since start.
    pub(crate) peer: Option<(u64, Peer)>,
    /// Finished dials, successful or not.
    pub(crate) dials: u64,
    /// Whether listing finished since the last connect.
    pub(crate) listed: bool,
    /// The last listing.
    pub(crate) listing: Option<Arc<Listing>>,
    pub(crate) redactor: Redactor,
    /// The callers that may use the peer.
    pub(crate) account: Account,
}

/// A command to a supervisor. The sender is notified when the command is executed or in progress.
#[derive(Debug)]
pub(crate) enum SupervisorCommand {
    /// A call needs the server.
    Wake,
    /// A peer misbehaves.
    Suspect { generation: u64, error: WireError },
    /// A client took over the connection: its lists are no longer those of all callers.
    HandedOver { generation: u64 },
    /// What is declared to the server changed.
    CapabilitiesChanged,
    /// A call found that the server began a new session.
    SessionChanged { generation: u64 },
    /// Connect, whatever the current state.
    Connect(oneshot::Sender<()>),
    /// Disconnect and stay disconnected.
    Disconnect(oneshot::Sender<()>),
    /// Close the connection and open a new one.
    Reconnect(oneshot::Sender<()>),
    /// Request all lists again.
    Refresh(oneshot::Sender<()>),
    /// Set the log level, also for later connections.
    LogLevel(LogLevel, oneshot::Sender<()>),
    /// Enable or disable the server, overriding its entry.
    Toggle(toolway_config::server::Standing, oneshot::Sender<()>),
}

/// How to find out what a server lists to a caller.
pub(crate) enum ListingLookup {
    /// Nothing to do: the listing is known, or cannot be found out now.
    Known,
    /// Another caller with the same profile is finding out.
    InProgress(CallerConnectionKey),
    /// The caller has to find out.
    Ours(ListingAttempt),
}

/// Commands queued for a supervisor, which executes each at once.
const QUEUED_COMMANDS: usize = 64;

// === impl Connection ===

impl Connection {
    pub(crate) fn new(
        wanted: Arc<WantedServer>,
        live: ConnectionSnapshot,
        slots: Arc<ServerSlots>,
        (context, seed): (&Arc<HostContext>, u64),
    ) -> (Self, mpsc::Receiver<SupervisorCommand>) {
        let (orders, inbox) = mpsc::channel(QUEUED_COMMANDS);
        let uses = UsageCounter::new();
        let shared = Shared {
            name: wanted.name.clone(),
            live: watch::Sender::new(Arc::new(live)),
            stderr_tail: StderrTail::default(),
            monitor: ProcessMonitor::default(),
            orders,
            pool: ConnectionPool::new(wanted.name.clone(), Arc::clone(context), Arc::clone(&uses), seed),
            wanted: watch::Sender::new(wanted),
            suspected: AtomicU64::new(0),
            slots,
            uses,
        };
        (Self { shared: Arc::new(shared) }, inbox)
    }

    /// The name of the server.
    pub(crate) fn name(&self) -> &ServerName {
        &self.shared.name
    }

    /// The current status, including recent stderr output.
    pub(crate) fn status(&self) -> ServerStatus {
        let live = self.live();
        let stderr = self.shared.stderr_tail.lines().iter().map(|line| live.redactor.text(line)).collect();
        let (ended, caller_connections) = (self.shared.stderr_tail.ended(), self.shared.pool.status());
        let connections = self.shared.pool.sign_ins().counters.of(&self.shared.name).counts();
        let stray_output = self.shared.stderr_tail.stray().map(|text| live.redactor.text(&text));
        let mut status = ServerStatus::clone(&live.status);
        if let (Some(profile), Some((_, peer))) = (&mut status.profile, &live.peer) {
            profile.set_session(peer);
        }
        ServerStatus { stderr, stray_output, ended, caller_connections, connections, ..status }
    }

    /// Chooses the connection for a request, and waits until the request may use it.
    pub(crate) async fn lease(
        &self,
        ready: &ReadyPeer,
        origin: RequestOrigin<'_>,
        interactivity: Interactivity,
        max_wait: Duration,
    ) -> Result<Lease, NoLease> {
        let (pool, wanted) = (&self.shared.pool, self.wanted());
        // If it has just closed, sending fails later.
        let declares = ready.peer.capability_scope().unwrap_or(CapabilityScope::PerRequest);
        let key = match self.key_of(origin, declares, (&ready.peer, &ready.account)) {
            Some(key) => key,
            None if declares == CapabilityScope::PerRequest || pool.use_shared(ready.generation) => {
                let account = origin.caller.client().map(|_| ready.account.clone());
                if declares == CapabilityScope::PerRequest {
                    return Ok(Lease::Shared { turn: None, account });
                }
                let turn = pool.shared_turn(interactivity, max_wait).await.map_err(NoLease::Refused)?;
                return Ok(Lease::Shared { turn, account });
            }
            None => CallerConnectionKey::local(origin.caller, pool.shared_profile()),
        };
        let listing = || self.live().listing.clone();
        let hand_over = || self.send_command(SupervisorCommand::HandedOver { generation: ready.generation });
        // Other connections have no process, or sessions that a later start may resume.
        let process =
            self.shared.monitor.process().filter(|_| wanted.sharing != Sharing::Shared).map(|_| SharedProcess {
                generation: ready.generation,
                monitor: &self.shared.monitor,
                redactor: &ready.redactor,
                hand_over: &hand_over,
            });
        let context =
            DialContext { wanted: &wanted, shared: &ready.peer, account: &ready.account, listing: &listing, process };
        let lease = pool.lease(&key, interactivity, max_wait, context, origin.task).await;
        if key.reach == ServerReach::WithSession && matches!(lease, Err(NoLease::NotConnected(_))) {
            // The server has no sessions, or not now. Nothing was sent yet.
            ready.peer.note_absent_sessions();
            return Box::pin(self.lease(ready, origin, interactivity, max_wait)).await;
        }
        lease.map(Lease::Caller)
    }

    /// The key of the connection a request needs; `None` if it uses the shared one.
    fn key_of(
        &self,
        origin: RequestOrigin<'_>,
        declares: CapabilityScope,
        (shared, account): (&Peer, &Account),
    ) -> Option<CallerConnectionKey> {
        let wanted = self.wanted();
        let origin = self.told(origin);
        let base = self.shared.pool.shared_profile();
        if wanted.era == EraChoice::Auto
            && let Some(key) = CallerConnectionKey::in_other_era(origin, declares, wanted.sharing, shared, base)
        {
            return Some(key);
        }
        CallerConnectionKey::of(origin, declares, wanted.sharing, (base, account))
    }

    /// The listing of this caller; `None` if it equals `base`, the listing of all callers, or is not known.
    pub(crate) fn caller_listing(&self, origin: RequestOrigin<'_>, base: &Arc<Listing>) -> Option<Arc<Listing>> {
        self.shared.pool.listing_of(&self.caller_key(origin)?, base)
    }

    /// Whether the server is known to list anything else to some client than to all.
    pub(crate) fn has_own_listings(&self) -> bool {
        self.shared.pool.has_own_listings()
    }

    /// How to find out what the server lists to this caller.
    pub(crate) fn listing_lookup(&self, origin: RequestOrigin<'_>) -> ListingLookup {
        let pool = &self.shared.pool;
        let Some(key) = self.caller_key(origin).filter(|key| pool.may_discover(key)) else {
            return ListingLookup::Known;
        };
        pool.try_discovery(&key).map_or(ListingLookup::InProgress(key), ListingLookup::Ours)
    }

    /// Finds out what the server lists to this caller, by opening its connection as its first call would.
    pub(crate) async fn discover_listing(
        &self,
        origin: RequestOrigin<'_>,
        max_wait: Duration,
        attempt: ListingAttempt,
    ) {
        if let Ok(ready) = self.ready().await {
            drop(self.lease(&ready, origin, Interactivity::NonInteractive, max_wait).await);
        }
        drop(attempt);
    }

    /// Begins an attempt for callers of this profile before the server is connected; `None` if none is permitted now.
    pub(crate) fn begin_discovery(&self, origin: RequestOrigin<'_>) -> Option<ListingAttempt> {
        self.shared.pool.try_discovery_of(self.told(origin).profile())
    }

    /// Waits until the server was listed, then does as [`Self::discover_listing`] if this caller needs its own connection.
    pub(crate) async fn discover_once_listed(
        &self,
        origin: RequestOrigin<'_>,
        max_wait: Duration,
        attempt: ListingAttempt,
    ) {
        self.wait_until_settled().await;
        self.wait_for_listing().await;
        if self.caller_key(origin).is_some() {
            self.discover_listing(origin, max_wait, attempt).await;
        }
    }

    /// Waits until the attempt of another caller has ended.
    pub(crate) async fn wait_for_discovery(&self, key: &CallerConnectionKey) {
        self.shared.pool.wait_for_attempt(key).await;
    }

    /// Whether the server may list something else to this caller than to all: only to a client, or to the user of this process,
    /// whose capabilities differ from those of the shared connection.
    pub(crate) fn may_list_differently(&self, origin: RequestOrigin<'_>) -> bool {
        let told = self.told(origin).profile();
        let is_own_user = matches!(origin.caller, Caller::Agent(_) | Caller::Console) && origin.capabilities.is_some();
        let differs = (origin.caller.client().is_some() || is_own_user) && told != self.shared.pool.shared_profile();
        differs && (self.live().peer.is_none() || self.caller_key(origin).is_some())
    }

    /// Whether the listing of this caller is not known yet.
    pub(crate) fn needs_discovery(&self, origin: RequestOrigin<'_>) -> bool {
        self.live().listing.is_some() && self.caller_key(origin).is_some_and(|key| self.shared.pool.may_discover(&key))
    }

    /// The origin with what is answered for its caller: configured roots, forms in the inbox, and sampling.
    pub(crate) fn told<'a>(&self, origin: RequestOrigin<'a>) -> RequestOrigin<'a> {
        let pool = &self.shared.pool;
        let waits_in_inbox = pool.waits_in_inbox(origin.caller) && !self.wanted().withheld.elicitation;
        let origin = RequestOrigin { configured_roots: pool.roots_offer(origin.caller), waits_in_inbox, ..origin };
        let declared = origin.profile().sampling;
        let sampling = self.shared.pool.context().sampling_for(&self.wanted(), origin.caller, declared);
        RequestOrigin { sampling: Some(sampling).filter(|told| *told != declared).or(origin.sampling), ..origin }
    }

    /// The key of this caller's connection; `None` if it uses the shared one.
    fn caller_key(&self, origin: RequestOrigin<'_>) -> Option<CallerConnectionKey> {
        let live = self.live();
        let (_, shared) = live.peer.as_ref()?;
        self.key_of(origin, shared.capability_scope().ok()?, (shared, &live.account))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn live(&self) -> Arc<ConnectionSnapshot> {
        Arc::clone(&self.shared.live.borrow())
    }

    pub(crate) fn wanted(&self) -> Arc<WantedServer> {
        Arc::clone(&self.shared.wanted.borrow())
    }

    pub(crate) fn slots(&self) -> &Arc<ServerSlots> {
        &self.shared.slots
    }

    /// Replaces the entry of the server.
    pub(crate) fn set_wanted(&self, wanted: Arc<WantedServer>) {
        self.shared.wanted.send_replace(wanted);
    }

    pub(crate) fn wanted_changes(&self) -> watch::Receiver<Arc<WantedServer>> {
        self.shared.wanted.subscribe()
    }

    /// Keeps the connection from being stopped as idle until the guard is dropped.
    pub(crate) fn listener_guard(&self) -> ListenerGuard {
        ListenerGuard::new(&self.shared.uses)
    }

    /// Connects, and waits until listing has finished; returns early if connecting fails.
    pub(crate) async fn wait_until_listed(&self) {
        if let Ok(_ready) = self.ready().await {
            self.wait_for_listing().await;
        }
    }

    /// Waits until listing has finished, at most the connect timeout; returns at once if not connected.
    pub(crate) async fn wait_for_listing(&self) {
        let mut live = self.shared.live.subscribe();
        let max_wait = self.wanted().connect;
        let listed = live.wait_for(|live| live.listed || live.peer.is_none());
        drop(tokio::time::timeout(max_wait, listed).await);
    }

    /// Waits until a dial in progress has ended.
    pub(crate) async fn wait_until_settled(&self) -> Arc<ConnectionSnapshot> {
        let mut live = self.shared.live.subscribe();
        match live.wait_for(|live| live.status.phase.is_settled()).await {
            Ok(live) => Arc::clone(&live),
            // The supervisor is gone; its last status stays valid.
            Err(_) => self.live(),
        }
    }

    pub(crate) fn is_disabled(&self) -> bool {
        self.live().status.phase == Phase::Disabled
    }

    /// Whether the first connect or the first listing is in progress.
    pub(crate) fn is_beginning(&self) -> bool {
        let live = self.live();
        let dialling = live.dials == 0 && matches!(live.status.phase, Phase::Connecting { .. });
        dialling || self.is_being_listed()
    }

    /// Whether it is connected and being listed for the first time.
    pub(crate) fn is_being_listed(&self) -> bool {
        let live = self.live();
        live.peer.is_some() && !live.listed && live.listing.is_none()
    }

    /// Whether it is connected and its listing is known.
    pub(crate) fn has_listing(&self) -> bool {
        let live = self.live();
        live.peer.is_some() && live.listing.is_some()
    }

    /// Whether neither a retry nor a call will connect it again.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(
            self.live().status.phase,
            Phase::Disabled | Phase::Stopped(StopReason::Disconnected | StopReason::Closed)
        )
    }

    /// Sends a command without waiting; `false` if the queue is full or the supervisor is gone.
    pub(crate) fn send_command(&self, command: SupervisorCommand) -> bool {
        self.shared.orders.try_send(command).is_ok()
    }

    /// Sends a command and waits until it is executed.
    pub(crate) async fn execute(&self, command: impl FnOnce(oneshot::Sender<()>) -> SupervisorCommand) {
        let (done, executed) = oneshot::channel();
        // A supervisor that is gone executes nothing.
        if self.shared.orders.send(command(done)).await.is_ok() {
            drop(executed.await);
        }
    }

    /// The peer, unless it has closed or was reported as misbehaving, which its supervisor may not know yet.
    pub(super) fn open_peer(&self, live: &ConnectionSnapshot) -> Option<(u64, Peer)> {
        let suspected = self.shared.suspected.load(Ordering::SeqCst);
        live.peer.clone().filter(|(generation, peer)| suspected < *generation && !peer.is_closed())
    }

    /// Whether this is still the peer that requests use.
    pub(super) fn is_current(&self, ready: &ReadyPeer) -> bool {
        let live = self.shared.live.borrow();
        let is_live = live.peer.as_ref().is_some_and(|(generation, _)| *generation == ready.generation);
        let suspected = self.shared.suspected.load(Ordering::SeqCst);
        is_live && suspected < ready.generation && !ready.peer.is_closed()
    }

    /// Whether another connection takes the place of this one, or is about to.
    pub(crate) async fn was_replaced(&self, ready: &ReadyPeer) -> bool {
        // The supervisor publishes its state after it has closed the connections of callers.
        tokio::task::yield_now().await;
        !self.is_current(ready)
    }

    /// Announces on all connections that the roots changed.
    pub(crate) fn announce_roots_changed(&self) {
        if let Some((_, peer)) = &self.live().peer
            && let Err(error) = peer.announce_roots_changed()
        {
            tracing::debug!(server = %self.shared.name, %error, "cannot announce changed roots");
        }
        self.shared.pool.announce_configured_roots_changed();
    }

    /// Connects again, if it is connected, so that the server learns of changed capabilities. Calls in flight end first,
    /// within a bound.
    pub(crate) fn reconnect_soon(&self) {
        // A server that receives capabilities with each request needs nothing.
        let live = self.live();
        let scope = live.peer.as_ref().map(|(_, peer)| peer.capability_scope());
        if !matches!(scope, Some(Ok(CapabilityScope::PerRequest))) {
            self.send_command(SupervisorCommand::CapabilitiesChanged);
        }
    }

    /// Reports a misbehaving peer; no further request is sent to it.
    pub(super) fn suspect(&self, generation: u64, error: &WireError) {
        if self.send_command(SupervisorCommand::Suspect { generation, error: error.clone() }) {
            self.shared.suspected.fetch_max(generation, Ordering::SeqCst);
        }
    }
}

// === impl Shared ===

impl Shared {
    pub(crate) fn uses(&self) -> &Arc<UsageCounter> {
        &self.uses
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("server", &self.shared.name)
            .field("phase", &self.live().status.phase)
            .finish_non_exhaustive()
    }
}
