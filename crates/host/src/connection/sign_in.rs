//! Credentials for servers: what each connection presents, and which callers may use it.
//!
//! A configured credential (a token, a key, a password, client credentials) belongs to the operator and is used for every
//! caller. A user's sign-in is used for that user only, unless the entry shares it. So a gateway client gets its own
//! connection if the shared one uses a user's sign-in.

mod account;
mod entry_reader;
mod failed_sign_ins;
mod presented;

use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use toolway_auth::{
    credential::{Credential, CredentialError},
    dialer::GuardedDialer,
    dpop::DpopKeys,
    grant::{Grant, configured::GrantEnvironment},
    proof::ProofKeys,
    refresh_tracker::RefreshTracker,
    scope::Scopes,
    session::{Session, SessionOptions},
    settings::{OldServers, Settings},
    sign_in,
    static_credential::{StaticCredential, basic},
    unattended::{Unattended, UnattendedOptions},
    vault::Vault,
};
use toolway_config::{
    Paths, Secret, ServerName,
    endpoint::GOOGLE_FILE,
    server::{
        Transport,
        auth::{Auth, Binding, OAuth, SignIn, SignInSharing},
    },
};
use toolway_wire::{
    error::WireError,
    up::{connector::HttpOptions, credential::Credentials},
};
use url::Url;

pub(crate) use self::account::Account;
pub use self::account::SignInChange;
use self::failed_sign_ins::FailedSignIn;
pub(super) use self::{entry_reader::EntryReader, presented::PresentedCredentials};

use super::{
    ConnectionCounters,
    dial::DialError,
    environment::Environment,
    wanted::{WantedServer, Way},
};

/// The identity whose credentials are used.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal(Arc<str>);

/// Prefix of the principals of gateway clients.
const CLIENT: &str = "client/";

/// Sign-in settings of a host.
#[derive(Clone, Debug)]
pub struct SignInOptions {
    /// The principal for callers other than gateway clients.
    pub principal: Principal,
    /// Whether gateway clients have their own sign-ins.
    pub clients: Clients,
    /// HTTP options for authorization servers.
    pub http: HttpOptions,
    /// URL of our client ID metadata document, if there is one.
    pub client_metadata_url: Option<Url>,
}

/// Whether gateway clients have their own sign-ins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clients {
    /// Each client has its own sign-ins.
    #[default]
    Others,
    /// Clients use the sign-ins of the user who runs the gateway.
    Ourselves,
}

/// Shared sign-in state of all connections of a host.
#[derive(Clone)]
pub(crate) struct SignIns {
    pub(crate) vault: Arc<dyn Vault>,
    pub(crate) options: SignInOptions,
    /// What grants need from the environment.
    pub(crate) around: GrantEnvironment,
    /// Presented to servers without configured credentials.
    pub(crate) credentials: Arc<dyn Credentials>,
    /// Recently failed sign-ins of clients. Nothing awaits under this lock.
    pub(crate) failed_sign_ins: Arc<Mutex<HashMap<(ServerName, Principal), FailedSignIn>>>,
    /// Token refreshes in progress, of all servers.
    pub(crate) refreshes: RefreshTracker,
    /// Counts attempts, refusals and refreshes of all servers.
    pub(crate) counters: ConnectionCounters,
}

impl SignIns {
    /// The credentials to present to a server with this configuration.
    pub(super) async fn present(
        &self,
        name: &ServerName,
        server: &Url,
        sign_in: &SignIn<Secret>,
        (principal, reread): (&Principal, EntryReader),
    ) -> Result<PresentedCredentials, DialError> {
        match &sign_in.auth {
            Auth::None => Ok(PresentedCredentials::nothing()),
            Auth::Bearer { token } => PresentedCredentials::fixed(StaticCredential::bearer(server, token), Vec::new()),
            Auth::ApiKey { key, header } => {
                PresentedCredentials::fixed(StaticCredential::key(server, header, key), Vec::new())
            }
            Auth::Basic { username, password } => PresentedCredentials::fixed(
                StaticCredential::basic(server, username, password),
                vec![basic(username, password)],
            ),
            Auth::OAuth { sharing, .. } => self.interactive((name, server), sign_in, (*sharing, principal)).await,
            Auth::Grant { .. } => self.unattended((name, server), sign_in, reread),
        }
    }

