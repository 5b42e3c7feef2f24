//! The steps of an interactive sign-in: find out where, become a client, begin, and finish with the callback.
//!
//! [`crate::session`] takes them when a server refuses; a command takes them when a person asks, maybe in two processes.

use std::sync::Arc;

use toolway_config::Secret;
use url::Url;

use crate::{
    address,
    authorize::{Beginning, CallbackError, NoRandomness, Pending},
    challenge::Demand,
    credential::{
        Credential, CredentialError, CredentialKey, Registration, RegistrationSource, TokenKind, Tokens, now,
    },
    discovery::Discovery,
    fetch::{Fetch, FetchError},
    metadata::MetadataError,
    needed::Why,
    proof::{ProofError, ProofKeys},
    registration::{self, CLIENT_NAME, RegistrationError, Way, Wish},
    scope::{Scopes, Sources},
    settings::Settings,
    token::{TokenError, TokenRequest},
    vault::{Vault, VaultError},
};

/// Signs one principal in to one server.
#[derive(Clone, Debug)]
pub struct SignIn {
    /// On whose behalf; with the profile, where there are several accounts.
    pub principal: String,
    /// The server.
    pub server: Url,
    /// What the operator wrote.
    pub settings: Settings,
    /// The guarded dialer for this server.
    pub fetch: Arc<dyn Fetch>,
    /// Where credentials are kept.
    pub vault: Arc<dyn Vault>,
    /// Where the tokens are to be bound to a key.
    pub proofs: Option<Arc<dyn ProofKeys>>,
}

/// Where a sign-in leads, and what it asks for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Who signs people in.
    pub discovery: Discovery,
    /// What is asked for.
    pub scopes: Scopes,
    /// Who did so before, where that was somebody else.
    pub before: Option<String>,
    /// The client that this issuer knows already.
    pub client: Option<Registration>,
}

/// Why nobody is signed in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignInError {
    /// It is not known where.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// We are no client there.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    /// The callback is of no use.
    #[error(transparent)]
    Callback(#[from] CallbackError),
    /// There is no token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// It cannot be kept.
    #[error(transparent)]
    Credential(#[from] CredentialError),
    /// No proof can be made.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// No secrets can be made.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
    /// The operator's client belongs to another issuer.
    #[error("`{client}` is registered with {before}, and now the server names {now}; nothing was sent there")]
    IssuerChanged {
        /// The client.
        client: String,
        /// Who knows it.
        before: String,
        /// Who it would be shown to.
        now: String,
    },
    /// Nobody but the server says who this is; nothing was sent.
    #[error(
        "the client's secret is not sent to {issuer}, which only the server names; if it is the right one, write it into \
         oauth.issuer"
    )]
    Unnamed {
        /// Who the server names.
        issuer: String,
    },
    /// The tokens were to be bound to a key.
    #[error("{issuer} gives tokens that are not bound to our key, though they have to be")]
    NotBound {
        /// Who gives them.
        issuer: String,
    },
    /// No sign-in waits for this callback.
    #[error("no sign-in waits for this callback; it ended, or was begun elsewhere")]
    NotBegun,
}

impl SignIn {
    /// The name under which this server's credentials are kept.
    pub fn identity(&self) -> String {
        address::identity(&self.server)
    }

