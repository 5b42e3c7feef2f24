//! Calls that wait for their caller to come back with answers.
//!
//! A stateless caller's request ends when a question comes up; the exchange behind it goes on here until the retry
//! arrives. Its handle is sealed, bound to caller, request and time, and good for one use.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    exchange::{Ask, Exchange},
    seal::{self, Sealer},
};

/// The parked calls of one face.
#[derive(Debug, Clone)]
pub(crate) struct ParkingLot {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    sealer: Arc<Sealer>,
    limit: usize,
    patience: Duration,
    // Nothing awaits under this lock.
    places: Mutex<HashMap<String, Place>>,
}

#[derive(Debug)]
struct Place {
    parked: Parked,
    expires: Instant,
    _expiry: AbortOnDropHandle<()>,
}

/// An exchange and the questions its caller has been shown.
#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) exchange: Exchange,
    pub(crate) asks: Vec<(String, Ask)>,
}

/// What a handle binds.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Handle {
    place: String,
    principal: String,
    request: String,
}

/// Why a call could not be parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CannotPark {
    #[error("too many calls wait for answers")]
    Full,
    #[error(transparent)]
    NoRandomness(#[from] seal::NoRandomness),
}

/// Why a handle was not honoured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Dishonoured {
    #[error("this requestState was not issued here, or was changed")]
    NotOurs,
    #[error("this requestState belongs to another caller or another request")]
    Mismatch,
    #[error("this requestState was used already, or its time is over; make the request again")]
    Gone,
}

impl ParkingLot {
    pub(crate) fn new(sealer: Arc<Sealer>, limit: usize, patience: Duration) -> Self {
        Self { inner: Arc::new(Inner { sealer, limit, patience, places: Mutex::default() }) }
    }

    /// Parks a call; gives its handle.
    pub(crate) fn park(&self, parked: Parked, principal: &str, request: &str) -> Result<String, CannotPark> {
        let place = seal::random_word()?;
        let handle = Handle { place: place.clone(), principal: principal.to_owned(), request: request.to_owned() };
        let handle = self.inner.sealer.seal(serde_json::to_string(&handle).unwrap_or_default().as_bytes())?;
        let mut places = self.inner.places.lock();
        if self.inner.limit <= places.len() {
            return Err(CannotPark::Full);
        }
        let expires = Instant::now() + self.inner.patience;
        places.insert(place.clone(), Place { parked, expires, _expiry: self.expiry(place, expires) });
        Ok(handle)
    }

    /// The call a handle stands for; a handle is good for one use.
    pub(crate) fn claim(&self, handle: &str, principal: &str, request: &str) -> Result<Parked, Dishonoured> {
        let content = self.inner.sealer.open(handle).ok_or(Dishonoured::NotOurs)?;
        let handle: Handle = serde_json::from_slice(&content).map_err(|_| Dishonoured::NotOurs)?;
        if handle.principal != principal || handle.request != request {
            return Err(Dishonoured::Mismatch);
        }
        let place = self.inner.places.lock().remove(&handle.place).ok_or(Dishonoured::Gone)?;
        if place.expires <= Instant::now() { Err(Dishonoured::Gone) } else { Ok(place.parked) }
    }

    /// Gives the place up when its time is over; the exchange is dropped, which cancels it on the other side.
    fn expiry(&self, place: String, expires: Instant) -> AbortOnDropHandle<()> {
        let lot = Arc::downgrade(&self.inner);
        AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(async move {
            tokio::time::sleep_until(expires).await;
            let abandoned = lot.upgrade().and_then(|lot| lot.places.lock().remove(&place));
            drop(abandoned);
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::{CannotPark, Dishonoured, Parked, ParkingLot};
    use crate::{
        exchange::{Terms, pair},
        seal::Sealer,
    };

    fn lot() -> ParkingLot {
        ParkingLot::new(Arc::new(Sealer::generated().unwrap()), 2, Duration::from_secs(600))
    }

    fn call() -> (Parked, crate::exchange::Feed) {
        let (exchange, feed) = pair(Terms::unbounded(), 8);
        (Parked { exchange, asks: Vec::new() }, feed)
    }

    #[tokio::test]
    async fn a_handle_is_good_once_for_its_caller_and_its_request() {
        let lot = lot();
        let (parked, _feed) = call();
        let handle = lot.park(parked, "ada", "call x").unwrap();
        assert_eq!(lot.claim(&handle, "bob", "call x").unwrap_err(), Dishonoured::Mismatch);
        assert_eq!(lot.claim(&handle, "ada", "call y").unwrap_err(), Dishonoured::Mismatch);
        assert_eq!(lot.claim("made up", "ada", "call x").unwrap_err(), Dishonoured::NotOurs);
        assert!(lot.claim(&handle, "ada", "call x").is_ok());
        assert_eq!(lot.claim(&handle, "ada", "call x").unwrap_err(), Dishonoured::Gone);
    }

    #[tokio::test(start_paused = true)]
    async fn an_abandoned_call_is_cancelled_when_its_time_is_over() {
        let lot = lot();
        let (parked, feed) = call();
        let handle = lot.park(parked, "ada", "call x").unwrap();
        feed.cancelled().await;
        assert_eq!(lot.claim(&handle, "ada", "call x").unwrap_err(), Dishonoured::Gone);
    }

    #[tokio::test]
    async fn places_are_bounded() {
        let lot = lot();
        let parked: Vec<_> = (0..3).map(|_| call()).collect();
        let mut results = parked.into_iter().map(|(parked, feed)| (lot.park(parked, "", "").err(), feed));
        assert!(results.next().unwrap().0.is_none() && results.next().unwrap().0.is_none());
        assert_eq!(results.next().unwrap().0, Some(CannotPark::Full));
    }
}
