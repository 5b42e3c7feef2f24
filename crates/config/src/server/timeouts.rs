//! Timeouts of a server and their defaults.

use std::time::Duration;

/// Default timeout for connecting, including the start of a program.
pub const CONNECT: Duration = Duration::from_secs(30);
/// Timeout for a handshake or one page of a list.
pub const LIST: Duration = Duration::from_secs(60);
/// Default timeout for a call, read or get without progress; progress restarts it.
pub const IDLE: Duration = Duration::from_secs(5 * 60);
/// Default timeout for a call, read or get in total.
pub const TOTAL: Duration = Duration::from_secs(30 * 60);
/// Timeout for detecting the era of a server.
pub const PROBE: Duration = Duration::from_secs(10);

/// Timeouts that an entry sets; `None` means the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// Connecting, including the start of a program.
    pub connect: Option<Duration>,
    /// A call without progress.
    pub idle: Option<Duration>,
    /// A call in total.
    pub total: Option<Duration>,
}

/// Effective timeouts of one server, with the defaults applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectiveTimeouts {
    /// Connecting, including the start of a program.
    pub connect: Duration,
    /// Detecting the era.
    pub probe: Duration,
    /// A handshake or one page of a list.
    pub list: Duration,
    /// A call without progress; `None` if only the total counts.
    pub idle: Option<Duration>,
    /// A call in total.
    pub total: Duration,
}

impl Timeouts {
    /// The effective timeouts; `request` is the total timeout for all servers (`requestTimeout`), if set.
    ///
    /// A configured total timeout disables the default idle timeout.
    pub fn effective(&self, request: Option<Duration>) -> EffectiveTimeouts {
        let total = self.total.or(request);
        let idle = self.idle.or(if total.is_some() { None } else { Some(IDLE) });
        let connect = self.connect.unwrap_or(CONNECT);
        let total = total.unwrap_or(TOTAL).max(idle.unwrap_or_default());
        EffectiveTimeouts { connect, probe: PROBE.min(connect), list: LIST, idle, total }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{IDLE, TOTAL, Timeouts};

    #[test]
    fn timeout_of_the_server_takes_precedence() {
        let (minute, hour) = (Duration::from_secs(60), Duration::from_secs(3600));
        let usual = Timeouts::default().effective(None);
        assert_eq!((usual.idle, usual.total), (Some(IDLE), TOTAL));

        let for_all = Timeouts::default().effective(Some(hour));
        assert_eq!((for_all.idle, for_all.total), (None, hour));

        let own = Timeouts { total: Some(minute), ..Timeouts::default() }.effective(Some(hour));
        assert_eq!((own.idle, own.total), (None, minute));

        let patient = Timeouts { idle: Some(hour), ..Timeouts::default() }.effective(None);
        assert_eq!((patient.idle, patient.total), (Some(hour), hour));
    }
}
