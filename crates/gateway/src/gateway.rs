//! The gateway: one address with a downstream for all servers and one for each single server, key and server checks, and
//! shutdown. [`dispatch`] handles a single request.

mod clustered;
mod dispatch;

use std::{
    collections::HashMap,
    fmt, io,
    net::SocketAddr,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use parking_lot::Mutex;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use toolway_config::ServerName;
use toolway_host::{
    Host,
    call::Caller,
    event::StateEvent,
    record::{AuditNote, kind},
};
use toolway_wire::{
    budget::Kept,
    down::{
        self, DownstreamOptions, HostedTaskOptions, HostedTasks, ParkedCallHolder, SharedCapacity,
        http::{
            HostGuard, HttpDownstream, HttpDownstreamOptions, Incoming, PeerConnection, Responder, ResponseBody,
            ServerTls,
        },
    },
    exchange::LogLevel,
    limit::Limits,
    seal::{NoRandomness, Sealer},
};

use crate::{
    access::{Access, Client, KeyEnd, KeyError},
    cluster::{ClusterOptions, PeerListener, PeerService, forwarded_request::name_of, forwarding::Cluster},
    records::{KnownStates, Records, metrics::GatewayGauges},
    requests::RequestPolls,
    service::{HostService, PAGE_ITEMS, Scope},
    view,
};

/// Options of a [`Gateway`].
#[derive(Debug)]
pub struct GatewayOptions {
    /// How clients are authenticated.
    pub access: Access,
    /// Accepted `Host` names, in addition to those of the local machine.
    pub hosts: Vec<String>,
    /// Certificate and key; `None`: plain HTTP.
    pub tls: Option<Arc<ServerTls>>,
    /// Seals handles; `None`: a random key that is lost when the gateway stops.
    pub sealer: Option<Arc<Sealer>>,
    /// What makes it one of several gateways; `None`: it is alone.
    pub cluster: Option<ClusterOptions>,
    /// Limits on what callers send.
    pub limits: Limits,
    /// Metrics and access log; shared with the host, which records its calls here.
    pub records: Arc<Records>,
    /// Whether HTTP+SSE clients (protocol 2024-11-05) are accepted.
    pub sse: SseTransport,
    /// How long a server request during a call waits for its answer.
    pub answer_within: Duration,
    /// Log level for sessions whose client set none, at servers that log only on request.
    pub default_log_level: Option<LogLevel>,
    /// Maximum number of items in one page of a list.
    pub page_size: usize,
}

/// Whether the HTTP+SSE transport of protocol 2024-11-05 (`/sse` and `/messages`) is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SseTransport {
    /// `/sse` and `/messages` answer `404`.
    #[default]
    Disabled,
    /// Both paths are served.
    Enabled,
}

/// Serves many MCP servers on one address.
pub struct Gateway {
    host: Host,
    access: Arc<Access>,
    guard: HostGuard,
    tls: Option<Arc<ServerTls>>,
    downstream: DownstreamOptions,
    sealer: Arc<Sealer>,
    cluster: Option<Cluster>,
    records: Arc<Records>,
    /// Tasks hosted by the gateway, of all downstreams.
    hosted: HostedTasks,
    all_servers: Arc<HttpDownstream>,
    // Nothing awaits under this lock.
    single_servers: Mutex<HashMap<ServerName, Arc<HttpDownstream>>>,
    /// Held while the state of a revoked client is removed, so that no new client starts under its name meanwhile.
    // Nothing awaits under this lock.
    ending_clients: Mutex<()>,
    /// Cancelled when shutdown begins; downstreams created later drain at once.
    draining: CancellationToken,
    sse: SseTransport,
    page_size: usize,
    polls: RequestPolls,
}

/// Why a gateway cannot start.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The address is in use or not available on this machine.
    #[error("cannot listen on `{address}`: {problem}")]
    Address {
        /// Configured address.
        address: SocketAddr,
        /// Error of the operating system.
        problem: io::Error,
    },
    /// Open access on an address that other machines can reach.
    #[error("refusing open access on `{0}`, which other machines can reach: use keys or a loopback address")]
    OpenToAll(SocketAddr),
    /// No sealing key can be generated.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// Connections of all other gateways: each carries one request, or one stream of a client.
