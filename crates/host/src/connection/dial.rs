//! Dials a server: from its entry or address to a peer after the handshake. Every surface connects this way.

use std::{fmt, sync::Arc};

use tokio::time::{Instant, timeout_at};
use toolway_config::{
    ConfigError, Endpoint, Keychain, Secret, ServerConfig, ServerName, endpoint::ResolvedEndpoint, server::auth::SignIn,
};
use toolway_wire::{
    budget::Kept,
    error::WireError,
    exchange::ServerRequestHandler,
    limit::Limits,
    seal::fingerprint,
    up::{
        BothEras, ConnectOptions, EraMemory, KeptSession, Peer, SessionObserver, client::HttpClient,
        credential::Credentials, http::HttpTransport, stdio::StdioTransport, transport::Transport,
    },
};

pub use super::dial_error::DialError;
use super::{
    address::ServerAddress,
    environment::Environment,
    in_process,
    pool::CapabilityProfile,
    session_store::{ResumeAttempt, SessionOwner, SessionSlot, SessionStore},
    sign_in::{Account, EntryReader, PresentedCredentials, Principal, SignIns},
    stderr_tail::StderrTail,
    stdio::{Launcher, ProcessMonitor},
    tap::{Tap, Tapped},
    wanted::{WantedServer, Way},
    withheld,
};
use crate::{
    host::SessionUsers,
    keeper::{KeeperHandle, ShutdownTimeouts},
    record::redact::{KnownSecrets, Redactor},
};

/// Options of [`dial`].
struct DialOptions {
    /// Handshake options; `memory` is set from the field below and the address.
    connect: ConnectOptions,
    /// Environment from which programs receive the allowed variables.
    environment: Environment,
    /// Receives the stderr output of a program; keep a clone to read it.
    stderr_tail: StderrTail,
    /// Monitors the process of a program; keep a clone to read it.
    monitor: ProcessMonitor,
    /// The keeper that starts programs; by default that of this process.
    keeper: KeeperHandle,
    /// How long a program may take to exit when the connection is closed.
    shutdown: ShutdownTimeouts,
    /// HTTP client, shared by all connections.
    http: HttpClient,
    /// Credentials for HTTP servers.
    credentials: Arc<dyn Credentials>,
    /// Cache of the era of each server.
    memory: Option<Arc<dyn EraMemory>>,
    /// Observer of all messages.
    tap: Option<Arc<dyn Tap>>,
}

/// Shared settings of all dials of a host.
#[derive(Clone)]
pub(crate) struct Dialer {
    pub(crate) environment: Arc<Environment>,
    pub(crate) keychain: Arc<dyn Keychain>,
    pub(crate) keeper: KeeperHandle,
    pub(crate) shutdown: ShutdownTimeouts,
    pub(crate) http: HttpClient,
    pub(crate) sign_ins: SignIns,
    pub(crate) memory: Option<Arc<dyn EraMemory>>,
    pub(crate) sessions: Option<Arc<dyn SessionStore>>,
    /// The caller of shared connections in the store of sessions.
    pub(crate) shared_sessions: &'static str,
    pub(crate) session_users: SessionUsers,
    pub(crate) limits: Limits,
    pub(crate) tap: Option<TapFactory>,
    /// The secrets of all servers.
    pub(crate) known_secrets: Arc<KnownSecrets>,
}

/// Result of a dial, and the redactor for the secrets of the server.
#[derive(Debug)]
pub(crate) struct DialOutcome {
    pub(crate) redactor: Redactor,
    pub(crate) peer: Result<(Peer, Account), DialError>,
}

/// Whose session a connection uses, in the store of sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionChoice {
    /// That of the callers that share the connection.
    Shared,
    /// That of this caller.
    OfCaller(String),
    /// A new one that is not stored: it ends with the session of a client.
    Unstored,
}

/// The session that a connection may resume, and the place where its own is stored.
#[derive(Default)]
struct StoredSession {
    slot: Option<Arc<SessionSlot>>,
    resume: Option<KeptSession>,
}

/// Creates a tap for each connection to a server; the redactor removes the secrets of that server from what is kept.
pub type TapFactory = Arc<dyn Fn(&ServerName, &Redactor) -> Arc<dyn Tap> + Send + Sync>;

/// What observes one connection.
struct ConnectionObservers {
    stderr_tail: StderrTail,
    monitor: ProcessMonitor,
    tap: Option<Arc<dyn Tap>>,
}

/// Connects to a server and performs the handshake.
async fn dial(address: &ServerAddress, options: DialOptions) -> Result<Peer, WireError> {
    let DialOptions {
        mut connect,
        environment,
        stderr_tail,
        monitor,
        keeper,
        shutdown,
        http,
        credentials,
        memory,
        tap,
    } = options;
    connect.memory = memory.map(|memory| (memory, address.era_key()));
    let limits = connect.limits.clone();
    let transport: Arc<dyn Transport> = match address {
        ServerAddress::Process(program) => {
            let launcher = Launcher::new(program.clone(), &environment, stderr_tail)
                .with_keeper(keeper, shutdown)
                .monitored_by(monitor);
            Arc::new(StdioTransport::new(Arc::new(launcher), limits))
        }
        ServerAddress::Http { url, headers } => {
            Arc::new(HttpTransport::new(http, url.clone(), headers.clone(), credentials, limits))
        }
    };
    Peer::connect(tapped(transport, tap), connect).await
}

