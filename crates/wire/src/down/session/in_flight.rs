//! What a session has under way, and how it is called off: one request by its id, or all of them at the end.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use tokio_util::sync::CancellationToken;

use super::Session;
use crate::{
    down::accent,
    message::{Id, RpcError},
};

/// The requests under way. Each has a token of its own, which costs less than one that hangs on another.
#[derive(Debug, Default)]
pub(super) struct Requests {
    by_id: HashMap<Id, CancellationToken>,
    /// The session is over: what begins now is cancelled at once.
    over: bool,
}

/// A request under way; letting go of it forgets it.
#[derive(Debug)]
pub(in crate::down) struct UnderWay {
    session: Arc<Session>,
    id: Id,
    pub(in crate::down) cancelled: CancellationToken,
}

impl Session {
    /// Notes that a request is under way; refused when that id is already, or when there are too many.
    pub(in crate::down) fn under_way(self: &Arc<Self>, id: &Id) -> Result<UnderWay, RpcError> {
        let cancelled = self.under_way.lock().begin(id, self.downstream.options.limits.concurrent_requests)?;
        Ok(UnderWay { session: Arc::clone(self), id: id.clone(), cancelled })
    }
}

impl Requests {
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

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The token of one.
    pub(super) fn token(&self, id: &Id) -> Option<CancellationToken> {
        self.by_id.get(id).cloned()
    }

    /// There will be no more; gives the tokens of those there are.
    pub(super) fn close(&mut self) -> Vec<CancellationToken> {
        self.over = true;
        self.by_id.values().cloned().collect()
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.session.under_way.lock().by_id.remove(&self.id);
    }
}
