//! Obtains one token for all waiting tasks: discovery, check for a token of another process, and the request.

use std::sync::Arc;

use url::Url;

use super::{Unattended, UnattendedOptions};
use crate::{
    address,
    authorize::IssParameter,
    challenge::TokenChallenge,
    cooldown::{AFTER_FAILURE, AFTER_REFUSAL},
    credential::{
        AuthMethod, Credential, CredentialError, CredentialKey, Registration, RegistrationSource, TokenKind, Tokens,
        now,
    },
    discovery::{Discovery, FoundBy},
    grant::{Grant, GrantError, GrantRequest, google},
    metadata::{MetadataError, ServerMetadata},
    scope::{ScopeSources, Scopes},
    session::active::ActiveCredential,
    sign_in::SignInError,
    sign_in_required::SignInReason,
    token::TokenError,
    vault::VaultError,
};

/// Why no token was obtained.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum ObtainError {
    #[error(transparent)]
    Grant(#[from] GrantError),
    #[error(transparent)]
    Credential(#[from] CredentialError),
    /// A client of one issuer is never presented to another.
    #[error("the authorization server changed from `{before}` to `{now}`")]
    IssuerChanged { before: String, now: String },
    #[error("{0}")]
    Other(String),
}

impl Unattended {
    /// Discovers the authorization server, selects scopes and obtains a token.
    pub(super) async fn request_token(
        &self,
        demand: &TokenChallenge,
        before: Option<&Scopes>,
        stale: Option<&ActiveCredential>,
    ) -> Result<Arc<ActiveCredential>, ObtainError> {
        self.cooldown.check()?;
        let found = Arc::new(self.discover(demand).await?);
        let scopes = ScopeSources {
            configured: self.options.settings.scopes.as_ref(),
            before,
            challenged: demand.scopes.as_ref(),
            resource: found.scopes.as_ref(),
            server: None,
        };
        let obtained = self.obtain(&found, scopes.choose(), stale).await?;
        *self.found.lock() = Some(found);
        Ok(obtained)
    }

    async fn discover(&self, demand: &TokenChallenge) -> Result<Discovery, ObtainError> {
        let UnattendedOptions { server, settings, fetch, grant, .. } = &self.options;
        if matches!(grant, Grant::Google(_)) {
            let endpoint = Url::parse(google::TOKEN_ENDPOINT).map_err(|error| ObtainError::Other(error.to_string()))?;
            let (resource, issuer) =
                (address::resource(server), ServerMetadata::bare(google::ISSUER.to_owned(), endpoint));
            return Ok(Discovery {
                resource,
                scopes: None,
                server: issuer,
                iss: IssParameter::Unchecked,
                found_by: FoundBy::Configuration,
            });
        }
        let before = self.load_stored().await?.pop().map(|(key, _)| key.issuer);
        let found = Discovery::find(&**fetch, server, settings, demand, before.as_deref()).await;
        Ok(found.map_err(GrantError::from).inspect_err(|error| self.start_cooldown(error))?)
    }

    /// Returns a token for these scopes that is not `stale`: stored meanwhile by another task or process, or requested
    /// now.
    pub(super) async fn obtain(
        &self,
        found: &Discovery,
        scopes: Scopes,
        stale: Option<&ActiveCredential>,
    ) -> Result<Arc<ActiveCredential>, ObtainError> {
        self.check_issuer(&found.server.issuer).await?;
        let (vault, key) = (&*self.options.vault, self.key(found));
        let lock = vault.lock(&key).await?;
        // Credentials of an interactive sign-in are not used.
        let kept = Credential::load(vault, &key).await?.filter(|kept| !kept.is_interactive());
        if let Some(adopted) = kept.as_ref().filter(|kept| self.fits(kept, &scopes, stale)) {
            return self.hold(key, adopted);
        }
        self.cooldown.check()?;
        let requested = self.request(found, scopes, kept).await;
        self.counters.record(&requested);
        let credential = requested?;
        if let Err(error) = credential.store(vault, &key).await {
            tracing::warn!(server = self.options.name, %error, "cannot store the token in the vault");
        }
        drop(lock);
        self.clear_transient_reason();
        self.hold(key, &credential)
    }

    async fn request(
        &self,
        found: &Discovery,
        scopes: Scopes,
        kept: Option<Credential>,
    ) -> Result<Credential, ObtainError> {
        let UnattendedOptions { grant, fetch, proofs, settings, .. } = &self.options;
        grant.check_issuer_named(settings, &found.server.issuer).inspect_err(|error| self.start_cooldown(error))?;
        let proof_key = kept.and_then(|kept| kept.proof_key);
        let prover = proofs.as_ref().map(|proofs| proofs.prover(proof_key.as_ref())).transpose();
        let prover = prover.map_err(|error| ObtainError::Other(error.to_string()))?;
        let Discovery { server, resource, .. } = found;
        let grant_request =
            GrantRequest { fetch: &**fetch, server, resource, scopes: &scopes, prover: prover.as_deref() };
        let reply = grant.request_token(grant_request).await.inspect_err(|error| self.start_cooldown(error))?;
        let tokens = Tokens::from_response(reply, scopes, now())?;
        let issuer = || server.issuer.clone();
        let wrongly_bound = match (tokens.kind, &prover) {
            (TokenKind::Bearer, None) | (TokenKind::DPoP, Some(_)) => None,
            (TokenKind::Bearer, Some(_)) => Some(SignInError::NotBound { issuer: issuer() }),
            (TokenKind::DPoP, None) => Some(SignInError::UnexpectedlyBound { issuer: issuer() }),
        };
        if let Some(error) = wrongly_bound {
            return Err(ObtainError::Other(error.to_string()));
        }
        Ok(Credential {
            server: address::identity(&self.options.server),
            token_endpoint: server.token_endpoint.clone(),
            client: registration(grant.client()),
            tokens: Some(tokens),
            proof_key: prover.map(|prover| prover.key()),
        })
    }

    pub(super) fn fits(&self, kept: &Credential, scopes: &Scopes, stale: Option<&ActiveCredential>) -> bool {
        // Another URL of the same resource has tokens of its own.
        let ours = kept.server == address::identity(&self.options.server);
        kept.tokens.as_ref().filter(|_| ours).is_some_and(|tokens| {
            let bound = (tokens.kind == TokenKind::DPoP) == self.options.proofs.is_some();
            let new = stale.is_none_or(|stale| stale.tokens.access != tokens.access);
            bound && new && !tokens.expires_soon(now()) && tokens.requested.covers(scopes)
        })
    }

    /// CVE-2026-104850: a client of one issuer is never presented to another.
    async fn check_issuer(&self, issuer: &str) -> Result<(), ObtainError> {
        match self.load_stored().await?.into_iter().find(|(key, _)| key.issuer != issuer) {
            Some((key, _)) => Err(ObtainError::IssuerChanged { before: key.issuer, now: issuer.to_owned() }),
            None => Ok(()),
        }
    }

    /// Credentials of this client for this server, the newest last.
    pub(super) async fn load_stored(&self) -> Result<Vec<(CredentialKey, Credential)>, ObtainError> {
        let UnattendedOptions { vault, principal, server, grant, settings, .. } = &self.options;
        let mut kept = Credential::all(&**vault, principal, &address::identity(server)).await?;
        kept.retain(|(key, kept)| {
            !kept.is_interactive() && key.client == grant.client() && settings.matches(key, kept)
        });
        Ok(kept)
    }

    fn key(&self, found: &Discovery) -> CredentialKey {
        CredentialKey {
            principal: self.options.principal.clone(),
            issuer: found.server.issuer.clone(),
            client: self.options.grant.client().to_owned(),
            resource: found.resource.clone(),
        }
    }

    /// Starts a pause during which this error is returned without a new request.
    fn start_cooldown(&self, error: &GrantError) {
        let duration = match error {
            GrantError::Token(TokenError::Refused { .. }) => AFTER_REFUSAL,
            GrantError::Token(TokenError::Fetch(_) | TokenError::Malformed { .. })
            | GrantError::Metadata(_)
            | GrantError::IssuerNotConfigured { .. } => AFTER_FAILURE,
            _ => return,
        };
        self.cooldown.start(duration, error.clone());
    }
}

/// The stored registration contains only the client id; the secret stays in the configuration.
fn registration(client: &str) -> Registration {
    Registration {
        id: client.to_owned(),
        secret: None,
        method: AuthMethod::None,
        source: RegistrationSource::Unattended,
        redirect: None,
        secret_expires_at: None,
    }
}

// === impl Trouble ===

impl ObtainError {
    pub(super) fn reason(self) -> SignInReason {
        match self {
            Self::IssuerChanged { before, now } => SignInReason::IssuerChanged { before, now },
            // Temporary failures are distinguished from permanent ones.
            Self::Grant(
                GrantError::Token(TokenError::Fetch(error)) | GrantError::Metadata(MetadataError::Fetch(error)),
            ) if error.may_pass() => SignInReason::Unavailable(Box::new(error)),
            Self::Credential(error) => SignInReason::Vault(error.to_string()),
            other => SignInReason::Failed(other.to_string()),
        }
    }
}

impl From<VaultError> for ObtainError {
    fn from(error: VaultError) -> Self {
        Self::Credential(error.into())
    }
}
