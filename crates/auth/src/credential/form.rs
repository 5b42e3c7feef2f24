//! The stored form of a credential.

use serde::{Deserialize, Serialize};
use toolway_config::Secret;

use super::{AuthMethod, Credential, Registration, RegistrationSource, TokenKind, Tokens};
use crate::scope::{InvalidScopes, Scopes};

/// Stored credential.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredCredential {
    version: u32,
    server: String,
    token_endpoint: String,
    client: StoredRegistration,
    tokens: Option<StoredTokens>,
    proof_key: Option<String>,
}

/// Format version that is written, and the only one that is read.
const VERSION: u32 = 1;

/// Stored client registration.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredRegistration {
    id: String,
    secret: Option<String>,
    method: AuthMethod,
    source: RegistrationSource,
    redirect: Option<String>,
    #[serde(rename = "secret_ends")]
    secret_expires_at: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct StoredTokens {
    access: String,
    kind: TokenKind,
    #[serde(rename = "ends")]
    expires_at: Option<u64>,
    refresh: Option<String>,
    requested: String,
    granted: Option<String>,
    #[serde(rename = "since")]
    obtained_at: u64,
}

impl StoredCredential {
    pub(super) fn of(credential: &Credential) -> Self {
        Self {
            version: VERSION,
            server: credential.server.clone(),
            token_endpoint: credential.token_endpoint.to_string(),
            client: StoredRegistration::of(&credential.client),
            tokens: credential.tokens.as_ref().map(StoredTokens::of),
            proof_key: exposed(credential.proof_key.as_ref()),
        }
    }

    pub(super) fn credential(self) -> Option<Credential> {
        if self.version != VERSION {
            return None;
        }
        Some(Credential {
            server: self.server,
            token_endpoint: self.token_endpoint.parse().ok()?,
            client: self.client.registration(),
            tokens: self.tokens.map(StoredTokens::tokens).transpose().ok()?,
            proof_key: self.proof_key.map(Secret::new),
        })
    }
}

impl StoredRegistration {
    pub(crate) fn of(client: &Registration) -> Self {
        Self {
            id: client.id.clone(),
            secret: exposed(client.secret.as_ref()),
            method: client.method,
            source: client.source,
            redirect: client.redirect.clone(),
            secret_expires_at: client.secret_expires_at,
        }
    }

    pub(crate) fn registration(self) -> Registration {
        Registration {
            id: self.id,
            secret: self.secret.map(Secret::new),
            method: self.method,
            source: self.source,
            redirect: self.redirect,
            secret_expires_at: self.secret_expires_at,
        }
    }
}

impl StoredTokens {
    fn of(tokens: &Tokens) -> Self {
        Self {
            access: tokens.access.expose().to_owned(),
            kind: tokens.kind,
            expires_at: tokens.expires_at,
            refresh: exposed(tokens.refresh.as_ref()),
            requested: tokens.requested.to_string(),
            granted: tokens.granted.as_ref().map(ToString::to_string),
            obtained_at: tokens.obtained_at,
        }
    }

    fn tokens(self) -> Result<Tokens, InvalidScopes> {
        Ok(Tokens {
            access: Secret::new(self.access),
            kind: self.kind,
            expires_at: self.expires_at,
            refresh: self.refresh.map(Secret::new),
            requested: Scopes::parse(&self.requested)?,
            granted: self.granted.as_deref().map(Scopes::parse).transpose()?,
            obtained_at: self.obtained_at,
        })
    }
}

pub(crate) fn exposed(secret: Option<&Secret>) -> Option<String> {
    secret.map(|secret| secret.expose().to_owned())
}
