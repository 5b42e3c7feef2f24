//! The byte budget: what is kept for remote parties is charged to it, in total and to a share per principal and server.
//!
//! A [`MemoryBudget`] is a cheap handle that is passed on as a value, in [`crate::limit::Limits`] and in a request. A
//! [`Charge`] is held by whatever keeps the bytes and is released with it. What happens when a budget is exhausted is
//! decided where the bytes are kept: a request is refused, a notification dropped, a result replaced by an error, a
//! listing not taken over. [`Kept`] names everything that is charged.

mod kept;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use parking_lot::Mutex;

pub use self::kept::Kept;

/// A budget, and the shares that are charged along with it. Clones charge the same budget. The default is unlimited.
#[derive(Clone, Default)]
pub struct MemoryBudget {
    pool: Option<Arc<Pool>>,
    principal: Option<Arc<Share>>,
    server: Option<Arc<Share>>,
    kept: Kept,
}

/// Bytes charged to a budget; released on drop.
#[derive(Default)]
pub struct Charge {
    budget: MemoryBudget,
    bytes: usize,
}

/// The budget, or a share of it, is exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("memory budget exhausted (`limits.memory`): {0}; try again later")]
pub struct OverBudget(pub Exhausted);

/// Which budget is exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exhausted {
    /// The whole budget.
    Total,
    /// The share of a principal.
    Principal,
    /// The share of a server.
    Server,
}

struct Pool {
    total: Share,
    /// Limit of the share of each principal and each server.
    share: usize,
    refused: AtomicU64,
    /// Charged bytes of each kind but [`Kept::Transit`], which is the rest: ordinary calls count once.
    kinds: [AtomicUsize; Kept::ALL.len()],
    // Nothing awaits under this lock.
    /// Of principals and of servers, by name. A tree: a name is found without a copy of it.
    shares: Mutex<BTreeMap<Exhausted, BTreeMap<String, Weak<Share>>>>,
}

struct Share {
    limit: usize,
    used: AtomicUsize,
    peak: AtomicUsize,
}

/// A principal or a server gets at most one part in this many of the whole budget.
const SHARES: usize = 2;

// === impl MemoryBudget ===

impl MemoryBudget {
    /// A budget of `total` bytes. A principal and a server may use half of it each.
    pub fn new(total: usize) -> Self {
        let pool = Pool {
            total: Share::new(total),
            share: total / SHARES,
            refused: AtomicU64::new(0),
            kinds: Default::default(),
            shares: Mutex::default(),
        };
        Self { pool: Some(Arc::new(pool)), ..Self::default() }
    }

    /// This budget with the share of a principal.
    #[must_use]
    pub fn of_principal(&self, name: &str) -> Self {
        let principal = self.pool.as_ref().map(|pool| pool.share(Exhausted::Principal, name));
        Self { principal, ..self.clone() }
    }

    /// This budget with the share of a server.
    #[must_use]
    pub fn of_server(&self, name: &str) -> Self {
        let server = self.pool.as_ref().map(|pool| pool.share(Exhausted::Server, name));
        Self { server, ..self.clone() }
    }

    /// This budget, for bytes of this kind.
    #[must_use]
    pub fn keeping(&self, kept: Kept) -> Self {
        Self { kept, ..self.clone() }
    }

    /// This budget, charged also to the shares of `other`.
    #[must_use]
    pub(crate) fn and(&self, other: &Self) -> Self {
        Self {
            pool: self.pool.clone().or_else(|| other.pool.clone()),
            principal: self.principal.clone().or_else(|| other.principal.clone()),
            server: self.server.clone().or_else(|| other.server.clone()),
            kept: self.kept,
        }
    }

    /// Charges `bytes`.
    pub fn charge(&self, bytes: usize) -> Result<Charge, OverBudget> {
        let mut charge = Charge { budget: self.clone(), bytes: 0 };
        charge.grow(bytes)?;
        Ok(charge)
    }

    /// Charged bytes in total.
    pub fn used(&self) -> usize {
        self.pool.as_ref().map_or(0, |pool| pool.total.used.load(Ordering::Relaxed))
    }

    /// Charged bytes of one kind.
    pub fn used_by(&self, kept: Kept) -> usize {
        let Some(pool) = &self.pool else { return 0 };
        let of = |kept: Kept| pool.kinds[kept as usize].load(Ordering::Relaxed);
        match kept {
            // The counters are read one after the other, so the difference may be a moment old.
            Kept::Transit => self.used().saturating_sub(Kept::ALL.into_iter().map(of).sum()),
            kept => of(kept),
        }
    }

