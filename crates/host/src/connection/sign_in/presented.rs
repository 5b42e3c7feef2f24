//! The credentials that a connection presents, and the error if the server refuses them.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, time::timeout};
use toolway_auth::{
    challenge::TokenChallenge,
    discovery::{Discovery, FoundBy},
    session::Session,
    sign_in::SignIn,
    sign_in_required::{SignInReason, SignInRequired},
    static_credential::{InvalidHeader, StaticCredential},
};
use toolway_config::{Secret, ServerName};
use toolway_wire::{
    error::WireError,
    up::credential::{Credentials, NoCredentials},
};

use super::{Account, Principal};
use crate::connection::{dial::DialError, wanted::WantedServer};

/// The credentials of one connection.
#[derive(Clone, Debug)]
pub(in crate::connection) struct PresentedCredentials {
    pub(in crate::connection) credentials: Arc<dyn Credentials>,
    pub(in crate::connection) account: Account,
    /// Secrets to redact, in addition to the configured ones.
    pub(in crate::connection) secrets: Vec<Secret>,
    /// The principal that could sign in.
    pub(in crate::connection) principal: Option<Principal>,
    /// The client it is opened for, and its access token at that time.
    pub(super) client: Option<(Principal, Option<Secret>)>,
    /// How a user signs in, if one can.
    pub(super) sign_in: Option<Box<SignIn>>,
    /// Session of a user's sign-in.
    pub(super) session: Option<Session>,
    /// Set while the server waits for a sign-in.
    pub(super) needed: Option<watch::Receiver<Option<SignInRequired>>>,
}

/// Time limit for the search of an authorization server after a refusal.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

impl PresentedCredentials {
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
            sign_in: None,
            session: None,
            needed: None,
        }
    }

    /// Converts a handshake error.
    pub(in crate::connection) fn error(&self, error: WireError, wanted: &WantedServer) -> DialError {
        match (&error, self.waiting_for()) {
            (WireError::Unauthorized { .. }, Some(needed)) if self.principal.is_none() => {
                DialError::NoToken(format!("{}; {}", needed.reason, needed.remedy))
            }
            // The authorization server did not respond; nothing was sent to the server.
            (WireError::TimedOut { .. }, _) if self.session.as_ref().is_some_and(Session::is_refreshing) => {
                let problem = "the access token cannot be refreshed: the authorization server does not respond";
                DialError::Wire(WireError::NoToken(problem.to_owned()))
            }
            _ => DialError::of(error, wanted.credential(), self.hint(&wanted.name)),
        }
    }

    /// If the server requires sign-in without metadata of an authorization server, names the other ways to authenticate.
    /// Such a server mostly takes a key.
    pub(in crate::connection) async fn explain(&self, error: DialError, server: &ServerName) -> DialError {
        let DialError::SignInRequired { challenges, said, .. } = &error else { return error };
        let (Some(sign_in), Some(principal)) = (&self.sign_in, &self.principal) else { return error };
        let demand = TokenChallenge::parse(challenges.iter().map(String::as_str));
        if demand.resource_metadata.is_some()
            || !matches!(self.waiting_reason(), None | Some(SignInReason::NotSignedIn))
        {
            return error;
        }
        let found =
            timeout(PROBE_TIMEOUT, Discovery::find(&*sign_in.fetch, &sign_in.server, &sign_in.settings, &demand, None));
        match found.await {
            Ok(Ok(found)) if found.found_by == FoundBy::DefaultEndpoints => {
                let (challenges, said, how) = (challenges.clone(), said.clone(), Some(principal.key_hint(server)));
                DialError::SignInRequired { challenges, how, said }
            }
            _ => error,
        }
    }

    fn waiting_reason(&self) -> Option<SignInReason> {
        self.waiting_for().map(|needed| needed.reason)
    }

    fn waiting_for(&self) -> Option<SignInRequired> {
        self.needed.as_ref().and_then(|needed| needed.borrow().clone())
    }

    /// What to do if the server requires sign-in.
    fn hint(&self, server: &ServerName) -> Option<String> {
        match self.waiting_for().filter(|needed| needed.reason != SignInReason::NotSignedIn) {
            Some(needed) => Some(format!("{}; {}", needed.reason, needed.remedy)),
            None => self.principal.as_ref().map(|principal| principal.sign_in_hint(server)),
        }
    }

    pub(super) fn fixed(
        fixed: Result<StaticCredential, InvalidHeader>,
        secrets: Vec<Secret>,
    ) -> Result<Self, DialError> {
        let fixed = fixed.map_err(|error| DialError::Configuration(error.to_string()))?;
        Ok(Self { secrets, ..Self::common(Arc::new(fixed)) })
    }
}
