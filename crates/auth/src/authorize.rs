//! One sign-in under way: the address a person is sent to, and the callback that has to belong to it.
//!
//! A callback is a stranger's word until its state and its issuer are checked. Until then nothing of it is used or
//! shown: neither the code nor what it calls an error.

mod form;

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    digest::{SHA256, digest},
    rand::{SecureRandom, SystemRandom},
};
use subtle::ConstantTimeEq;
use toolway_config::Secret;
use url::Url;

use crate::{
    address,
    credential::{CredentialKey, Registration},
    scope::Scopes,
};

/// What has to be remembered from the address to the callback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// On whose behalf.
    pub principal: String,
    /// The address of the server it is for.
    pub server: String,
    /// Who signs the person in.
    pub issuer: Issuer,
    /// Where the code is exchanged, and nowhere else.
    pub token_endpoint: Url,
    /// The client.
    pub client: Registration,
    /// What the token is for.
    pub resource: String,
    /// What is asked for.
    pub scopes: Scopes,
    /// Where the browser is sent back to.
    pub redirect: Url,
    /// Where the person signs in.
    page: Url,
    verifier: Secret,
    state: Secret,
    /// When it is given up, in seconds since 1970.
    pub ends: u64,
}

/// Who signs the person in, and what a callback says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// Its name, letter by letter.
    pub name: String,
    /// What a callback has to say.
    pub said: Said,
}

/// What a callback says about who sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// It names the issuer, always.
    Always,
    /// It may name the issuer; then it is compared.
    Maybe,
    /// The operator named the endpoints, and nobody knows what the issuer calls itself.
    Unknown,
}

/// What a sign-in is begun with.
#[derive(Clone, Debug)]
pub struct Beginning {
    /// On whose behalf.
    pub principal: String,
    /// The address of the server it is for.
    pub server: String,
    /// Who signs the person in.
    pub issuer: Issuer,
    /// Where the person signs in.
    pub page: Url,
    /// Where the code is exchanged.
    pub token_endpoint: Url,
    /// The client.
    pub client: Registration,
    /// What the token is for.
    pub resource: String,
    /// What is asked for.
    pub scopes: Scopes,
    /// Where the browser is sent back to.
    pub redirect: Url,
}

/// Why a callback is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallbackError {
    /// Not an address, or not the one the browser was to be sent back to.
    #[error("this is not the address that the browser was sent back to; it begins with {redirect}")]
    Foreign {
        /// How it begins.
        redirect: String,
    },
    /// It belongs to another sign-in.
    #[error("the callback belongs to another sign-in")]
    WrongState,
    /// Somebody else sent it, or it says so twice.
    #[error("the callback does not come from {issuer}; nothing of it was used")]
    WrongIssuer {
        /// Who should have sent it.
        issuer: String,
    },
    /// The sign-in was refused.
    #[error("the sign-in was refused: {code}{}", description.as_ref().map(|text| format!(" ({text})")).unwrap_or_default())]
    Refused {
        /// The word of the specification: `access_denied` …
        code: String,
        /// What was added, cut short.
        description: Option<String>,
    },
    /// It has no code, or more than one.
    #[error("the callback has no code")]
    NoCode,
    /// It came too late.
    #[error("the sign-in took longer than {} minutes; begin again", PENDING.as_secs() / 60)]
    TooLate,
}

/// No secrets can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random numbers")]
pub struct NoRandomness;

/// How long a person may take.
pub const PENDING: Duration = Duration::from_secs(600);
/// What is said about a refusal is cut here.
const MAX_SAID: usize = 300;
/// Kept in the vault beside credentials, under an issuer that none can have.
const PENDING_ISSUER: &str = "sign-in under way";

// === impl Pending ===

impl Pending {
    /// Begins, with a new verifier and a new state.
    pub fn begin(beginning: Beginning, now: u64) -> Result<Self, NoRandomness> {
        let Beginning { principal, server, issuer, page, token_endpoint, client, resource, scopes, redirect } =
            beginning;
        let (verifier, state, ends) = (random()?, random()?, now.saturating_add(PENDING.as_secs()));
        Ok(Self {
            principal,
            server,
            issuer,
            token_endpoint,
            client,
            resource,
            scopes,
            redirect,
            page,
            verifier,
            state,
            ends,
        })
    }

