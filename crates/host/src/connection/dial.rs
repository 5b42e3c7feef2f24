//! From where a server is to a peer that has shaken hands: the one way every surface takes.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::{Instant, timeout_at};
use toolway_config::{ConfigError, Endpoint, Keychain, Secret, ServerConfig, ServerName, server::auth::SignIn};
use toolway_wire::{
    error::WireError,
    exchange::AskHandler,
    limit::Limits,
    up::{
        ConnectOptions, EraMemory, KeptSession, Peer,
        client::HttpClient,
        connector::HttpOptions,
        credential::{Credentials, NoCredentials},
        http::HttpTransport,
        stdio::StdioTransport,
        transport::Transport,
    },
};

use super::{
    address::ServerAddress,
    environment::Environment,
    in_process,
    last_words::LastWords,
    session_memory::SessionMemory,
    sign_in::{Account, Presented, Reread, SignIns},
    stdio::{Launcher, Pulse},
    tap::{Tap, Tapped},
    wanted::{WantedServer, Way},
};
use crate::{
    keeper::{Custodian, Patience},
    record::redact::Redactor,
    whose_move::WhoseMove,
};

/// How to dial.
pub struct DialOptions {
    /// How to shake hands. Where the era is kept follows from `memory` and the address.
    pub connect: ConnectOptions,
    /// The environment that programs are given a part of.
    pub environment: Environment,
    /// Where a program's standard error goes; keep a clone to look at it.
    pub last_words: LastWords,
    /// Where a program's signs of life go; keep a clone to feel them.
    pub pulse: Pulse,
    /// Who starts programs; the keeper of this process where nothing is said.
    pub custodian: Custodian,
    /// How long a program is given to leave when the connection is closed.
    pub patience: Patience,
    /// What reaches addresses; one for all of them.
    pub http: HttpClient,
    /// What addresses want to see.
    pub credentials: Arc<dyn Credentials>,
    /// Where the era of each server is kept, if anywhere.
    pub memory: Option<Arc<dyn EraMemory>>,
    /// Who looks at the wire, if anyone.
    pub tap: Option<Arc<dyn Tap>>,
}

/// Why a server could not be connected.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DialError {
    /// Its entry leads nowhere: a variable that is not set, an address that is none.
    #[error("{0}")]
    Configuration(String),
    /// It took longer than it may to start and shake hands.
    #[error("no answer to the handshake within {0:?} (connect timeout)")]
    Silent(Duration),
    /// The same, and what it said instead was no message.
    #[error(
        "no answer to the handshake within {limit:?} (connect timeout); its standard output is no MCP: \"{stray}\""
    )]
    Garbled {
        /// How long it may take.
        limit: Duration,
        /// How its output begins, escaped.
        stray: String,
    },
    /// The credential of its entry is not good enough.
    #[error("it refused the configured `{header}` header (HTTP {status})")]
    CredentialRefused {
        /// The header that was sent.
        header: String,
        /// 401 or 403.
        status: u16,
    },
    /// Somebody has to sign in.
    #[error("somebody has to sign in{}", how.as_ref().map(|how| format!(": {how}")).unwrap_or_default())]
    SignInNeeded {
        /// What the server demands, as it said it.
        challenges: Vec<String>,
        /// Who has to do what, where that is known.
        how: Option<String>,
    },
    /// Nobody signs in to it, and whoever gives its tokens gives none.
    #[error("no token: {0}")]
    NoToken(String),
    /// Anything else on the way.
    #[error("{0}")]
    Wire(WireError),
}

/// What all dials of a host share.
#[derive(Clone)]
pub(crate) struct Dialler {
    pub(crate) environment: Arc<Environment>,
    pub(crate) keychain: Arc<dyn Keychain>,
    pub(crate) custodian: Custodian,
    pub(crate) patience: Patience,
    pub(crate) http: HttpClient,
    pub(crate) sign_ins: SignIns,
    pub(crate) memory: Option<Arc<dyn EraMemory>>,
    pub(crate) sessions: Option<SessionMemory>,
    pub(crate) limits: Limits,
    pub(crate) tap: Option<TapMaker>,
}

/// What came of a dial, and what must not be shown of the server in either case.
#[derive(Debug)]
pub(crate) struct Dialled {
    pub(crate) redactor: Redactor,
    pub(crate) peer: Result<(Peer, Account), DialError>,
}

/// Which session a server is greeted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Session {
    /// The one it was left in, where there is one.
    Kept,
    /// A new one.
    New,
}

/// Makes a tap for each server.
pub type TapMaker = Arc<dyn Fn(&ServerName) -> Arc<dyn Tap> + Send + Sync>;

