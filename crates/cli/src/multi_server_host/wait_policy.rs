//! How long servers are waited for: what is known is not held up by one that hangs.

use std::time::Duration;

use tokio::time::Instant;

/// How long servers are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Until those that are missing have been quiet for a while after the last answer, and never very long.
    Short,
    /// So long, whoever is there already.
    Whole(Duration),
}

/// One that has not answered yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Missing {
    /// What it listed the last time is there to be shown.
    pub(super) known: bool,
    /// Nothing goes on without it.
    pub(super) required: bool,
}

/// How far it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course {
    pub(super) began: Instant,
    /// When the last server said what it has.
    pub(super) last_answer: Option<Instant>,
    /// Whether there is something to show by now.
    pub(super) anything: bool,
}

/// The longest that is waited where nothing is said: a person has given up by then.
pub(crate) const LONGEST: Duration = Duration::from_secs(10);
/// After the last answer, for one whose tools can be shown as they were: many times what a server takes that is well,
/// and as long as a person waits without wondering.
const FOR_KNOWN: Duration = Duration::from_secs(1);
/// The same for one of which nothing is known. Left out, it would not be listed at all, so it gets what `npx`, `uvx` or
/// a container takes to start what is installed already.
const FOR_UNKNOWN: Duration = Duration::from_secs(2);
/// How much longer than the clock of the slowest: so that each can say itself what went wrong.
const TO_HEAR_WHY: Duration = Duration::from_millis(500);

impl Patience {
    /// When waiting ends unless somebody answers before.
    pub(super) fn ends(self, course: Course, missing: impl Iterator<Item = Missing>) -> Instant {
        let longest = match self {
            Self::Whole(time) => return course.began + time + TO_HEAR_WHY,
            Self::Short => course.began + LONGEST + TO_HEAR_WHY,
        };
        let (mut all_known, mut any_required) = (true, false);
        for one in missing {
            all_known &= one.known;
            any_required |= one.required;
        }
        if any_required || !course.anything {
            return longest;
        }
        let quiet = if all_known { FOR_KNOWN } else { FOR_UNKNOWN };
        longest.min(course.last_answer.unwrap_or(course.began) + quiet)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{Course, Missing, Patience};

    /// Milliseconds after the beginning at which waiting ends.
    fn ends(patience: Patience, answered: Option<u64>, anything: bool, missing: &[(bool, bool)]) -> u128 {
        let began = Instant::now();
        let last_answer = answered.map(|at| began + Duration::from_millis(at));
        let missing = missing.iter().map(|&(known, required)| Missing { known, required });
        let ends = patience.ends(Course { began, last_answer, anything }, missing);
        ends.duration_since(began).as_millis()
    }

    #[test]
    fn those_that_hang_hold_up_only_where_nothing_can_be_shown_without_them() {
        let short = Patience::Short;
        assert_eq!(ends(short, Some(300), true, &[(true, false)]), 1_300);
        assert_eq!(ends(short, Some(300), true, &[(true, false), (false, false)]), 2_300);
        assert_eq!(ends(short, None, true, &[(true, false)]), 1_000, "the copy is there at once");
        assert_eq!(ends(short, None, false, &[(false, false)]), 10_500, "there is nothing to show");
        assert_eq!(ends(short, Some(300), true, &[(true, true)]), 10_500, "nothing goes on without it");
        assert_eq!(ends(short, Some(9_900), true, &[(false, false)]), 10_500, "somebody is always slower");
        assert_eq!(ends(Patience::Whole(Duration::from_secs(3)), Some(300), true, &[(true, false)]), 3_500);
    }
}
