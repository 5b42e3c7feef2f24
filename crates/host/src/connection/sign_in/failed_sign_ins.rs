//! Clients whose sign-ins were of no use a moment ago: their servers are not greeted over and over.

use tokio::time::{Duration, Instant};
use toolway_config::{Secret, ServerName};

use super::{Presented, Principal, SignIns};
use crate::connection::dial::DialError;

/// A client's sign-in that was of no use.
#[derive(Debug)]
pub(crate) struct Unsigned {
    until: Instant,
    /// The token it had then; with another one it is another matter.
    token: Option<Secret>,
    error: DialError,
}

/// A server is not greeted again before on behalf of a client that it does not let in.
const UNSIGNED: Duration = Duration::from_secs(5);

impl SignIns {
    /// The answer of a moment ago, where a client has nothing else to show than then.
    pub(super) fn rested(
        &self,
        server: &ServerName,
        (client, token): &(Principal, Option<Secret>),
    ) -> Result<(), DialError> {
        let unsigned = self.unsigned.lock();
        let last = unsigned.get(&(server.clone(), client.clone()));
        let last = last.filter(|last| Instant::now() < last.until && last.token == *token);
        last.map_or(Ok(()), |last| Err(last.error.clone()))
    }

    /// A server was greeted in vain: where that is a client's sign-in, it is not tried again at once.
    pub(in crate::connection) fn failed(&self, server: &ServerName, presented: &Presented, error: &DialError) {
        let Some((client, token)) = presented.client.clone().filter(|_| error.is_of_sign_in()) else { return };
        let (now, mut unsigned) = (Instant::now(), self.unsigned.lock());
        unsigned.retain(|_, last| now < last.until);
        let last = Unsigned { until: now + UNSIGNED, token, error: error.clone() };
        unsigned.insert((server.clone(), client), last);
    }
}
