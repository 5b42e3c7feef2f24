//! The first reading of the roots by a server with a session. Some servers read them by themselves after the handshake and work
//! in other folders until they have: the first call waits for that, within bounds.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

use super::Peer;

/// How long the first call waits for a server that may ask for the roots.
const ASKS_WITHIN: Duration = Duration::from_millis(200);
/// How long it waits for the answer, which may come from a client.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);
/// How long a server has to look at the folders that it was given.
const LOOKS_WITHIN: Duration = Duration::from_millis(50);

/// How far the server is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Reading {
    #[default]
    NotAsked,
    Asked,
    Answered,
}

/// The first reading of one connection.
#[derive(Debug, Default)]
pub(crate) struct FirstRoots {
    reading: watch::Sender<Reading>,
    /// Set when nothing is left to wait for.
    is_over: AtomicBool,
}

impl FirstRoots {
    /// The server asks for the roots outside any call.
    pub(crate) fn mark_asked(&self) {
        self.advance(Reading::Asked);
    }

    /// It was given them, or an error.
    pub(crate) fn mark_answered(&self) {
        self.advance(Reading::Answered);
    }

    fn advance(&self, to: Reading) {
        self.reading.send_if_modified(|reading| {
            let is_later = *reading < to;
            *reading = to.max(*reading);
            is_later
        });
    }

    async fn wait(&self) {
        let mut reading = self.reading.subscribe();
        let began = Instant::now();
        let asked = reading.wait_for(|reading| Reading::Asked <= *reading);
        let is_asked = timeout_at(began + ASKS_WITHIN, asked).await.is_ok();
        if is_asked {
            let answered = reading.wait_for(|reading| *reading == Reading::Answered);
            let is_answered = timeout_at(began + ANSWERED_WITHIN, answered).await.is_ok();
            if is_answered {
                tokio::time::sleep(LOOKS_WITHIN).await;
            }
        }
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl Peer {
    /// Resolves when the server has read the roots that it was told of, or does not ask for them; `None` if there is nothing to
    /// wait for.
    pub fn first_roots(&self) -> Option<BoxFuture<'_, ()>> {
        let router = self.router();
        let first = &router.first_roots;
        if first.is_over.load(Ordering::Relaxed) {
            return None;
        }
        let is_told = router.accent().is_ok_and(|accent| accent.roots_changed_notification().is_some());
        if !is_told {
            first.is_over.store(true, Ordering::Relaxed);
            return None;
        }
        Some(Box::pin(first.wait()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn first_call_waits_for_a_server_that_reads_its_roots_within_bounds() {
        let never = FirstRoots::default();
        let began = Instant::now();
        never.wait().await;
        assert_eq!(began.elapsed(), ASKS_WITHIN, "a server that does not ask");

        let unanswered = FirstRoots::default();
        unanswered.mark_asked();
        let began = Instant::now();
        unanswered.wait().await;
        assert_eq!(began.elapsed(), ANSWERED_WITHIN);

        let read = FirstRoots::default();
        let began = Instant::now();
        let reads = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            read.mark_asked();
            tokio::time::sleep(Duration::from_millis(300)).await;
            read.mark_answered();
            read.mark_asked();
        };
        tokio::join!(read.wait(), reads);
        assert_eq!(began.elapsed(), Duration::from_millis(400) + LOOKS_WITHIN);
    }
}
