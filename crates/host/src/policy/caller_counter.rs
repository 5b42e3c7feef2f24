//! How many of something each caller has, within a bound.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use crate::call::Caller;

/// How many each caller has. Cloning is cheap; every clone counts the same.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    most: usize,
    // Nothing awaits under this lock.
    counts: Arc<Mutex<HashMap<Caller, usize>>>,
}

/// One of them; dropping it gives it back.
#[derive(Debug)]
pub(super) struct Place {
    caller: Caller,
    counts: Arc<Mutex<HashMap<Caller, usize>>>,
}

impl Tally {
    pub(super) fn new(most: usize) -> Self {
        Self { most, counts: Arc::default() }
    }

    /// One more for this caller; none where it has as many as it may.
    pub(super) fn take(&self, caller: &Caller) -> Option<Place> {
        let mut counts = self.counts.lock();
        match counts.get_mut(caller) {
            Some(count) if self.most <= *count => return None,
            Some(count) => *count += 1,
            None if self.most == 0 => return None,
            None => {
                counts.insert(caller.clone(), 1);
            }
        }
        Some(Place { caller: caller.clone(), counts: Arc::clone(&self.counts) })
    }

    /// Whether nobody has any.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.counts.lock().is_empty()
    }
}

impl Place {
    /// Whose it is.
    pub(super) fn caller(&self) -> &Caller {
        &self.caller
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        if let Some(left) = counts.get_mut(&self.caller) {
            *left -= 1;
            if *left == 0 {
                counts.remove(&self.caller);
            }
        }
    }
}
