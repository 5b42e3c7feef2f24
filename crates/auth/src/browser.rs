//! A person with a browser, as a port: sent to an address, and heard of again at the callback.

use std::fmt;

use futures_util::future::BoxFuture;
use toolway_config::Secret;
use url::Url;

use crate::{callback::Arrival, scope::Scopes};

/// A way to a person who can sign in.
pub trait Browser: Send + Sync + fmt::Debug {
    /// Makes ready to hear the callback; at the same address as before where that is possible.
    fn ready<'a>(&'a self, before: Option<&'a Url>) -> BoxFuture<'a, Result<Box<dyn Visit>, Declined>>;
}

/// One visit to an authorization server.
pub trait Visit: Send + Sync {
    /// Where the browser has to be sent back to.
    fn redirect(&self) -> Url;

    /// Sends the person there; gives what came back, with whoever waits to be told what came of it.
    fn begin(self: Box<Self>, invitation: Invitation) -> BoxFuture<'static, Result<Arrival, Declined>>;
}

/// What a person is asked to do, and is to be told before.
#[derive(Clone, Debug)]
pub struct Invitation {
    /// The server, by its name.
    pub server: String,
    /// Who signs people in.
    pub issuer: String,
    /// Who did so before, where that was somebody else.
    pub before: Option<String>,
    /// Where the page is that the person will see, where that is not at the issuer's own address, nor where the operator
    /// said. Whoever it belongs to, a code of it could be meant for somebody else.
    pub elsewhere: Option<String>,
    /// What is asked for.
    pub scopes: Scopes,
    /// The address to open: https, or this machine's. To be shown as it is and never to be given to a shell.
    pub address: Secret,
    /// What a callback has to have as its `state`; any other one is a stranger's.
    pub state: Secret,
}

/// Nobody signed in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Declined {
    /// The callback will be brought later, maybe by another process.
    #[error("the sign-in waits for its callback")]
    Later,
    /// The person does not want to.
    #[error("the sign-in was given up")]
    Refused,
    /// Nothing came back.
    #[error("nobody signed in within the time")]
    TimedOut,
    /// It cannot be done here.
    #[error("{0}")]
    Failed(String),
}
