//! Times for a user: local and relative at a terminal, exact in UTC for other programs.

use chrono::{DateTime, Local};
use toolway_host::time::{self, Micros};

/// How times are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    /// The present, at a terminal; `None` for other programs.
    now: Option<Micros>,
}

const SECOND: Micros = 1_000_000;
const MINUTE: Micros = 60 * SECOND;
const HOUR: Micros = 60 * MINUTE;
const DAY: Micros = 24 * HOUR;

impl Clock {
    /// Local times.
    pub(crate) fn local() -> Self {
        Self { now: Some(time::now()) }
    }

    /// RFC 3339 in UTC.
    pub(crate) fn exact() -> Self {
        Self { now: None }
    }

    /// A time in a list: how long ago it was, or the date if that is more than a day.
    pub(crate) fn brief(self, at: Micros) -> String {
        match self.now {
            None => time::rfc3339(at),
            Some(now) => ago(at, now).unwrap_or_else(|| local(at, "%Y-%m-%d %H:%M")),
        }
    }

    /// A time on its own: the date, and how long ago it was.
    pub(crate) fn full(self, at: Micros) -> String {
        let Some(now) = self.now else { return time::rfc3339(at) };
        let ago = ago(at, now).map(|ago| format!(" ({ago})")).unwrap_or_default();
        format!("{}{ago}", local(at, "%Y-%m-%d %H:%M:%S"))
    }
}

/// How long ago a time of the last day was.
fn ago(at: Micros, now: Micros) -> Option<String> {
    match now.saturating_sub(at) {
        ..0 | DAY.. => None,
        age @ 0..MINUTE => Some(format!("{} s ago", age / SECOND)),
        age @ MINUTE..HOUR => Some(format!("{} min ago", age / MINUTE)),
        age => Some(format!("{} h ago", age / HOUR)),
    }
}

/// A time in the time zone of the machine.
fn local(at: Micros, format: &str) -> String {
    let utc = DateTime::from_timestamp_micros(at);
    utc.map_or_else(|| time::rfc3339(at), |utc| utc.with_timezone(&Local).format(format).to_string())
}

#[cfg(test)]
mod tests {
    use super::{Clock, DAY, HOUR, MINUTE, SECOND, ago};

    #[test]
    fn times_of_the_last_day_are_relative() {
        let now = 100 * DAY;
        let shown = |age| ago(now - age, now);
        assert_eq!(shown(0).as_deref(), Some("0 s ago"));
        assert_eq!(shown(59 * SECOND).as_deref(), Some("59 s ago"));
        assert_eq!(shown(3 * MINUTE + SECOND).as_deref(), Some("3 min ago"));
        assert_eq!(shown(23 * HOUR).as_deref(), Some("23 h ago"));
        assert_eq!((shown(DAY), shown(-SECOND)), (None, None), "a clock may have been set back");
    }

    #[test]
    fn other_programs_get_exact_times() {
        assert_eq!(Clock::exact().brief(1_500_000), "1970-01-01T00:00:01.500Z");
        assert_eq!(Clock::exact().full(1_500_000), "1970-01-01T00:00:01.500Z");
    }
}