// === impl Dialer ===

impl Dialer {
    /// Connects a server, for a gateway client or for the user of this process. Counts the attempt and its failure.
    pub(crate) async fn connect(
        &self,
        wanted: &WantedServer,
        client: Option<&str>,
        features: Arc<dyn ServerRequestHandler>,
        observers: (StderrTail, ProcessMonitor),
        session: SessionChoice,
    ) -> DialOutcome {
        let features = withheld::restricted(features, wanted.withheld);
        let counters = self.sign_ins.counters.of(&wanted.name);
        counters.record_attempt();
        observers.0.charge_to(self.limits.memory.of_server(wanted.name.as_str()).keeping(Kept::Stderr));
        let outcome = self.attempt(wanted, client, features, observers, session).await;
        if outcome.peer.is_err() {
            counters.record_failure();
        }
        outcome
    }

    async fn attempt(
        &self,
        wanted: &WantedServer,
        client: Option<&str>,
        features: Arc<dyn ServerRequestHandler>,
        observers: (StderrTail, ProcessMonitor),
        session: SessionChoice,
    ) -> DialOutcome {
        let deadline = Instant::now() + wanted.connect;
        let ResolvedServer { target, presented, secrets, entry } =
            match timeout_at(deadline, self.find(&wanted.way, client)).await {
                Ok(Ok(found)) => found,
                Ok(Err(error)) => return DialOutcome::failed(error),
                Err(_) => return DialOutcome::failed(DialError::Timeout(wanted.connect)),
            };
        self.known_secrets.add(&secrets);
        let redactor = Redactor::new(secrets);
        let (stderr_tail, account) = (observers.0.clone(), presented.account.clone());
        let tap = self.tap.as_ref().map(|make| make(&wanted.name, &redactor));
        let observers = ConnectionObservers { stderr_tail: observers.0, monitor: observers.1, tap };
        let stored = self.stored_session(wanted, session, entry, &presented, &*features).await;
        let StoredSession { slot, resume } = &stored;
        let resumed = resume.as_ref().map(|session| session.id.clone());
        let dialled =
            timeout_at(deadline, self.handshake(wanted, target, presented, features, observers, &stored)).await;
        if let Some(slot) = slot {
            let attempt = match &dialled {
                Ok(Ok(peer)) if peer.session() == resumed => ResumeAttempt::Resumed,
                Ok(Ok(_)) => ResumeAttempt::Superseded,
                Ok(Err(_)) | Err(_) => ResumeAttempt::Failed,
            };
            slot.settle(attempt).await;
        }
        let limit = wanted.connect;
        let timed_out = |_| match stderr_tail.stray() {
            Some(stray) => Err(DialError::NonMcpOutput { limit, stray }),
            None => Err(DialError::Timeout(limit)),
        };
        let peer = dialled.unwrap_or_else(timed_out).map(|peer| (peer, account));
        DialOutcome { redactor, peer }
    }

    async fn handshake(
        &self,
        wanted: &WantedServer,
        target: DialTarget,
        presented: PresentedCredentials,
        features: Arc<dyn ServerRequestHandler>,
        observers: ConnectionObservers,
        stored: &StoredSession,
    ) -> Result<Peer, DialError> {
        let ConnectionObservers { stderr_tail, monitor, tap } = observers;
        // A caller that can answer is reached in the era in which a server can send it requests of its own.
        let both_eras = match CapabilityProfile::of(&features.capabilities()).answers_requests() {
            true => BothEras::Session,
            false => BothEras::Stateless,
        };
        let connect = ConnectOptions {
            request_handler: Some(features),
            era: wanted.era,
            both_eras,
            http: wanted.way.http(),
            limits: Limits { memory: self.limits.memory.of_server(wanted.name.as_str()), ..self.limits.clone() },
            timeouts: wanted.clocks,
            resume: stored.resume.clone(),
            session_observer: stored.slot.clone().map(|slot| slot as Arc<dyn SessionObserver>),
            ..ConnectOptions::default()
        };
        let address = match target {
            DialTarget::Address(address) => address,
            DialTarget::Transport(transport) => {
                return Peer::connect(tapped(transport, tap), connect)
                    .await
                    .map_err(|error| DialError::of(error, None, None));
            }
        };
        let options = DialOptions {
            connect,
            environment: Environment::clone(&self.environment),
            stderr_tail,
            monitor,
            keeper: self.keeper.clone(),
            shutdown: self.shutdown,
            http: self.http.clone(),
            credentials: self.sign_ins.counters.of(&wanted.name).watch(Arc::clone(&presented.credentials)),
            memory: self.memory.clone(),
            tap,
        };
        let dialled = match dial(&address, options).await {
            Ok(peer) => Ok(peer),
            Err(error) => Err(presented.explain(presented.error(error, wanted), &wanted.name).await),
        };
        dialled.inspect_err(|error| self.sign_ins.record_failure(&wanted.name, &presented, error))
    }

