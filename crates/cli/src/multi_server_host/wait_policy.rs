//! How long to wait for servers: a hanging server does not delay what the others list.

use std::time::Duration;

use tokio::time::Instant;

/// How long to wait for servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitPolicy {
    /// Until the pending servers have been quiet for a while after the last response, at most [`LONGEST`].
    Adaptive,
    /// Like `Adaptive`, but [`STARTING`] for every server that is starting.
    Status,
    /// This long, even if other servers have responded.
    Fixed(Duration),
}

/// A server that has not responded yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingServer {
    /// Whether it has a cached listing.
    pub(super) known: bool,
    /// Whether it is required.
    pub(super) required: bool,
    /// How long it may take to be installed and started; `None` if its command is the server itself.
    pub(super) install: Option<Duration>,
}

/// State of the wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitProgress {
    pub(super) began: Instant,
    /// When the last server was listed.
    pub(super) last_answer: Option<Instant>,
    /// Whether any server has a listing, cached or not.
    pub(super) any_known: bool,
}

/// Longest wait without `--timeout`.
pub(crate) const LONGEST: Duration = Duration::from_secs(10);
/// Quiet time after the last response if all pending servers have a cached listing: many times the response time of a
/// healthy server.
const QUIET_IF_CACHED: Duration = Duration::from_secs(1);
/// Quiet time if a pending server has no cached listing. It covers the start of an installed `npx`, `uvx` or container
/// server, which would otherwise not be listed at all.
const QUIET_IF_UNKNOWN: Duration = STARTING;
/// How long a starting server is waited for.
const STARTING: Duration = Duration::from_secs(5);
/// Extra time so that each server's own timeout reports its error first.
const STATUS_GRACE: Duration = Duration::from_millis(500);

impl WaitPolicy {
    /// When waiting ends if no other server responds.
    pub(super) fn deadline(self, progress: WaitProgress, pending: impl Iterator<Item = PendingServer>) -> Instant {
        let (longest, least) = match self {
            Self::Fixed(time) => return progress.began + time + STATUS_GRACE,
            Self::Adaptive => (progress.began + LONGEST + STATUS_GRACE, progress.began),
            Self::Status => (progress.began + LONGEST + STATUS_GRACE, progress.began + STARTING),
        };
        let (mut all_known, mut any_required, mut install) = (true, false, None);
        for one in pending {
            all_known &= one.known && one.install.is_none();
            any_required |= one.required;
            install = install.max(one.install.filter(|_| !one.known));
        }
        // An installer that is ended halfway can leave a damaged cache.
        if let Some(install) = install {
            return progress.began + install + STATUS_GRACE;
        }
        if any_required || !progress.any_known {
            return longest;
        }
        let quiet = if all_known { QUIET_IF_CACHED } else { QUIET_IF_UNKNOWN };
        longest.min(least.max(progress.last_answer.unwrap_or(progress.began) + quiet))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{PendingServer, WaitPolicy, WaitProgress};

    /// Milliseconds from the start until waiting ends.
    fn deadline(policy: WaitPolicy, answered: Option<u64>, any_known: bool, pending: &[(bool, bool)]) -> u128 {
        let began = Instant::now();
        let last_answer = answered.map(|at| began + Duration::from_millis(at));
        let pending = pending.iter().map(|&(known, required)| PendingServer { known, required, install: None });
        let ends = policy.deadline(WaitProgress { began, last_answer, any_known }, pending);
        ends.duration_since(began).as_millis()
    }

    #[test]
    fn hanging_servers_delay_only_if_nothing_can_be_shown_without_them() {
        let short = WaitPolicy::Adaptive;
        assert_eq!(deadline(short, Some(300), true, &[(true, false)]), 1_300);
        assert_eq!(deadline(short, Some(300), true, &[(true, false), (false, false)]), 5_300);
        assert_eq!(deadline(WaitPolicy::Status, Some(300), true, &[(true, false)]), 5_000, "it is starting");
        assert_eq!(deadline(short, None, true, &[(true, false)]), 1_000, "the cached listing is available at once");
        assert_eq!(deadline(short, None, false, &[(false, false)]), 10_500, "there is nothing to show");
        assert_eq!(deadline(short, Some(300), true, &[(true, true)]), 10_500, "the pending server is required");
        assert_eq!(deadline(short, Some(9_900), true, &[(false, false)]), 10_500, "never longer than the longest wait");
        assert_eq!(deadline(WaitPolicy::Fixed(Duration::from_secs(3)), Some(300), true, &[(true, false)]), 3_500);
    }

    #[test]
    fn first_installation_is_waited_for() {
        let began = Instant::now();
        let progress = WaitProgress { began, last_answer: Some(began), any_known: true };
        let deadline = |policy: WaitPolicy, known: bool| {
            let pending = PendingServer { known, required: false, install: Some(Duration::from_secs(300)) };
            policy.deadline(progress, [pending].into_iter()).duration_since(began).as_millis()
        };
        assert_eq!(deadline(WaitPolicy::Adaptive, false), 300_500);
        assert_eq!(deadline(WaitPolicy::Status, false), 300_500);
        assert_eq!(deadline(WaitPolicy::Adaptive, true), 5_000, "it was installed before");
        assert_eq!(deadline(WaitPolicy::Fixed(Duration::from_secs(3)), false), 3_500, "--timeout is the user's");
    }
}
