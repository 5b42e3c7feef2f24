//! What a call holds and has taken of its limits, as values: dropping them frees it.

use std::{fmt, sync::Arc, time::Duration};

use toolway_wire::json::Raw;
use uuid::Uuid;

use super::{
    book::LimitBook,
    reached::{LimitEnd, LimitKey, LimitReached, LimitScope},
};

/// Places among the calls at the same time. Dropping it frees them.
#[must_use]
pub(crate) struct HeldPlaces {
    book: Arc<LimitBook>,
    scopes: Arc<[LimitScope]>,
}

/// A call of the minute and the day. Dropping it gives them back; [`CountedUse::keep`] does not.
#[must_use]
pub(crate) struct CountedUse {
    book: Arc<LimitBook>,
    scopes: Arc<[LimitScope]>,
    of_day: Option<Uuid>,
    is_kept: bool,
}

/// What bounds a call while it runs and when it has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallBounds {
    /// Total time.
    pub(crate) deadline: Option<Duration>,
    /// Bytes of the result, and whose limit that is.
    pub(crate) result: Option<(u64, LimitScope)>,
}

impl HeldPlaces {
    pub(super) fn new(book: Arc<LimitBook>, scopes: Arc<[LimitScope]>) -> Self {
        Self { book, scopes }
    }
}

impl Drop for HeldPlaces {
    fn drop(&mut self) {
        self.book.leave(&self.scopes);
    }
}

impl CountedUse {
    pub(super) fn new(book: Arc<LimitBook>, scopes: Arc<[LimitScope]>) -> Self {
        Self { book, scopes, of_day: None, is_kept: false }
    }

    /// The call takes of the counts of the day too.
    pub(super) fn takes_of_day(&mut self, call: Uuid) {
        self.of_day = Some(call);
    }

    /// The call was sent: it counts.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for CountedUse {
    fn drop(&mut self) {
        if !self.is_kept {
            self.book.give_back(&self.scopes, self.of_day);
        }
    }
}

impl CallBounds {
    /// The limit that a result exceeds.
    pub(crate) fn exceeded_by(&self, result: &Raw) -> Option<LimitReached> {
        let (most, scope) = self.result.as_ref()?;
        let bytes = result.as_bytes().len() as u64;
        let at = std::time::SystemTime::now();
        let reached = || LimitReached {
            key: LimitKey::ResultBytes,
            scope: scope.clone(),
            most: *most,
            bytes,
            at,
            end: LimitEnd::Never,
        };
        (*most < bytes).then(reached)
    }
}

impl fmt::Debug for HeldPlaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HeldPlaces").field(&self.scopes).finish()
    }
}

impl fmt::Debug for CountedUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CountedUse").field(&self.scopes).finish()
    }
}