/// Opens the way to a server and shakes hands with it.
pub async fn dial(address: &ServerAddress, options: DialOptions) -> Result<Peer, WireError> {
    let DialOptions {
        mut connect,
        environment,
        last_words,
        pulse,
        custodian,
        patience,
        http,
        credentials,
        memory,
        tap,
    } = options;
    connect.memory = memory.map(|memory| (memory, address.key()));
    let limits = connect.limits.clone();
    let transport: Arc<dyn Transport> = match address {
        ServerAddress::Process(program) => {
            let launcher =
                Launcher::new(program.clone(), &environment, last_words).kept_by(custodian, patience).felt_by(pulse);
            Arc::new(StdioTransport::new(Arc::new(launcher), limits))
        }
        ServerAddress::Http { url, headers } => {
            Arc::new(HttpTransport::new(http, url.clone(), headers.clone(), credentials, limits))
        }
    };
    Peer::connect(tapped(transport, tap), connect).await
}

// === impl Dialler ===

impl Dialler {
    /// Connects a server as it is wanted, on behalf of a client of the gateway or of whoever runs us.
    pub(crate) async fn connect(
        &self,
        wanted: &WantedServer,
        client: Option<&str>,
        face: Arc<dyn AskHandler>,
        senses: (LastWords, Pulse),
        session: Session,
    ) -> Dialled {
        let deadline = Instant::now() + wanted.connect;
        let Found { place, presented, secrets } = match timeout_at(deadline, self.find(&wanted.way, client)).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => return Dialled::failed(error),
            Err(_) => return Dialled::failed(DialError::Silent(wanted.connect)),
        };
        let redactor = Redactor::new(secrets);
        let (heard, account) = (senses.0.clone(), presented.account.clone());
        let dialled = timeout_at(deadline, self.shake_hands(wanted, place, presented, face, senses, session)).await;
        let limit = wanted.connect;
        let silent = |_| match heard.stray() {
            Some(stray) => Err(DialError::Garbled { limit, stray }),
            None => Err(DialError::Silent(limit)),
        };
        let peer = dialled.unwrap_or_else(silent).map(|peer| (peer, account));
        Dialled { redactor, peer }
    }

    async fn shake_hands(
        &self,
        wanted: &WantedServer,
        place: Place,
        presented: Presented,
        face: Arc<dyn AskHandler>,
        (last_words, pulse): (LastWords, Pulse),
        session: Session,
    ) -> Result<Peer, DialError> {
        let resume = match session {
            Session::Kept => self.kept_session(wanted).await,
            Session::New => None,
        };
        let connect = ConnectOptions {
            asks: Some(face),
            era: wanted.era,
            http: wanted.way.http(),
            limits: self.limits.clone(),
            timeouts: wanted.clocks,
            resume,
            ..ConnectOptions::default()
        };
        let tap = self.tap.as_ref().map(|make| make(&wanted.name));
        let address = match place {
            Place::Address(address) => address,
            Place::Over(transport) => {
                return Peer::connect(tapped(transport, tap), connect)
                    .await
                    .map_err(|error| DialError::of(error, None, None));
            }
        };
        let options = DialOptions {
            connect,
            environment: Environment::clone(&self.environment),
            last_words,
            pulse,
            custodian: self.custodian.clone(),
            patience: self.patience,
            http: self.http.clone(),
            credentials: Arc::clone(&presented.credentials),
            memory: self.memory.clone(),
            tap,
        };
        let dialled = dial(&address, options).await.map_err(|error| presented.error(error, wanted));
        dialled.inspect_err(|error| self.sign_ins.failed(&wanted.name, &presented, error))
    }

    /// The session in which this server was left, if there is one.
    async fn kept_session(&self, wanted: &WantedServer) -> Option<KeptSession> {
        let (sessions, key) = (self.sessions.clone()?, wanted.definition()?);
        tokio::task::spawn_blocking(move || sessions.take(&key)).await.ok()?
    }

    /// Leaves a server in its session, so that the next start goes on in it; ends the connection where it has none.
    pub(crate) async fn leave(&self, wanted: &WantedServer, peer: &Peer) {
        let kept = self.sessions.clone().zip(wanted.definition()).zip(peer.kept_session());
        let Some(((sessions, key), session)) = kept else { return peer.close().await };
        let keeping = tokio::task::spawn_blocking(move || sessions.keep(&key, &session));
        match keeping.await {
            Ok(Ok(())) => peer.leave().await,
            _ => peer.close().await,
        }
    }

    /// Where a server is now, what it is presented, and what must not be shown of it.
    async fn find(&self, way: &Way, client: Option<&str>) -> Result<Found, DialError> {
        match way {
            Way::Configured(server) => self.resolve(Arc::clone(server), client).await,
            Way::Address(address) => {
                let presented = Presented::common(Arc::clone(&self.sign_ins.credentials));
                Ok(Found { place: Place::Address(address.clone()), presented, secrets: address.secrets() })
            }
            Way::InProcess(service) => Ok(Found::over(in_process::transport(service))),
            Way::Custom(transport) => Ok(Found::over(Arc::clone(transport))),
        }
    }

    /// Puts the references of an entry in; files may be read for it, and a keychain may take its time.
    async fn resolve(&self, server: Arc<ServerConfig>, client: Option<&str>) -> Result<Found, DialError> {
        let (environment, keychain) = (Arc::clone(&self.environment), Arc::clone(&self.keychain));
        let entry = Arc::clone(&server);
        let resolved = tokio::task::spawn_blocking(move || entry.endpoint(&environment, &*keychain)).await;
        let failed = |error: ConfigError| DialError::Configuration(error.to_string());
        let endpoint = resolved.map_err(|error| DialError::Configuration(error.to_string()))?.map_err(failed)?;
        let mut secrets = server.secrets(&endpoint);
        let sign_in = match &endpoint {
            Endpoint::Http { sign_in, .. } => SignIn::clone(sign_in),
            Endpoint::Process { .. } => SignIn::default(),
        };
        let address = ServerAddress::resolved(endpoint)?;
        let presented = match &address {
            ServerAddress::Http { url, .. } => {
                let principal = self.sign_ins.principal(&sign_in.auth, client);
                let (environment, keychain) = (Arc::clone(&self.environment), Arc::clone(&self.keychain));
                let reread = Reread { server: Arc::clone(&server), environment, keychain };
                self.sign_ins.present(&server.name, url, &sign_in, (&principal, reread)).await?
            }
            ServerAddress::Process(_) => Presented::nothing(),
        };
        secrets.extend(presented.secrets.iter().cloned());
        Ok(Found { place: Place::Address(address), presented, secrets })
    }
}

