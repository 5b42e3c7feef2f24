//! Ending an exchange from elsewhere than its caller's end.

use std::sync::Weak;

use super::core::Core;

/// The way to end an exchange without holding it. It keeps nothing of the exchange alive.
#[derive(Clone, Debug)]
pub struct CallOff {
    pub(super) core: Weak<Core>,
}

impl CallOff {
    /// Whether the exchange is under way and waits for an answer of its caller's side.
    pub fn is_asked(&self) -> bool {
        self.core.upgrade().is_some_and(|core| 0 < core.open_asks() && !core.has_left())
    }

    /// Ends it, as [`super::Exchange::cancel`] does; its caller sees [`super::Outcome::Cancelled`].
    pub fn cancel(&self, reason: &str) {
        if let Some(core) = self.core.upgrade() {
            core.cancel(reason);
        }
    }
}
