//! Steps of an interactive sign-in: discover, register, open the browser, and finish with the callback.
//!
//! [`crate::session`] runs them after a refusal; `toolway login` runs them on request, maybe in two processes.

use std::sync::Arc;

use toolway_config::Secret;
use url::Url;

use crate::{
    address,
    authorize::{CallbackError, NoRandomness, PendingSignIn, SignInParams},
    challenge::TokenChallenge,
    credential::{
        Credential, CredentialError, CredentialKey, Registration, RegistrationSource, TokenKind, Tokens, now,
    },
    discovery::{Discovery, FoundBy},
    fetch::{Fetch, FetchError},
    metadata::MetadataError,
    proof::{ProofError, ProofKeys},
    registration::{self, CLIENT_NAME, ClientChoice, ClientMetadata, RegistrationError},
    scope::{ScopeSources, Scopes},
    settings::Settings,
    sign_in_required::SignInReason,
    token::{TokenError, TokenRequest},
    vault::{Vault, VaultError},
};

/// Signs one principal in to one server.
#[derive(Clone, Debug)]
pub struct SignIn {
    /// Principal, with the profile if there are several accounts.
    pub principal: String,
    /// URL of the server.
    pub server: Url,
    /// The operator's settings.
    pub settings: Settings,
    /// Guarded dialer for this server.
    pub fetch: Arc<dyn Fetch>,
    /// Credential storage.
    pub vault: Arc<dyn Vault>,
    /// DPoP keys, if tokens must be bound to one.
    pub proofs: Option<Arc<dyn ProofKeys>>,
}

/// Authorization server and scopes of a sign-in.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Discovered authorization server.
    pub discovery: Discovery,
    /// Scopes to request.
    pub scopes: Scopes,
    /// Issuer of the last sign-in, if it was another one.
    pub before: Option<String>,
    /// Stored client registration at this issuer.
    pub client: Option<Registration>,
}

/// Why a sign-in failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignInError {
    /// Discovery failed.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// There is no client registration.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    /// The callback is invalid.
    #[error(transparent)]
    Callback(#[from] CallbackError),
    /// The token request failed.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The credential cannot be stored or loaded.
    #[error(transparent)]
    Credential(#[from] CredentialError),
    /// The DPoP proof cannot be created.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// The system random number generator failed.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
    /// The configured client belongs to another issuer.
    #[error(
        "client `{client}` is registered with `{before}`, but the server now names `{now}`; nothing was sent there"
    )]
    IssuerChanged {
        /// Client id.
        client: String,
        /// Issuer that the client belongs to.
        before: String,
        /// Issuer that the server names.
        now: String,
    },
    /// The server names no authorization server, and its own origin has no metadata either.
    #[error(
        "`{server}` requires authentication, but names no authorization server and has none at its own origin; it may \
         take a key or a token"
    )]
    NoAuthorizationServer {
        /// URL of the server.
        server: String,
    },
    /// Only the server names this issuer; nothing was sent.
    #[error(
        "the client secret was not sent to `{issuer}`: only the server names this issuer; if it is correct, set \
         `oauth.issuer`"
    )]
    IssuerNotConfigured {
        /// Issuer that the server names.
        issuer: String,
    },
    /// The token must be bound to a DPoP key, but is not.
    #[error("`{issuer}` issued a token that is not bound to the DPoP key, although `dpop` is enabled")]
    NotBound {
        /// Issuer identifier.
        issuer: String,
    },
    /// The token is bound to a DPoP key, but must not be.
    #[error(
        "`{issuer}` issued a token that is bound to a DPoP key, although `dpop` is not enabled; set `dpop` in `auth`"
    )]
    UnexpectedlyBound {
        /// Issuer identifier.
        issuer: String,
    },
    /// There is no pending sign-in for this callback.
    #[error("no sign-in waits for this callback; it has expired, or was started elsewhere")]
    NoPendingSignIn,
}

impl SignIn {
    /// Key under which credentials of this server are stored.
    pub fn identity(&self) -> String {
        address::identity(&self.server)
    }

    /// Discovers the authorization server and selects scopes; `held` are the scopes requested before, in a step-up.
    pub async fn plan(&self, demand: &TokenChallenge, held: Option<&Scopes>) -> Result<Plan, SignInError> {
        let mut kept = Credential::all(&*self.vault, &self.principal, &self.identity()).await?;
        kept.retain(|(key, kept)| kept.is_interactive() && self.settings.matches(key, kept));
        let before = kept.last().map(|(key, _)| key.issuer.clone());
        let discovery = Discovery::find(&*self.fetch, &self.server, &self.settings, demand, before.as_deref()).await?;
        let issuer = &discovery.server.issuer;
        self.check_binding(&kept, issuer)?;
        self.check_issuer_named(issuer)?;
        let sources = ScopeSources {
            configured: self.settings.scopes.as_ref(),
            before: held,
            challenged: demand.scopes.as_ref(),
            resource: discovery.scopes.as_ref(),
            server: discovery.server.scopes.as_ref(),
        };
        let scopes = sources.choose();
        let client = kept.iter().rev().find(|(key, _)| key.issuer == *issuer).map(|(_, known)| known.client.clone());
        let before = before.filter(|before| before != issuer);
        Ok(Plan { discovery, scopes, before, client })
    }

