//! States of servers and calls in lists: their colour, their order, and a summary.

/// Meaning of a state for a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Meaning {
    /// The user should look at it.
    Failure,
    /// It may change, or needs a decision.
    Pending,
    Good,
    /// Disabled or stopped.
    Off,
}

/// Sort key of a state: failures first.
pub(crate) fn rank(state: &str) -> impl Ord + use<> {
    Meaning::of(state)
}

/// A state in its colour.
pub(super) fn painted(state: &str) -> String {
    let code = match Meaning::of(state) {
        Meaning::Failure => 31,
        Meaning::Pending => 33,
        Meaning::Good => 32,
        Meaning::Off => 2,
    };
    format!("\u{1b}[{code}m{state}\u{1b}[0m")
}

/// The number of servers in each state, failures first; `None` for fewer than two servers.
pub(crate) fn summary<'a>(states: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut states: Vec<&str> = states.collect();
    if states.len() < 2 {
        return None;
    }
    states.sort_by_key(|state| (Meaning::of(state), *state));
    let groups: Vec<String> =
        states.chunk_by(|one, other| one == other).map(|group| format!("{} {}", group.len(), group[0])).collect();
    Some(format!("{} servers: {}", states.len(), groups.join(", ")))
}

impl Meaning {
    fn of(state: &str) -> Self {
        match state {
            "ready" | "enabled" | "succeeded" => Self::Good,
            "disabled" | "stopped" | "cancelled" => Self::Off,
            "failed" | "not listed" | "sign-in-required" | "set aside" => Self::Failure,
            "tool-error" | "refused" | "timed-out" | "interrupted" => Self::Failure,
            _ => Self::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{painted, summary};

    #[test]
    fn what_succeeded_is_green_and_what_failed_is_red() {
        for (state, code) in [("succeeded", 32), ("ready", 32), ("refused", 31), ("timed-out", 31), ("running", 33)] {
            assert_eq!(painted(state), format!("\u{1b}[{code}m{state}\u{1b}[0m"));
        }
    }

    #[test]
    fn summary_counts_failures_first() {
        let states = ["ready", "failed", "ready", "disabled", "connecting"];
        assert_eq!(summary(states.into_iter()).unwrap(), "5 servers: 1 failed, 1 connecting, 2 ready, 1 disabled");
        assert_eq!(summary(["ready"].into_iter()), None);
    }
}
