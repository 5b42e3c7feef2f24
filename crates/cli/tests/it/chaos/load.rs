//! Many parallel calls of many clients, and their outcomes.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::task::JoinSet;

use super::{call::Ended, client::Client};

/// Outcomes of calls.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) answered: usize,
    pub(super) refused: BTreeMap<String, usize>,
    pub(super) lost: usize,
    started: usize,
    resumed: usize,
}

/// Pause of a client after a lost call.
const MOMENT: Duration = Duration::from_millis(20);

/// Makes this many calls of all clients in parallel.
pub(super) async fn load(clients: Vec<Client>, calls: usize) -> (Vec<Client>, Tally) {
    let left = Arc::new(AtomicUsize::new(calls));
    let mut playing = JoinSet::new();
    for mut client in clients {
        let left = Arc::clone(&left);
        playing.spawn(async move {
            let mut tally = Tally::default();
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                let call = client.any();
                let ended = client.make(&call).await;
                if ended == Ended::Lost {
                    // The gateway may be down at the moment.
                    tokio::time::sleep(MOMENT).await;
                }
                tally.count(ended);
            }
            (tally.started, tally.resumed) = (client.started, client.resumed);
            (client, tally)
        });
    }
    let (mut clients, mut all) = (Vec::new(), Tally::default());
    while let Some(played) = playing.join_next().await {
        let (client, tally) = played.unwrap();
        clients.push(client);
        all.add(tally);
    }
    (clients, all)
}

impl Tally {
    fn count(&mut self, ended: Ended) {
        match ended {
            Ended::Answered => self.answered += 1,
            Ended::Refused(why) => *self.refused.entry(why).or_default() += 1,
            Ended::Lost => self.lost += 1,
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.answered += other.answered;
        self.lost += other.lost;
        self.started += other.started;
        self.resumed += other.resumed;
        for (why, count) in other.refused {
            *self.refused.entry(why).or_default() += count;
        }
    }
}
