//! How long things may take: what an entry says, and what holds where it does not.

use std::time::Duration;

/// Opening a connection, a program's start included.
pub const CONNECT: Duration = Duration::from_secs(30);
/// A handshake or one page of a list.
pub const LIST: Duration = Duration::from_secs(60);
/// A call, a read or a get without a sign of life; progress starts it anew.
pub const IDLE: Duration = Duration::from_secs(5 * 60);
/// A call, a read or a get in all.
pub const TOTAL: Duration = Duration::from_secs(30 * 60);
/// Finding out which era a server speaks.
pub const PROBE: Duration = Duration::from_secs(10);

/// What an entry says about time; nothing means the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection is open.
    pub connect: Option<Duration>,
    /// Of a call without a sign of life.
    pub idle: Option<Duration>,
    /// Of a call in all.
    pub total: Option<Duration>,
}

/// The clocks of one server, with the defaults put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// Until the connection is open.
    pub connect: Duration,
    /// The era probe.
    pub probe: Duration,
    /// A handshake or a page of a list.
    pub list: Duration,
    /// A call without a sign of life; `None` where only the whole counts.
    pub idle: Option<Duration>,
    /// A call in all.
    pub total: Duration,
}

impl Timeouts {
    /// The clocks of a server; `request` is what the document, the environment or a flag says for all servers.
    ///
    /// Whoever gives a time for the whole means all of it: a call then does not end at the usual idle limit.
    pub fn clocks(&self, request: Option<Duration>) -> Clocks {
        let total = self.total.or(request);
        let idle = self.idle.or(if total.is_some() { None } else { Some(IDLE) });
        let connect = self.connect.unwrap_or(CONNECT);
        let total = total.unwrap_or(TOTAL).max(idle.unwrap_or_default());
        Clocks { connect, probe: PROBE.min(connect), list: LIST, idle, total }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{IDLE, TOTAL, Timeouts};

    #[test]
    fn the_nearer_word_about_time_counts() {
        let (minute, hour) = (Duration::from_secs(60), Duration::from_secs(3600));
        let usual = Timeouts::default().clocks(None);
        assert_eq!((usual.idle, usual.total), (Some(IDLE), TOTAL));

        let for_all = Timeouts::default().clocks(Some(hour));
        assert_eq!((for_all.idle, for_all.total), (None, hour));

        let own = Timeouts { total: Some(minute), ..Timeouts::default() }.clocks(Some(hour));
        assert_eq!((own.idle, own.total), (None, minute));

        let patient = Timeouts { idle: Some(hour), ..Timeouts::default() }.clocks(None);
        assert_eq!((patient.idle, patient.total), (Some(hour), hour));
    }
}
