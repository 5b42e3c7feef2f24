//! What one connection presents, and what it means that the server does not take it.

use std::sync::Arc;

use tokio::sync::watch;
use toolway_auth::{
    fixed::{Fixed, NoHeader},
    needed::{SignInNeeded, Why},
    session::Session,
};
use toolway_config::{Secret, ServerName};
use toolway_wire::{
    error::WireError,
    up::credential::{Credentials, NoCredentials},
};

use super::{Account, Principal};
use crate::connection::{dial::DialError, wanted::WantedServer};

/// What a connection is opened with.
#[derive(Clone, Debug)]
pub(in crate::connection) struct Presented {
    pub(in crate::connection) credentials: Arc<dyn Credentials>,
    pub(in crate::connection) account: Account,
    /// What must not be shown of it, besides what is configured.
    pub(in crate::connection) secrets: Vec<Secret>,
    /// Who could sign in.
    pub(in crate::connection) principal: Option<Principal>,
    /// The client on whose behalf it is, and the token it had then.
    pub(super) client: Option<(Principal, Option<Secret>)>,
    /// What a person signed in to.
    pub(super) session: Option<Session>,
    /// What the server is waiting for, if it is.
    pub(super) needed: Option<watch::Receiver<Option<SignInNeeded>>>,
}

impl Presented {
    pub(in crate::connection) fn nothing() -> Self {
        Self::common(Arc::new(NoCredentials))
    }

    pub(in crate::connection) fn common(credentials: Arc<dyn Credentials>) -> Self {
        Self {
            credentials,
            account: Account::Common,
            secrets: Vec::new(),
            principal: None,
            client: None,
            session: None,
            needed: None,
        }
    }

    /// What it means that the server could not be greeted.
    pub(in crate::connection) fn error(&self, error: WireError, wanted: &WantedServer) -> DialError {
        match (&error, self.waiting_for()) {
            (WireError::Unauthorized { .. }, Some(needed)) if self.principal.is_none() => {
                DialError::NoToken(format!("{}; {}", needed.why, needed.remedy))
            }
            // It was not the server that did not answer: nothing was sent to it.
            (WireError::TimedOut { .. }, _) if self.session.as_ref().is_some_and(Session::is_renewing) => {
                let problem = "the sign-in cannot be renewed: whoever renews it does not answer";
                DialError::Wire(WireError::NoToken(problem.to_owned()))
            }
            _ => DialError::of(error, wanted.credential(), self.how(&wanted.name)),
        }
    }

    fn waiting_for(&self) -> Option<SignInNeeded> {
        self.needed.as_ref().and_then(|needed| needed.borrow().clone())
    }

    /// Who has to do what where the server wants to see more.
    fn how(&self, server: &ServerName) -> Option<String> {
        match self.waiting_for().filter(|needed| needed.why != Why::Never) {
            Some(needed) => Some(format!("{}; {}", needed.why, needed.remedy)),
            None => self.principal.as_ref().map(|principal| principal.how(server)),
        }
    }

    pub(super) fn fixed(fixed: Result<Fixed, NoHeader>, secrets: Vec<Secret>) -> Result<Self, DialError> {
        let fixed = fixed.map_err(|error| DialError::Configuration(error.to_string()))?;
        Ok(Self { secrets, ..Self::common(Arc::new(fixed)) })
    }
}
