//! Calls that wait for their caller to come back with answers.
//!
//! A stateless caller's request ends when a question comes up; the exchange behind it goes on here until the retry
//! arrives. Its handle is sealed, bound to caller, request and time, and good for one use. An abandoned call is
//! answered in the negative and given up on the other side.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    exchange::{Answer, ServerRequest, Exchange},
    limit::Limits,
    seal::{self, NoRandomness, Purpose, Sealer},
};

/// The parked calls of one downstream.
#[derive(Debug, Clone)]
pub(crate) struct ParkingLot {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    sealer: Arc<Sealer>,
    /// Which run of which program this is: others may hold the same key.
    instance: String,
    began: Instant,
    limit: usize,
    limit_per_caller: usize,
    patience: Duration,
    places: Places,
}

/// Where calls are parked: those of one downstream, or of several that have one bound.
pub(crate) type Places = Arc<Occupied>;

/// The places that are taken.
#[derive(Debug, Default)]
pub(crate) struct Occupied {
    // Nothing awaits under this lock.
    by_word: Mutex<HashMap<String, Place>>,
}

#[derive(Debug)]
struct Place {
    parked: Parked,
    /// The downstream it belongs to.
    instance: String,
    principal: String,
    _expiry: AbortOnDropHandle<()>,
}

/// An exchange and the questions its caller has been shown, by their keys.
#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) exchange: Exchange,
    pub(crate) asks: Vec<(String, ServerRequest)>,
}

/// What a handle stands for.
#[derive(Debug)]
pub(crate) enum Claimed {
    /// A call that waits.
    Parked(Parked),
    /// A call to be made again.
    Again,
}

/// What is sealed.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Handle {
    stands_for: StandsFor,
    principal: String,
    request: String,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum StandsFor {
    /// A place of one instance, which is given up so many milliseconds after it began.
    Place { instance: String, place: String, until: u64 },
    /// The request, made again before this second.
    Again { until: u64 },
}

/// Why a call could not be parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CannotPark {
    #[error("too many calls wait for answers")]
    Full,
    #[error("too many calls of yours wait for answers; answer or give up some of them")]
    FullForCaller,
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// Why a handle was not honoured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Dishonoured {
    #[error("this requestState was not issued here, or was changed")]
    NotOurs,
    #[error("this requestState belongs to another caller or another request")]
    HeaderMismatch,
    #[error("this requestState was used already; make the request again")]
    Used,
    /// Its time is over, or whoever kept it is.
    #[error("what this requestState stands for is over; make the request again")]
    Over,
}

impl ParkingLot {
    pub(crate) fn new(
        sealer: Arc<Sealer>,
        limits: &Limits,
        patience: Duration,
        places: Places,
    ) -> Result<Self, NoRandomness> {
        let inner = Inner {
            sealer,
            instance: seal::random_token()?,
            began: Instant::now(),
            limit: limits.parked_calls,
            limit_per_caller: limits.parked_calls_per_caller,
            patience,
            places,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Parks a call; gives its handle.
    pub(crate) fn park(&self, parked: Parked, principal: &str, request: &str) -> Result<String, CannotPark> {
        let parked = match self.admit(principal) {
            Ok(()) => parked,
            Err(full) => {
                parked.abandon();
                return Err(full);
            }
        };
        let (place, instance) = (seal::random_token()?, self.inner.instance.clone());
        let expires = Instant::now() + self.inner.patience;
        let until = millis(expires.duration_since(self.inner.began));
        let stands_for = StandsFor::Place { instance: instance.clone(), place: place.clone(), until };
        let handle = self.sealed(stands_for, principal, request)?;
        let (principal, expiry) = (principal.to_owned(), self.expiry(place.clone(), expires));
        self.inner.places.by_word.lock().insert(place, Place { parked, instance, principal, _expiry: expiry });
        Ok(handle)
    }

    fn admit(&self, principal: &str) -> Result<(), CannotPark> {
        let places = self.inner.places.by_word.lock();
        if self.inner.limit <= places.len() {
            return Err(CannotPark::Full);
        }
        let own = places.values().filter(|place| place.principal == principal).count();
        if self.inner.limit_per_caller <= own { Err(CannotPark::FullForCaller) } else { Ok(()) }
    }

    /// A handle for a request that is to be made again; nothing waits for it.
    pub(crate) fn again(&self, principal: &str, request: &str) -> Result<String, NoRandomness> {
        let until = now() + self.inner.patience.as_secs();
        self.sealed(StandsFor::Again { until }, principal, request)
    }

    fn sealed(&self, stands_for: StandsFor, principal: &str, request: &str) -> Result<String, NoRandomness> {
        let handle = Handle { stands_for, principal: principal.to_owned(), request: request.to_owned() };
        self.inner.sealer.seal(Purpose::Request, serde_json::to_string(&handle).unwrap_or_default().as_bytes())
    }

    /// What a handle stands for; a place is good for one use.
    pub(crate) fn claim(&self, handle: &str, principal: &str, request: &str) -> Result<Claimed, Dishonoured> {
        let content = self.inner.sealer.open(Purpose::Request, handle).ok_or(Dishonoured::NotOurs)?;
        let handle: Handle = serde_json::from_slice(&content).map_err(|_| Dishonoured::NotOurs)?;
        if handle.principal != principal || handle.request != request {
            return Err(Dishonoured::HeaderMismatch);
        }
        match handle.stands_for {
            StandsFor::Again { until } if now() < until => Ok(Claimed::Again),
            StandsFor::Place { instance, place, until } if instance == self.inner.instance => {
                let waiting = self.inner.places.by_word.lock().remove(&place);
                let over = until <= millis(self.inner.began.elapsed());
                let absent = if over { Dishonoured::Over } else { Dishonoured::Used };
                waiting.map(|waiting| Claimed::Parked(waiting.parked)).ok_or(absent)
            }
            StandsFor::Again { .. } | StandsFor::Place { .. } => Err(Dishonoured::Over),
        }
    }

    /// How many calls of this downstream are parked.
    pub(crate) fn count(&self) -> usize {
        let places = self.inner.places.by_word.lock();
        places.values().filter(|place| place.instance == self.inner.instance).count()
    }

    /// Gives up the places of a caller at this downstream, or of all.
    pub(crate) fn let_go(&self, principal: Option<&str>) {
        let theirs = |place: &Place| principal.is_none_or(|principal| place.principal == principal);
        let mut places = self.inner.places.by_word.lock();
        let own: Vec<_> =
            places.extract_if(|_, place| place.instance == self.inner.instance && theirs(place)).collect();
        drop(places);
        own.into_iter().for_each(|(_, place)| place.parked.abandon());
    }

    /// Gives the place up when its time is over.
    fn expiry(&self, place: String, expires: Instant) -> AbortOnDropHandle<()> {
        // The places outlive a downstream that is closed; what is parked there meanwhile ends in its time all the same.
        let places = Arc::downgrade(&self.inner.places);
        AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(async move {
            tokio::time::sleep_until(expires).await;
            let abandoned = places.upgrade().and_then(|places| places.by_word.lock().remove(&place));
            if let Some(Place { parked, .. }) = abandoned {
                parked.abandon();
            }
        }))
    }
}

impl Parked {
    /// Nobody comes back: each question gets the answer that says so in its own words, then the call is cancelled.
    fn abandon(self) {
        for (_, ask) in self.asks {
            let answer = Answer::too_late(&ask.details.method);
            ask.answer(answer);
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
