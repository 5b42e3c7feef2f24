//! In whose name this process writes: a row of `runs`, and no row while it is not a member of its cluster.

use parking_lot::RwLock;
use uuid::Uuid;

use crate::store::RegisteredBy;

/// The registration of this process.
#[derive(Debug)]
pub(super) struct Registration {
    by: RegisteredBy,
    // Nothing awaits under this lock.
    current: RwLock<Current>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Current {
    /// Nil: no row has it, so every write fails.
    run: Uuid,
    /// Of a member.
    generation: i64,
}

impl Registration {
    pub(super) fn new(by: RegisteredBy) -> Self {
        Self { by, current: RwLock::default() }
    }

    pub(super) fn by(&self) -> RegisteredBy {
        self.by
    }

    /// The row in whose name writes are made; nil without a registration.
    pub(super) fn run(&self) -> Uuid {
        self.current.read().run
    }

    /// The row of the registration; `None` without one.
    pub(super) fn known_run(&self) -> Option<Uuid> {
        Some(self.run()).filter(|run| !run.is_nil())
    }

    /// This process registered itself.
    pub(super) fn set_own(&self, run: Uuid) {
        *self.current.write() = Current { run, generation: 0 };
    }

    /// This process became a member. An answer that was overtaken by that of a later registration changes nothing.
    pub(super) fn set_member(&self, run: Uuid, generation: i64) {
        let mut current = self.current.write();
        if current.generation < generation {
            *current = Current { run, generation };
        }
    }

    /// The registration is lost, unless a later one was made.
    pub(super) fn lose(&self, run: Uuid) {
        let mut current = self.current.write();
        if current.run == run {
            current.run = Uuid::nil();
        }
    }
}
