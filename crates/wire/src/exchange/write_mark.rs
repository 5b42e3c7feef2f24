//! Whether a byte of a request may have been written to its server.
//!
//! A transport begins to write only if the mark lets it; the reader of the mark seals it when nothing was written. So a
//! request that was reported as not sent is not written afterwards, whatever runs at the same time.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use super::core::Core;

const NOTHING: u8 = 0;
const BEGUN: u8 = 1;
const SEALED: u8 = 2;

/// The mark of one exchange, shared by its transport and its caller.
#[derive(Clone)]
pub struct WriteMark {
    pub(super) core: Arc<Core>,
}

/// Whether a transport may write a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteStart {
    /// It may: these are the first bytes of the exchange.
    First,
    /// It may: bytes of the exchange were written before.
    Again,
    /// It may not: the request was reported as not sent.
    Refused,
}

/// State of a mark.
#[derive(Debug, Default)]
pub(super) struct WriteState(AtomicU8);

impl WriteMark {
    /// Called by a transport before it writes or queues a request.
    pub fn begin(&self) -> WriteStart {
        match self.state().compare_exchange(NOTHING, BEGUN, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => WriteStart::First,
            Err(BEGUN) => WriteStart::Again,
            Err(_) => WriteStart::Refused,
        }
    }

    /// Called by a transport that began for the first time, and then certainly wrote nothing.
    pub fn undo(&self) {
        let _sealed = self.state().compare_exchange(BEGUN, NOTHING, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Whether no byte was written; if so, none will be.
    pub fn seal(&self) -> bool {
        let sealed = self.state().compare_exchange(NOTHING, SEALED, Ordering::AcqRel, Ordering::Acquire);
        matches!(sealed, Ok(_) | Err(SEALED))
    }

    fn state(&self) -> &AtomicU8 {
        &self.core.write_state().0
    }
}

impl fmt::Debug for WriteMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core.write_state().fmt(f)
    }
}
