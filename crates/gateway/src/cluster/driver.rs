//! Drives the steps of this gateway as a member: gives them the time, carries out their actions on the store, and publishes
//! which member this gateway is.
//!
//! What an action means for calls and tasks of this process is in [`MemberEffects`], which the gateway implements.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};
use toolway_config::ServerName;
use toolway_host::{
    cluster::{ClusterMember, GatewayId, LeaseError, LeaseKey, LeaseReply, LeaseStore, Member, PeerAddress, TakeOver},
    record::RecordsError,
};
use uuid::Uuid;

use super::{ClusterAction, ClusterEvent, MemberClock, Membership, ServerPlace};

/// This gateway as a member of its cluster. Clones share it; the last one that is dropped ends it without leaving.
#[derive(Clone)]
pub struct ClusterMembership {
    inner: Arc<Inner>,
    _stop: Arc<DropGuard>,
}

/// What the loss of a lease and the takeover of another member mean in this process.
pub trait MemberEffects: Send + Sync {
    /// Ends all calls and gives up all sessions of this member: its lease is lost.
    fn end_calls(&self, member: Member);

    /// Follows these tasks of a member that was taken over.
    fn adopt_tasks(&self, tasks: Vec<Uuid>);

    /// Lets the process of a server that exists once in the cluster run for this long, and starts it if it does not run.
    fn allow_server(&self, server: &ServerName, time: Duration);

    /// Ends the processes of all servers that exist once in the cluster.
    fn end_servers(&self);
}

/// How a gateway takes part.
#[derive(Clone, Debug)]
pub struct MemberOptions {
    /// This process.
    pub gateway: GatewayId,
    /// Where other gateways reach it.
    pub address: PeerAddress,
    /// Length of its lease.
    pub lease: Duration,
    /// What it counts the lease with.
    pub clock: Arc<dyn MemberClock>,
}

struct Inner {
    leases: Arc<dyn LeaseStore>,
    clock: Arc<dyn MemberClock>,
    lease: Duration,
    // Nothing awaits under these locks.
    state: Mutex<State>,
    effects: Mutex<Option<Weak<dyn MemberEffects>>>,
    events: mpsc::Sender<ClusterEvent>,
    member: watch::Sender<Option<Member>>,
    /// What asks the store.
    asking: TaskTracker,
}

struct State {
    membership: Membership,
    listed: Vec<ClusterMember>,
    /// Whether the last registration or renewal failed, so that a store that is away is logged once.
    is_failing: bool,
}

/// Longest time between two looks at the clock, which may have gone on while the timer did not.
const LOOK: Duration = Duration::from_secs(1);
/// Events that wait for their step; further answers wait with their tasks.
const EVENTS: usize = 64;
/// How much of a lease the store has for an answer.
const ANSWER_SHARE: u32 = 3;

impl ClusterMembership {
    /// Registers with this store, and renews until the last handle is dropped or [`ClusterMembership::leave`] is called.
    pub fn start(leases: Arc<dyn LeaseStore>, options: MemberOptions) -> Self {
        let MemberOptions { gateway, address, lease, clock } = options;
        let membership = Membership::new(gateway, address, lease, clock.now());
        let (events, received) = mpsc::channel(EVENTS);
        let inner = Arc::new(Inner {
            leases,
            clock,
            lease,
            state: Mutex::new(State { membership, listed: Vec::new(), is_failing: false }),
            effects: Mutex::default(),
            events,
            member: watch::Sender::new(None),
            asking: TaskTracker::new(),
        });
        let stop = CancellationToken::new();
        tokio::runtime::Handle::current().spawn(drive(Arc::downgrade(&inner), received, stop.clone()));
        Self { inner, _stop: Arc::new(stop.drop_guard()) }
    }

    /// The member in whose name something may begin now.
    pub fn current(&self) -> Option<Member> {
        self.inner.state.lock().membership.valid_member(self.inner.clock.now())
    }

    /// Changes of the member that this gateway is.
    pub fn watch(&self) -> watch::Receiver<Option<Member>> {
        self.inner.member.subscribe()
    }

    /// All members, as they were last listed.
    pub fn members(&self) -> Vec<ClusterMember> {
        self.inner.state.lock().listed.clone()
    }

    /// Length of a lease.
    pub fn lease(&self) -> Duration {
        self.inner.lease
    }

    /// The store of leases.
    pub fn leases(&self) -> &dyn LeaseStore {
        &*self.inner.leases
    }

    /// An answer of the store, which has a part of the lease for it.
    pub async fn answer<T>(&self, reply: LeaseReply<'_, T>) -> Result<T, LeaseError> {
        self.inner.answer(reply).await
    }

    /// Where requests to a server that exists once in the cluster go now. One that was not asked for before is claimed.
    pub fn place(&self, server: &ServerName) -> ServerPlace {
        let place = self.inner.state.lock().membership.place(server, self.inner.clock.now());
        if place == ServerPlace::Unknown {
            // If the queue is full, the next request for the server tries it again.
            drop(self.inner.events.try_send(ClusterEvent::Wanted(server.clone())));
        }
        place
    }

    /// Sets what is done for actions that concern this process. Until then it has no calls.
    pub fn attach(&self, effects: Weak<dyn MemberEffects>) {
        *self.inner.effects.lock() = Some(effects);
    }

    /// Leaves the cluster. The calls of this process and the servers that exist once have ended.
    pub async fn leave(&self) {
        let actions = self.inner.step(ClusterEvent::Leaving);
        for action in actions {
            match action {
                ClusterAction::Leave(member) => match self.inner.answer(self.inner.leases.leave(member)).await {
                    Ok(_) => tracing::info!(%member, "left the cluster"),
                    Err(error) => tracing::warn!(%member, %error, "cannot leave the cluster; the lease expires"),
                },
                other => self.inner.carry_out(other),
            }
        }
        self.inner.asking.close();
        self.inner.asking.wait().await;
    }
}

