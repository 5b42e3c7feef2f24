//! Credentials for servers: what requests to each say about who asks, and who may use a connection that says so.
//!
//! What was configured for a server (a token, a key, a password, a client of ours) is the operator's to give away: it is
//! used for every caller. What a person signed in to is that person's: it is used for nobody else, unless the entry says
//! that it is shared. So a client of the gateway is connected on its own behalf wherever the first connection is made with
//! somebody's own sign-in.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Duration, Instant},
};
use toolway_auth::{
    credential::{Credential, CredentialError},
    dialer::GuardedDialer,
    dpop::DpopKeys,
    fixed::{Fixed, NoHeader, basic},
    grant::{Grant, Workload, configured::Surroundings, supply::Supply},
    needed::{SignInNeeded, Why},
    proof::ProofKeys,
    renewals::Renewals,
    scope::Scopes,
    session::{Session, SessionOptions},
    settings::{OldServers, Settings},
    sign_in,
    unattended::{Unattended, UnattendedOptions},
    vault::Vault,
};
use toolway_config::{
    Endpoint, Keychain, Paths, Secret, ServerConfig, ServerName,
    endpoint::GOOGLE_FILE,
    server::{
        Transport,
        auth::{self, Auth, Binding, OAuth, SignIn, Whose},
    },
};
use toolway_wire::{
    error::WireError,
    up::{
        connector::HttpOptions,
        credential::{Credentials, NoCredentials},
    },
};
use url::Url;

use super::{
    dial::DialError,
    environment::Environment,
    wanted::{WantedServer, Way},
};
use crate::call::Caller;

/// Whose credentials are used.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal(Arc<str>);

/// What the principals of the gateway's clients begin with.
const CLIENT: &str = "client/";

/// How people sign in to servers.
#[derive(Clone, Debug)]
pub struct SignInOptions {
    /// Whose credentials are used where no client of the gateway asks.
    pub principal: Principal,
    /// Who the clients of the gateway are.
    pub clients: Clients,
    /// How authorization servers are reached.
    pub http: HttpOptions,
    /// The address of the document about us, where there is one.
    pub client_metadata_url: Option<Url>,
}

/// Who the clients of a gateway are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clients {
    /// Others than whoever runs it, each with sign-ins of its own.
    #[default]
    Others,
    /// Whoever runs it, through a program of theirs.
    Ourselves,
}

/// Who may use a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    /// Everybody: nothing of a person's is presented on it.
    Common,
    /// Everybody but these clients: nothing is presented on it, and they have signed in, each for itself.
    Anonymous(Arc<SignedIn>),
    /// Only on whose behalf it was opened.
    Personal,
}

impl Account {
    /// Whether a caller's requests may go over such a connection, and are not better off on one of its own.
    pub(crate) fn serves(&self, caller: &Caller) -> bool {
        match (self, caller.client()) {
            (Self::Common, _) | (_, None) => true,
            (Self::Anonymous(signed_in), Some(client)) => !signed_in.clients.lock().contains(client),
            (Self::Personal, Some(_)) => false,
        }
    }

    /// Whether what is listed on it is nobody's in particular.
    pub(crate) fn is_nobodys(&self) -> bool {
        *self != Self::Personal
    }
}

/// The clients that have signed in to a server.
#[derive(Debug, Default)]
pub(crate) struct SignedIn {
    // Nothing awaits under this lock.
    clients: Mutex<HashSet<String>>,
}

impl SignedIn {
    /// A client has signed in, or out.
    pub(crate) fn change(&self, client: &str, change: Signing) {
        let mut clients = self.clients.lock();
        match change {
            Signing::In => clients.insert(client.to_owned()),
            Signing::Out => clients.remove(client),
        };
    }
}

impl From<HashSet<String>> for SignedIn {
    fn from(clients: HashSet<String>) -> Self {
        Self { clients: Mutex::new(clients) }
    }
}

impl PartialEq for SignedIn {
    fn eq(&self, other: &Self) -> bool {
        // Never both locks at once.
        let theirs = other.clients.lock().clone();
        *self.clients.lock() == theirs
    }
}

impl Eq for SignedIn {}

/// What became of a client's sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signing {
    /// There is one.
    In,
    /// There is none any more.
    Out,
}

