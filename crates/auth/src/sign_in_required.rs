//! Reports that a server cannot be used before a sign-in, and why.

use toolway_config::Secret;
use toolway_wire::error::WireError;

use crate::{fetch::FetchError, scope::Scopes};

/// A server requires sign-in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{server}` requires sign-in: {reason}; {remedy}")]
pub struct SignInRequired {
    /// Server name.
    pub server: String,
    /// Reason of the requirement.
    pub reason: SignInReason,
    /// Instruction to the user, without a full stop.
    pub remedy: String,
    /// URL to open, if a sign-in waits for its callback. For the user, not for logs.
    pub address: Option<Secret>,
}

/// Why a server requires sign-in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignInReason {
    /// There is no credential for this principal.
    #[error("not signed in yet")]
    NotSignedIn,
    /// The server or the authorization server no longer accepts the credential.
    #[error("the last sign-in has expired")]
    Expired,
    /// More scopes are needed than were granted.
    #[error("it needs more scopes than were granted ({0})")]
    MoreScopes(Scopes),
    /// The server names another authorization server than before.
    #[error(
        "its authorization server changed from `{before}` to `{now}`; nothing was sent there; if that is correct, set \
         `oauth.issuer`, or delete the old credentials with `toolway logout`"
    )]
    IssuerChanged {
        /// Previous issuer.
        before: String,
        /// Issuer that the server names now.
        now: String,
    },
    /// Successful sign-ins do not satisfy the server.
    #[error("it still requires sign-in after successful ones")]
    TooManyRounds,
    /// A sign-in was started and waits for its callback.
    #[error("a sign-in was started and is not finished")]
    Pending,
    /// The authorization server is temporarily unavailable.
    #[error("{0}")]
    Unavailable(Box<FetchError>),
    /// The vault cannot be read or written.
    #[error("{0}")]
    Vault(String),
    /// The server names no authorization server, and its own origin has no metadata either.
    #[error("{0}")]
    NoAuthorizationServer(String),
    /// The sign-in failed.
    #[error("{0}")]
    Failed(String),
}

impl SignInRequired {
    /// The error to report to callers if a sign-in would not help; `None` if it would.
    pub(crate) fn replacement_error(&self) -> Option<WireError> {
        match &self.reason {
            SignInReason::Unavailable(error) => Some(WireError::NoToken(error.to_string())),
            SignInReason::Vault(problem) => Some(WireError::Vault(problem.clone())),
            _ => None,
        }
    }
}
