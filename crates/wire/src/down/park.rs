//! Calls that wait for their client to retry with answers.
//!
//! A stateless request ends when a server request comes up; its exchange is parked here until the retry arrives. The
//! handle is sealed, bound to caller, request and time, and can be used once. When a parked call expires, its server
//! requests are declined and the call is cancelled upstream.

use std::{
    collections::HashMap,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    exchange::{Answer, Exchange, ServerRequest},
    limit::Limits,
    seal::{self, NoRandomness, Purpose, Sealer},
};

/// Parked calls of one downstream.
#[derive(Debug, Clone)]
pub(crate) struct ParkingLot {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    sealer: Arc<Sealer>,
    /// Random id of this instance, because other processes may have the same key.
    instance: String,
    began: Instant,
    limit: usize,
    limit_per_caller: usize,
    timeout: Duration,
    calls: SharedParkedCalls,
    /// Which gateway of a cluster has the calls.
    holder: Option<ParkedCallHolder>,
}

/// Says which gateway of a cluster this process is now, as its handles name it; `None` while it has no lease.
#[derive(Clone)]
pub struct ParkedCallHolder(Arc<dyn Fn() -> Option<String> + Send + Sync>);

/// Parked calls of one downstream, or of several that share a limit.
pub(crate) type SharedParkedCalls = Arc<ParkedCallStore>;

/// Parked calls by their random id.
#[derive(Debug, Default)]
pub(crate) struct ParkedCallStore {
    // Nothing awaits under this lock.
    by_id: Mutex<HashMap<String, StoredCall>>,
}

#[derive(Debug)]
struct StoredCall {
    parked: ParkedCall,
    /// Instance id of the downstream it belongs to.
    instance: String,
    principal: String,
    _expiry: AbortOnDropHandle<()>,
}

/// An exchange and the server requests that its client has received, by key.
#[derive(Debug)]
pub(crate) struct ParkedCall {
    pub(crate) exchange: Exchange,
    pub(crate) server_requests: Vec<(String, ServerRequest)>,
}

/// Result of claiming a handle.
#[derive(Debug)]
pub(crate) enum Claimed {
    /// A parked call.
    Parked(ParkedCall),
    /// The call is to be repeated.
    Again,
}

/// Content of a sealed handle. Field and variant names are part of the handle format.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Handle {
    stands_for: HandleTarget,
    principal: String,
    request: String,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum HandleTarget {
    /// A parked call of one instance; `until` is in milliseconds since the instance started.
    Place {
        instance: String,
        place: String,
        until: u64,
        /// The gateway that has it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<String>,
    },
    /// Permission to repeat the request until this time, in seconds since 1970.
    Again { until: u64 },
}

/// Error of parking a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ParkError {
    #[error("too many calls are waiting for answers; try again later")]
    Full,
    #[error("too many calls of this client are waiting for answers; answer or cancel some of them")]
    FullForCaller,
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// Error of claiming a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClaimError {
    #[error("invalid `requestState`: it was not issued by this server or was modified")]
    Invalid,
    #[error("this `requestState` belongs to another client or another request")]
    HeaderMismatch,
    #[error("this `requestState` was already used; repeat the request without it")]
    Used,
    /// Expired, or issued by an instance that has ended.
    #[error("this `requestState` has expired; repeat the request without it")]
    Expired,
}

