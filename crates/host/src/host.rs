//! The host: starts, reloads, shuts down; hands out the catalog, states, calls and events. All a surface holds.
//!
//! What is wanted is a [`Config`] and what the embedding program adds to it; how that differs from what runs is a
//! [`Plan`], which can be shown before it is applied. Each server has a task of its own, and nobody waits for a slow
//! one. A host that is dropped stops its servers too; [`Host::shutdown`] also waits for it.

mod cataloguer;
mod hearing;
mod options;
mod people;
mod views;

use std::{
    collections::BTreeMap,
    fmt,
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
use toolway_auth::renewals::Renewals;
use toolway_config::{
    Config, Prefix, ServerName,
    server::{Need, Standing},
};
use toolway_wire::{exchange::LogLevel, seal};

pub use self::options::HostOptions;

pub(crate) use self::cataloguer::Cataloguer;
use self::views::Views;
use crate::{
    call::CallId,
    catalog::{Catalog, Naming},
    connection::{
        Applied, Connection, Dialler, Order, OwnChange, OwnLog, Phase, Plan, ServerStatus, Surroundings, Turns,
        WantedServer, WantedSet,
        sign_in::{self, SignIns},
        supervise,
    },
    event::{Events, HostEvent, Listener},
    policy::{Policy, limit::Slots},
    ports::HostPorts,
};

/// Keeps any number of servers. Cloning is cheap; every clone is the same host.
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) room: Arc<Surroundings>,
    pub(crate) cataloguer: Arc<Cataloguer>,
    pub(crate) slots: Slots,
    pub(crate) policy: Policy,
    views: Views,
    // Nothing awaits under this lock.
    set: Mutex<ConnectionSet>,
    embedded: WantedSet,
    tasks: TaskTracker,
    stop: CancellationToken,
    run: u64,
    calls: AtomicU64,
    _stop_when_dropped: DropGuard,
}

/// The servers there are.
#[derive(Default)]
struct ConnectionSet {
    wanted: WantedSet,
    members: BTreeMap<ServerName, Member>,
}

struct Member {
    connection: Connection,
    /// It is no longer wanted.
    removed: CancellationToken,
}

/// Why a configuration cannot be taken. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Two servers have one name.
    #[error("the program and {place} both have a server `{name}`; rename one")]
    NameTaken {
        /// The name.
        name: ServerName,
        /// Where it is written.
        place: String,
    },
    /// There is no such server.
    #[error("there is no server `{0}`")]
    UnknownServer(ServerName),
    /// The operator has switched it off; [`Host::toggle`] switches it on.
    #[error("the server `{0}` is disabled")]
    Disabled(ServerName),
    /// It is too late.
    #[error("the host is shut down")]
    ShutDown,
}

/// Changes in callers' own processes that wait for one listener.
const UNHEARD: usize = 256;
/// How long the servers may take to leave in good order.
const FAREWELL: Duration = Duration::from_secs(10);

// === impl Host ===

impl Host {
    /// Starts a host: every server that is wanted at once is being connected when this returns, and what was listed
    /// when they were last heard is in the catalog.
    pub async fn start(config: &Config, ports: HostPorts, options: HostOptions) -> Result<Self, HostError> {
        let events = Events::new();
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let cataloguer = Cataloguer::new(options.copy.clone(), events.clone());
        let chance = seal::random_word().ok().and_then(|word| u64::from_str_radix(word.get(..16)?, 16).ok());
        let embedded = options.servers.iter().map(|server| (server.name.clone(), Arc::new(server.clone()))).collect();
        let (slots, policy) = (Slots::new(options.calls), Policy::of(options.stance));
        let seed = options.seed.or(chance).unwrap_or_default();
        let room = surroundings(ports, options, events, &cataloguer, seed);
        let inner = Inner {
            room: Arc::new(room),
            cataloguer,
            slots,
            policy,
            views: Views::default(),
            set: Mutex::default(),
            embedded,
            tasks,
            _stop_when_dropped: stop.clone().drop_guard(),
            stop,
            run: chance.unwrap_or_default() >> 32,
            calls: AtomicU64::new(0),
        };
        let host = Self { inner: Arc::new(inner) };
        let plan = host.plan(config)?;
        host.inner.cataloguer.name(naming(config));
        host.inner.cataloguer.recall(&plan.wanted).await;
        host.inner.cataloguer.publish().await;
        host.inner.tasks.spawn(Arc::clone(&host.inner.cataloguer).run(host.inner.stop.clone()));
        host.apply(plan);
        Ok(host)
    }

