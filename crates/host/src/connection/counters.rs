//! Counts connection attempts, authorization failures and token refreshes of each server, for the metrics of an operator.
//!
//! The counters of a server outlive its connections and changes of its entry.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use toolway_auth::counters::RefreshCounters;
use toolway_config::ServerName;
use toolway_wire::{
    error::WireError,
    up::credential::{Challenge, ChallengeAction, Credentials, OutgoingRequest},
};
use url::Url;

/// What happened at the connections of one server since the start, those of callers included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Connection attempts, with those in progress.
    pub attempts: u64,
    /// Connection attempts that failed.
    pub failures: u64,
    /// Requests that the server refused with HTTP 401 or 403 and that no new credential could save.
    pub authorization_failures: u64,
    /// Token refreshes that gave a new access token.
    pub refreshes: u64,
    /// Token refreshes that failed.
    pub refresh_failures: u64,
}

/// The counters of all servers of a host. Cloning is cheap; clones share the counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionCounters {
    // Nothing awaits under this lock. One entry for each configured name.
    servers: Arc<Mutex<BTreeMap<ServerName, Arc<ServerCounters>>>>,
}

/// The counters of one server.
#[derive(Debug, Default)]
pub(crate) struct ServerCounters {
    attempts: AtomicU64,
    failures: AtomicU64,
    authorization_failures: AtomicU64,
    refreshes: RefreshCounters,
}

// === impl ConnectionCounters ===

impl ConnectionCounters {
    pub(crate) fn of(&self, server: &ServerName) -> Arc<ServerCounters> {
        Arc::clone(self.servers.lock().entry(server.clone()).or_default())
    }
}

// === impl ServerCounters ===

impl ServerCounters {
    pub(crate) fn counts(&self) -> ConnectionCounts {
        ConnectionCounts {
            attempts: self.attempts.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            authorization_failures: self.authorization_failures.load(Ordering::Relaxed),
            refreshes: self.refreshes.succeeded(),
            refresh_failures: self.refreshes.failed(),
        }
    }

    pub(crate) fn record_attempt(&self) {
        self.attempts.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn record_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refreshes(&self) -> RefreshCounters {
        self.refreshes.clone()
    }

    /// The same credentials, with final refusals counted.
    pub(crate) fn watch(self: &Arc<Self>, credentials: Arc<dyn Credentials>) -> Arc<dyn Credentials> {
        Arc::new(CountedCredentials { inner: credentials, counters: Arc::clone(self) })
    }
}

/// Credentials whose final refusals are counted.
struct CountedCredentials {
    inner: Arc<dyn Credentials>,
    counters: Arc<ServerCounters>,
}

impl Credentials for CountedCredentials {
    fn headers<'a>(
        &'a self,
        request: OutgoingRequest<'a>,
    ) -> BoxFuture<'a, Result<Vec<(HeaderName, HeaderValue)>, WireError>> {
        self.inner.headers(request)
    }

    fn handle_challenge(&self, challenge: Challenge) -> BoxFuture<'_, ChallengeAction> {
        self.inner.handle_challenge(challenge)
    }

    fn replacement_error(&self) -> Option<WireError> {
        self.counters.authorization_failures.fetch_add(1, Ordering::Relaxed);
        self.inner.replacement_error()
    }

    fn observe_response(&self, url: &Url, headers: &HeaderMap) {
        self.inner.observe_response(url, headers);
    }
}

impl fmt::Debug for CountedCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