/// What a connection is opened with.
#[derive(Clone, Debug)]
pub(super) struct Presented {
    pub(super) credentials: Arc<dyn Credentials>,
    pub(super) account: Account,
    /// What must not be shown of it, besides what is configured.
    pub(super) secrets: Vec<Secret>,
    /// Who could sign in.
    pub(super) principal: Option<Principal>,
    /// The client on whose behalf it is, and the token it had then.
    client: Option<(Principal, Option<Secret>)>,
    /// What a person signed in to.
    session: Option<Session>,
    /// What the server is waiting for, if it is.
    needed: Option<watch::Receiver<Option<SignInNeeded>>>,
}

/// The entry of a server, whose references are put in once more.
#[derive(Clone, Debug)]
pub(super) struct Reread {
    pub(super) server: Arc<ServerConfig>,
    pub(super) environment: Arc<Environment>,
    pub(super) keychain: Arc<dyn Keychain>,
}

/// What all connections of a host sign in with.
#[derive(Clone)]
pub(crate) struct SignIns {
    pub(crate) vault: Arc<dyn Vault>,
    pub(crate) options: SignInOptions,
    /// What grants need besides.
    pub(crate) around: Surroundings,
    /// What is presented to servers that nothing is configured for.
    pub(crate) credentials: Arc<dyn Credentials>,
    /// Clients whose sign-ins were of no use a moment ago. Nothing awaits under this lock.
    pub(crate) unsigned: Arc<Mutex<HashMap<(ServerName, Principal), Unsigned>>>,
    /// Renewals under way, of all servers.
    pub(crate) renewals: Renewals,
}

/// A client's sign-in that was of no use.
#[derive(Debug)]
pub(crate) struct Unsigned {
    until: Instant,
    /// The token it had then; with another one it is another matter.
    token: Option<Secret>,
    error: DialError,
}

/// A server is not greeted again before on behalf of a client that it does not let in.
const UNSIGNED: Duration = Duration::from_secs(5);

impl SignIns {
    /// What a server that is configured like this is presented.
    pub(super) async fn present(
        &self,
        name: &ServerName,
        server: &Url,
        sign_in: &SignIn<Secret>,
        (principal, reread): (&Principal, Reread),
    ) -> Result<Presented, DialError> {
        match &sign_in.auth {
            Auth::None => Ok(Presented::nothing()),
            Auth::Bearer { token } => Presented::fixed(Fixed::bearer(server, token), Vec::new()),
            Auth::ApiKey { key, header } => Presented::fixed(Fixed::key(server, header, key), Vec::new()),
            Auth::Basic { username, password } => {
                Presented::fixed(Fixed::basic(server, username, password), vec![basic(username, password)])
            }
            Auth::OAuth { whose, .. } => self.interactive((name, server), sign_in, (*whose, principal)).await,
            Auth::Grant { .. } => self.unattended((name, server), sign_in, reread),
        }
    }

    /// Waits until renewals under way have come to an end and are kept; whether they did.
    pub(crate) async fn renewed(&self) -> bool {
        self.renewals.settle(&*self.vault).await
    }

    /// What is got without a person. It is the operator's, and used for everybody.
    fn unattended(
        &self,
        (name, server): (&ServerName, &Url),
        sign_in: &SignIn<Secret>,
        reread: Reread,
    ) -> Result<Presented, DialError> {
        let Auth::Grant { grant, scopes, binding } = &sign_in.auth else { return Ok(Presented::nothing()) };
        let wrong = |error: &dyn fmt::Display| DialError::Configuration(error.to_string());
        let mut settings = self.options.settings(&sign_in.oauth)?;
        if !scopes.is_empty() {
            let scopes = Scopes::from_names(scopes.iter().map(String::as_str));
            settings.scopes = Some(scopes.map_err(|error| wrong(&error))?);
        }
        let mut asked = Grant::configured(grant, &self.around).map_err(|error| wrong(&error))?;
        reread.into_grant(grant, &mut asked);
        let unattended = Unattended::new(UnattendedOptions {
            name: name.to_string(),
            remedy: "see `auth` of its entry".to_owned(),
            principal: self.options.principal.to_string(),
            server: server.clone(),
            grant: asked,
            settings,
            fetch: Arc::new(GuardedDialer::new(server.clone(), self.options.http.clone())),
            vault: Arc::clone(&self.vault),
            proofs: proofs(*binding),
        });
        let needed = Some(unattended.watch());
        Ok(Presented { needed, ..Presented::common(Arc::new(unattended)) })
    }