const PEER_CONNECTIONS: usize = 16_384;
/// How often the keys are checked without requests, so that a revoked key is refused within a second.
const KEY_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// How often the times of last use of keys are written.
const USE_INTERVAL: Duration = Duration::from_secs(5);

// === impl GatewayOptions ===

impl GatewayOptions {
    /// Default options with this access.
    pub fn of(access: Access) -> Self {
        Self {
            access,
            hosts: Vec::new(),
            tls: None,
            sealer: None,
            cluster: None,
            limits: Limits::default(),
            records: Arc::default(),
            sse: SseTransport::Disabled,
            answer_within: DownstreamOptions::default().answer_timeout,
            default_log_level: DownstreamOptions::default().default_log_level,
            page_size: PAGE_ITEMS,
        }
    }
}

// === impl Gateway ===

impl Gateway {
    /// Creates a gateway to the servers of `host`.
    pub fn new(host: Host, options: GatewayOptions) -> Result<Arc<Self>, NoRandomness> {
        let sealer = match options.sealer {
            Some(given) => given,
            None => Arc::new(Sealer::with_random_key()?),
        };
        options.access.set_bounds(&host.client_bounds());
        let (access, guard) = (Arc::new(options.access), HostGuard::and_hosts(options.hosts));
        let mut downstream = DownstreamOptions {
            limits: options.limits,
            sealer: Some(Arc::clone(&sealer)),
            answer_timeout: options.answer_within,
            default_log_level: options.default_log_level,
            shared_capacity: Some(SharedCapacity::default()),
            ..DownstreamOptions::default()
        };
        let cluster = options.cluster.map(|cluster| Cluster::new(cluster, &access, &downstream)).transpose()?;
        if let Some(cluster) = &cluster {
            downstream.shared_sessions = Some(cluster.sessions.clone());
            let membership = cluster.membership.clone();
            let holder = move || membership.current().map(name_of);
            downstream.parked_call_holder = Some(ParkedCallHolder::new(holder));
        }
        let hosted = HostedTasks::charged_to(HostedTaskOptions::default(), downstream.limits.memory.clone());
        let service = HostService::with_hosted_tasks(
            host.clone(),
            Arc::clone(&access),
            Scope::All,
            Arc::clone(&sealer),
            hosted.new_namespace(),
        )
        .with_page_size(options.page_size);
        let all_servers = new_downstream(service, &downstream)?;
        let gateway = Arc::new(Self {
            host,
            cluster,
            access,
            guard,
            tls: options.tls,
            downstream,
            sealer,
            records: options.records,
            hosted,
            all_servers,
            single_servers: Mutex::default(),
            ending_clients: Mutex::default(),
            draining: CancellationToken::new(),
            sse: options.sse,
            page_size: options.page_size,
            polls: RequestPolls::default(),
        });
        if let Some(cluster) = &gateway.cluster {
            let effects: Weak<Self> = Arc::downgrade(&gateway);
            cluster.membership.attach(effects);
        }
        Ok(gateway)
    }