    /// Waits until token refreshes in progress have ended and are stored; returns whether they were.
    pub(crate) async fn settle_refreshes(&self) -> bool {
        self.refreshes.settle(&*self.vault).await
    }

    /// Tokens obtained without a user. They belong to the operator and are used for all callers.
    fn unattended(
        &self,
        (name, server): (&ServerName, &Url),
        sign_in: &SignIn<Secret>,
        reread: EntryReader,
    ) -> Result<PresentedCredentials, DialError> {
        let Auth::Grant { grant, scopes, binding } = &sign_in.auth else { return Ok(PresentedCredentials::nothing()) };
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
            remedy: "check `auth` in the server's entry".to_owned(),
            principal: self.options.principal.to_string(),
            server: server.clone(),
            grant: asked,
            settings,
            fetch: Arc::new(GuardedDialer::new(server.clone(), self.options.http.clone())),
            vault: Arc::clone(&self.vault),
            proofs: proofs(*binding),
        })
        .counted_by(self.counters.of(name).refreshes());
        let needed = Some(unattended.watch());
        Ok(PresentedCredentials { needed, ..PresentedCredentials::common(Arc::new(unattended)) })
    }

    /// Tokens of a user's sign-in.
    ///
    /// A connection that other callers use never presents them: if there was no sign-in when it was opened, it presents
    /// nothing, also after a later sign-in.
    async fn interactive(
        &self,
        server: (&ServerName, &Url),
        sign_in: &SignIn<Secret>,
        (sharing, principal): (SignInSharing, &Principal),
    ) -> Result<PresentedCredentials, DialError> {
        let options = self.options.session(server, sign_in, principal, Arc::clone(&self.vault))?;
        let own = self.is_own(sharing);
        let sign_in = Some(Box::new(options.sign_in.clone()));
        let token = if own { token(&options.sign_in).await? } else { None };
        let refreshes = self.refreshes.counted_by(self.counters.of(server.0).refreshes());
        let session = Session::new(SessionOptions { refreshes, ..options });
        let account = if token.is_some() { Account::Personal } else { Account::Common };
        let is_client = *principal != self.options.principal;
        if own && token.is_none() && !is_client {
            let account = Account::Anonymous(Arc::new(self.clients_at(server.1).await?.into()));
            let principal = Some(principal.clone());
            return Ok(PresentedCredentials { account, principal, sign_in, ..PresentedCredentials::nothing() });
        }
        let client = (own && is_client).then(|| (principal.clone(), token));
        if let Some(client) = &client {
            self.check_recent_failure(server.0, client)?;
        }
        let (principal, needed) = (Some(principal.clone()), Some(session.watch()));
        let kept = Some(session.clone());
        Ok(PresentedCredentials {
            account,
            principal,
            client,
            sign_in,
            session: kept,
            needed,
            ..PresentedCredentials::common(Arc::new(session))
        })
    }

    /// The clients that have signed in to a server.
    async fn clients_at(&self, server: &Url) -> Result<HashSet<String>, DialError> {
        let holders = Credential::holders(&*self.vault, server).await.map_err(|error| unusable(&error))?;
        Ok(holders.iter().filter_map(|holder| holder.strip_prefix(CLIENT)).map(str::to_owned).collect())
    }

    /// Whether a sign-in is used for its own user only.
    fn is_own(&self, sharing: SignInSharing) -> bool {
        sharing == SignInSharing::Private && self.options.clients == Clients::Others
    }

    /// What to do if a server requires sign-in, for a client or the user of this process; `None` if signing in does not help.
    pub(crate) fn hint(&self, wanted: &WantedServer, client: Option<&str>) -> Option<String> {
        let Way::Configured(server) = &wanted.way else { return None };
        let Transport::Http(http) = &server.transport else { return None };
        let unsaid = Auth::default();
        let auth = http.auth.as_deref().unwrap_or(&unsaid);
        let signs_in = matches!(auth, Auth::OAuth { .. }) && !http.has_authorization();
        signs_in.then(|| self.principal(auth, client).sign_in_hint(&wanted.name))
    }

    /// The principal of a caller's connection.
    pub(super) fn principal<T>(&self, auth: &Auth<T>, client: Option<&str>) -> Principal {
        match (auth, client) {
            (Auth::OAuth { sharing, .. }, Some(client)) if self.is_own(*sharing) => Principal::client(client),
            _ => self.options.principal.clone(),
        }
    }
}

