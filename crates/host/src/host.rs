//! The host, which is all that a surface holds: starts, reloads and shuts down; gives access to the catalog, server
//! states, calls and events.
//!
//! The wanted servers come from a [`Config`] and from the embedding program. The difference to the running servers is a
//! [`Plan`], which can be shown before it is applied (`host/connection_set.rs`). Commands to one server are in
//! `host/server_commands.rs`. Each server has its own task, so a slow server delays no other.
//! Dropping the host stops its servers; [`Host::shutdown`] also waits for that.

mod caller_catalogs;
mod caller_lifecycle;
mod catalog_publisher;
mod client_roots;
mod connection_set;
mod first_listings;
mod hiding;
mod known_entries;
mod options;
mod server_commands;

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fmt,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::{broadcast, watch};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};
use toolway_auth::refresh_tracker::RefreshTracker;
use toolway_config::{Config, Prefix, ServerName, Trust};
use toolway_wire::{
    budget::{Kept, MemoryBudget},
    seal,
};

pub use self::{
    client_roots::ChangedConfig,
    first_listings::FirstListingWait,
    options::{HostOptions, SessionUsers},
};

pub(crate) use self::catalog_publisher::CatalogPublisher;
use self::{
    caller_catalogs::CallerCatalogs,
    connection_set::{ConnectionSet, Member},
    hiding::Hiding,
};
use crate::{
    call::{CallId, Caller, ComparedDefinitions, Selection, open_calls::OpenCalls, resource_cache::ResourceCache},
    catalog::{Catalog, Naming, listing_table::ListingTable, skills},
    connection::{
        AppliedPlan, CallerListChange, CallerLog, Connection, ConnectionCounters, Dialer, HostContext, Plan,
        ServerStatus, StartLimiter, WantedServer, WantedSet,
        sign_in::{self, SignIns},
        supervise,
    },
    event::{CallStageEvent, EventListener, EventSender, StateEvent, TaskEvent},
    inbox::{Inbox, waiting::WaitingClients},
    policy::{
        ConversationAnswers, LimitUse, OutdatedNotices, Policy, Stance,
        limit::{CallSlots, book::LimitBook},
    },
    ports::HostPorts,
    record::{Observation, RecordPorts, RecordsError},
    roots::book::{RootsBook, RootsChange},
    sampling::totals::SamplingTotals,
    tallies::Tallies,
    task::BackgroundTasks,
    validation::Validation,
};

/// Keeps the connections to any number of servers. Cloning is cheap; all clones share one host.
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) context: Arc<HostContext>,
    pub(crate) catalog_publisher: Arc<CatalogPublisher>,
    pub(crate) slots: CallSlots,
    pub(crate) limits: Arc<LimitBook>,
    pub(crate) validation: Arc<Validation>,
    stance: Stance,
    /// Increases with each configuration that is applied.
    policy_revision: AtomicU64,
    /// Answers that hold until their conversation ends.
    pub(crate) conversation_answers: ConversationAnswers,
    /// Saved approvals that no longer apply, of which the user was told.
    pub(crate) outdated_notices: OutdatedNotices,
    /// Tools and prompts that are what was seen first.
    pub(crate) compared: ComparedDefinitions,
    /// A number that changes when an answer was given that may cover other waiting calls.
    pub(crate) answers_given: watch::Sender<u64>,
    caller_catalogs: CallerCatalogs,
    // Nothing awaits under this lock.
    set: Mutex<ConnectionSet>,
    embedded: WantedSet,
    tasks: TaskTracker,
    stop: CancellationToken,
    run: u64,
    calls: AtomicU64,
    pub(crate) open_calls: OpenCalls,
    pub(crate) background: BackgroundTasks,
    pub(crate) resource_cache: ResourceCache,
    unrecorded: Arc<AtomicU64>,
    _stop_when_dropped: DropGuard,
}

