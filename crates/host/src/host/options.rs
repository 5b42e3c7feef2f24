//! What a host is started with besides its configuration and its ports.

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
    catalog::copy::DiskCopy,
    connection::{
        SessionMemory, WantedServer, client_face::Root, dial::TapMaker, environment::Environment,
        sign_in::SignInOptions,
    },
    keeper::{Custodian, Patience},
    policy::{CallLimits, Stance},
};

/// Everything has a default that an embedding program can start with.
pub struct HostOptions {
    /// Servers besides those of the configuration: in this process, over a transport of the program's, or simply more.
    pub servers: Vec<WantedServer>,
    /// The environment that references in entries are looked up in and programs are given a part of.
    pub environment: Environment,
    /// Where secrets are asked for by name.
    pub keychain: Arc<dyn Keychain>,
    /// Who starts programs.
    pub custodian: Custodian,
    /// How long a program is given to leave.
    pub patience: Patience,
    /// What reaches addresses.
    pub http: HttpClient,
    /// Whose credentials are used, and how authorization servers are reached.
    pub sign_in: SignInOptions,
    /// What addresses want to see that the program itself added.
    pub credentials: Arc<dyn Credentials>,
    /// Where the era of each server is kept, if anywhere.
    pub memory: Option<Arc<dyn EraMemory>>,
    /// Where sessions are kept when the host is shut down, if anywhere; else they are given back.
    pub sessions: Option<SessionMemory>,
    /// Where what each server listed is kept, if anywhere.
    pub copy: Option<DiskCopy>,
    /// The bounds on servers.
    pub limits: Limits,
    /// How many calls run side by side.
    pub calls: CallLimits,
    /// What is decided where no rule says anything else.
    pub stance: Stance,
    /// What servers may look at.
    pub roots: Vec<Root>,
    /// What servers are told can be asked, where surfaces answer for themselves; else what the ports offer.
    pub declared: Option<ClientCapabilities>,
    /// Servers that may be starting at the same moment.
    pub starting: usize,
    /// What the waits before a new attempt follow from; chance where nothing is said.
    pub seed: Option<u64>,
    /// Who looks at the wire, if anyone.
    pub tap: Option<TapMaker>,
}

/// Servers that start at the same moment where nothing is said: more only get in each other's way.
const STARTING: usize = 16;

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            environment: Environment::new(),
            keychain: Arc::new(NoKeychain),
            custodian: Custodian::default(),
            patience: Patience::default(),
            http: HttpClient::new(HttpOptions::default(), &Limits::default()),
            sign_in: SignInOptions::default(),
            credentials: Arc::new(NoCredentials),
            memory: None,
            sessions: None,
            copy: None,
            limits: Limits::default(),
            calls: CallLimits::default(),
            stance: Stance::default(),
            roots: Vec::new(),
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