    /// Answers other gateways until `stop` is cancelled; at once without a cluster.
    pub async fn serve_peers(self: Arc<Self>, listener: TcpListener, stop: CancellationToken) -> io::Result<()> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        let limits = Limits { connections: PEER_CONNECTIONS, ..self.downstream.limits.clone() };
        let listening = PeerListener::new(Arc::clone(&self) as Arc<dyn PeerService>, limits);
        down::http::serve_peers(listener, cluster.tls.clone(), listening, stop).await
    }

    /// Binds the address; fails if access is open and the address is not a loopback address.
    pub async fn bind(&self, address: SocketAddr) -> Result<TcpListener, GatewayError> {
        if !address.ip().is_loopback() && self.access.is_open() {
            return Err(GatewayError::OpenToAll(address));
        }
        TcpListener::bind(address).await.map_err(|problem| GatewayError::Address { address, problem })
    }

    /// Serves until `stop` is cancelled.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, stop: CancellationToken) -> io::Result<()> {
        let gateway = Arc::clone(&self);
        let checks = async move {
            tokio::join!(gateway.watch_keys(), gateway.watch_uses(), gateway.watch_states());
        };
        let _checks = AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(checks));
        let tls = self.tls.clone();
        let access = Arc::clone(&self.access);
        let served = down::http::serve_with_tls(listener, tls, self, stop).await;
        access.write_uses();
        served
    }

    /// Ends sessions and streams of clients whose keys were revoked or expired, also of idle ones.
    async fn watch_keys(&self) {
        loop {
            tokio::time::sleep(KEY_CHECK_INTERVAL).await;
            self.end_revoked();
        }
    }

    /// Writes when keys were last used.
    async fn watch_uses(&self) {
        loop {
            tokio::time::sleep(USE_INTERVAL).await;
            let access = Arc::clone(&self.access);
            // Waits for the disk; a failure is logged there.
            drop(tokio::task::spawn_blocking(move || access.write_uses()).await);
        }
    }

    /// Reads the key file now: a revoked key is refused, and what its client had open has ended, when this returns. Writes
    /// when keys were last used.
    pub(crate) fn reload_keys(&self) -> Result<(), KeyError> {
        // First: a changed key begins without a time.
        self.access.write_uses();
        self.access.reload()?;
        self.end_revoked();
        Ok(())
    }

    /// Applies what the configuration lets clients see. What a client has open ends when that has changed.
    pub(crate) fn apply_client_bounds(&self) {
        self.access.set_bounds(&self.host.client_bounds());
        self.end_revoked();
    }

    /// Whether a client of this name has a valid key, or needs none.
    pub(crate) fn accepts_client(&self, name: &str) -> bool {
        self.access.client(name).is_some()
    }

    /// File of the accepted keys; `None` if no key of a file is needed.
    pub(crate) fn key_file(&self) -> Option<&std::path::Path> {
        self.access.key_file()
    }

    /// The members of its cluster, for the operator; `None` if it is alone.
    pub(crate) fn members(&self) -> Option<serde_json::Value> {
        self.cluster.as_ref().map(|cluster| view::members(&cluster.membership))
    }

    /// Host whose servers are served.
    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    fn end_revoked(&self) {
        let _ending = self.ending_clients.lock();
        self.access.take_revoked().iter().for_each(|(client, why)| self.end_client(client, *why));
    }

    /// Removes state kept under the name of `client` for a revoked key that had the same name.
    fn end_revoked_namesakes(&self, client: &Client) {
        let _ending = self.ending_clients.lock();
        let revoked = self.access.take_revoked_namesakes(client);
        revoked.iter().for_each(|revoked| self.end_client(revoked, KeyEnd::Revoked));
    }

    fn end_client(&self, client: &Client, why: KeyEnd) {
        let why = why.as_str();
        tracing::info!(client = &*client.name, "key {why}; closing its sessions and streams");
        let (subject, details) = (Some(client.name.to_string()), json!({ "change": why, "by": "gateway" }));
        self.host.note(AuditNote { kind: kind::KEY, caller: None, server: None, subject, call: None, details });
        let now = self.access.client(&client.name);
        // The key was rotated: the client goes on with the other one, and what was opened with this one ends by its token.
        if now.as_ref().is_some_and(|now| now.identity == client.identity && **now == *client) {
            return;
        }
        self.downstreams().iter().for_each(|downstream| downstream.expel(&client.name));
        // The key may be unchanged, with other visible servers.
        if now.is_none_or(|now| now.identity != client.identity) {
            self.host.end_caller(&Caller::Client(Arc::clone(&client.name)));
        }
    }

    /// Logs the states of servers, and closes the downstreams of servers that were removed from the configuration.
    async fn watch_states(&self) {
        let (mut events, mut known) = (self.host.listen_states(), KnownStates::default());
        // Changes before the first event, and after lost ones, are in the snapshot.
        let mut event = Some(StateEvent::Missed(0));
        while let Some(happened) = event {
            match happened {
                // A removed server still reports that it stops.
                StateEvent::Server(status) if !self.host.has(&status.server) => {}
                StateEvent::Server(status) => self.records.record_states(&mut known, [&*status]),
                StateEvent::ServerGone(server) => {
                    known.remove(&server);
                    self.close_removed();
                }
                StateEvent::Missed(_) => {
                    known.retain(|server| self.host.has(server));
                    self.records.record_states(&mut known, &self.host.servers());
                    self.close_removed();
                    self.apply_client_bounds();
                }
                StateEvent::Applied(_) => self.apply_client_bounds(),
                StateEvent::Catalog { .. } => {}
            }
            event = events.next().await;
        }
    }

    fn close_removed(&self) {
        for (server, downstream) in self.take_removed() {
            tracing::info!(%server, "server removed from the configuration; closing its path");
            downstream.close();
        }
    }

    /// Takes the downstreams of servers that the host no longer has.
    fn take_removed(&self) -> Vec<(ServerName, Arc<HttpDownstream>)> {
        self.single_servers.lock().extract_if(|server, _| !self.host.has(server)).collect()
    }

    /// Current values of the gateway gauges.
    fn gauges(&self) -> GatewayGauges {
        let downstreams = self.downstreams();
        GatewayGauges {
            sessions: downstreams.iter().map(|downstream| downstream.session_count()).sum(),
            parked: downstreams.iter().map(|downstream| downstream.parked_count()).sum(),
            tasks: self.hosted.count(),
            under_way: self.host.calls_under_way(),
            lost_lines: self.records.lost_lines(),
            memory: Kept::ALL.map(|kept| self.downstream.limits.memory.used_by(kept)),
            memory_refusals: self.downstream.limits.memory.refused(),
            unrecorded: self.host.unrecorded_calls(),
            validation: self.host.validation_counts(),
            approvals: self.host.approval_counts(),
            model_tokens: self.host.model_tokens(),
            store: self.host.recorder_usage(),
            cluster: self.cluster.as_ref().map(Cluster::gauges),
        }
    }

    fn downstream(&self, server: &ServerName) -> Result<Arc<HttpDownstream>, NoRandomness> {
        let mut single_servers = self.single_servers.lock();
        if let Some(downstream) = single_servers.get(server) {
            return Ok(Arc::clone(downstream));
        }
        let service = HostService::with_hosted_tasks(
            self.host.clone(),
            Arc::clone(&self.access),
            Scope::One(server.clone()),
            Arc::clone(&self.sealer),
            self.hosted.new_namespace(),
        )
        .with_page_size(self.page_size);
        let downstream = new_downstream(service, &self.downstream)?;
        if self.draining.is_cancelled() {
            downstream.drain();
        }
        single_servers.insert(server.clone(), Arc::clone(&downstream));
        drop(single_servers);
        // It may have been removed before the downstream could be closed with it.
        if !self.host.has(server) {
            self.close_removed();
        }
        Ok(downstream)
    }

    /// All downstreams.
    fn downstreams(&self) -> Vec<Arc<HttpDownstream>> {
        let single_servers = self.single_servers.lock();
        single_servers.values().chain([&self.all_servers]).cloned().collect()
    }
}