    /// What a person signed in to.
    ///
    /// A connection that others use as well never presents it: where nobody had signed in when it was opened, it presents
    /// nothing from then on, whoever signs in meanwhile.
    async fn interactive(
        &self,
        server: (&ServerName, &Url),
        sign_in: &SignIn<Secret>,
        (whose, principal): (Whose, &Principal),
    ) -> Result<Presented, DialError> {
        let options = self.options.session(server, sign_in, principal, Arc::clone(&self.vault))?;
        let own = self.is_own(whose);
        let token = if own { token(&options.sign_in).await? } else { None };
        let session = Session::new(SessionOptions { renewals: self.renewals.clone(), ..options });
        let account = if token.is_some() { Account::Personal } else { Account::Common };
        let is_client = *principal != self.options.principal;
        if own && token.is_none() && !is_client {
            let account = Account::Anonymous(Arc::new(self.clients_at(server.1).await?.into()));
            let principal = Some(principal.clone());
            return Ok(Presented { account, principal, ..Presented::nothing() });
        }
        let client = (own && is_client).then(|| (principal.clone(), token));
        if let Some(client) = &client {
            self.rested(server.0, client)?;
        }
        let (principal, needed) = (Some(principal.clone()), Some(session.watch()));
        let kept = Some(session.clone());
        Ok(Presented { account, principal, client, session: kept, needed, ..Presented::common(Arc::new(session)) })
    }

    /// The clients that have signed in to a server.
    async fn clients_at(&self, server: &Url) -> Result<HashSet<String>, DialError> {
        let holders = Credential::holders(&*self.vault, server).await.map_err(|error| unusable(&error))?;
        Ok(holders.iter().filter_map(|holder| holder.strip_prefix(CLIENT)).map(str::to_owned).collect())
    }

    /// The answer of a moment ago, where a client has nothing else to show than then.
    fn rested(&self, server: &ServerName, (client, token): &(Principal, Option<Secret>)) -> Result<(), DialError> {
        let unsigned = self.unsigned.lock();
        let last = unsigned.get(&(server.clone(), client.clone()));
        let last = last.filter(|last| Instant::now() < last.until && last.token == *token);
        last.map_or(Ok(()), |last| Err(last.error.clone()))
    }

    /// A server was greeted in vain: where that is a client's sign-in, it is not tried again at once.
    pub(super) fn failed(&self, server: &ServerName, presented: &Presented, error: &DialError) {
        let Some((client, token)) = presented.client.clone().filter(|_| error.is_of_sign_in()) else { return };
        let (now, mut unsigned) = (Instant::now(), self.unsigned.lock());
        unsigned.retain(|_, last| now < last.until);
        let last = Unsigned { until: now + UNSIGNED, token, error: error.clone() };
        unsigned.insert((server.clone(), client), last);
    }

    /// Whether what somebody signed in to is used for nobody else.
    fn is_own(&self, whose: Whose) -> bool {
        whose == Whose::Own && self.options.clients == Clients::Others
    }

    /// Who has to do what where a server wants to see more of a client, or of whoever runs us.
    pub(crate) fn how(&self, wanted: &WantedServer, client: Option<&str>) -> Option<String> {
        let Way::Configured(server) = &wanted.way else { return None };
        let Transport::Http(http) = &server.transport else { return None };
        let unsaid = Auth::default();
        let auth = http.auth.as_deref().unwrap_or(&unsaid);
        let signs_in = matches!(auth, Auth::OAuth { .. }) && !http.has_authorization();
        signs_in.then(|| self.principal(auth, client).how(&wanted.name))
    }

    /// Whose credentials a caller's connection is opened with.
    pub(super) fn principal<T>(&self, auth: &Auth<T>, client: Option<&str>) -> Principal {
        match (auth, client) {
            (Auth::OAuth { whose, .. }, Some(client)) if self.is_own(*whose) => Principal::client(client),
            _ => self.options.principal.clone(),
        }
    }
}