/// Waits for what happens, until `stop`.
async fn drive(inner: Weak<Inner>, mut events: mpsc::Receiver<ClusterEvent>, stop: CancellationToken) {
    loop {
        let Some(wait) = inner.upgrade().map(|inner| inner.time_to_wake()) else { return };
        let event = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            event = events.recv() => event,
            () = tokio::time::sleep(wait) => Some(ClusterEvent::Woken),
        };
        let Some(event) = event else { return };
        let Some(inner) = inner.upgrade() else { return };
        inner.step(event).into_iter().for_each(|action| inner.carry_out(action));
    }
}

impl Inner {
    fn time_to_wake(&self) -> Duration {
        let wakes_at = self.state.lock().membership.wakes_at();
        wakes_at.saturating_sub(self.clock.now()).min(LOOK)
    }

    fn step(&self, event: ClusterEvent) -> Vec<ClusterAction> {
        let now = self.clock.now();
        let is_leaving = matches!(event, ClusterEvent::Leaving);
        let mut state = self.state.lock();
        state.note(&event);
        let actions = state.membership.step(now, event);
        let member = state.membership.valid_member(now);
        drop(state);
        self.member.send_if_modified(|known| {
            let is_changed = *known != member;
            if is_changed {
                match member {
                    Some(member) => tracing::info!(%member, "member of the cluster"),
                    None if is_leaving => {}
                    None => {
                        tracing::error!("the lease of this gateway is lost; it ends its calls and refuses new ones")
                    }
                }
            }
            *known = member;
            is_changed
        });
        actions
    }

    fn effects(&self) -> Option<Arc<dyn MemberEffects>> {
        self.effects.lock().as_ref().and_then(Weak::upgrade)
    }

    /// Carries out an action. What asks the store is a task, whose answer is the next event.
    fn carry_out(self: &Arc<Self>, action: ClusterAction) {
        let now = self.clock.now();
        match action {
            ClusterAction::EndCalls(member) => self.effects().iter().for_each(|effects| effects.end_calls(member)),
            ClusterAction::AdoptTasks(tasks) => {
                if let Some(effects) = self.effects() {
                    effects.adopt_tasks(tasks);
                }
            }
            ClusterAction::AllowServer { server, until } => {
                let time = until.saturating_sub(now);
                self.effects().iter().for_each(|effects| effects.allow_server(&server, time));
            }
            ClusterAction::EndServers => self.effects().iter().for_each(|effects| effects.end_servers()),
            // Carried out by `leave`, which waits for it.
            ClusterAction::Leave(_) => {}
            asking => {
                let inner = Arc::clone(self);
                self.asking.spawn(async move {
                    if let Some(event) = inner.ask(asking).await {
                        // The receiver ends with the gateway.
                        drop(inner.events.send(event).await);
                    }
                });
            }
        }
    }

    async fn ask(&self, action: ClusterAction) -> Option<ClusterEvent> {
        let leases = &self.leases;
        Some(match action {
            ClusterAction::Register { gateway, address, lease } => {
                ClusterEvent::Registered(self.answer(leases.register(gateway, address, lease)).await)
            }
            ClusterAction::Renew { member, sent_at } => {
                let result = self.answer(leases.renew(member)).await;
                ClusterEvent::Renewed { member, sent_at, result }
            }
            ClusterAction::List { by } => ClusterEvent::Listed { by, result: self.answer(leases.members()).await },
            ClusterAction::TakeOver { by, from } => {
                let result = self.answer(leases.take_over(by, from)).await;
                if let Ok(TakeOver::Done(taken)) = &result {
                    tracing::warn!(
                        member = %from, unknown = taken.unknown, not_sent = taken.not_sent,
                        "took over a gateway that has lost its lease",
                    );
                }
                ClusterEvent::TookOver { by, from: from.generation, result }
            }
            ClusterAction::Claim { by, server } => {
                let key = LeaseKey::Cluster(server.clone());
                ClusterEvent::Claimed { by, server, result: self.answer(leases.claim(by, key)).await }
            }
            ClusterAction::TakeServer { by, server, from } => {
                let key = LeaseKey::Cluster(server.clone());
                ClusterEvent::Claimed { by, server, result: self.answer(leases.take_server(by, key, from)).await }
            }
            _ => return None,
        })
    }

    async fn answer<T>(&self, reply: LeaseReply<'_, T>) -> Result<T, LeaseError> {
        let answered = tokio::time::timeout(self.lease / ANSWER_SHARE, reply).await;
        answered
            .unwrap_or_else(|_| Err(LeaseError::Store(RecordsError::unavailable("the store did not answer in time"))))
    }
}

impl State {
    /// Keeps what is shown, and logs a store that does not answer, once.
    fn note(&mut self, event: &ClusterEvent) {
        let result = match event {
            ClusterEvent::Listed { result: Ok(listed), .. } => {
                self.listed.clone_from(listed);
                return;
            }
            ClusterEvent::Registered(Ok(_)) | ClusterEvent::Renewed { result: Ok(()), .. } => Ok(()),
            ClusterEvent::Registered(Err(error)) | ClusterEvent::Renewed { result: Err(error), .. } => Err(error),
            _ => return,
        };
        match result {
            Ok(()) => self.is_failing = false,
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::error!(%error, "cannot renew the lease of this gateway; it is tried again");
                }
            }
        }
    }
}

impl fmt::Debug for ClusterMembership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterMembership").field("member", &self.current()).finish_non_exhaustive()
    }
}
