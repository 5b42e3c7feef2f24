//! A sign-in in progress: the authorization URL to open, and the callback that must belong to it.
//!
//! A callback is untrusted until its `state` and `iss` parameters are checked. Until then nothing in it is used or
//! shown, neither the code nor the error.

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

/// A sign-in that waits for its callback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingSignIn {
    /// Principal that signs in.
    pub principal: String,
    /// Key of the server, see [`address::identity`].
    pub server: String,
    /// Authorization server.
    pub issuer: Issuer,
    /// Token endpoint; the code is sent there and nowhere else.
    pub token_endpoint: Url,
    /// Client registration.
    pub client: Registration,
    /// Resource that the token is for.
    pub resource: String,
    /// Requested scopes.
    pub scopes: Scopes,
    /// Redirect URL of the browser.
    pub redirect: Url,
    /// Authorization endpoint.
    page: Url,
    verifier: Secret,
    state: Secret,
    /// Expiry, in seconds since 1970.
    pub expires_at: u64,
}

/// An authorization server, and what its callbacks must say about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// Issuer identifier, compared byte by byte.
    pub name: String,
    /// Whether callbacks carry `iss`.
    pub iss: IssParameter,
}

/// Whether callbacks of an authorization server carry `iss` (RFC 9207).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IssParameter {
    /// Every callback must carry `iss`.
    Required,
    /// A callback may carry `iss`; if so, it is compared.
    Optional,
    /// The operator configured the endpoints, so that the issuer identifier is unknown; `iss` is not checked.
    Unchecked,
}

/// What a sign-in is started with.
#[derive(Clone, Debug)]
pub struct SignInParams {
    /// Principal that signs in.
    pub principal: String,
    /// Key of the server, see [`address::identity`].
    pub server: String,
    /// Authorization server.
    pub issuer: Issuer,
    /// Authorization endpoint.
    pub page: Url,
    /// Token endpoint.
    pub token_endpoint: Url,
    /// Client registration.
    pub client: Registration,
    /// Resource that the token is for.
    pub resource: String,
    /// Requested scopes.
    pub scopes: Scopes,
    /// Redirect URL of the browser.
    pub redirect: Url,
}

/// Why a callback is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallbackError {
    /// Not a URL, or not the redirect URL.
    #[error("this is not the callback URL, which begins with `{redirect}`")]
    WrongRedirect {
        /// Start of the expected URL.
        redirect: String,
    },
    /// `state` belongs to another sign-in.
    #[error("the callback belongs to another sign-in (`state` does not match)")]
    WrongState,
    /// `iss` is missing, repeated or names another issuer.
    #[error("the callback does not come from `{issuer}` (`iss` does not match); it was ignored")]
    WrongIssuer {
        /// Expected issuer.
        issuer: String,
    },
    /// The authorization server refused the sign-in.
    #[error("the sign-in was refused: `{code}`{}", description.as_ref().map(|text| format!(" ({text})")).unwrap_or_default())]
    Refused {
        /// Error code of the specification, such as `access_denied`.
        code: String,
        /// Error description, truncated.
        description: Option<String>,
    },
    /// The authorization code is missing, or there are several.
    #[error("the callback has no authorization code")]
    NoCode,
    /// The callback came after the sign-in expired.
    #[error("the sign-in was not finished within {} minutes; start it again", PENDING_TIMEOUT.as_secs() / 60)]
    TooLate,
}

/// The system random number generator failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system's random number generator failed")]
pub struct NoRandomness;

/// Time that a user has to finish a sign-in.
pub const PENDING_TIMEOUT: Duration = Duration::from_secs(600);
/// Remote error texts are truncated to this many characters.
const MAX_REMOTE_TEXT: usize = 300;
/// Issuer of pending sign-ins in the vault; no real issuer has this name.
const PENDING_SIGN_IN_ISSUER: &str = "sign-in under way";

// === impl Pending ===