impl Responder for Gateway {
    fn respond<'a>(
        &'a self,
        request: Request<Incoming>,
        connection: &'a PeerConnection,
    ) -> BoxFuture<'a, Response<ResponseBody>> {
        Box::pin(self.answer(request, connection))
    }

    fn limits(&self) -> &Limits {
        &self.downstream.limits
    }

    fn drain(&self) {
        self.draining.cancel();
        self.downstreams().iter().for_each(|downstream| downstream.drain());
    }

    fn drain_timeout(&self) -> Duration {
        self.downstream.drain
    }

    fn write_timeout(&self) -> Duration {
        self.all_servers.write_timeout()
    }

    fn finish(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let downstreams = self.downstreams();
            futures_util::future::join_all(downstreams.iter().map(|downstream| downstream.finish())).await;
        })
    }
}

fn new_downstream(service: HostService, downstream: &DownstreamOptions) -> Result<Arc<HttpDownstream>, NoRandomness> {
    // The gateway itself checks the path, `Host` and `Origin`.
    let guard = HostGuard::disabled();
    HttpDownstream::new(
        Arc::new(service),
        HttpDownstreamOptions { downstream: downstream.clone(), path: None, guard, ..HttpDownstreamOptions::default() },
    )
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("access", &self.access).finish_non_exhaustive()
    }
}