    /// Finds out where a person has to sign in and what to ask for; `held` is what was asked for before, in a step up.
    pub async fn plan(&self, demand: &Demand, held: Option<&Scopes>) -> Result<Plan, SignInError> {
        let mut kept = Credential::all(&*self.vault, &self.principal, &self.identity()).await?;
        kept.retain(|(key, kept)| kept.is_of_a_person() && self.settings.means(key, kept));
        let before = kept.last().map(|(key, _)| key.issuer.clone());
        let discovery = Discovery::of(&*self.fetch, &self.server, &self.settings, demand, before.as_deref()).await?;
        let issuer = &discovery.server.issuer;
        self.check_binding(&kept, issuer)?;
        self.check_place(issuer)?;
        let sources = Sources {
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

    /// Becomes a client and makes the address to open; the browser will be sent back to `redirect`.
    pub async fn begin(&self, plan: Plan, redirect: Url) -> Result<Pending, SignInError> {
        let page = plan.discovery.server.sign_in_page()?.clone();
        let client = self.client(&plan, &redirect).await?;
        let beginning = Beginning {
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
        Ok(Pending::begin(beginning, now())?)
    }

    /// Exchanges the code of a callback and keeps what comes of it, in the place of everything older for this server.
    pub async fn finish(
        &self,
        pending: &Pending,
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
        let tokens = Tokens::from_reply(request.send(&*self.fetch).await?, pending.scopes.clone(), now())?;
        if (tokens.kind == TokenKind::DPoP) != prover.is_some() {
            return Err(SignInError::NotBound { issuer: pending.issuer.name.clone() });
        }
        let credential = Credential {
            server: pending.server.clone(),
            token_endpoint: pending.token_endpoint.clone(),
            client: pending.client.clone(),
            tokens: Some(tokens),
            proof_key: prover.map(|prover| prover.key()),
        };
        let key = pending.key();
        self.keep(&key, &credential).await?;
        Ok((key, credential))
    }

    /// Finishes the sign-in that waits in the vault, with a callback that a person brought. What was brought by mistake
    /// changes nothing.
    pub async fn finish_waiting(&self, callback: &Secret) -> Result<(CredentialKey, Credential), SignInError> {
        let pending = Pending::take(&*self.vault, &self.principal, &self.identity()).await?;
        let pending = pending.ok_or(SignInError::NotBegun)?;
        let mistake = pending.code(callback.expose(), now());
        if let Err(error @ (CallbackError::Foreign { .. } | CallbackError::WrongState)) = mistake {
            pending.keep(&*self.vault).await?;
            return Err(error.into());
        }
        let finished = self.finish(&pending, callback).await;
        // The code is as good as before: nobody has seen it.
        if let Err(SignInError::Token(TokenError::Fetch(FetchError::Unreachable { .. }))) = &finished {
            pending.keep(&*self.vault).await?;
        }
        finished
    }

    /// What is kept for this server, of the client and the issuer that are configured now.
    pub async fn find(&self) -> Result<Option<(CredentialKey, Credential)>, CredentialError> {
        let mut kept = Credential::all(&*self.vault, &self.principal, &self.identity()).await?;
        kept.retain(|(key, kept)| self.uses(key, kept));
        Ok(kept.pop())
    }

    /// Whether what is kept would be shown to this server: a person's sign-in, of the client and the issuer that are
    /// configured now.
    pub fn uses(&self, key: &CredentialKey, kept: &Credential) -> bool {
        let client = self.settings.client_id.as_ref();
        kept.server == self.identity()
            && kept.is_of_a_person()
            && client.is_none_or(|client| key.client == *client)
            && self.settings.means(key, kept)
    }

    /// Forgets everything that is kept for this server; says how much that was.
    pub async fn forget(&self) -> Result<usize, CredentialError> {
        let kept = Credential::all(&*self.vault, &self.principal, &self.identity()).await?;
        for (key, _) in &kept {
            self.forget_in_turn(key).await?;
        }
        self.vault.forget(&Pending::waiting_key(&self.principal, &self.identity())).await?;
        Ok(kept.len())
    }

    /// CVE-2026-104850: a client of one issuer is never shown to another.
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

    /// CVE-2026-104850, before the first sign-in: a server that could name any would be given the operator's secret. A
    /// person in a browser is no safeguard: whoever it is can send the browser back at once, without showing anything.
    fn check_place(&self, issuer: &str) -> Result<(), SignInError> {
        let Settings { client_id, client_secret, .. } = &self.settings;
        if client_id.is_some() && client_secret.is_some() && !self.settings.names_whom_to_ask() {
            return Err(SignInError::Unnamed { issuer: issuer.to_owned() });
        }
        Ok(())
    }

    async fn client(&self, plan: &Plan, redirect: &Url) -> Result<Registration, SignInError> {
        let server = &plan.discovery.server;
        // A client that registered itself is known with the address it named then.
        let same = |known: &&Registration| known.redirect.as_deref() == Some(redirect.as_str());
        let known = plan.client.as_ref().filter(same);
        match registration::way(server, &self.settings, known, now())? {
            Way::Known(client) => Ok(client),
            Way::Register(endpoint) => {
                let name = self.settings.client_name.as_deref().unwrap_or(CLIENT_NAME);
                let wish = Wish { name, redirect, scopes: &plan.scopes };
                let client = registration::register(&*self.fetch, &endpoint, server, wish).await?;
                self.remember(plan, &client).await?;
                Ok(client)
            }
        }
    }

    /// A client that registered itself is kept at once, so that a sign-in that nobody finishes needs no second one.
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

    async fn keep(&self, key: &CredentialKey, credential: &Credential) -> Result<(), CredentialError> {
        let kept = Credential::all(&*self.vault, &self.principal, &credential.server).await?;
        let turn = self.vault.turn(key).await?;
        credential.store(&*self.vault, key).await?;
        drop(turn);
        for (older, _) in kept.iter().filter(|(older, _)| older != key) {
            self.forget_in_turn(older).await?;
        }
        Ok(())
    }

    /// Not while somebody renews it: what they keep afterwards would be there again.
    async fn forget_in_turn(&self, key: &CredentialKey) -> Result<(), CredentialError> {
        let _turn = self.vault.turn(key).await?;
        Ok(self.vault.forget(key).await?)
    }
}

impl SignInError {
    /// The same as what a server waits for: what may pass is told from what stays.
    pub fn why(self) -> Why {
        match self {
            Self::IssuerChanged { before, now, .. } => Why::IssuerChanged { before, now },
            Self::Metadata(MetadataError::Fetch(error))
            | Self::Registration(RegistrationError::Fetch(error))
            | Self::Token(TokenError::Fetch(error))
                if error.may_pass() =>
            {
                Why::Unanswered(Box::new(error))
            }
            Self::Credential(error @ (CredentialError::Vault(_) | CredentialError::Unreadable { .. })) => {
                Why::Vault(error.to_string())
            }
            other => Why::Failed(other.to_string()),
        }
    }
}

impl From<VaultError> for SignInError {
    fn from(error: VaultError) -> Self {
        Self::Credential(error.into())
    }
}
