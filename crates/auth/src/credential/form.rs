//! A credential as the vault keeps it.

use serde::{Deserialize, Serialize};
use toolway_config::Secret;

use super::{AuthMethod, Credential, Registration, RegistrationSource, TokenKind, Tokens};
use crate::scope::{BadScopes, Scopes};

/// As it is kept.
#[derive(Serialize, Deserialize)]
pub(super) struct Form {
    version: u32,
    server: String,
    token_endpoint: String,
    client: RegistrationForm,
    tokens: Option<TokensForm>,
    proof_key: Option<String>,
}

/// The form that is written, and the only one that is read.
const VERSION: u32 = 1;

/// A registration as it is kept.
#[derive(Serialize, Deserialize)]
pub(crate) struct RegistrationForm {
    id: String,
    secret: Option<String>,
    method: AuthMethod,
    source: RegistrationSource,
    redirect: Option<String>,
    secret_ends: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct TokensForm {
    access: String,
    kind: TokenKind,
    ends: Option<u64>,
    refresh: Option<String>,
    requested: String,
    granted: Option<String>,
    since: u64,
}

impl Form {
    pub(super) fn of(credential: &Credential) -> Self {
        Self {
            version: VERSION,
            server: credential.server.clone(),
            token_endpoint: credential.token_endpoint.to_string(),
            client: RegistrationForm::of(&credential.client),
            tokens: credential.tokens.as_ref().map(TokensForm::of),
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
            tokens: self.tokens.map(TokensForm::tokens).transpose().ok()?,
            proof_key: self.proof_key.map(Secret::new),
        })
    }
}

impl RegistrationForm {
    pub(crate) fn of(client: &Registration) -> Self {
        Self {
            id: client.id.clone(),
            secret: exposed(client.secret.as_ref()),
            method: client.method,
            source: client.source,
            redirect: client.redirect.clone(),
            secret_ends: client.secret_ends,
        }
    }

    pub(crate) fn registration(self) -> Registration {
        Registration {
            id: self.id,
            secret: self.secret.map(Secret::new),
            method: self.method,
            source: self.source,
            redirect: self.redirect,
            secret_ends: self.secret_ends,
        }
    }
}

impl TokensForm {
    fn of(tokens: &Tokens) -> Self {
        Self {
            access: tokens.access.expose().to_owned(),
            kind: tokens.kind,
            ends: tokens.ends,
            refresh: exposed(tokens.refresh.as_ref()),
            requested: tokens.requested.to_string(),
            granted: tokens.granted.as_ref().map(ToString::to_string),
            since: tokens.since,
        }
    }

    fn tokens(self) -> Result<Tokens, BadScopes> {
        Ok(Tokens {
            access: Secret::new(self.access),
            kind: self.kind,
            ends: self.ends,
            refresh: self.refresh.map(Secret::new),
            requested: Scopes::parse(&self.requested)?,
            granted: self.granted.as_deref().map(Scopes::parse).transpose()?,
            since: self.since,
        })
    }
}

pub(crate) fn exposed(secret: Option<&Secret>) -> Option<String> {
    secret.map(|secret| secret.expose().to_owned())
}