    /// Obtains a client registration and creates the pending sign-in with this redirect URL.
    pub async fn begin(&self, plan: Plan, redirect: Url) -> Result<PendingSignIn, SignInError> {
        let page = plan.discovery.server.sign_in_page()?.clone();
        let client = self.client(&plan, &redirect).await.map_err(|error| self.explain(&plan, error))?;
        let params = SignInParams {
            principal: self.principal.clone(),
            server: self.identity(),
            issuer: plan.discovery.issuer(),
            page,
            token_endpoint: plan.discovery.server.token_endpoint,
            client,
            resource: plan.discovery.resource,
            scopes: plan.scopes,
            redirect,
        };
        Ok(PendingSignIn::begin(params, now())?)
    }

    /// Exchanges the code of a callback and stores the credential, which replaces all older ones for this server.
    pub async fn finish(
        &self,
        pending: &PendingSignIn,
        callback: &Secret,
    ) -> Result<(CredentialKey, Credential), SignInError> {
        let code = pending.code(callback.expose(), now())?;
        let prover = self.proofs.as_ref().map(|keys| keys.prover(None)).transpose()?;
        let request = TokenRequest {
            endpoint: &pending.token_endpoint,
            client: &pending.client.auth(),
            params: pending.grant(code),
            prover: prover.as_deref(),
        };
        let tokens = Tokens::from_response(request.send(&*self.fetch).await?, pending.scopes.clone(), now())?;
        let issuer = || pending.issuer.name.clone();
        match (tokens.kind, &prover) {
            (TokenKind::Bearer, None) | (TokenKind::DPoP, Some(_)) => {}
            (TokenKind::Bearer, Some(_)) => return Err(SignInError::NotBound { issuer: issuer() }),
            (TokenKind::DPoP, None) => return Err(SignInError::UnexpectedlyBound { issuer: issuer() }),
        }
        let credential = Credential {
            server: pending.server.clone(),
            token_endpoint: pending.token_endpoint.clone(),
            client: pending.client.clone(),
            tokens: Some(tokens),
            proof_key: prover.map(|prover| prover.key()),
        };
        let key = pending.key();
        self.store(&key, &credential).await?;
        Ok((key, credential))
    }

    /// Finishes the pending sign-in in the vault with a callback that the user supplied. A wrong callback leaves it
    /// pending.
    pub async fn finish_pending(&self, callback: &Secret) -> Result<(CredentialKey, Credential), SignInError> {
        let pending = PendingSignIn::take(&*self.vault, &self.principal, &self.identity()).await?;
        let pending = pending.ok_or(SignInError::NoPendingSignIn)?;
        let mistake = pending.code(callback.expose(), now());
        if let Err(error @ (CallbackError::WrongRedirect { .. } | CallbackError::WrongState)) = mistake {
            pending.store(&*self.vault).await?;
            return Err(error.into());
        }
        let finished = self.finish(&pending, callback).await;
        // The code was not sent, so it is still valid.
        if let Err(SignInError::Token(TokenError::Fetch(FetchError::Unreachable { .. }))) = &finished {
            pending.store(&*self.vault).await?;
        }
        finished
    }

    /// The stored credential for this server, of the configured client and issuer.
    pub async fn find(&self) -> Result<Option<(CredentialKey, Credential)>, CredentialError> {
        let mut kept = Credential::all(&*self.vault, &self.principal, &self.identity()).await?;
        kept.retain(|(key, kept)| self.uses(key, kept));
        Ok(kept.pop())
    }

    /// Whether a stored credential is used for this server: an interactive sign-in with the configured client and
    /// issuer.
    pub fn uses(&self, key: &CredentialKey, kept: &Credential) -> bool {
        let client = self.settings.client_id.as_ref();
        kept.server == self.identity()
            && kept.is_interactive()
            && client.is_none_or(|client| key.client == *client)
            && self.settings.matches(key, kept)
    }

    /// Deletes all credentials for this server and returns their number.
    pub async fn forget(&self) -> Result<usize, CredentialError> {
        let kept = Credential::all(&*self.vault, &self.principal, &self.identity()).await?;
        for (key, _) in &kept {
            self.forget_locked(key).await?;
        }
        self.vault.forget(&PendingSignIn::pending_key(&self.principal, &self.identity())).await?;
        Ok(kept.len())
    }

