//! One token for all who wait: whom to ask, whether somebody else was quicker, and the request.

use std::sync::Arc;

use url::Url;

use super::{Unattended, UnattendedOptions};
use crate::{
    address,
    authorize::Said,
    challenge::Demand,
    credential::{
        AuthMethod, Credential, CredentialError, CredentialKey, Registration, RegistrationSource, TokenKind, Tokens,
        now,
    },
    discovery::Discovery,
    grant::{Asking, Grant, GrantError, google},
    metadata::{MetadataError, ServerMetadata},
    needed::Why,
    rest::{AFTER_FAILURE, AFTER_NO},
    scope::{Scopes, Sources},
    session::presentable::Presentable,
    token::TokenError,
    vault::VaultError,
};

/// Why there is no token.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error(transparent)]
    Grant(#[from] GrantError),
    #[error(transparent)]
    Credential(#[from] CredentialError),
    /// A client of one issuer is never shown to another.
    #[error("another issuer")]
    IssuerChanged { before: String, now: String },
    #[error("{0}")]
    Other(String),
}

impl Unattended {
    /// Finds out whom to ask, and what for, and asks.
    pub(super) async fn ask(
        &self,
        demand: &Demand,
        before: Option<&Scopes>,
        stale: Option<&Presentable>,
    ) -> Result<Arc<Presentable>, Trouble> {
        self.resting.check()?;
        let found = Arc::new(self.discover(demand).await?);
        let scopes = Sources {
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

    async fn discover(&self, demand: &Demand) -> Result<Discovery, Trouble> {
        let UnattendedOptions { server, settings, fetch, grant, .. } = &self.options;
        if matches!(grant, Grant::Google(_)) {
            let endpoint = Url::parse(google::TOKEN_ENDPOINT).map_err(|error| Trouble::Other(error.to_string()))?;
            let (resource, issuer) =
                (address::resource(server), ServerMetadata::bare(google::ISSUER.to_owned(), endpoint));
            return Ok(Discovery { resource, scopes: None, server: issuer, said: Said::Unknown });
        }
        let before = self.kept().await?.pop().map(|(key, _)| key.issuer);
        let found = Discovery::of(&**fetch, server, settings, demand, before.as_deref()).await;
        Ok(found.map_err(GrantError::from).inspect_err(|error| self.rest(error))?)
    }

    /// A token for these scopes that is not `stale`: one that somebody else has got meanwhile, or ours.
    pub(super) async fn obtain(
        &self,
        found: &Discovery,
        scopes: Scopes,
        stale: Option<&Presentable>,
    ) -> Result<Arc<Presentable>, Trouble> {
        self.check_issuer(&found.server.issuer).await?;
        let (vault, key) = (&*self.options.vault, self.key(found));
        let turn = vault.turn(&key).await?;
        // What a person signed in for is that person's.
        let kept = Credential::load(vault, &key).await?.filter(|kept| !kept.is_of_a_person());
        if let Some(adopted) = kept.as_ref().filter(|kept| self.fits(kept, &scopes, stale)) {
            return self.hold(key, adopted);
        }
        let credential = self.request(found, scopes, kept).await?;
        if let Err(error) = credential.store(vault, &key).await {
            tracing::warn!(%error, "a token could not be kept");
        }
        drop(turn);
        self.is_answered_again();
        self.hold(key, &credential)
    }

    async fn request(
        &self,
        found: &Discovery,
        scopes: Scopes,
        kept: Option<Credential>,
    ) -> Result<Credential, Trouble> {
        let UnattendedOptions { grant, fetch, proofs, settings, .. } = &self.options;
        self.resting.check()?;
        grant.check_place(settings, &found.server.issuer).inspect_err(|error| self.rest(error))?;
        let proof_key = kept.and_then(|kept| kept.proof_key);
        let prover = proofs.as_ref().map(|proofs| proofs.prover(proof_key.as_ref())).transpose();
        let prover = prover.map_err(|error| Trouble::Other(error.to_string()))?;
        let Discovery { server, resource, .. } = found;
        let asking = Asking { fetch: &**fetch, server, resource, scopes: &scopes, prover: prover.as_deref() };
        let reply = grant.ask(asking).await.inspect_err(|error| self.rest(error))?;
        let tokens = Tokens::from_reply(reply, scopes, now())?;
        if (tokens.kind == TokenKind::DPoP) != prover.is_some() {
            let issuer = &server.issuer;
            return Err(Trouble::Other(format!(
                "{issuer} gives tokens that are not bound to our key, as they should be"
            )));
        }
        Ok(Credential {
            server: address::identity(&self.options.server),
            token_endpoint: server.token_endpoint.clone(),
            client: registration(grant.client()),
            tokens: Some(tokens),
            proof_key: prover.map(|prover| prover.key()),
        })
    }

    pub(super) fn fits(&self, kept: &Credential, scopes: &Scopes, stale: Option<&Presentable>) -> bool {
        // Another address of the same resource has tokens of its own.
        let ours = kept.server == address::identity(&self.options.server);
        kept.tokens.as_ref().filter(|_| ours).is_some_and(|tokens| {
            let bound = (tokens.kind == TokenKind::DPoP) == self.options.proofs.is_some();
            let new = stale.is_none_or(|stale| stale.tokens.access != tokens.access);
            bound && new && !tokens.is_ending(now()) && tokens.requested.covers(scopes)
        })
    }

    /// CVE-2026-104850: what one issuer knows us by is never shown to another.
    async fn check_issuer(&self, issuer: &str) -> Result<(), Trouble> {
        match self.kept().await?.into_iter().find(|(key, _)| key.issuer != issuer) {
            Some((key, _)) => Err(Trouble::IssuerChanged { before: key.issuer, now: issuer.to_owned() }),
            None => Ok(()),
        }
    }

    /// What this client has for this server, the newest last.
    pub(super) async fn kept(&self) -> Result<Vec<(CredentialKey, Credential)>, Trouble> {
        let UnattendedOptions { vault, principal, server, grant, settings, .. } = &self.options;
        let mut kept = Credential::all(&**vault, principal, &address::identity(server)).await?;
        kept.retain(|(key, kept)| !kept.is_of_a_person() && key.client == grant.client() && settings.means(key, kept));
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

    /// From here on the same answer as before, while whoever gave it is left alone.
    fn rest(&self, error: &GrantError) {
        let lasts = match error {
            GrantError::Token(TokenError::Refused { .. }) => AFTER_NO,
            GrantError::Token(TokenError::Fetch(_) | TokenError::Malformed { .. })
            | GrantError::Metadata(_)
            | GrantError::Unnamed { .. } => AFTER_FAILURE,
            _ => return,
        };
        self.resting.begin(lasts, error.clone());
    }
}

/// What is kept about the client: who it is. Its secret stays where the operator wrote it.
fn registration(client: &str) -> Registration {
    Registration {
        id: client.to_owned(),
        secret: None,
        method: AuthMethod::None,
        source: RegistrationSource::Unattended,
        redirect: None,
        secret_ends: None,
    }
}

// === impl Trouble ===

impl Trouble {
    pub(super) fn why(self) -> Why {
        match self {
            Self::IssuerChanged { before, now } => Why::IssuerChanged { before, now },
            // What may pass is told from what stays.
            Self::Grant(
                GrantError::Token(TokenError::Fetch(error)) | GrantError::Metadata(MetadataError::Fetch(error)),
            ) if error.may_pass() => Why::Unanswered(Box::new(error)),
            Self::Credential(error) => Why::Vault(error.to_string()),
            other => Why::Failed(other.to_string()),
        }
    }
}

impl From<VaultError> for Trouble {
    fn from(error: VaultError) -> Self {
        Self::Credential(error.into())
    }
}
