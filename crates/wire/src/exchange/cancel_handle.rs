//! Cancels an exchange from outside its caller's end.

use std::sync::Weak;

use super::core::Core;

/// Cancels an exchange without owning it; does not keep the exchange alive.
#[derive(Clone, Debug)]
pub struct CancelHandle {
    pub(super) core: Weak<Core>,
}

impl CancelHandle {
    /// Whether the exchange is in progress and waits for the caller to answer a server request.
    pub fn awaits_answer(&self) -> bool {
        self.core.upgrade().is_some_and(|core| 0 < core.open_server_requests() && !core.has_left())
    }

    /// Whether the exchange has ended and its outcome is unread. Always false for an intercepted or dropped exchange.
    pub fn is_over(&self) -> bool {
        self.core.upgrade().is_some_and(|core| core.is_over())
    }

    /// Cancels the exchange, as [`super::Exchange::cancel`] does, if a server request is still unanswered; the caller gets
    /// [`super::Outcome::Cancelled`]. Returns whether it did: an exchange that was just answered continues.
    #[must_use = "an exchange that was answered continues"]
    pub fn cancel_if_awaiting_answer(&self, reason: &str) -> bool {
        self.core.upgrade().is_some_and(|core| core.cancel_if_awaiting_answer(reason))
    }
}
