//! Ending an exchange from elsewhere than its caller's end.

use std::sync::Weak;

use super::core::Core;

/// The way to end an exchange without holding it. It keeps nothing of the exchange alive.
#[derive(Clone, Debug)]
pub struct CancelHandle {
    pub(super) core: Weak<Core>,
}

impl CancelHandle {
    /// Whether the exchange is under way and waits for an answer of its caller's side.
    pub fn awaits_answer(&self) -> bool {
        self.core.upgrade().is_some_and(|core| 0 < core.open_server_requests() && !core.has_left())
    }

    /// Whether the exchange has ended and its end is not read yet. Of one with somebody in between, or that nobody holds any
    /// more, nothing is known.
    pub fn is_over(&self) -> bool {
        self.core.upgrade().is_some_and(|core| core.is_over())
    }

    /// Ends it, as [`super::Exchange::cancel`] does, if it still waits for an answer; its caller sees
    /// [`super::Outcome::Cancelled`]. Whether it did: one that was answered in this very moment goes on.
    #[must_use = "one that was answered goes on"]
    pub fn cancel_if_awaiting_answer(&self, reason: &str) -> bool {
        self.core.upgrade().is_some_and(|core| core.cancel_if_awaiting_answer(reason))
    }
}
