//! Options of a host besides its configuration and its ports.

use std::{fmt, sync::Arc};

use toolway_config::{Keychain, NoKeychain};
use toolway_wire::{
    limit::Limits,
    message::ClientCapabilities,
    up::{
        EraMemory,
        client::HttpClient,
        connector::HttpOptions,
        credential::{Credentials, NoCredentials},
    },
};

use crate::{
    catalog::listing_cache::ListingCache,
    connection::{SessionStore, TapFactory, WantedServer, environment::Environment, sign_in::SignInOptions},
    keeper::{KeeperHandle, ShutdownTimeouts},
    policy::{CallLimits, Stance, Surface},
    roots::{ClientRootBound, Root},
};

/// Options of a host. Each has a default suitable for an embedding program.
pub struct HostOptions {
    /// Servers in addition to the configured ones, including in-process servers and custom transports.
    pub servers: Vec<WantedServer>,
    /// Environment in which variable references are resolved, and of which server processes get a part.
    pub environment: Environment,
    /// Keychain in which secret references are resolved.
    pub keychain: Arc<dyn Keychain>,
    /// Starts server processes.
    pub keeper: KeeperHandle,
    /// Time limits for a server process to exit.
    pub shutdown: ShutdownTimeouts,
    /// HTTP client for remote servers.
    pub http: HttpClient,
    /// OAuth settings: whose credentials are used, and how authorization servers are reached.
    pub sign_in: SignInOptions,
    /// Credentials for HTTP servers that the embedding program added.
    pub credentials: Arc<dyn Credentials>,
    /// Store of the protocol era of each server; `None`: not stored.
    pub memory: Option<Arc<dyn EraMemory>>,
    /// Store of sessions across restarts; `None`: not stored.
    pub sessions: Option<Arc<dyn SessionStore>>,
    /// Names the sessions of connections that callers share in that store. Hosts of another name do not resume them.
    pub shared_sessions: &'static str,
    /// Which processes use the sessions of that name at the same time.
    pub session_users: SessionUsers,
    /// Store of listings across restarts; `None`: not stored.
    pub listing_cache: Option<ListingCache>,
    /// Bounds on messages and connections of servers.
    pub limits: Limits,
    /// Limits on concurrent calls.
    pub calls: CallLimits,
    /// Default decision of the policy.
    pub stance: Stance,
    /// Roots that all servers are told of, in addition to those of the configuration.
    pub roots: Vec<Root>,
    /// Which roots of gateway clients are passed on if `gateway.rootsWithin` is not set.
    pub client_roots: ClientRootBound,
    /// Client capabilities declared to servers, if surfaces answer server requests themselves; `None`: what the ports
    /// offer.
    pub declared: Option<ClientCapabilities>,
    /// Maximum number of servers that start at the same time.
    pub starting: usize,
    /// Seed of the retry jitter; `None`: random.
    pub seed: Option<u64>,
    /// Creates the wire tap of each connection, if any; it gets the redactor of the server's secrets.
    pub tap: Option<TapFactory>,
}

/// Which processes use the stored sessions of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionUsers {
    /// One after the other: a process resumes the sessions of the one before it, so that a task which their server does not know
    /// is lost.
    #[default]
    OneProcess,
    /// The gateways of a cluster, each in sessions of its own: a server may know a task in one of them only.
    Cluster,
}

/// Default number of servers that start at the same time. More would only slow each other down.
const STARTING: usize = 16;

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            environment: Environment::new(),
            keychain: Arc::new(NoKeychain),
            keeper: KeeperHandle::default(),
            shutdown: ShutdownTimeouts::default(),
            http: HttpClient::new(HttpOptions::default(), &Limits::default()),
            sign_in: SignInOptions::default(),
            credentials: Arc::new(NoCredentials),
            memory: None,
            sessions: None,
            shared_sessions: Surface::Library.shared_sessions(),
            session_users: SessionUsers::default(),
            listing_cache: None,
            limits: Limits::default(),
            calls: CallLimits::default(),
            stance: Stance::default(),
            roots: Vec::new(),
            client_roots: ClientRootBound::default(),
            declared: None,
            starting: STARTING,
            seed: None,
            tap: None,
        }
    }
}

impl fmt::Debug for HostOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostOptions").field("servers", &self.servers).finish_non_exhaustive()
    }
}