impl SignInOptions {
    /// How a principal signs in to a server that is configured like this.
    pub fn session(
        &self,
        (name, server): (&ServerName, &Url),
        configured: &SignIn<Secret>,
        principal: &Principal,
        vault: Arc<dyn Vault>,
    ) -> Result<SessionOptions, DialError> {
        let binding = match configured.auth {
            Auth::OAuth { binding, .. } => binding,
            _ => Binding::Bearer,
        };
        Ok(SessionOptions {
            name: name.to_string(),
            remedy: principal.how(name),
            browser: None,
            sign_in: sign_in::SignIn {
                principal: principal.to_string(),
                server: server.clone(),
                settings: self.settings(&configured.oauth)?,
                fetch: Arc::new(GuardedDialer::new(server.clone(), self.http.clone())),
                vault,
                proofs: proofs(binding),
            },
            renewals: Renewals::default(),
        })
    }

    fn settings(&self, oauth: &OAuth<Secret>) -> Result<Settings, DialError> {
        let wrong = |key: &str| DialError::Configuration(format!("`oauth.{key}` cannot be used"));
        let url = |key: &str, text: &Option<Secret>| {
            text.as_ref().map(|text| Url::parse(text.expose())).transpose().map_err(|_| wrong(key))
        };
        // Else whoever the server names would be given what was meant for the operator's page.
        let names_nobody = oauth.token_url.is_none() && oauth.metadata_url.is_none() && oauth.issuer.is_none();
        if oauth.authorization_url.is_some() && names_nobody {
            let problem =
                "`oauth.authorizationUrl` needs `oauth.tokenUrl` beside it, or `oauth.metadataUrl` or `oauth.issuer`";
            return Err(DialError::Configuration(problem.to_owned()));
        }
        let scopes = oauth.scopes.as_ref().map(|names| Scopes::from_names(names.iter().map(String::as_str)));
        Ok(Settings {
            client_id: oauth.client_id.as_ref().map(|id| id.expose().to_owned()),
            client_secret: oauth.client_secret.clone(),
            scopes: scopes.transpose().map_err(|_| wrong("scopes"))?,
            issuer: oauth.issuer.as_ref().map(|issuer| issuer.expose().to_owned()),
            metadata_url: url("metadataUrl", &oauth.metadata_url)?,
            authorization_url: url("authorizationUrl", &oauth.authorization_url)?,
            token_url: url("tokenUrl", &oauth.token_url)?,
            client_name: oauth.client_name.clone(),
            client_document: self.client_metadata_url.clone(),
            old_servers: if oauth.old_server == Some(true) { OldServers::Allow } else { OldServers::Refuse },
        })
    }
}

impl Presented {
    pub(super) fn nothing() -> Self {
        Self::common(Arc::new(NoCredentials))
    }

    pub(super) fn common(credentials: Arc<dyn Credentials>) -> Self {
        Self {
            credentials,
            account: Account::Common,
            secrets: Vec::new(),
            principal: None,
            client: None,
            session: None,
            needed: None,
        }
    }

    /// What it means that the server could not be greeted.
    pub(super) fn error(&self, error: WireError, wanted: &WantedServer) -> DialError {
        match (&error, self.waiting_for()) {
            (WireError::Unauthorized { .. }, Some(needed)) if self.principal.is_none() => {
                DialError::NoToken(format!("{}; {}", needed.why, needed.remedy))
            }
            // It was not the server that did not answer: nothing was sent to it.
            (WireError::TimedOut { .. }, _) if self.session.as_ref().is_some_and(Session::is_renewing) => {
                let problem = "the sign-in cannot be renewed: whoever renews it does not answer";
                DialError::Wire(WireError::NoToken(problem.to_owned()))
            }
            _ => DialError::of(error, wanted.credential(), self.how(&wanted.name)),
        }
    }

    fn waiting_for(&self) -> Option<SignInNeeded> {
        self.needed.as_ref().and_then(|needed| needed.borrow().clone())
    }

    /// Who has to do what where the server wants to see more.
    fn how(&self, server: &ServerName) -> Option<String> {
        match self.waiting_for().filter(|needed| needed.why != Why::Never) {
            Some(needed) => Some(format!("{}; {}", needed.why, needed.remedy)),
            None => self.principal.as_ref().map(|principal| principal.how(server)),
        }
    }

