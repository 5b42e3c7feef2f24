//! Timestamps of log lines: UTC with milliseconds, formatted without allocation.

use std::{
    fmt,
    time::{SystemTime, UNIX_EPOCH},
};

/// A time, displayed as `2026-07-28T12:00:00.000Z`.
#[derive(Clone, Copy, Debug)]
pub struct Timestamp(pub SystemTime);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(24);
        self.push_to(&mut text);
        f.write_str(&text)
    }
}

impl Timestamp {
    pub(crate) fn push_to(&self, text: &mut String) {
        let since = self.0.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (year, month, day) = date(since.as_secs() / 86_400);
        let second = since.as_secs() % 86_400;
        // Filled in from the right, digit by digit, because every line starts with a timestamp.
        let mut written = *b"0000-00-00T00:00:00.000Z";
        for (end, mut number) in [
            (4, year),
            (7, month),
            (10, day),
            (13, second / 3_600),
            (16, second / 60 % 60),
            (19, second % 60),
            (23, u64::from(since.subsec_millis())),
        ] {
            let mut at = end;
            while 0 < number {
                at -= 1;
                written[at] = b'0' + (number % 10) as u8;
                number /= 10;
            }
        }
        text.push_str(std::str::from_utf8(&written).unwrap_or_default());
    }
}

/// Year, month and day of a day number since 1970. Counts years from March, so that the leap day is the last day.
fn date(day: u64) -> (u64, u64, u64) {
    const FOUR_CENTURIES: u64 = 146_097;
    // Days since 1 March of the year 0.
    let day = day + 719_468;
    let (era, day) = (day / FOUR_CENTURIES, day % FOUR_CENTURIES);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (400 * era + year + next, month, day)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use super::Timestamp;

    #[test]
    fn timestamps_are_rfc_3339() {
        let at = |seconds: u64| Timestamp(UNIX_EPOCH + Duration::from_secs(seconds)).to_string();
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000Z");
        assert_eq!(at(1_785_240_000), "2026-07-28T12:00:00.000Z");
        assert_eq!(at(1_798_761_599), "2026-12-31T23:59:59.000Z");
        assert_eq!(at(1_798_761_600), "2027-01-01T00:00:00.000Z");
        assert_eq!(at(1_772_323_199), "2026-02-28T23:59:59.000Z");
        assert_eq!(at(1_772_323_200), "2026-03-01T00:00:00.000Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00.000Z");
        assert_eq!(at(4_107_542_399), "2100-02-28T23:59:59.000Z");
        assert_eq!(Timestamp(SystemTime::UNIX_EPOCH).to_string(), "1970-01-01T00:00:00.000Z");
    }
}
