//! Port to the browser of a user: opens the authorization URL and returns the callback.

use std::fmt;

use futures_util::future::BoxFuture;
use toolway_config::Secret;
use url::Url;

use crate::{callback::ReceivedCallback, discovery::FoundBy, scope::Scopes};

/// Opens browsers for interactive sign-ins.
pub trait Browser: Send + Sync + fmt::Debug {
    /// Starts to listen for the callback, if possible at the same redirect URL as before.
    fn prepare<'a>(&'a self, before: Option<&'a Url>) -> BoxFuture<'a, Result<Box<dyn Visit>, BrowserError>>;
}

/// One trip of the browser to the authorization server.
pub trait Visit: Send + Sync {
    /// Redirect URL of this visit.
    fn redirect(&self) -> Url;

    /// Opens the authorization URL and waits for the callback. The caller answers the browser through
    /// [`ReceivedCallback`].
    fn begin(self: Box<Self>, prompt: SignInPrompt) -> BoxFuture<'static, Result<ReceivedCallback, BrowserError>>;
}

/// What a user is asked to do, and what to show before.
#[derive(Clone, Debug)]
pub struct SignInPrompt {
    /// Server name.
    pub server: String,
    /// Issuer identifier of the authorization server.
    pub issuer: String,
    /// Issuer of the last sign-in, if it was another one.
    pub before: Option<String>,
    /// Origin of the authorization endpoint, if it is neither the issuer's nor configured by the operator. Its codes
    /// could be meant for another client, so the user must be warned.
    pub page_origin: Option<String>,
    /// How the authorization server was found. If the server did not name it, the user must be told.
    pub found_by: FoundBy,
    /// Requested scopes.
    pub scopes: Scopes,
    /// URL to open: https, or on this machine. Show it unchanged and never pass it to a shell.
    pub address: Secret,
    /// Expected `state` of the callback; callbacks with another one are ignored.
    pub state: Secret,
}

/// Why the browser brought no callback.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrowserError {
    /// The callback will be supplied later, maybe to another process.
    #[error("the sign-in waits for its callback")]
    Deferred,
    /// The user cancelled the sign-in.
    #[error("the sign-in was cancelled")]
    Cancelled,
    /// No callback came within the time limit.
    #[error("the sign-in was not finished in time")]
    TimedOut,
    /// The browser or the callback listener failed.
    #[error("{0}")]
    Failed(String),
}
