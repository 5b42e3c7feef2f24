//! How a request fits a condition of a rule.

/// How a request fits a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// It matches.
    Match,
    /// It does not match.
    Mismatch,
    /// It matches in one reading and not in another, or is not what the pattern is about. It matches `deny`, does not match
    /// `allow`, and never makes a result less strict. The text says why, without the name of the argument.
    Unclear(&'static str),
}

impl Fit {
    /// A result without doubt.
    pub(super) fn of(is_match: bool) -> Self {
        if is_match { Self::Match } else { Self::Mismatch }
    }

    /// The result of several readings of the same text.
    pub(super) fn of_readings(mut readings: impl Iterator<Item = bool>, why: &'static str) -> Self {
        let first = readings.next().unwrap_or(false);
        if readings.all(|reading| reading == first) { Self::of(first) } else { Self::Unclear(why) }
    }

    /// This result if another reading has the same, else `Unclear`.
    pub(super) fn agreed(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unclear(why), _) | (_, Self::Unclear(why)) => Self::Unclear(why),
            (one, other) if one == other => one,
            _ => Self::Unclear("can be read in several ways"),
        }
    }

    /// The result of all elements of a list: they match, or do not, or some do. An empty list does not match.
    pub(super) fn of_all(elements: impl IntoIterator<Item = Self>) -> Self {
        let mut result = None;
        for element in elements {
            result = match (result, element) {
                (_, Self::Unclear(why)) => return Self::Unclear(why),
                (Some(before), now) if before != now => {
                    return Self::Unclear("has elements that match and others that do not");
                }
                (_, now) => Some(now),
            };
        }
        result.unwrap_or(Self::Mismatch)
    }

    /// The result of alternatives: one that matches is enough.
    pub(super) fn of_any(alternatives: impl IntoIterator<Item = Self>) -> Self {
        let mut result = Self::Mismatch;
        for alternative in alternatives {
            match alternative {
                Self::Match => return Self::Match,
                Self::Unclear(_) => result = alternative,
                Self::Mismatch => {}
            }
        }
        result
    }
}
