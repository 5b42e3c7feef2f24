//! The process that made the first listing is handed to the first client that declares the same capabilities (none), so
//! that it needs no second one.
//!
//! From then on it belongs to that client: what it lists later is shown to that client only, and no other caller uses it.
//! It happens once for each server, so that a client whose process fails cannot bring down the process of the catalog again
//! and again. A process that served any other call is not handed over.

use std::sync::Arc;

use super::{
    ConnectionPool, DialContext,
    caller_connection::{CallerConnection, Established},
    key::{CallerConnectionKey, ServerReach},
};
use crate::{call::Caller, connection::stdio::ProcessMonitor, record::redact::Redactor};

/// Whether a client may take over the shared connection.
#[derive(Debug, Default)]
pub(super) enum Takeover {
    /// No call has used the shared connection so far.
    #[default]
    Possible,
    /// A client took it over: its generation, and the key that may use it again.
    Done(u64, Option<CallerConnectionKey>),
    /// Another call has used it.
    Impossible,
}

/// The process of the shared connection.
pub(crate) struct SharedProcess<'a> {
    pub(crate) generation: u64,
    pub(crate) monitor: &'a ProcessMonitor,
    pub(crate) redactor: &'a Redactor,
    /// Tells the supervisor that the connection belongs to a client; `false` if that is not possible now.
    pub(crate) hand_over: &'a (dyn Fn() -> bool + Sync),
}

impl Takeover {
    /// Records that this key takes it over, if it may and `hand_over` agrees.
    fn take(&mut self, generation: u64, key: &CallerConnectionKey, hand_over: impl FnOnce() -> bool) -> bool {
        let may = match self {
            Self::Possible => hand_over(),
            Self::Done(taken, by) => *taken == generation && by.as_ref() == Some(key),
            Self::Impossible => false,
        };
        if may {
            *self = Self::Done(generation, Some(key.clone()));
        }
        may
    }

    /// The caller, or one of its sessions, has ended: a later one of the same name is another one.
    pub(super) fn forget(&mut self, caller: &Caller, session: Option<&str>) {
        if let Self::Done(_, by) = self {
            let ended = |key: &CallerConnectionKey| {
                key.caller == *caller && session.is_none_or(|session| key.session.as_deref() == Some(session))
            };
            *by = by.take().filter(|key| !ended(key));
        }
    }
}

impl ConnectionPool {
    /// Notes a call on the shared connection of this generation; returns whether it may use it.
    pub(crate) fn use_shared(&self, generation: u64) -> bool {
        let mut takeover = self.takeover.lock();
        if matches!(*takeover, Takeover::Possible) {
            *takeover = Takeover::Impossible;
        }
        !matches!(*takeover, Takeover::Done(taken, _) if taken == generation)
    }

    /// Takes over the shared connection for this one, if that is possible.
    pub(super) fn take_over(
        &self,
        connection: &Arc<CallerConnection>,
        context: &DialContext<'_>,
    ) -> Option<Established> {
        let process = context.process.as_ref()?;
        let key = &connection.key;
        let alike = key.profile == self.shared_profile() && key.profile.is_common();
        let alike = alike && key.reach == ServerReach::AsShared && context.account.serves(&key.caller);
        // The catalog needs its first listing before.
        if !alike || (context.listing)().is_none() || key.caller.client().is_none() {
            return None;
        }
        if context.shared.is_closed() || !self.takeover.lock().take(process.generation, key, process.hand_over) {
            return None;
        }
        tracing::debug!(server = %self.server, caller = %key.caller, "a client took over the process of the first listing");
        let peer = context.shared.clone();
        let notices = peer.notices();
        let following = self.follow(&peer, connection, notices, None);
        Some(Established::new(peer, process.redactor.clone(), following).with_monitor(process.monitor.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::{CallerConnectionKey, Takeover};
    use crate::{call::Caller, connection::CapabilityProfile};

    fn key(client: &str) -> CallerConnectionKey {
        CallerConnectionKey::local(&Caller::Client(client.into()), CapabilityProfile::NOTHING)
    }

    #[test]
    fn process_is_handed_over_once_and_to_one_client() {
        let mut takeover = Takeover::default();
        assert!(!takeover.take(1, &key("ben"), || false), "the supervisor is busy");
        let mut take = |generation, client| takeover.take(generation, &key(client), || true);
        assert!(take(1, "ada"));
        assert!(take(1, "ada"), "again after its connection was idle");
        assert!(!take(1, "ben") && !take(2, "ada"));
        takeover.forget(&Caller::Client("ben".into()), None);
        assert!(takeover.take(1, &key("ada"), || true));
        takeover.forget(&Caller::Client("ada".into()), None);
        assert!(!takeover.take(1, &key("ada"), || true), "a later client of the same name");
    }
}
