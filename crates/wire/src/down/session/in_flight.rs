//! Requests in progress of one session, and how they are cancelled: one by its id, or all at the end.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use tokio_util::sync::CancellationToken;

use super::DownstreamSession;
use crate::{
    down::accent,
    message::{Id, RpcError},
};

/// Requests in progress. Each has its own token, which is cheaper than child tokens.
#[derive(Debug, Default)]
pub(super) struct InFlightRequests {
    by_id: HashMap<Id, CancellationToken>,
    /// The session has ended: new requests are cancelled at once.
    over: bool,
}

/// A request in progress; removed from its session when dropped.
#[derive(Debug)]
pub(in crate::down) struct InFlightRequest {
    session: Arc<DownstreamSession>,
    id: Id,
    pub(in crate::down) cancelled: CancellationToken,
}

impl DownstreamSession {
    /// Registers a request; refused if its id is in use or there are too many.
    pub(in crate::down) fn begin_request(self: &Arc<Self>, id: &Id) -> Result<InFlightRequest, RpcError> {
        let cancelled = self.in_flight.lock().begin(id, self.downstream.options.limits.concurrent_requests)?;
        Ok(InFlightRequest { session: Arc::clone(self), id: id.clone(), cancelled })
    }
}

impl InFlightRequests {
    fn begin(&mut self, id: &Id, limit: usize) -> Result<CancellationToken, RpcError> {
        let (count, cancelled) = (self.by_id.len(), CancellationToken::new());
        if self.over {
            cancelled.cancel();
        }
        match self.by_id.entry(id.clone()) {
            Entry::Occupied(_) => Err(accent::id_taken()),
            Entry::Vacant(_) if limit <= count => Err(accent::too_many(limit)),
            Entry::Vacant(place) => Ok(place.insert(cancelled).clone()),
        }
    }

    /// Whether no request is in progress.
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Cancellation token of a request.
    pub(super) fn token(&self, id: &Id) -> Option<CancellationToken> {
        self.by_id.get(id).cloned()
    }

    /// Marks the session as ended and returns the tokens of all requests.
    pub(super) fn close(&mut self) -> Vec<CancellationToken> {
        self.over = true;
        self.by_id.values().cloned().collect()
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.session.in_flight.lock().by_id.remove(&self.id);
    }
}