    /// The address a person is to open. It is https, or this machine's, and is never given to a shell.
    pub fn address(&self) -> Url {
        let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, self.verifier.expose().as_bytes()));
        let mut address = self.page.clone();
        let mut query = address.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.client.id)
            .append_pair("redirect_uri", self.redirect.as_str())
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256")
            .append_pair("state", self.state.expose())
            .append_pair("resource", &self.resource);
        if !self.scopes.is_empty() {
            query.append_pair("scope", &self.scopes.to_string());
        }
        drop(query);
        address
    }

    /// The origin of the page, where that is not the issuer's.
    pub(crate) fn elsewhere(&self) -> Option<String> {
        let own = Url::parse(&self.issuer.name).is_ok_and(|issuer| issuer.origin() == self.page.origin());
        (!own).then(|| self.page.origin().ascii_serialization())
    }

    /// What its callback has as its `state`.
    pub fn state(&self) -> &Secret {
        &self.state
    }

    /// The code of a callback that belongs to this sign-in: place, state and issuer are checked before all else.
    pub fn code(&self, callback: &str, now: u64) -> Result<Secret, CallbackError> {
        let callback = self.callback(callback)?;
        if !bool::from(callback.one("state").unwrap_or_default().as_bytes().ct_eq(self.state.expose().as_bytes())) {
            return Err(CallbackError::WrongState);
        }
        if !self.issuer.sent(&callback) {
            return Err(CallbackError::WrongIssuer { issuer: self.issuer.name.clone() });
        }
        if self.ends <= now {
            return Err(CallbackError::TooLate);
        }
        if let Some(code) = callback.one("error") {
            let description = callback.one("error_description").map(one_line);
            return Err(CallbackError::Refused { code: one_line(code), description });
        }
        callback.one("code").filter(|code| !code.is_empty()).map(Secret::new).ok_or(CallbackError::NoCode)
    }

    /// The grant that a code is exchanged with.
    pub fn grant(&self, code: Secret) -> Vec<(&'static str, Secret)> {
        vec![
            ("grant_type", Secret::new("authorization_code")),
            ("code", code),
            ("redirect_uri", Secret::new(self.redirect.as_str())),
            ("code_verifier", self.verifier.clone()),
            ("resource", Secret::new(self.resource.clone())),
        ]
    }

    /// The key of the credential it will lead to.
    pub fn key(&self) -> CredentialKey {
        CredentialKey {
            principal: self.principal.clone(),
            issuer: self.issuer.name.clone(),
            client: self.client.id.clone(),
            resource: self.resource.clone(),
        }
    }

    /// The key under which it waits for its callback.
    pub fn waiting_key(principal: &str, server: &str) -> CredentialKey {
        CredentialKey {
            principal: principal.to_owned(),
            issuer: PENDING_ISSUER.to_owned(),
            client: String::new(),
            resource: server.to_owned(),
        }
    }

    fn callback(&self, text: &str) -> Result<Callback, CallbackError> {
        let foreign = || CallbackError::Foreign { redirect: address::shown(&self.redirect) };
        if address::MAX_ADDRESS < text.len() {
            return Err(foreign());
        }
        let url = Url::parse(text.trim()).map_err(|_| foreign())?;
        if url.origin() != self.redirect.origin() || url.path() != self.redirect.path() {
            return Err(foreign());
        }
        Ok(Callback(url.query_pairs().into_owned().collect()))
    }
}

impl CredentialKey {
    /// Whether a sign-in that waits for its callback is kept here, and no credential.
    pub fn is_pending(&self) -> bool {
        self.issuer == PENDING_ISSUER
    }
}

// === impl Issuer ===

impl Issuer {
    /// Whether it sent this callback, by the table of RFC 9207. Names are compared letter by letter.
    fn sent(&self, callback: &Callback) -> bool {
        match (self.said, callback.count("iss"), callback.one("iss")) {
            (Said::Unknown, ..) | (Said::Maybe, 0, _) => true,
            (Said::Always | Said::Maybe, _, name) => name == Some(self.name.as_str()),
        }
    }
}

/// The parameters of a callback.
struct Callback(Vec<(String, String)>);

impl Callback {
    fn count(&self, name: &str) -> usize {
        self.0.iter().filter(|(known, _)| known == name).count()
    }

    /// The value of a parameter that is there exactly once.
    fn one(&self, name: &str) -> Option<&str> {
        let mut found = self.0.iter().filter(|(known, _)| known == name);
        let (first, second) = (found.next(), found.next());
        first.filter(|_| second.is_none()).map(|(_, value)| value.as_str())
    }
}

/// 256 bits that nobody can guess, in letters that every address can carry.
fn random() -> Result<Secret, NoRandomness> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(Secret::new(URL_SAFE_NO_PAD.encode(bytes)))
}

fn one_line(text: &str) -> String {
    address::told(text, MAX_SAID)
}

#[cfg(test)]
mod tests;
