//! "Sign-in needed": what a server is waiting for, as a value that says who has to do what.

use toolway_config::Secret;
use toolway_wire::error::WireError;

use crate::{fetch::FetchError, scope::Scopes};

/// Somebody has to sign in before this server can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{server} needs a sign-in: {why}; {remedy}")]
pub struct SignInNeeded {
    /// The server, by its name.
    pub server: String,
    /// Why.
    pub why: Why,
    /// What to do.
    pub remedy: String,
    /// The address to open, where a sign-in waits for its callback. For the person, not for the log.
    pub address: Option<Secret>,
}

/// Why a sign-in is needed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// Nobody has.
    #[error("nobody has signed in yet")]
    Never,
    /// The server or the authorization server does not take the old one any more.
    #[error("the last sign-in has ended")]
    Ended,
    /// It needs more than was agreed to.
    #[error("it asks for more than was agreed to ({0})")]
    MoreScopes(Scopes),
    /// Somebody else is to sign people in now.
    #[error(
        "{before} gave the tokens of this server until now, and now it is to be {now}, to which nothing was sent; if that is \
         right, write it into oauth.issuer, or forget what was before with `toolway logout`"
    )]
    IssuerChanged {
        /// Who did so before.
        before: String,
        /// Who it names now.
        now: String,
    },
    /// It asks again and again.
    #[error("it asks again and again, and signing in does not help")]
    TooOften,
    /// A sign-in has begun and waits for its callback.
    #[error("one has begun and waits to be finished")]
    Begun,
    /// Whoever would have to be asked does not answer; it may later.
    #[error("{0}")]
    Unanswered(Box<FetchError>),
    /// What is kept cannot be read, or nothing can be kept.
    #[error("{0}")]
    Vault(String),
    /// It was tried, and this came of it.
    #[error("{0}")]
    Failed(String),
}

impl SignInNeeded {
    /// What this is for whoever waits for the server, where no sign-in would help.
    pub(crate) fn instead(&self) -> Option<WireError> {
        match &self.why {
            Why::Unanswered(error) => Some(WireError::NoToken(error.to_string())),
            Why::Vault(problem) => Some(WireError::Vault(problem.clone())),
            _ => None,
        }
    }
}