impl SignInOptions {
    /// Options of a principal's session with a server.
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
            remedy: principal.sign_in_hint(name),
            browser: None,
            sign_in: sign_in::SignIn {
                principal: principal.to_string(),
                server: server.clone(),
                settings: self.settings(&configured.oauth)?,
                fetch: Arc::new(GuardedDialer::new(server.clone(), self.http.clone())),
                vault,
                proofs: proofs(binding),
            },
            refreshes: RefreshTracker::default(),
        })
    }

    fn settings(&self, oauth: &OAuth<Secret>) -> Result<Settings, DialError> {
        let wrong = |key: &str| DialError::Configuration(format!("`oauth.{key}` is invalid"));
        let url = |key: &str, text: &Option<Secret>| {
            text.as_ref().map(|text| Url::parse(text.expose())).transpose().map_err(|_| wrong(key))
        };
        // Otherwise the authorization code would be sent to a token endpoint chosen by the server.
        let names_no_issuer = oauth.token_url.is_none() && oauth.metadata_url.is_none() && oauth.issuer.is_none();
        if oauth.authorization_url.is_some() && names_no_issuer {
            let problem = "`oauth.authorizationUrl` requires `oauth.tokenUrl`, `oauth.metadataUrl` or `oauth.issuer`";
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
            old_servers: match oauth.old_server {
                None => OldServers::Try,
                Some(true) => OldServers::Assume,
                Some(false) => OldServers::Refuse,
            },
        })
    }
}

/// The command that sets the key or token of a server.
pub fn key_command(server: &str) -> String {
    format!("toolway servers update {server} --header 'Authorization: Bearer ${{TOKEN}}'")
}

/// The stored access token of a sign-in.
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

// === impl Principal ===

impl Principal {
    /// The user who runs this program; a profile selects one of several accounts.
    pub fn local(profile: Option<&str>) -> Self {
        Self(profile.map_or_else(|| "local".into(), |profile| format!("local/{profile}").into()))
    }

    /// A gateway client.
    pub fn client(name: &str) -> Self {
        Self(format!("{CLIENT}{name}").into())
    }

    /// What to do to sign in to a server.
    fn sign_in_hint(&self, server: &ServerName) -> String {
        match self.0.split_once('/') {
            Some(("client", client)) => format!("ask the operator to run `toolway login {server} --client {client}`"),
            Some((_, profile)) => format!("run `toolway login {server} --profile {profile}`"),
            None => format!("run `toolway login {server}`"),
        }
    }

    /// What to do about a server that requires authentication and names no authorization server.
    fn key_hint(&self, server: &ServerName) -> String {
        match self.0.split_once('/') {
            Some(("client", _)) => format!(
                "it names no authorization server; ask the operator to set the key or token of `{server}`, or: {}",
                self.sign_in_hint(server)
            ),
            _ => format!(
                "it names no authorization server; if it takes a key or a token, run `{}`, else {}",
                key_command(server.as_str()),
                self.sign_in_hint(server)
            ),
        }
    }

    /// The text under which credentials are stored.
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

/// What grants need from the environment.
pub(crate) fn surroundings(environment: &Environment, options: &SignInOptions) -> GrantEnvironment {
    let google = environment.get(OsStr::new(GOOGLE_FILE)).filter(|file| !file.is_empty());
    let configuration = Paths::of(environment).config.and_then(|own| own.parent().map(Path::to_owned));
    GrantEnvironment { http: options.http.clone(), google_variable: google.map(PathBuf::from), configuration }
}
