//! What all supervisors of a host share: the dialer, the ports, the event channels and the catalog.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Semaphore, broadcast};
use toolway_config::{SamplingPermission, ServerName};
use toolway_wire::{json::Raw, message::ClientCapabilities};

use crate::{
    call::Caller,
    catalog::{Filter, Listing, listing_cache::CallerView, listing_table::ListingTable},
    connection::{
        client_features::ClientFeatures,
        client_sessions::ClientSessions,
        dial::Dialer,
        pool::{CallerListChange, CallerLog, CapabilityProfile},
        wanted::WantedServer,
    },
    event::EventSender,
    inbox::{ElicitationModes, Inbox, waiting::WaitingClients},
    policy::{Attendance, Policy, Surface},
    ports::HostPorts,
    roots::book::RootsBook,
    sampling::{Permission, PermissionInput, Presence, SamplingOffer, SavedAnswer, permission, totals::SamplingTotals},
    tallies::Tallies,
};

/// Shared state of all supervisors of a host.
pub(crate) struct HostContext {
    pub(crate) dialer: Dialer,
    pub(crate) ports: HostPorts,
    pub(crate) inbox: Inbox,
    pub(crate) waiting: WaitingClients,
    pub(crate) roots: Arc<RootsBook>,
    pub(crate) declared: Option<ClientCapabilities>,
    /// The policy in effect. Nothing awaits under this lock.
    pub(crate) policy: Mutex<Policy>,
    /// What models answered servers, by conversation.
    pub(crate) sampled: SamplingTotals,
    /// Answers of people and tokens of models.
    pub(crate) tallies: Tallies,
    pub(crate) events: EventSender,
    /// Lists that changed on the connection of one caller.
    pub(crate) caller_list_changes: broadcast::Sender<CallerListChange>,
    /// Log messages on the connection of one caller, outside of calls.
    pub(crate) caller_logs: broadcast::Sender<CallerLog>,
    /// The sessions of gateway clients.
    pub(crate) client_sessions: Arc<ClientSessions>,
    /// Limits how many servers start at the same time.
    pub(crate) starting: StartLimiter,
    pub(crate) catalog: Arc<dyn CatalogSink>,
    /// What all servers list.
    pub(crate) listings: ListingTable,
    /// Seed of the backoff times.
    pub(crate) seed: u64,
}

/// Limits how many servers start at the same time, in two steps: few spawn a process at once, more wait for the handshake.
/// So many slow servers take about as long as one, and their processes do not all compete for the CPU at once.
pub(crate) struct StartLimiter {
    spawning: Semaphore,
    connecting: Semaphore,
}

/// After this time a server no longer counts as spawning, even if no process start was seen.
const SPAWNING: Duration = Duration::from_millis(20);
/// After this time a server no longer counts as connecting, so that a hanging server delays no other.
const CONNECTING: Duration = Duration::from_secs(2);
/// Connecting servers per spawning server.
const CONNECTING_PER_SPAWNING: usize = 4;

/// Receives what each server lists.
pub(crate) trait CatalogSink: Send + Sync {
    /// Stores the listing of a server.
    fn set_listing(&self, server: &WantedServer, listing: Arc<Listing>);
    /// Stores whether a server lists something else to clients of this profile.
    fn set_view(&self, server: &ServerName, profile: CapabilityProfile, view: CallerView);
    /// Stores the changed filter of a server.
    fn set_filter(&self, server: &ServerName, filter: &Arc<Filter>);
    /// Removes everything a server offers.
    fn remove(&self, server: &ServerName);
}

// === impl StartLimiter ===

impl StartLimiter {
    /// Lets `number` servers spawn at the same time.
    pub(crate) fn new(number: usize) -> Self {
        let slots = |number: usize| Semaphore::new(number.clamp(1, Semaphore::MAX_PERMITS));
        Self { spawning: slots(number), connecting: slots(number.saturating_mul(CONNECTING_PER_SPAWNING)) }
    }

    /// Runs `work` once there is room; releases its room when `started` resolves or the time limits have passed.
    pub(crate) async fn run<T>(&self, started: impl Future<Output = ()>, work: impl Future<Output = T>) -> T {
        let place = self.connecting.acquire().await;
        let turn = self.spawning.acquire().await;
        let mut work = std::pin::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return done,
            _ = tokio::time::timeout(SPAWNING, started) => {}
        }
        drop(turn);
        if let Ok(done) = tokio::time::timeout(CONNECTING, &mut work).await {
            return done;
        }
        drop(place);
        work.await
    }
}

// === impl HostContext ===

impl HostContext {
    /// The client features offered to a server.
    pub(crate) fn features(&self, server: &ServerName) -> ClientFeatures {
        ClientFeatures {
            client: None,
            server: server.clone(),
            answerer: Arc::clone(&self.ports.answerer),
            inbox: self.inbox.clone(),
            origin: None,
            sampler: Arc::clone(&self.ports.sampler),
            sampling: None,
            roots: Arc::clone(&self.roots),
            urls: None,
            declared: self.declared.clone(),
            ambiguous: None,
        }
    }

