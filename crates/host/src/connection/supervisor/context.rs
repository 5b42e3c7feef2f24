//! What all supervisors of a host share: how to dial, who answers servers, and who wants to hear of them.

use std::{sync::Arc, time::Duration};

use tokio::sync::{Semaphore, broadcast};
use toolway_config::ServerName;

use crate::{
    catalog::{Filter, Listing},
    connection::{
        client_face::{ClientFace, Root},
        dial::Dialler,
        lines::{OwnChange, OwnLog},
        wanted::WantedServer,
    },
    event::Events,
    ports::HostPorts,
};

/// What all supervisors of a host share.
pub(crate) struct Surroundings {
    pub(crate) dialler: Dialler,
    pub(crate) ports: HostPorts,
    pub(crate) roots: Arc<[Root]>,
    pub(crate) declared: Option<toolway_wire::message::ClientCapabilities>,
    pub(crate) events: Events,
    /// Lists that changed in a caller's own process.
    pub(crate) own_changes: broadcast::Sender<OwnChange>,
    /// What servers log to one caller and in no call.
    pub(crate) own_logs: broadcast::Sender<OwnLog>,
    /// Servers that may be starting at the same moment.
    pub(crate) starting: Turns,
    pub(crate) cataloguing: Arc<dyn Cataloguing>,
    /// What the waits of a server follow from.
    pub(crate) seed: u64,
}

/// Whose turn it is to start. Some begin at the same moment and more are on their way, so that many that only take long
/// take no longer than one, and many that work hard do not all work at once. Whoever has a process has begun.
pub(crate) struct Turns {
    beginning: Semaphore,
    on_their_way: Semaphore,
}

/// How long a server counts as one that begins, where nobody says earlier that it has.
const BEGINNING: Duration = Duration::from_millis(20);
/// How long one counts as on its way; one that hangs holds up no other.
const ON_ITS_WAY: Duration = Duration::from_secs(2);
/// Servers on their way for each that may begin at the same moment.
const FOR_EACH: usize = 4;

/// Hears what each server lists.
pub(crate) trait Cataloguing: Send + Sync {
    /// A server was heard.
    fn listed(&self, server: &WantedServer, listing: Arc<Listing>);
    /// A server's filter changed.
    fn filtered(&self, server: &ServerName, filter: &Arc<Filter>);
    /// A server offers nothing any more.
    fn withdrawn(&self, server: &ServerName);
}

// === impl Turns ===

impl Turns {
    /// So many may begin at the same moment.
    pub(crate) fn new(number: usize) -> Self {
        let slots = |number: usize| Semaphore::new(number.clamp(1, Semaphore::MAX_PERMITS));
        Self { beginning: slots(number), on_their_way: slots(number.saturating_mul(FOR_EACH)) }
    }

    /// Does it when there is room for it; whoever has begun, or takes long, makes room meanwhile.
    pub(crate) async fn take<T>(&self, begun: impl Future<Output = ()>, work: impl Future<Output = T>) -> T {
        let place = self.on_their_way.acquire().await;
        let turn = self.beginning.acquire().await;
        let mut work = std::pin::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return done,
            _ = tokio::time::timeout(BEGINNING, begun) => {}
        }
        drop(turn);
        if let Ok(done) = tokio::time::timeout(ON_ITS_WAY, &mut work).await {
            return done;
        }
        drop(place);
        work.await
    }
}

// === impl Surroundings ===

impl Surroundings {
    /// Our face towards a server.
    pub(crate) fn face(&self, server: &ServerName) -> ClientFace {
        ClientFace {
            server: server.clone(),
            elicitor: Arc::clone(&self.ports.elicitor),
            sampler: Arc::clone(&self.ports.sampler),
            roots: Arc::clone(&self.roots),
            declared: self.declared.clone(),
            asks: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, time::Duration};

    use futures_util::future::join_all;
    use tokio::time::{Instant, sleep};

    use super::Turns;

    async fn all_take(number: usize, each: Duration) -> Duration {
        let (turns, began) = (Turns::new(16), Instant::now());
        join_all((0..number).map(|_| turns.take(pending(), async move { sleep(each).await }))).await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_begun_makes_room_for_the_next() {
        let (turns, began) = (Turns::new(16), Instant::now());
        let (begun, slow) = (Duration::from_millis(2), Duration::from_millis(100));
        join_all((0..50).map(|_| turns.take(async move { sleep(begun).await }, async move { sleep(slow).await })))
            .await;
        // Four groups, each as soon as the one before has begun.
        assert_eq!(began.elapsed(), slow + 3 * begun);
    }

    #[tokio::test(start_paused = true)]
    async fn many_that_only_take_long_take_little_longer_than_one() {
        let slow = Duration::from_millis(250);
        let took = all_take(50, slow).await;
        assert!(slow.mul_f64(1.2) < took && took < slow.mul_f64(1.5), "{took:?}");
        // Whoever hangs makes room.
        let took = all_take(128, Duration::from_secs(60)).await;
        assert!(took < Duration::from_secs(63), "{took:?}");
    }
}
