//! Credentials for servers: what requests to each say about who asks, and who may use a connection that says so.
//!
//! What was configured for a server (a token, a key, a password, a client of ours) is the operator's to give away: it is
//! used for every caller. What a person signed in to is that person's: it is used for nobody else, unless the entry says
//! that it is shared. So a client of the gateway is connected on its own behalf wherever the first connection is made with
//! somebody's own sign-in.

mod account;
mod presented;
mod reread;
mod unsigned;

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
    fixed::{Fixed, basic},
    grant::{Grant, configured::Surroundings},
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
    Paths, Secret, ServerName,
    endpoint::GOOGLE_FILE,
    server::{
        Transport,
        auth::{Auth, Binding, OAuth, SignIn, Whose},
    },
};
use toolway_wire::{
    error::WireError,
    up::{connector::HttpOptions, credential::Credentials},
};
use url::Url;

pub(crate) use self::account::Account;
pub use self::account::Signing;
use self::unsigned::Unsigned;
pub(super) use self::{presented::Presented, reread::Reread};

use super::{
    dial::DialError,
    environment::Environment,
    wanted::{WantedServer, Way},
};
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