    /// CVE-2026-104850: a client of one issuer is never presented to another.
    fn check_binding(&self, kept: &[(CredentialKey, Credential)], issuer: &str) -> Result<(), SignInError> {
        let Some(client) = &self.settings.client_id else { return Ok(()) };
        let elsewhere = kept.iter().find(|(key, credential)| {
            credential.client.source == RegistrationSource::Configured && key.client == *client && key.issuer != issuer
        });
        elsewhere.map_or(Ok(()), |(key, _)| {
            let (client, before, now) = (client.clone(), key.issuer.clone(), issuer.to_owned());
            Err(SignInError::IssuerChanged { client, before, now })
        })
    }

    /// CVE-2026-104850, before the first sign-in: a server could name any authorization server and receive the client
    /// secret. The browser is no safeguard, because a malicious server can redirect it back at once.
    fn check_issuer_named(&self, issuer: &str) -> Result<(), SignInError> {
        let Settings { client_id, client_secret, .. } = &self.settings;
        if client_id.is_some() && client_secret.is_some() && !self.settings.names_authorization_server() {
            return Err(SignInError::IssuerNotConfigured { issuer: issuer.to_owned() });
        }
        Ok(())
    }

    async fn client(&self, plan: &Plan, redirect: &Url) -> Result<Registration, SignInError> {
        let server = &plan.discovery.server;
        // A dynamically registered client is bound to its redirect URL.
        let same = |known: &&Registration| known.redirect.as_deref() == Some(redirect.as_str());
        let known = plan.client.as_ref().filter(same);
        match registration::choose_client(server, &self.settings, known, now())? {
            ClientChoice::Known(client) => Ok(client),
            ClientChoice::Register(endpoint) => {
                let name = self.settings.client_name.as_deref().unwrap_or(CLIENT_NAME);
                let metadata = ClientMetadata { name, redirect, scopes: &plan.scopes };
                let client = registration::register(&*self.fetch, &endpoint, server, metadata).await?;
                self.remember(plan, &client).await?;
                Ok(client)
            }
        }
    }

    /// A refused registration at default endpoints means that there is no authorization server.
    fn explain(&self, plan: &Plan, error: SignInError) -> SignInError {
        match error {
            SignInError::Registration(RegistrationError::Refused { .. })
                if plan.discovery.found_by == FoundBy::DefaultEndpoints =>
            {
                SignInError::NoAuthorizationServer { server: address::redacted(&self.server) }
            }
            other => other,
        }
    }

    /// Stores a dynamic registration at once, so that an unfinished sign-in does not need a second one.
    async fn remember(&self, plan: &Plan, client: &Registration) -> Result<(), CredentialError> {
        let key = CredentialKey {
            principal: self.principal.clone(),
            issuer: plan.discovery.server.issuer.clone(),
            client: client.id.clone(),
            resource: plan.discovery.resource.clone(),
        };
        let credential = Credential {
            server: self.identity(),
            token_endpoint: plan.discovery.server.token_endpoint.clone(),
            client: client.clone(),
            tokens: None,
            proof_key: None,
        };
        Ok(credential.store(&*self.vault, &key).await?)
    }

    async fn store(&self, key: &CredentialKey, credential: &Credential) -> Result<(), CredentialError> {
        let kept = Credential::all(&*self.vault, &self.principal, &credential.server).await?;
        let lock = self.vault.lock(key).await?;
        credential.store(&*self.vault, key).await?;
        drop(lock);
        for (older, _) in kept.iter().filter(|(older, _)| older != key) {
            self.forget_locked(older).await?;
        }
        Ok(())
    }

    /// Waits for a refresh in progress, which would store the credential again.
    async fn forget_locked(&self, key: &CredentialKey) -> Result<(), CredentialError> {
        let _lock = self.vault.lock(key).await?;
        Ok(self.vault.forget(key).await?)
    }
}

impl SignInError {
    /// The reason to report: temporary failures are distinguished from permanent ones.
    pub fn reason(self) -> SignInReason {
        match self {
            Self::IssuerChanged { before, now, .. } => SignInReason::IssuerChanged { before, now },
            Self::Metadata(MetadataError::Fetch(error))
            | Self::Registration(RegistrationError::Fetch(error))
            | Self::Token(TokenError::Fetch(error))
                if error.may_pass() =>
            {
                SignInReason::Unavailable(Box::new(error))
            }
            Self::Credential(error @ (CredentialError::Vault(_) | CredentialError::Unreadable { .. })) => {
                SignInReason::Vault(error.to_string())
            }
            error @ Self::NoAuthorizationServer { .. } => SignInReason::NoAuthorizationServer(error.to_string()),
            other => SignInReason::Failed(other.to_string()),
        }
    }
}

impl From<VaultError> for SignInError {
    fn from(error: VaultError) -> Self {
        Self::Credential(error.into())
    }
}