/// Everything that is found out before a server is dialled.
struct Found {
    place: Place,
    presented: Presented,
    secrets: Vec<Secret>,
}

impl Found {
    fn over(transport: Arc<dyn Transport>) -> Self {
        Self { place: Place::Over(transport), presented: Presented::nothing(), secrets: Vec::new() }
    }
}

impl Dialled {
    pub(crate) fn failed(error: DialError) -> Self {
        Self { redactor: Redactor::default(), peer: Err(error) }
    }
}

/// Where a server is, with nothing left to look up.
enum Place {
    Address(ServerAddress),
    Over(Arc<dyn Transport>),
}

fn tapped(transport: Arc<dyn Transport>, tap: Option<Arc<dyn Tap>>) -> Arc<dyn Transport> {
    match tap {
        Some(tap) => Arc::new(Tapped { inner: transport, tap }),
        None => transport,
    }
}

impl fmt::Debug for Dialler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialler").field("custodian", &self.custodian).finish_non_exhaustive()
    }
}

// === impl DialError ===

impl DialError {
    /// What an error on the wire means for a server that is sent a credential in this header, or that is signed in to like
    /// this.
    pub(super) fn of(error: WireError, credential: Option<String>, how: Option<String>) -> Self {
        match (error, credential) {
            (WireError::Unauthorized { status, .. }, Some(header)) => {
                Self::CredentialRefused { header, status: status.as_u16() }
            }
            (WireError::Unauthorized { challenges, .. }, None) => Self::SignInNeeded { challenges, how },
            (other, _) => Self::Wire(other),
        }
    }

    pub(crate) fn panicked() -> Self {
        Self::Configuration("the transport panicked".to_owned())
    }

    /// Whether it is about what is presented, and not about the server.
    pub(super) fn is_of_sign_in(&self) -> bool {
        matches!(self, Self::SignInNeeded { .. } | Self::Wire(WireError::NoToken(_) | WireError::Vault(_)))
    }

    /// A stable word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Configuration(_) => "config",
            Self::Silent(_) | Self::Garbled { .. } => "timed_out",
            Self::CredentialRefused { .. } | Self::SignInNeeded { .. } | Self::NoToken(_) => "unauthorized",
            Self::Wire(error) => error.code(),
        }
    }

    /// Who can do something about it.
    pub fn whose_move(&self) -> WhoseMove {
        match self {
            Self::Configuration(_) | Self::CredentialRefused { .. } | Self::NoToken(_) => WhoseMove::Operator,
            Self::Silent(_) | Self::Garbled { .. } => WhoseMove::Supervisor,
            Self::SignInNeeded { .. } => WhoseMove::User,
            Self::Wire(error) => WhoseMove::after(error),
        }
    }
}

// === impl DialOptions ===

impl Default for DialOptions {
    fn default() -> Self {
        Self {
            connect: ConnectOptions::default(),
            environment: Environment::new(),
            last_words: LastWords::default(),
            pulse: Pulse::default(),
            custodian: Custodian::default(),
            patience: Patience::default(),
            http: HttpClient::new(HttpOptions::default(), &Limits::default()),
            credentials: Arc::new(NoCredentials),
            memory: None,
            tap: None,
        }
    }
}

impl fmt::Debug for DialOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DialOptions").field("connect", &self.connect).finish_non_exhaustive()
    }
}