impl PendingSignIn {
    /// Starts a sign-in with a new verifier and a new state.
    pub fn begin(params: SignInParams, now: u64) -> Result<Self, NoRandomness> {
        let SignInParams { principal, server, issuer, page, token_endpoint, client, resource, scopes, redirect } =
            params;
        let (verifier, state, expires_at) = (random()?, random()?, now.saturating_add(PENDING_TIMEOUT.as_secs()));
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
            expires_at,
        })
    }

    /// The URL that the user opens: https, or on this machine. It is never passed to a shell.
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

    /// Origin of the authorization endpoint, if it differs from the issuer's.
    pub(crate) fn foreign_page_origin(&self) -> Option<String> {
        let own = Url::parse(&self.issuer.name).is_ok_and(|issuer| issuer.origin() == self.page.origin());
        (!own).then(|| self.page.origin().ascii_serialization())
    }

    /// Expected `state` of the callback.
    pub fn state(&self) -> &Secret {
        &self.state
    }

    /// Returns the code of a callback. Redirect URL, `state` and `iss` are checked before anything else.
    pub fn code(&self, callback: &str, now: u64) -> Result<Secret, CallbackError> {
        let callback = self.callback(callback)?;
        if !bool::from(callback.one("state").unwrap_or_default().as_bytes().ct_eq(self.state.expose().as_bytes())) {
            return Err(CallbackError::WrongState);
        }
        if !self.issuer.is_sender_of(&callback) {
            return Err(CallbackError::WrongIssuer { issuer: self.issuer.name.clone() });
        }
        if self.expires_at <= now {
            return Err(CallbackError::TooLate);
        }
        if let Some(code) = callback.one("error") {
            let description = callback.one("error_description").map(one_line);
            return Err(CallbackError::Refused { code: one_line(code), description });
        }
        callback.one("code").filter(|code| !code.is_empty()).map(Secret::new).ok_or(CallbackError::NoCode)
    }

    /// Parameters of the authorization code grant.
    pub fn grant(&self, code: Secret) -> Vec<(&'static str, Secret)> {
        vec![
            ("grant_type", Secret::new("authorization_code")),
            ("code", code),
            ("redirect_uri", Secret::new(self.redirect.as_str())),
            ("code_verifier", self.verifier.clone()),
            ("resource", Secret::new(self.resource.clone())),
        ]
    }

    /// Key of the resulting credential.
    pub fn key(&self) -> CredentialKey {
        CredentialKey {
            principal: self.principal.clone(),
            issuer: self.issuer.name.clone(),
            client: self.client.id.clone(),
            resource: self.resource.clone(),
        }
    }

    /// Key under which the sign-in is stored while it waits for its callback.
    pub fn pending_key(principal: &str, server: &str) -> CredentialKey {
        CredentialKey {
            principal: principal.to_owned(),
            issuer: PENDING_SIGN_IN_ISSUER.to_owned(),
            client: String::new(),
            resource: server.to_owned(),
        }
    }

    fn callback(&self, text: &str) -> Result<Callback, CallbackError> {
        let foreign = || CallbackError::WrongRedirect { redirect: address::redacted(&self.redirect) };
        if address::MAX_URL < text.len() {
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
    /// Whether this key holds a pending sign-in instead of a credential.
    pub fn is_pending(&self) -> bool {
        self.issuer == PENDING_SIGN_IN_ISSUER
    }
}

// === impl Issuer ===

impl Issuer {
    /// Whether this issuer sent the callback, by the table of RFC 9207. Names are compared byte by byte.
    fn is_sender_of(&self, callback: &Callback) -> bool {
        match (self.iss, callback.count("iss"), callback.one("iss")) {
            (IssParameter::Unchecked, ..) | (IssParameter::Optional, 0, _) => true,
            (IssParameter::Required | IssParameter::Optional, _, name) => name == Some(self.name.as_str()),
        }
    }
}

/// The parameters of a callback.
struct Callback(Vec<(String, String)>);

impl Callback {
    fn count(&self, name: &str) -> usize {
        self.0.iter().filter(|(known, _)| known == name).count()
    }

    /// Value of a parameter that occurs exactly once.
    fn one(&self, name: &str) -> Option<&str> {
        let mut found = self.0.iter().filter(|(known, _)| known == name);
        let (first, second) = (found.next(), found.next());
        first.filter(|_| second.is_none()).map(|(_, value)| value.as_str())
    }
}

/// 256 random bits, encoded for URLs.
fn random() -> Result<Secret, NoRandomness> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(Secret::new(URL_SAFE_NO_PAD.encode(bytes)))
}

fn one_line(text: &str) -> String {
    address::sanitize(text, MAX_REMOTE_TEXT)
}

#[cfg(test)]
mod tests;