    /// What would have to be done to get to this configuration. Nothing happens.
    pub fn plan(&self, config: &Config) -> Result<Plan, HostError> {
        let mut wanted = self.inner.embedded.clone();
        for server in config.servers.values() {
            let server = Arc::new(WantedServer::configured(config, server));
            if self.inner.embedded.contains_key(&server.name) {
                return Err(HostError::NameTaken { name: server.name.clone(), place: server.source.clone() });
            }
            wanted.insert(server.name.clone(), server);
        }
        Ok(Plan::new(&self.inner.set.lock().wanted, wanted))
    }

    /// Takes on another configuration; says what happened to each server. One that cannot be taken changes nothing.
    pub fn reload(&self, config: &Config) -> Result<Applied, HostError> {
        if self.inner.stop.is_cancelled() {
            return Err(HostError::ShutDown);
        }
        let plan = self.plan(config)?;
        self.inner.cataloguer.name(naming(config));
        Ok(self.apply(plan))
    }

    /// The snapshot of everything on offer, at this moment.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.inner.cataloguer.catalog()
    }

    /// This snapshot and all that follow.
    pub fn watch_catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.inner.cataloguer.watch()
    }

    /// Lists that change from now on for some callers: everybody's catalog does not see it, [`Host::catalog_of`] does.
    pub fn own_changes(&self) -> broadcast::Receiver<OwnChange> {
        self.inner.room.own_changes.subscribe()
    }

    /// What servers log from now on to one caller and in no call.
    pub fn own_logs(&self) -> broadcast::Receiver<OwnLog> {
        self.inner.room.own_logs.subscribe()
    }

    /// Everything that happens from now on.
    pub fn events(&self) -> Listener {
        self.inner.room.events.listen()
    }

    /// What is known of each server, by name.
    pub fn servers(&self) -> Vec<ServerStatus> {
        self.connections().iter().map(Connection::status).collect()
    }

    /// What is known of one server.
    pub fn status(&self, server: &ServerName) -> Result<ServerStatus, HostError> {
        self.connection(server).map(|connection| connection.status())
    }

    /// Whether there is such a server.
    pub fn has(&self, server: &ServerName) -> bool {
        self.inner.set.lock().members.contains_key(server)
    }

    /// Connects a server, whatever it was doing; its state when that has come to an end.
    pub async fn connect(&self, server: &ServerName) -> Result<ServerStatus, HostError> {
        self.refuse_disabled(server)?;
        self.told(server, Order::Connect).await
    }

    /// Connects a server where that is needed, and waits until what it lists is in the catalog; its state then.
    pub async fn list(&self, server: &ServerName) -> Result<ServerStatus, HostError> {
        let connection = self.connection(server)?;
        self.inner.listed(&connection).await;
        Ok(connection.status())
    }

    /// Disconnects a server, until somebody connects it.
    pub async fn disconnect(&self, server: &ServerName) -> Result<ServerStatus, HostError> {
        self.told(server, Order::Disconnect).await
    }

    /// Ends a server's connection and begins another.
    pub async fn reconnect(&self, server: &ServerName) -> Result<ServerStatus, HostError> {
        self.refuse_disabled(server)?;
        self.told(server, Order::Reconnect).await
    }

    /// Switches a server on or off, until its entry changes.
    pub async fn toggle(&self, server: &ServerName, standing: Standing) -> Result<ServerStatus, HostError> {
        self.told(server, |done| Order::Toggle(standing, done)).await
    }

    /// Asks a server again for everything it lists; its state when it has answered.
    pub async fn refresh(&self, server: &ServerName) -> Result<ServerStatus, HostError> {
        let connection = self.connection(server)?;
        connection.ask(Order::Refresh).await;
        self.inner.listed(&connection).await;
        Ok(connection.status())
    }

    /// From now on, logs from this level up are wanted of a server, in this connection and the next ones.
    pub async fn set_log_level(&self, server: &ServerName, level: LogLevel) -> Result<(), HostError> {
        let connection = self.connection(server)?;
        connection.ask(|done| Order::LogLevel(level, done)).await;
        Ok(())
    }

    /// Waits until every server without which nothing goes on is ready; else names those that are not.
    pub async fn required(&self) -> Result<(), Vec<ServerStatus>> {
        let required = |connection: &Connection| connection.wanted().need == Need::Required;
        let connections: Vec<_> = self.connections().into_iter().filter(required).collect();
        let ready = connections.iter().map(|connection| async { connection.ready().await.is_ok() });
        let ready = futures_util::future::join_all(ready).await;
        let missing: Vec<_> = connections
            .iter()
            .zip(ready)
            .filter(|(_, ready)| !ready)
            .map(|(connection, _)| connection.status())
            .collect();
        if missing.is_empty() { Ok(()) } else { Err(missing) }
    }

    /// Servers without which nothing goes on and which are not ready at this moment.
    pub fn missing(&self) -> Vec<ServerStatus> {
        let required = |connection: &Connection| connection.wanted().need == Need::Required;
        let statuses = self.connections().into_iter().filter(required).map(|connection| connection.status());
        statuses.filter(|status| status.phase != Phase::Ready).collect()
    }

    /// How many calls one client may have under way or waiting.
    pub fn calls_per_client(&self) -> usize {
        self.inner.slots.per_client()
    }

    /// Calls under way at servers at this moment.
    pub fn calls_under_way(&self) -> usize {
        self.inner.slots.taken()
    }

    /// Waits until what the servers listed so far is kept for the next start.
    pub async fn kept(&self) {
        self.inner.cataloguer.copied().await;
    }

    /// Ends everything in good order: calls under way fail, servers are given a moment to leave, sign-ins that are being
    /// renewed are kept, records are written.
    pub async fn shutdown(&self) {
        self.inner.stop.cancel();
        self.inner.tasks.close();
        let left = async {
            self.inner.tasks.wait().await;
            self.inner.cataloguer.copied().await;
        };
        if tokio::time::timeout(FAREWELL, left).await.is_err() {
            tracing::warn!("some servers did not leave in time");
        }
        self.renewed().await;
        let flushed = std::panic::AssertUnwindSafe(async { self.inner.room.ports.calls.flush().await });
        if futures_util::FutureExt::catch_unwind(flushed).await.is_err() {
            tracing::error!("the call log panicked while it was flushed");
        }
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// Does what has to be done from here to what the plan wants.
    fn apply(&self, plan: Plan) -> Applied {
        let mut set = self.inner.set.lock();
        // What runs may have changed since the plan was made.
        let plan = Plan::new(&set.wanted, plan.wanted);
        for name in &plan.removed {
            if let Some(member) = set.members.remove(name) {
                member.removed.cancel();
            }
        }
        for server in plan.added.iter().filter_map(|name| plan.wanted.get(name)) {
            let member = self.inner.supervised(Arc::clone(server));
            set.members.insert(server.name.clone(), member);
        }
        for changed in &plan.changed {
            if let (Some(member), Some(server)) = (set.members.get(&changed.server), plan.wanted.get(&changed.server)) {
                member.connection.want(Arc::clone(server));
            }
        }
        set.wanted = plan.wanted.clone();
        drop(set);
        let applied = Applied { results: plan.results(), plan };
        self.inner.room.events.tell(|| HostEvent::Applied(Arc::new(applied.clone())));
        for name in &applied.plan.removed {
            self.inner.room.events.tell(|| HostEvent::ServerGone(name.clone()));
        }
        applied
    }

    async fn told(
        &self,
        server: &ServerName,
        order: impl FnOnce(tokio::sync::oneshot::Sender<()>) -> Order,
    ) -> Result<ServerStatus, HostError> {
        let connection = self.connection(server)?;
        connection.ask(order).await;
        connection.settled().await;
        Ok(connection.status())
    }

    fn refuse_disabled(&self, server: &ServerName) -> Result<(), HostError> {
        match self.connection(server)?.status().phase {
            Phase::Disabled => Err(HostError::Disabled(server.clone())),
            _ => Ok(()),
        }
    }

    fn connection(&self, server: &ServerName) -> Result<Connection, HostError> {
        self.inner.connection(server).ok_or_else(|| HostError::UnknownServer(server.clone()))
    }

    fn connections(&self) -> Vec<Connection> {
        self.inner.set.lock().members.values().map(|member| member.connection.clone()).collect()
    }
}

