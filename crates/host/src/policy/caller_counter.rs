//! Counts the calls of each caller, up to a limit.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;

use crate::call::Caller;

/// Number of calls of each caller. Cloning is cheap; all clones share the counts.
#[derive(Clone, Debug)]
pub(super) struct CallerCounter {
    most: usize,
    // Nothing awaits under this lock.
    counts: Arc<Mutex<BTreeMap<Caller, usize>>>,
}

/// A counted call. Dropping it decrements the count.
#[derive(Debug)]
pub(super) struct CountedCall {
    caller: Caller,
    counts: Arc<Mutex<BTreeMap<Caller, usize>>>,
}

impl CallerCounter {
    pub(super) fn new(most: usize) -> Self {
        Self { most, counts: Arc::default() }
    }

    /// Counts one more call of this caller; `None` if the caller has reached the limit.
    pub(super) fn take(&self, caller: &Caller) -> Option<CountedCall> {
        let mut counts = self.counts.lock();
        match counts.get_mut(caller) {
            Some(count) if self.most <= *count => return None,
            Some(count) => *count += 1,
            None if self.most == 0 => return None,
            None => {
                counts.insert(caller.clone(), 1);
            }
        }
        Some(CountedCall { caller: caller.clone(), counts: Arc::clone(&self.counts) })
    }

    /// Whether no call is counted.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.counts.lock().is_empty()
    }
}

impl CountedCall {
    /// The caller of this call.
    pub(super) fn caller(&self) -> &Caller {
        &self.caller
    }
}

impl Drop for CountedCall {
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