    /// What a server is told of sampling in the calls of a caller that declares this much of it itself. A client of the
    /// gateway keeps what it declares unless a level says `never`; where it declares nothing, our model may answer, and
    /// also in calls of the console.
    pub(crate) fn sampling_for(
        &self,
        wanted: &WantedServer,
        caller: &Caller,
        declared: SamplingOffer,
    ) -> SamplingOffer {
        match caller {
            Caller::Client(_) => {}
            Caller::Agent(_) | Caller::Console if self.declared.is_some() => {}
            _ => return declared,
        }
        let policy = self.policy.lock();
        match policy.sampling_permission(&wanted.sampling, caller) {
            None => return declared,
            Some(SamplingPermission::Never) => return SamplingOffer::Nothing,
            Some(SamplingPermission::Ask | SamplingPermission::Always) if declared != SamplingOffer::Nothing => {
                return declared;
            }
            Some(SamplingPermission::Ask | SamplingPermission::Always) => {}
        }
        let decided = permission::decide(PermissionInput {
            levels: &policy.sampling_levels(&wanted.sampling, caller),
            mode: policy.mode_of(caller),
            presence: self.presence(Surface::of(caller), Attendance::Attended),
            exceeded: None,
            // A server is told before it asks: what was saved may allow more, and is looked up then.
            saved: SavedAnswer::Nothing,
        });
        match decided {
            Permission::Refused(_) => declared,
            Permission::Allowed(_) | Permission::Ask => self.ports.sampler.offer(&wanted.name),
        }
    }

    /// The capabilities of a caller with what the server is told of sampling.
    pub(crate) fn with_sampling(
        &self,
        capabilities: ClientCapabilities,
        wanted: &WantedServer,
        caller: &Caller,
    ) -> ClientCapabilities {
        let declared = CapabilityProfile::of(&capabilities).sampling;
        let told = self.sampling_for(wanted, caller, declared);
        if told == declared {
            return capabilities;
        }
        let mut members: serde_json::Map<String, serde_json::Value> = capabilities.0.read().unwrap_or_default();
        match told {
            SamplingOffer::Nothing => drop(members.remove("sampling")),
            SamplingOffer::Messages => drop(members.insert("sampling".to_owned(), json!({}))),
            SamplingOffer::WithTools => drop(members.insert("sampling".to_owned(), json!({ "tools": {} }))),
        }
        ClientCapabilities(Raw::of(&members))
    }

    /// Whether a person can be asked in a call of this surface.
    pub(crate) fn presence(&self, surface: Surface, attendance: Attendance) -> Presence {
        match self.ports.answerer.modes() {
            ElicitationModes::Nothing => Presence::Unattended,
            ElicitationModes::Forms | ElicitationModes::FormsAndUrls => Presence::of(surface, attendance),
        }
    }

    /// Whether forms and URLs in calls of this caller wait in the inbox, if it answers none itself.
    pub(crate) fn waits_in_inbox(&self, caller: &Caller) -> bool {
        self.waiting.waits(caller) && self.ports.answerer.modes() == ElicitationModes::FormsAndUrls
    }

    /// The elicitation that the inbox answers and that servers are not told of, because clients of a gateway share their
    /// connections. A call of the console declares it itself.
    pub(crate) fn undeclared_elicitation(&self) -> Option<ClientCapabilities> {
        self.declared.as_ref()?;
        let modes = match self.ports.answerer.modes() {
            ElicitationModes::Nothing => return None,
            ElicitationModes::Forms => json!({ "form": {} }),
            ElicitationModes::FormsAndUrls => json!({ "form": {}, "url": {} }),
        };
        Some(ClientCapabilities(Raw::of(&json!({ "elicitation": modes }))))
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, time::Duration};

    use futures_util::future::join_all;
    use tokio::time::{Instant, sleep};

    use super::StartLimiter;

    async fn run_all(number: usize, each: Duration) -> Duration {
        let (limiter, began) = (StartLimiter::new(16), Instant::now());
        join_all((0..number).map(|_| limiter.run(pending(), async move { sleep(each).await }))).await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_started_server_makes_room_for_the_next() {
        let (limiter, began) = (StartLimiter::new(16), Instant::now());
        let (start, slow) = (Duration::from_millis(2), Duration::from_millis(100));
        join_all((0..50).map(|_| limiter.run(async move { sleep(start).await }, async move { sleep(slow).await })))
            .await;
        // Four groups, each as soon as the one before has started.
        assert_eq!(began.elapsed(), slow + 3 * start);
    }

    #[tokio::test(start_paused = true)]
    async fn many_slow_servers_take_little_longer_than_one() {
        let slow = Duration::from_millis(250);
        let took = run_all(50, slow).await;
        assert!(slow.mul_f64(1.2) < took && took < slow.mul_f64(1.5), "{took:?}");
        // A hanging server makes room.
        let took = run_all(128, Duration::from_secs(60)).await;
        assert!(took < Duration::from_secs(63), "{took:?}");
    }
}