/// Why a request to the host failed. The host is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// The configuration and the embedding program define a server of the same name.
    #[error("server `{name}` is defined both by the embedding program and in {place}; rename one of them")]
    NameTaken {
        /// Server name.
        name: ServerName,
        /// File and line of the entry.
        place: String,
    },
    /// The embedding program defines two servers of the same name.
    #[error("the embedding program defines two servers named `{0}`; rename one of them")]
    DefinedTwice(ServerName),
    /// No server has this name.
    #[error("unknown server `{0}`")]
    UnknownServer(ServerName),
    /// The server is disabled; [`Host::toggle`] enables it.
    #[error("server `{0}` is disabled")]
    Disabled(ServerName),
    /// [`Host::shutdown`] was called.
    #[error("the host is shut down")]
    ShutDown,
}

/// Caller-specific list changes and log messages buffered for each receiver.
const CHANNEL_CAPACITY: usize = 256;
/// Time limit for the orderly shutdown of all servers.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

// === impl Host ===

impl Host {
    /// Starts a host. When this returns, all servers that start at once are being connected, and the catalog holds the
    /// listings that were stored in an earlier run.
    pub async fn start(config: &Config, ports: HostPorts, options: HostOptions) -> Result<Self, HostError> {
        let events = EventSender::new();
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let listings = ListingTable::new(options.limits.memory.clone());
        let policy = Policy::new(options.stance, &config.settings);
        let environment = Arc::new(options.environment.clone());
        let hiding = Hiding::new(Arc::clone(&ports.baselines), environment, policy.hides());
        let catalog_publisher = CatalogPublisher::new(options.listing_cache.clone(), events.clone(), listings, hiding);
        let chance = seal::random_token().ok().and_then(|word| u64::from_str_radix(word.get(..16)?, 16).ok());
        let embedded = embedded(&options.servers)?;
        let (slots, stance) = (CallSlots::new(options.calls), options.stance);
        let conversation_answers = ConversationAnswers::new(options.limits.memory.keeping(Kept::Conversation));
        let resource_cache = ResourceCache::new(&options.limits.memory);
        let seed = options.seed.or(chance).unwrap_or_default();
        let context = host_context(policy, ports, options, events, &catalog_publisher, seed);
        let limits = Arc::new(LimitBook::new(Arc::clone(&context.ports.call_days)));
        let inner = Inner {
            context: Arc::new(context),
            catalog_publisher,
            slots,
            limits,
            validation: Arc::new(Validation::new(config.settings.validation.modes())),
            stance,
            policy_revision: AtomicU64::new(0),
            conversation_answers,
            outdated_notices: OutdatedNotices::default(),
            compared: ComparedDefinitions::default(),
            answers_given: watch::channel(0).0,
            caller_catalogs: CallerCatalogs::default(),
            set: Mutex::default(),
            embedded,
            tasks,
            _stop_when_dropped: stop.clone().drop_guard(),
            stop,
            run: chance.unwrap_or_default(),
            calls: AtomicU64::new(0),
            open_calls: OpenCalls::default(),
            background: BackgroundTasks::default(),
            resource_cache,
            unrecorded: Arc::default(),
        };
        let host = Self { inner: Arc::new(inner) };
        let plan = host.plan(config)?;
        host.inner.catalog_publisher.set_naming(naming(config));
        host.inner.catalog_publisher.load_cached(&plan.wanted).await;
        host.inner.catalog_publisher.publish().await;
        host.inner.tasks.spawn(Arc::clone(&host.inner.catalog_publisher).run(host.inner.stop.clone()));
        host.inner.context.roots.configure(&config.settings, &plan.wanted);
        host.inner.context.waiting.configure(&config.settings);
        host.inner.limits.configure(&config.settings, &plan.wanted);
        host.load_client_roots().await;
        host.apply(plan);
        Ok(host)
    }

    /// Returns the changes that would lead to this configuration, without applying them.
    pub fn plan(&self, config: &Config) -> Result<Plan, HostError> {
        let mut wanted = self.inner.embedded.clone();
        for server in config.servers.values() {
            let server = Arc::new(WantedServer::configured(config, server));
            if self.inner.embedded.contains_key(&server.name) {
                return Err(HostError::NameTaken { name: server.name.clone(), place: server.source.clone() });
            }
            wanted.insert(server.name.clone(), server);
        }
        Ok(self.inner.set.lock().plan(wanted))
    }

