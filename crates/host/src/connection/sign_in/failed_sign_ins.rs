//! Recently failed sign-ins of clients, so that a server does not get a handshake for each of their calls.

use tokio::time::{Duration, Instant};
use toolway_config::{Secret, ServerName};

use super::{PresentedCredentials, Principal, SignIns};
use crate::connection::dial::DialError;

/// A client's sign-in that failed.
#[derive(Debug)]
pub(crate) struct FailedSignIn {
    until: Instant,
    /// Access token at that time; a new token is tried at once.
    token: Option<Secret>,
    error: DialError,
}

/// How long a failed sign-in is not tried again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

impl SignIns {
    /// Returns the recent error of a client that has no new token.
    pub(super) fn check_recent_failure(
        &self,
        server: &ServerName,
        (client, token): &(Principal, Option<Secret>),
    ) -> Result<(), DialError> {
        let failed = self.failed_sign_ins.lock();
        let last = failed.get(&(server.clone(), client.clone()));
        let last = last.filter(|last| Instant::now() < last.until && last.token == *token);
        last.map_or(Ok(()), |last| Err(last.error.clone()))
    }

    /// Records a failed handshake, if it concerns the sign-in of a client.
    pub(in crate::connection) fn record_failure(
        &self,
        server: &ServerName,
        presented: &PresentedCredentials,
        error: &DialError,
    ) {
        let Some((client, token)) = presented.client.clone().filter(|_| error.concerns_sign_in()) else { return };
        let (now, mut failed) = (Instant::now(), self.failed_sign_ins.lock());
        failed.retain(|_, last| now < last.until);
        let last = FailedSignIn { until: now + RETRY_AFTER, token, error: error.clone() };
        failed.insert((server.clone(), client), last);
    }
}