    /// Highest number of charged bytes so far.
    pub fn peak(&self) -> usize {
        self.pool.as_ref().map_or(0, |pool| pool.total.peak.load(Ordering::Relaxed))
    }

    /// Number of charges that were refused.
    pub fn refused(&self) -> u64 {
        self.pool.as_ref().map_or(0, |pool| pool.refused.load(Ordering::Relaxed))
    }

    fn shares(&self) -> impl Iterator<Item = (Exhausted, &Share)> {
        let total = self.pool.iter().map(|pool| (Exhausted::Total, &pool.total));
        let principal = self.principal.iter().map(|share| (Exhausted::Principal, &**share));
        let server = self.server.iter().map(|share| (Exhausted::Server, &**share));
        principal.chain(server).chain(total)
    }

    /// The counter of the kind of bytes, if it has one.
    fn counter(&self) -> Option<&AtomicUsize> {
        match self.kept {
            Kept::Transit => None,
            kept => self.pool.as_ref().map(|pool| &pool.kinds[kept as usize]),
        }
    }
}

impl PartialEq for MemoryBudget {
    fn eq(&self, other: &Self) -> bool {
        let same = |one: &Option<Arc<Share>>, other: &Option<Arc<Share>>| match (one, other) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        let pools = match (&self.pool, &other.pool) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        pools && self.kept == other.kept && same(&self.principal, &other.principal) && same(&self.server, &other.server)
    }
}

impl Eq for MemoryBudget {}

// === impl Charge ===

impl Charge {
    /// A charge of nothing that can grow.
    pub fn empty(budget: MemoryBudget) -> Self {
        Self { budget, bytes: 0 }
    }

    /// Charges further bytes; on failure nothing changes.
    pub fn grow(&mut self, bytes: usize) -> Result<(), OverBudget> {
        if bytes == 0 {
            return Ok(());
        }
        for (index, (which, share)) in self.budget.shares().enumerate() {
            if !share.add(bytes) {
                self.budget.shares().take(index).for_each(|(_, share)| share.remove(bytes));
                if let Some(pool) = &self.budget.pool {
                    pool.refused.fetch_add(1, Ordering::Relaxed);
                }
                return Err(OverBudget(which));
            }
        }
        self.bytes += bytes;
        if let Some(counter) = self.budget.counter() {
            counter.fetch_add(bytes, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Takes over another charge to the same budget.
    pub(crate) fn take_over(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Releases `bytes`, or all that is charged if it is less.
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        if bytes == 0 {
            return;
        }
        self.bytes -= bytes;
        if let Some(counter) = self.budget.counter() {
            counter.fetch_sub(bytes, Ordering::Relaxed);
        }
        self.budget.shares().for_each(|(_, share)| share.remove(bytes));
    }

    /// Charged bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes this a charge of `bytes`; on failure nothing changes.
    pub fn set(&mut self, bytes: usize) -> Result<(), OverBudget> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.grow(more),
            None => {
                self.shrink(self.bytes - bytes);
                Ok(())
            }
        }
    }

    /// Bytes that hold this charge until the last slice of them is dropped.
    pub fn attach(self: Arc<Self>, bytes: Bytes) -> Bytes {
        struct Held(Bytes, #[expect(dead_code, reason = "released with the bytes")] Arc<Charge>);
        impl AsRef<[u8]> for Held {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }
        if self.bytes == 0 { bytes } else { Bytes::from_owner(Held(bytes, self)) }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

// === impl Pool ===

impl Pool {
    fn share(&self, kind: Exhausted, name: &str) -> Arc<Share> {
        let mut shares = self.shares.lock();
        let shares = shares.entry(kind).or_default();
        if let Some(share) = shares.get(name).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, share| 0 < share.strong_count());
        let share = Arc::new(Share::new(self.share));
        shares.insert(name.to_owned(), Arc::downgrade(&share));
        share
    }
}

impl Share {
    fn new(limit: usize) -> Self {
        Self { limit, used: AtomicUsize::new(0), peak: AtomicUsize::new(0) }
    }

    fn add(&self, bytes: usize) -> bool {
        let after = self.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if self.limit < after {
            self.remove(bytes);
            return false;
        }
        self.peak.fetch_max(after, Ordering::Relaxed);
        true
    }

    fn remove(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Total => "all clients together use too much",
            Self::Principal => "this client uses too much",
            Self::Server => "this server uses too much",
        })
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBudget").field("used", &self.used()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Charge").field(&self.bytes).finish()
    }
}

#[cfg(test)]
mod tests;