    /// Applies another configuration and returns what happened to each server. On an error nothing changes.
    pub fn reload(&self, config: &Config) -> Result<AppliedPlan, HostError> {
        if self.inner.stop.is_cancelled() {
            return Err(HostError::ShutDown);
        }
        let plan = self.plan(config)?;
        self.inner.catalog_publisher.set_naming(naming(config));
        // Rules hold before a changed server can be called.
        let policy = Policy::new(self.inner.stance, &config.settings);
        self.inner.catalog_publisher.set_hides(policy.hides());
        *self.inner.context.policy.lock() = policy;
        self.inner.policy_revision.fetch_add(1, Ordering::AcqRel);
        self.inner.validation.set_modes(config.settings.validation.modes());
        let roots = self.inner.context.roots.configure(&config.settings, &plan.wanted);
        self.inner.context.waiting.configure(&config.settings);
        self.inner.limits.configure(&config.settings, &plan.wanted);
        let applied = self.apply(plan);
        self.apply_roots(&roots);
        self.note(applied.note());
        Ok(applied)
    }

    /// Returns the current catalog snapshot.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.inner.catalog_publisher.catalog()
    }

    /// Watches the current catalog snapshot and its successors.
    pub fn watch_catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.inner.catalog_publisher.watch()
    }

    /// Everything that waits for a person.
    pub fn inbox(&self) -> &Inbox {
        &self.inner.context.inbox
    }

    /// Subscribes to changes of caller-specific lists. They affect [`Host::catalog_of`], not [`Host::catalog`].
    pub fn caller_list_changes(&self) -> broadcast::Receiver<CallerListChange> {
        self.inner.context.caller_list_changes.subscribe()
    }

    /// Subscribes to log messages that servers send to one caller outside a call.
    pub fn caller_logs(&self) -> broadcast::Receiver<CallerLog> {
        self.inner.context.caller_logs.subscribe()
    }

    /// Subscribes to changes of servers, configuration and catalog from now on.
    pub fn listen_states(&self) -> EventListener<StateEvent> {
        self.inner.context.events.listen_states()
    }

    /// Subscribes to the tasks that this host follows from now on.
    pub fn listen_tasks(&self) -> EventListener<TaskEvent> {
        self.inner.context.events.listen_tasks()
    }

    /// Subscribes to the stages of all calls from now on.
    pub fn listen_calls(&self) -> EventListener<CallStageEvent> {
        self.inner.context.events.listen_calls()
    }

    /// Returns the status of all servers, ordered by name.
    pub fn servers(&self) -> Vec<ServerStatus> {
        self.connections().iter().map(Connection::status).collect()
    }

    /// Returns the status of one server.
    pub fn status(&self, server: &ServerName) -> Result<ServerStatus, HostError> {
        self.connection(server).map(|connection| connection.status())
    }

    /// Whether a server of this name is wanted.
    pub fn has(&self, server: &ServerName) -> bool {
        self.inner.set.lock().connection(server).is_some()
    }

    /// Whether clients of a gateway may call a method of this server that the protocol does not define: its entry names it,
    /// or it belongs to the skills extension, which the server declares.
    pub fn admits_method(&self, server: &ServerName, method: &str) -> bool {
        let Some(connection) = self.inner.connection(server) else { return false };
        let filter = &connection.wanted().filter;
        filter.admits_method(method) || filter.admits_skills() && skills::offers(&self.catalog(), server, method)
    }

    /// Whether the embedding program defines a server of this name. A configuration that has it too cannot be applied.
    pub fn embeds(&self, server: &ServerName) -> bool {
        self.inner.embedded.contains_key(server)
    }

    /// Trust of a server; `None` if no server has this name.
    pub fn trust_of(&self, server: &ServerName) -> Option<Trust> {
        self.inner.connection(server).map(|connection| connection.wanted().trust)
    }

    /// The byte budget of its clients and servers.
    pub fn memory(&self) -> &MemoryBudget {
        self.inner.memory()
    }

    /// Maximum number of calls of one client, running or queued.
    pub fn calls_per_client(&self) -> usize {
        self.inner.slots.per_client()
    }

    /// What is used of the limits of servers and clients.
    pub async fn limit_uses(&self) -> Result<Vec<LimitUse>, RecordsError> {
        self.inner.limits.uses().await
    }

    /// What the configuration lets clients of the gateway see, by name; others see what their key says.
    pub fn client_bounds(&self) -> BTreeMap<String, Selection> {
        self.inner.policy().client_bounds()
    }

    /// Number of calls that hold a slot at this moment.
    pub fn calls_under_way(&self) -> usize {
        self.inner.slots.taken()
    }

    /// Waits until the listings received so far are stored for the next start.
    pub async fn wait_for_listing_cache(&self) {
        self.inner.catalog_publisher.wait_for_listing_cache().await;
    }

    /// Shuts down in order: calls in flight fail, servers get time to exit, token refreshes are completed and stored,
    /// and the call log is flushed.
    pub async fn shutdown(&self) {
        self.inner.stop.cancel();
        self.inner.tasks.close();
        let left = async {
            self.inner.tasks.wait().await;
            self.inner.catalog_publisher.wait_for_listing_cache().await;
        };
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, left).await.is_err() {
            tracing::warn!("some servers did not shut down within {SHUTDOWN_TIMEOUT:?}");
        }
        self.wait_for_renewals().await;
        let flushed = std::panic::AssertUnwindSafe(async { self.inner.context.ports.calls.flush().await });
        if futures_util::FutureExt::catch_unwind(flushed).await.is_err() {
            tracing::error!("the call log panicked while flushing; records may be lost");
        }
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// Applies a plan.
    fn apply(&self, plan: Plan) -> AppliedPlan {
        let plan = self.inner.set.lock().apply(plan.wanted, |server| self.inner.start_supervisor(server));
        // What was decided on with an entry from before is decided again.
        self.inner.policy_revision.fetch_add(1, Ordering::AcqRel);
        let applied = AppliedPlan { results: plan.results(), plan };
        self.inner.context.events.send_state(|| StateEvent::Applied(Arc::new(applied.clone())));
        for name in &applied.plan.removed {
            self.inner.context.events.send_state(|| StateEvent::ServerGone(name.clone()));
        }
        applied
    }

    /// Tells servers of changed roots. A server that was told of no capability learns of it in a new connection.
    fn apply_roots(&self, change: &RootsChange) {
        for connection in self.connections() {
            if change.reconnected.contains(connection.name()) {
                connection.reconnect_soon();
            } else if change.announced.contains(connection.name()) {
                connection.announce_roots_changed();
            }
        }
        for client in &change.clients {
            self.announce_roots_changed(&Caller::Client(client.as_str().into()), None);
        }
    }

    fn connection(&self, server: &ServerName) -> Result<Connection, HostError> {
        self.inner.connection(server).ok_or_else(|| HostError::UnknownServer(server.clone()))
    }

    fn connections(&self) -> Vec<Connection> {
        self.inner.set.lock().connections().cloned().collect()
    }
}