impl ParkingLot {
    pub(crate) fn new(
        sealer: Arc<Sealer>,
        limits: &Limits,
        timeout: Duration,
        calls: SharedParkedCalls,
        holder: Option<ParkedCallHolder>,
    ) -> Result<Self, NoRandomness> {
        let inner = Inner {
            sealer,
            instance: seal::random_token()?,
            began: Instant::now(),
            limit: limits.parked_calls,
            limit_per_caller: limits.parked_calls_per_caller,
            timeout,
            calls,
            holder,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Parks a call and returns its handle.
    pub(crate) fn park(&self, parked: ParkedCall, principal: &str, request: &str) -> Result<String, ParkError> {
        let parked = match self.admit(principal) {
            Ok(()) => parked,
            Err(full) => {
                parked.abandon();
                return Err(full);
            }
        };
        let (place, instance) = (seal::random_token()?, self.inner.instance.clone());
        let expires = Instant::now() + self.inner.timeout;
        let until = millis(expires.duration_since(self.inner.began));
        let holder = self.inner.holder.as_ref().and_then(|holder| holder.0());
        let stands_for = HandleTarget::Place { instance: instance.clone(), place: place.clone(), until, holder };
        let handle = self.sealed(stands_for, principal, request)?;
        let (principal, expiry) = (principal.to_owned(), self.expiry(place.clone(), expires));
        self.inner.calls.by_id.lock().insert(place, StoredCall { parked, instance, principal, _expiry: expiry });
        Ok(handle)
    }

    fn admit(&self, principal: &str) -> Result<(), ParkError> {
        let calls = self.inner.calls.by_id.lock();
        if self.inner.limit <= calls.len() {
            return Err(ParkError::Full);
        }
        let own = calls.values().filter(|call| call.principal == principal).count();
        if self.inner.limit_per_caller <= own { Err(ParkError::FullForCaller) } else { Ok(()) }
    }

    /// A handle that permits repeating the request; nothing is parked for it.
    pub(crate) fn again(&self, principal: &str, request: &str) -> Result<String, NoRandomness> {
        let until = now() + self.inner.timeout.as_secs();
        self.sealed(HandleTarget::Again { until }, principal, request)
    }

    fn sealed(&self, stands_for: HandleTarget, principal: &str, request: &str) -> Result<String, NoRandomness> {
        let handle = Handle { stands_for, principal: principal.to_owned(), request: request.to_owned() };
        self.inner.sealer.seal(Purpose::Request, serde_json::to_string(&handle).unwrap_or_default().as_bytes())
    }

    /// The gateway that has the call of a handle; `None` if it names none, or was not sealed under this key.
    pub(crate) fn holder_of(&self, handle: &str) -> Option<String> {
        let content = self.inner.sealer.open(Purpose::Request, handle)?;
        let handle: Handle = serde_json::from_slice(&content).ok()?;
        match handle.stands_for {
            HandleTarget::Place { holder, .. } => holder,
            HandleTarget::Again { .. } => None,
        }
    }

    /// Resolves a handle; a parked call can be claimed once.
    pub(crate) fn claim(&self, handle: &str, principal: &str, request: &str) -> Result<Claimed, ClaimError> {
        let content = self.inner.sealer.open(Purpose::Request, handle).ok_or(ClaimError::Invalid)?;
        let handle: Handle = serde_json::from_slice(&content).map_err(|_| ClaimError::Invalid)?;
        if handle.principal != principal || handle.request != request {
            return Err(ClaimError::HeaderMismatch);
        }
        match handle.stands_for {
            HandleTarget::Again { until } if now() < until => Ok(Claimed::Again),
            HandleTarget::Place { instance, place, until, .. } if instance == self.inner.instance => {
                let stored = self.inner.calls.by_id.lock().remove(&place);
                let over = until <= millis(self.inner.began.elapsed());
                let absent = if over { ClaimError::Expired } else { ClaimError::Used };
                stored.map(|stored| Claimed::Parked(stored.parked)).ok_or(absent)
            }
            HandleTarget::Again { .. } | HandleTarget::Place { .. } => Err(ClaimError::Expired),
        }
    }

    /// Number of parked calls of this downstream.
    pub(crate) fn count(&self) -> usize {
        let calls = self.inner.calls.by_id.lock();
        calls.values().filter(|call| call.instance == self.inner.instance).count()
    }

    /// Abandons the parked calls of one principal at this downstream, or all of them.
    pub(crate) fn abandon_all_of(&self, principal: Option<&str>) {
        let belongs = |call: &StoredCall| principal.is_none_or(|principal| call.principal == principal);
        let mut calls = self.inner.calls.by_id.lock();
        let own: Vec<_> = calls.extract_if(|_, call| call.instance == self.inner.instance && belongs(call)).collect();
        drop(calls);
        own.into_iter().for_each(|(_, call)| call.parked.abandon());
    }

    /// Abandons the call when it expires.
    fn expiry(&self, place: String, expires: Instant) -> AbortOnDropHandle<()> {
        // The shared store outlives a closed downstream; calls parked there still expire.
        let calls = Arc::downgrade(&self.inner.calls);
        AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(async move {
            tokio::time::sleep_until(expires).await;
            let abandoned = calls.upgrade().and_then(|calls| calls.by_id.lock().remove(&place));
            if let Some(StoredCall { parked, .. }) = abandoned {
                parked.abandon();
            }
        }))
    }
}

impl ParkedCallHolder {
    /// Calls `name` for each call that is parked.
    pub fn new(name: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(name))
    }
}

impl fmt::Debug for ParkedCallHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ParkedCallHolder").field(&self.0()).finish()
    }
}

impl ParkedCall {
    /// Declines the open server requests, each in the way of its method, then cancels the call.
    fn abandon(self) {
        for (_, server_request) in self.server_requests {
            let answer = Answer::too_late(&server_request.details.method);
            server_request.answer(answer);
        }
        drop(self.exchange);
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests;