    /// Claims the stored session of a connection to an HTTP server. Only one of the same caller, declared capabilities,
    /// sign-in, URL, headers and credentials is resumed.
    async fn stored_session(
        &self,
        wanted: &WantedServer,
        choice: SessionChoice,
        entry: Option<String>,
        presented: &PresentedCredentials,
        features: &dyn ServerRequestHandler,
    ) -> StoredSession {
        let caller = match choice {
            SessionChoice::Shared => self.shared_sessions.to_owned(),
            SessionChoice::OfCaller(caller) => caller,
            SessionChoice::Unstored => return StoredSession::default(),
        };
        let (Some(store), Some(entry)) = (&self.sessions, entry) else { return StoredSession::default() };
        let declared = features.capabilities();
        let principal = presented.principal.as_ref().map_or("", Principal::as_str);
        let profile = fingerprint([declared.0.as_bytes(), principal.as_bytes()]);
        let owner = SessionOwner { server: wanted.name.clone(), caller, profile, entry };
        let (slot, resume) = SessionSlot::claim(store, owner).await;
        StoredSession { slot: Some(slot), resume }
    }

    /// Resolves the target, the credentials and the secrets of a server.
    async fn find(&self, way: &Way, client: Option<&str>) -> Result<ResolvedServer, DialError> {
        match way {
            Way::Configured(server) => self.resolve(Arc::clone(server), client).await,
            Way::Address(address) => {
                let presented = PresentedCredentials::common(Arc::clone(&self.sign_ins.credentials));
                let secrets = address.secrets();
                let entry = address.session_entry(&[]);
                Ok(ResolvedServer { target: DialTarget::Address(address.clone()), presented, secrets, entry })
            }
            Way::InProcess(service) => Ok(ResolvedServer::over(in_process::transport(service))),
            Way::Custom(transport) => Ok(ResolvedServer::over(Arc::clone(transport))),
        }
    }

    /// Resolves the references of an entry. May read files and wait for a keychain.
    async fn resolve(&self, server: Arc<ServerConfig>, client: Option<&str>) -> Result<ResolvedServer, DialError> {
        let (environment, keychain) = (Arc::clone(&self.environment), Arc::clone(&self.keychain));
        let entry = Arc::clone(&server);
        let resolve = move || entry.endpoint_with_secrets(&environment, &*keychain);
        let resolved = tokio::task::spawn_blocking(resolve).await;
        let failed = |error: ConfigError| DialError::Configuration(error.to_string());
        let resolved = resolved.map_err(|error| DialError::Configuration(error.to_string()))?.map_err(failed)?;
        let ResolvedEndpoint { endpoint, mut secrets } = resolved;
        let sign_in = match &endpoint {
            Endpoint::Http { sign_in, .. } => SignIn::clone(sign_in),
            Endpoint::Process { .. } => SignIn::default(),
        };
        let address = ServerAddress::resolved(endpoint)?;
        let presented = match &address {
            ServerAddress::Http { url, .. } => {
                let principal = self.sign_ins.principal(&sign_in.auth, client);
                let (environment, keychain) = (Arc::clone(&self.environment), Arc::clone(&self.keychain));
                let reread = EntryReader { server: Arc::clone(&server), environment, keychain };
                self.sign_ins.present(&server.name, url, &sign_in, (&principal, reread)).await?
            }
            ServerAddress::Process(_) => PresentedCredentials::nothing(),
        };
        let entry = address.session_entry(&secrets);
        secrets.extend(presented.secrets.iter().cloned());
        Ok(ResolvedServer { target: DialTarget::Address(address), presented, secrets, entry })
    }
}

/// What is known of a server before it is dialled.
struct ResolvedServer {
    target: DialTarget,
    presented: PresentedCredentials,
    secrets: Vec<Secret>,
    /// Digest by which a stored session recognises the server; `None` if it has none that could be stored.
    entry: Option<String>,
}

impl ResolvedServer {
    fn over(transport: Arc<dyn Transport>) -> Self {
        Self {
            target: DialTarget::Transport(transport),
            presented: PresentedCredentials::nothing(),
            secrets: Vec::new(),
            entry: None,
        }
    }
}

impl DialOutcome {
    pub(crate) fn failed(error: DialError) -> Self {
        Self { redactor: Redactor::default(), peer: Err(error) }
    }
}

/// Where to connect, with all references resolved.
enum DialTarget {
    Address(ServerAddress),
    Transport(Arc<dyn Transport>),
}

fn tapped(transport: Arc<dyn Transport>, tap: Option<Arc<dyn Tap>>) -> Arc<dyn Transport> {
    match tap {
        Some(tap) => Arc::new(Tapped { inner: transport, tap }),
        None => transport,
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer").field("keeper", &self.keeper).finish_non_exhaustive()
    }
}