// === impl Inner ===

impl Inner {
    /// The policy in effect.
    pub(crate) fn policy(&self) -> Policy {
        self.context.policy.lock().clone()
    }

    /// The number of the configuration in effect.
    pub(crate) fn policy_revision(&self) -> u64 {
        self.policy_revision.load(Ordering::Acquire)
    }

    pub(crate) fn record_ports(&self) -> RecordPorts {
        let ports = &self.context.ports;
        RecordPorts {
            log: Arc::clone(&ports.calls),
            recorder: ports.recorder.clone(),
            observation: ports.observer.clone().map(|observer| Observation {
                observer,
                bodies: ports.bodies,
                known_secrets: Arc::clone(&self.context.dialer.known_secrets),
            }),
            bodies: ports.bodies,
            events: self.context.events.clone(),
            unrecorded: Arc::clone(&self.unrecorded),
        }
    }

    pub(crate) fn unrecorded_calls(&self) -> u64 {
        self.unrecorded.load(Ordering::Relaxed)
    }

    pub(crate) fn connection(&self, server: &ServerName) -> Option<Connection> {
        self.set.lock().connection(server).cloned()
    }

    pub(crate) fn server_names(&self) -> Vec<ServerName> {
        self.set.lock().names().cloned().collect()
    }

    /// Runs a future until it ends; shutting down waits for it.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(work);
    }

    /// Cancelled when the host stops or is dropped.
    pub(crate) fn stop_token(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// The byte budget of its clients and servers.
    pub(crate) fn memory(&self) -> &MemoryBudget {
        self.catalog_publisher.listings().memory()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    pub(crate) fn next_call(&self) -> CallId {
        CallId::new(self.run, self.calls.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Waits until a server was listed and its lists are in the catalog.
    pub(crate) async fn wait_until_listed(&self, connection: &Connection) {
        connection.wait_until_listed().await;
        self.publish_listings(std::slice::from_ref(connection)).await;
    }

    /// Publishes a catalog with the listings of these servers, unless they are in the current one.
    async fn publish_listings(&self, connections: &[Connection]) {
        let listing = |connection: &Connection| connection.live().listing.clone();
        let listings: Vec<_> =
            connections.iter().filter_map(|connection| Some((connection.name(), listing(connection)?))).collect();
        self.catalog_publisher.publish_listings(&listings).await;
    }

    fn start_supervisor(&self, server: Arc<WantedServer>) -> Member {
        let removed = CancellationToken::new();
        let slots = self.slots.of_server();
        let (connection, supervising) =
            supervise(server, slots, Arc::clone(&self.context), self.stop.clone(), removed.clone());
        self.tasks.spawn(supervising);
        Member::new(connection, removed)
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("servers", &self.inner.server_names()).finish_non_exhaustive()
    }
}

/// The servers of the embedding program by name.
fn embedded(servers: &[WantedServer]) -> Result<WantedSet, HostError> {
    let mut embedded = WantedSet::new();
    for server in servers {
        if embedded.insert(server.name.clone(), Arc::new(server.clone())).is_some() {
            return Err(HostError::DefinedTwice(server.name.clone()));
        }
    }
    Ok(embedded)
}

fn host_context(
    policy: Policy,
    ports: HostPorts,
    options: HostOptions,
    events: EventSender,
    catalog_publisher: &Arc<CatalogPublisher>,
    seed: u64,
) -> HostContext {
    let around = sign_in::surroundings(&options.environment, &options.sign_in);
    let home = options.environment.get(OsStr::new("HOME")).map(PathBuf::from);
    HostContext {
        policy: Mutex::new(policy),
        sampled: SamplingTotals::default(),
        tallies: Tallies::default(),
        waiting: WaitingClients::default(),
        inbox: Inbox::new(ports.recorder.clone(), options.limits.memory.clone()),
        dialer: Dialer {
            environment: Arc::new(options.environment),
            keychain: options.keychain,
            keeper: options.keeper,
            shutdown: options.shutdown,
            http: options.http,
            sign_ins: SignIns {
                failed_sign_ins: Arc::default(),
                refreshes: RefreshTracker::default(),
                counters: ConnectionCounters::default(),
                vault: Arc::clone(&ports.vault),
                around,
                options: options.sign_in,
                credentials: options.credentials,
            },
            memory: options.memory,
            sessions: options.sessions,
            shared_sessions: options.shared_sessions,
            session_users: options.session_users,
            limits: options.limits,
            tap: options.tap,
            known_secrets: Arc::default(),
        },
        caller_list_changes: broadcast::Sender::new(CHANNEL_CAPACITY),
        caller_logs: broadcast::Sender::new(CHANNEL_CAPACITY),
        client_sessions: Arc::default(),
        roots: Arc::new(RootsBook::new(options.roots, options.client_roots, home, ports.recorder.clone())),
        ports,
        declared: options.declared,
        events,
        starting: StartLimiter::new(options.starting),
        catalog: Arc::clone(catalog_publisher) as Arc<dyn crate::connection::CatalogSink>,
        listings: catalog_publisher.listings().clone(),
        seed,
    }
}

fn naming(config: &Config) -> Naming {
    match config.settings.prefix.value {
        Prefix::Always => Naming::Always,
        Prefix::Auto => Naming::Auto,
        Prefix::Never => Naming::Never,
    }
}
