//! The calendar: times in microseconds since 1970-01-01T00:00:00Z, and their RFC 3339 form.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Microseconds since the Unix epoch.
pub type Micros = i64;

/// Microseconds of a day.
const DAY: Micros = 86_400_000_000;

/// The present.
pub fn now() -> Micros {
    micros(SystemTime::now())
}

/// A moment in microseconds; moments before 1970 are 0.
pub fn micros(moment: SystemTime) -> Micros {
    duration(moment.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// The moment of a time in microseconds.
pub fn system_time(at: Micros) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(u64::try_from(at).unwrap_or_default())
}

/// A duration in microseconds, at most 292,000 years.
pub fn duration(duration: Duration) -> Micros {
    Micros::try_from(duration.as_micros()).unwrap_or(Micros::MAX)
}

/// RFC 3339 in UTC with milliseconds: `2026-11-16T23:29:24.123Z`. Years before 0 and after 9999 are written as these.
pub fn rfc3339(at: Micros) -> String {
    let days = at.div_euclid(DAY).clamp(days(0, 1, 1), days(9999, 12, 31));
    let (year, month, day) = civil(days);
    let millis = at.rem_euclid(DAY) / 1_000;
    // Filled in from the right, digit by digit: log lines and records start with a time.
    let mut text = *b"0000-00-00T00:00:00.000Z";
    for (end, mut number) in [
        (4, year),
        (7, month),
        (10, day),
        (13, millis / 3_600_000),
        (16, millis / 60_000 % 60),
        (19, millis / 1_000 % 60),
        (23, millis % 1_000),
    ] {
        let mut digit = end;
        while 0 < number {
            digit -= 1;
            text[digit] = b'0' + (number % 10) as u8;
            number /= 10;
        }
    }
    text.iter().map(|byte| char::from(*byte)).collect()
}

/// [`rfc3339`] of the present.
pub fn rfc3339_now() -> String {
    rfc3339(now())
}

/// [`rfc3339`] of a moment.
pub fn rfc3339_of(moment: SystemTime) -> String {
    rfc3339(micros(moment))
}

/// Parses RFC 3339 (`2026-11-16T23:29:24Z`, fractions, offsets) or a date alone. `None` if it is neither.
pub fn parse_rfc3339(text: &str) -> Option<Micros> {
    let (date, rest) = text.split_at_checked(10)?;
    let mut parts = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let midnight = days(year, month, day) * 86_400;
    if rest.is_empty() {
        return Some(midnight * 1_000_000);
    }
    let clock = rest.strip_prefix(['T', 't', ' '])?;
    let offset_at = clock.find(['Z', 'z', '+', '-'])?;
    let (clock, offset) = clock.split_at(offset_at);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut parts = clock.split(':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    if hour > 23 || minute > 59 || second > 60 || fraction.is_empty() || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let micros: i64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    let seconds = midnight + hour * 3_600 + minute * 60 + second - offset_seconds(offset)?;
    Some(seconds * 1_000_000 + micros)
}

fn offset_seconds(offset: &str) -> Option<i64> {
    if offset.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = if offset.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = offset.get(1..)?.split_once(':')?;
    Some(sign * (hours.parse::<i64>().ok()? * 3_600 + minutes.parse::<i64>().ok()? * 60))
}

/// Days since 1970-01-01 of a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The inverse of [`days`].
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, year) = if month < 10 { (month + 3, year) } else { (month - 9, year + 1) };
    (year + era * 400, month, day)
}

#[cfg(test)]
mod tests {
    use super::{parse_rfc3339, rfc3339};

    #[test]
    fn times_are_written_and_parsed() {
        for (text, at) in [
            ("1970-01-01T00:00:00.000Z", 0),
            ("2000-02-28T23:59:59.007Z", 951_782_399_007_000),
            ("2000-02-29T00:00:00.000Z", 951_782_400_000_000),
            ("2024-02-29T23:59:59.123Z", 1_709_251_199_123_000),
            ("2024-03-01T00:00:00.000Z", 1_709_251_200_000_000),
            ("2026-02-28T23:59:59.000Z", 1_772_323_199_000_000),
            ("2026-11-16T23:29:24.000Z", 1_794_871_764_000_000),
            ("2026-12-31T23:59:59.000Z", 1_798_761_599_000_000),
            ("2027-01-01T00:00:00.000Z", 1_798_761_600_000_000),
            ("2100-02-28T23:59:59.000Z", 4_107_542_399_000_000),
            ("2100-03-01T00:00:00.000Z", 4_107_542_400_000_000),
        ] {
            assert_eq!(rfc3339(at), text);
            assert_eq!(parse_rfc3339(text), Some(at));
        }
        assert_eq!(rfc3339(-1), "1969-12-31T23:59:59.999Z");
        assert!(rfc3339(i64::MAX).starts_with("9999-12-31T"));
        assert!(rfc3339(i64::MIN).starts_with("0000-01-01T"));
        assert_eq!(parse_rfc3339("1970-01-02"), Some(86_400_000_000));
        assert_eq!(parse_rfc3339("1970-01-01T01:00:00+01:00"), Some(0));
        assert_eq!(parse_rfc3339("1970-01-01T00:00:00.5Z"), Some(500_000));
    }

    #[test]
    fn what_is_not_a_time_is_refused() {
        for text in ["", "today", "2026-13-01", "2026-11-16T25:00:00Z", "2026-11-16T10:00:00", "2026-11-16T10:00:00.Z"]
        {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }
}