// === impl Inner ===

impl Inner {
    pub(crate) fn connection(&self, server: &ServerName) -> Option<Connection> {
        self.set.lock().members.get(server).map(|member| member.connection.clone())
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    pub(crate) fn next_call(&self) -> CallId {
        CallId { run: self.run, number: self.calls.fetch_add(1, Ordering::Relaxed) + 1 }
    }

    /// Waits until a server has been listed and the catalog says so.
    pub(crate) async fn listed(&self, connection: &Connection) {
        connection.listed().await;
        self.show(std::slice::from_ref(connection)).await;
    }

    /// Sees to it that what these servers listed is in the catalog.
    async fn show(&self, connections: &[Connection]) {
        let listing = |connection: &Connection| connection.live().listing.clone();
        let listings: Vec<_> =
            connections.iter().filter_map(|connection| Some((connection.name(), listing(connection)?))).collect();
        self.cataloguer.show(&listings).await;
    }

    fn supervised(&self, server: Arc<WantedServer>) -> Member {
        let removed = CancellationToken::new();
        let slots = self.slots.of_server();
        let (connection, supervising) =
            supervise(server, slots, Arc::clone(&self.room), self.stop.clone(), removed.clone());
        self.tasks.spawn(supervising);
        Member { connection, removed }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = self.inner.set.lock();
        f.debug_struct("Host").field("servers", &set.members.keys()).finish_non_exhaustive()
    }
}

fn surroundings(
    ports: HostPorts,
    options: HostOptions,
    events: Events,
    cataloguer: &Arc<Cataloguer>,
    seed: u64,
) -> Surroundings {
    let around = sign_in::surroundings(&options.environment, &options.sign_in);
    Surroundings {
        dialler: Dialler {
            environment: Arc::new(options.environment),
            keychain: options.keychain,
            custodian: options.custodian,
            patience: options.patience,
            http: options.http,
            sign_ins: SignIns {
                unsigned: Arc::default(),
                renewals: Renewals::default(),
                vault: Arc::clone(&ports.vault),
                around,
                options: options.sign_in,
                credentials: options.credentials,
            },
            memory: options.memory,
            sessions: options.sessions,
            limits: options.limits,
            tap: options.tap,
        },
        ports,
        own_changes: broadcast::Sender::new(UNHEARD),
        own_logs: broadcast::Sender::new(UNHEARD),
        roots: options.roots.into(),
        declared: options.declared,
        events,
        starting: Turns::new(options.starting),
        cataloguing: Arc::clone(cataloguer) as Arc<dyn crate::connection::Cataloguing>,
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