    fn fixed(fixed: Result<Fixed, NoHeader>, secrets: Vec<Secret>) -> Result<Self, DialError> {
        let fixed = fixed.map_err(|error| DialError::Configuration(error.to_string()))?;
        Ok(Self { secrets, ..Self::common(Arc::new(fixed)) })
    }
}

/// The token that somebody has who signs in like this.
async fn token(sign_in: &sign_in::SignIn) -> Result<Option<Secret>, DialError> {
    let kept = sign_in.find().await.map_err(|error| unusable(&error))?;
    Ok(kept.and_then(|(_, credential)| credential.tokens).map(|tokens| tokens.access))
}

fn unusable(error: &CredentialError) -> DialError {
    DialError::Wire(WireError::Vault(error.to_string()))
}

fn proofs(binding: Binding) -> Option<Arc<dyn ProofKeys>> {
    (binding == Binding::Key).then(|| Arc::new(DpopKeys) as Arc<dyn ProofKeys>)
}

// === impl Reread ===

impl Reread {
    /// What others say about us is looked up each time: platforms replace it while we run.
    fn into_grant(self, written: &auth::Grant<Secret>, grant: &mut Grant) {
        match (written, grant) {
            (auth::Grant::Workload { client, audience, .. }, Grant::Workload(workload)) => {
                let text = |text: &Option<Secret>| text.as_ref().map(|text| text.expose().to_owned());
                *workload = Workload::new(Arc::new(self), text(client), text(audience));
            }
            (auth::Grant::Enterprise { .. }, Grant::Enterprise(enterprise)) => enterprise.id_token = Arc::new(self),
            _ => {}
        }
    }

    fn look(&self) -> Result<Secret, String> {
        let endpoint = self.server.endpoint(&self.environment, &*self.keychain).map_err(|error| error.to_string())?;
        let Endpoint::Http { sign_in, .. } = endpoint else { return Err("it is a program".to_owned()) };
        match sign_in.auth {
            Auth::Grant { grant: auth::Grant::Workload { assertion, .. }, .. } => Ok(assertion),
            Auth::Grant { grant: auth::Grant::Enterprise { id_token, .. }, .. } => Ok(id_token),
            _ => Err("its entry does not say it".to_owned()),
        }
    }
}

impl Supply for Reread {
    fn supply(&self) -> BoxFuture<'_, Result<Secret, String>> {
        let entry = self.clone();
        Box::pin(async move {
            let looked = tokio::task::spawn_blocking(move || entry.look()).await;
            looked.unwrap_or_else(|error| Err(error.to_string()))
        })
    }
}

// === impl Principal ===

impl Principal {
    /// The person who runs this program; a profile is one of several accounts they have.
    pub fn local(profile: Option<&str>) -> Self {
        Self(profile.map_or_else(|| "local".into(), |profile| format!("local/{profile}").into()))
    }

    /// A client of the gateway.
    pub fn client(name: &str) -> Self {
        Self(format!("{CLIENT}{name}").into())
    }

    /// Who has to do what to sign in to a server.
    fn how(&self, server: &ServerName) -> String {
        match self.0.split_once('/') {
            Some(("client", client)) => format!("the operator runs `toolway login {server} --client {client}`"),
            Some((_, profile)) => format!("run `toolway login {server} --profile {profile}`"),
            None => format!("run `toolway login {server}`"),
        }
    }

    /// As credentials are kept under it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Default for SignInOptions {
    fn default() -> Self {
        Self {
            principal: Principal::local(None),
            clients: Clients::default(),
            http: HttpOptions::default(),
            client_metadata_url: None,
        }
    }
}

impl fmt::Debug for SignIns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignIns").field("principal", &self.options.principal).finish_non_exhaustive()
    }
}

/// What grants need that stands in the environment.
pub(crate) fn surroundings(environment: &Environment, options: &SignInOptions) -> Surroundings {
    let google = environment.get(OsStr::new(GOOGLE_FILE)).filter(|file| !file.is_empty());
    let configuration = Paths::of(environment).config.and_then(|own| own.parent().map(Path::to_owned));
    Surroundings { http: options.http.clone(), google_variable: google.map(PathBuf::from), configuration }
}
