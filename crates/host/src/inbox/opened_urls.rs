//! The URLs that a user has accepted in one call, and how long the call waits for what is done there.
//!
//! A server that names its requests asks again for the same URL while it waits: the user is not asked again. Another one refuses
//! the call and announces the end (`call/relay/required_urls.rs`).

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{ElicitationAnswer, ITEM_LIFETIME, InboxAnswer};

/// How long a call waits for a URL that no surface of ours has opened.
pub(crate) const UNOPENED: Duration = Duration::from_secs(30);
/// Wait before the first repeated answer; doubled each time, because a call has few rounds.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// URLs of one call that are remembered; others are asked about each time.
const MAX_URLS: usize = 16;

/// The accepted URLs of one call.
#[derive(Debug, Default)]
pub(crate) struct OpenedUrls {
    // Nothing awaits under this lock.
    urls: Mutex<Vec<AcceptedUrl>>,
}

#[derive(Debug)]
struct AcceptedUrl {
    url: String,
    until: Instant,
    wait: Duration,
}

/// Until when a call waits after this answer; `None` if the URL was not accepted.
pub(crate) fn wait_until(answer: &InboxAnswer, asked: Instant) -> Option<Instant> {
    match answer {
        InboxAnswer::Elicitation(ElicitationAnswer::Opened) => Some(asked + ITEM_LIFETIME),
        InboxAnswer::Elicitation(ElicitationAnswer::Accept(_)) => Some(Instant::now() + UNOPENED),
        _ => None,
    }
}

impl OpenedUrls {
    /// Remembers the answer to a URL that was asked about at this time.
    pub(crate) fn remember(&self, url: &str, answer: &InboxAnswer, asked: Instant) {
        let Some(until) = wait_until(answer, asked) else { return };
        let mut urls = self.urls.lock();
        if urls.len() < MAX_URLS && urls.iter().all(|known| known.url != url) {
            urls.push(AcceptedUrl { url: url.to_owned(), until, wait: FIRST_WAIT });
        }
    }

    /// Waits before a URL that was accepted is accepted again; returns the answer, or `None` if the URL is a new one.
    pub(crate) async fn accept_again(&self, url: &str) -> Option<InboxAnswer> {
        let resumes = {
            let mut urls = self.urls.lock();
            let known = urls.iter_mut().find(|known| known.url == url)?;
            let resumes = Instant::now() + known.wait;
            known.wait *= 2;
            (resumes < known.until).then_some(resumes)
        };
        let Some(resumes) = resumes else { return Some(InboxAnswer::Elicitation(ElicitationAnswer::Cancel)) };
        tokio::time::sleep_until(resumes).await;
        Some(InboxAnswer::Elicitation(ElicitationAnswer::Opened))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;
    use tokio::time::Instant;

    use super::{ElicitationAnswer, InboxAnswer, OpenedUrls, UNOPENED};

    #[tokio::test(start_paused = true)]
    async fn a_repeated_url_waits_longer_each_time_and_is_cancelled_at_the_end() {
        let (urls, began) = (OpenedUrls::default(), Instant::now());
        let accepted = InboxAnswer::Elicitation(ElicitationAnswer::Accept(Map::new()));
        urls.remember("https://a.example/", &InboxAnswer::Elicitation(ElicitationAnswer::Decline), began);
        assert_eq!(urls.accept_again("https://a.example/").await, None, "it was not accepted");
        urls.remember("https://a.example/", &accepted, began);
        assert_eq!(urls.accept_again("https://b.example/").await, None, "another URL is asked about");
        let mut rounds = 0;
        while urls.accept_again("https://a.example/").await == Some(InboxAnswer::Elicitation(ElicitationAnswer::Opened))
        {
            rounds += 1;
        }
        // After 1, 2, 4 and 8 seconds; another 16 would be later than 30 seconds.
        assert_eq!((rounds, began.elapsed().as_secs()), (4, 15));
        assert!(began.elapsed() < UNOPENED);
    }
}
