//! The clock that a member counts its lease with.

use std::fmt;

use super::ClockTime;

/// A clock that only rises and goes on while the machine sleeps.
pub trait MemberClock: Send + Sync + fmt::Debug {
    /// The time since a moment that never changes.
    fn now(&self) -> ClockTime;
}

/// The time since the machine was started, with the time that it slept.
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

#[cfg(target_os = "linux")]
impl MemberClock for BootClock {
    fn now(&self) -> ClockTime {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        // Neither is negative, and nanoseconds are below a second.
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        ClockTime::new(seconds, u32::try_from(now.tv_nsec).unwrap_or_default())
    }
}

/// Elsewhere the clock of the standard library, which may stand still while the machine sleeps: then the store refuses what the
/// member writes.
#[cfg(not(target_os = "linux"))]
impl MemberClock for BootClock {
    fn now(&self) -> ClockTime {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        START.get_or_init(std::time::Instant::now).elapsed()
    }
}
