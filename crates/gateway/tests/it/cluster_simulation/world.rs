//! The queue of happenings, the network, the store with its clock, and the faults.

use std::{collections::BTreeMap, time::Duration};

use futures_util::FutureExt;
use toolway_gateway::cluster::{ClusterAction, ClusterEvent, ServerPlace};
use toolway_host::{
    cluster::{LeaseClaim, LeaseError, LeaseStore, Member, TakeOver},
    record::{Delivery, RecordsError},
};
use toolway_testkit::{lease_stories::CallWrite, seeded_random::SeededRandom, simulated_store::SimulatedStore};
use uuid::Uuid;

use super::{calls::CallReply, invariants::Invariants, keeper, node::Node};

/// True time in microseconds since the start.
pub(super) type At = u64;

pub(super) const MILLISECOND: At = 1_000;
pub(super) const SECOND: At = 1_000 * MILLISECOND;
pub(super) const LEASE: Duration = Duration::from_secs(15);
const LEASE_MICROS: At = 15 * SECOND;
const GATEWAYS: usize = 10;
/// How long faults happen, and how long the cluster has to recover.
const FAULTS: At = 75 * SECOND;
const RECOVERY: At = 5 * LEASE_MICROS;
/// Servers that exist once.
pub(super) const SERVERS: [&str; 2] = ["database", "browser"];

pub(super) struct World {
    pub(super) now: At,
    queue: BTreeMap<(At, u64), Happening>,
    queued: u64,
    requests: u64,
    pub(super) random: SeededRandom,
    pub(super) store: SimulatedStore,
    /// Clock of the store without true time, and the latest time that it has shown.
    store_offset: i64,
    latest_store_clock: i64,
    store_cut_until: At,
    pub(super) nodes: Vec<Node>,
    pub(super) invariants: Invariants,
    has_faults: bool,
    /// Whether the clock of the store jumps; with every second seed.
    has_jumps: bool,
    seen: Seen,
}

/// What happened, to see that the simulation exercises what it is about.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) answered: u64,
    pub(super) unknown: u64,
    pub(super) not_sent: u64,
    pub(super) takeovers: u64,
    pub(super) fenced_writes: u64,
    pub(super) servers_started: u64,
    pub(super) servers_taken: u64,
}

/// Something at a moment.
#[derive(Debug)]
pub(super) enum Happening {
    /// Something at one node; it waits while the process sleeps, and is lost with the process.
    AtNode {
        node: usize,
        life: u32,
        what: NodeHappening,
    },
    /// A request arrives at the store.
    AtStore {
        node: usize,
        life: u32,
        number: u64,
        request: Request,
    },
    /// A keeper ends a process whose time is over, or a process has ended.
    AtKeeper {
        process: u64,
        what: keeper::KeeperHappening,
    },
    WakeUp {
        node: usize,
        life: u32,
    },
    Start {
        node: usize,
    },
    Fault,
}

#[derive(Debug)]
pub(super) enum NodeHappening {
    /// The membership is due.
    Due,
    Reply {
        number: u64,
        reply: Reply,
    },
    TimeLimit {
        number: u64,
    },
    NewCall,
    SendBytes(Uuid),
    Answered(Uuid),
    /// The keeper gets a message.
    ToKeeper(ClusterAction),
    Leave(Member),
    /// A process that leaves waits no longer for the store.
    Stop,
}

#[derive(Clone, Debug)]
pub(super) enum Request {
    Lease(ClusterAction),
    Begin { by: Member, call: Uuid },
    MarkSent { by: Member, call: Uuid },
    End { by: Member, call: Uuid, outcome: Delivery },
}

#[derive(Debug)]
pub(super) enum Reply {
    Lease(ClusterEvent),
    Call(Result<CallWrite, LeaseError>),
    Left,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        // The generator needs an odd seed, and neighbours begin alike.
        let mixed = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut world = Self {
            now: 0,
            queue: BTreeMap::new(),
            queued: 0,
            requests: 0,
            random: SeededRandom::of(mixed ^ (mixed >> 31)),
            store: SimulatedStore::default(),
            store_offset: 1_000_000 * SECOND.cast_signed(),
            latest_store_clock: 0,
            store_cut_until: 0,
            nodes: (0..GATEWAYS).map(Node::stopped).collect(),
            invariants: Invariants::default(),
            has_faults: true,
            has_jumps: seed % 2 == 1,
            seen: Seen::default(),
        };
        for node in 0..GATEWAYS {
            let at = world.random.below(5 * SECOND);
            world.after(at, Happening::Start { node });
        }
        world.after(5 * SECOND, Happening::Fault);
        world
    }

    pub(super) fn faults_go_on(&self) -> bool {
        self.has_faults
    }

    pub(super) fn run_with_faults(&mut self) {
        self.run_until(FAULTS);
    }

    /// Ends all faults and calls, and lets the cluster recover.
    pub(super) fn heal(&mut self) {
        self.has_faults = false;
        self.store_cut_until = 0;
        self.store_offset = self.store_offset.max(self.latest_store_clock - self.now.cast_signed());
        for node in 0..GATEWAYS {
            self.nodes[node].heal();
            let life = self.nodes[node].life;
            self.after(0, Happening::WakeUp { node, life });
            if !self.nodes[node].is_up() {
                self.after(0, Happening::Start { node });
            }
        }
        self.run_until(FAULTS + RECOVERY);
    }

    pub(super) fn check_that_all_is_settled(&mut self) {
        assert_eq!(self.store.open_calls(), Vec::<Uuid>::new(), "calls that nothing has settled");
        self.invariants.check_calls(&self.store);
        let now = self.now;
        for server in SERVERS {
            let places: Vec<ServerPlace> = self.nodes.iter().map(|node| node.place(server, now)).collect();
            let here = places.iter().filter(|place| **place == ServerPlace::Here).count();
            let known = places.iter().filter(|place| **place != ServerPlace::Unknown).count();
            let unknown = self.nodes.iter().find(|node| node.place(server, now) == ServerPlace::Unknown);
            let unknown = unknown.map(|node| (node.index, &node.membership));
            assert_eq!((here, known), (1, GATEWAYS), "`{server}`: {unknown:?}");
            assert_eq!(self.invariants.processes_of(server), 1, "`{server}` has no process");
        }
    }

    pub(super) fn seen(&mut self) -> Seen {
        let mut seen = std::mem::take(&mut self.seen);
        self.invariants.count(&self.store, &mut seen);
        seen
    }

    pub(super) fn after(&mut self, delay: At, happening: Happening) {
        self.queued += 1;
        self.queue.insert((self.now + delay, self.queued), happening);
    }

    pub(super) fn at_node(&mut self, delay: At, node: usize, what: NodeHappening) {
        let life = self.nodes[node].life;
        self.after(delay, Happening::AtNode { node, life, what });
    }

    fn run_until(&mut self, end: At) {
        while let Some(next) = self.queue.first_entry().filter(|next| next.key().0 <= end) {
            self.now = next.key().0;
            let happening = next.remove();
            self.happen(happening);
        }
        self.now = end;
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::AtNode { node, life, what } => self.happen_at_node(node, life, what),
            Happening::AtStore { node, life, number, request } => self.arrive(node, life, number, request),
            Happening::AtKeeper { process, what } => self.happen_at_keeper(process, what),
            Happening::WakeUp { node, life } => self.wake_up(node, life),
            Happening::Start { node } => self.start(node),
            Happening::Fault if self.has_faults => {
                self.cause_fault();
                let pause = 200 * MILLISECOND + self.random.below(4 * SECOND);
                self.after(pause, Happening::Fault);
            }
            Happening::Fault => {}
        }
    }

    // === the network ===

    /// Sends a request to the store. Exactly one reply comes, or an error after the time limit.
    pub(super) fn request(&mut self, node: usize, request: Request) {
        self.requests += 1;
        let number = self.requests;
        self.nodes[node].pending.insert(number, request.clone());
        self.at_node(LEASE_MICROS / 3, node, NodeHappening::TimeLimit { number });
        if let Some(delay) = self.travel(node) {
            let life = self.nodes[node].life;
            self.after(delay, Happening::AtStore { node, life, number, request });
        }
    }

    /// How long a message takes between a node and the store; `None` if it is lost.
    fn travel(&mut self, node: usize) -> Option<At> {
        let is_cut = self.now < self.nodes[node].cut_until || self.now < self.store_cut_until;
        let usual = 200 + self.random.below(20 * MILLISECOND);
        let slow = if self.now < self.nodes[node].slow_until { self.random.below(20 * SECOND) } else { 0 };
        let is_lost = self.has_faults && self.random.below(200) == 0;
        (!is_cut && !is_lost).then_some(usual + slow)
    }

    /// A request arrives, also one of a process that has ended since.
    fn arrive(&mut self, node: usize, life: u32, number: u64, request: Request) {
        if self.now < self.nodes[node].cut_until || self.now < self.store_cut_until {
            return;
        }
        let clock = self.now.cast_signed() + self.store_offset;
        self.latest_store_clock = self.latest_store_clock.max(clock);
        self.store.set_clock(clock);
        let reply = self.carry_out(request);
        if let Some(delay) = self.travel(node) {
            self.after(delay, Happening::AtNode { node, life, what: NodeHappening::Reply { number, reply } });
        }
    }

    fn carry_out(&mut self, request: Request) -> Reply {
        let clock = self.store.now();
        match request {
            Request::Lease(action) => self.carry_out_lease(action),
            Request::Begin { by, call } => {
                let result = self.store.begin_call(by, call);
                self.write_result(by, clock, result)
            }
            Request::MarkSent { by, call } => {
                let result = self.store.mark_call_sent(by, call);
                self.write_result(by, clock, result)
            }
            Request::End { by, call, outcome } => {
                let result = self.store.end_call(by, call, outcome);
                self.write_result(by, clock, result)
            }
        }
    }

    fn write_result(&mut self, by: Member, clock: i64, result: Result<CallWrite, LeaseError>) -> Reply {
        match &result {
            Ok(_) => self.invariants.write_has_succeeded(by, clock),
            Err(_) => self.seen.fenced_writes += 1,
        }
        Reply::Call(result)
    }

    fn carry_out_lease(&mut self, action: ClusterAction) -> Reply {
        let clock = self.store.now();
        let invariants = &mut self.invariants;
        let event = match action {
            ClusterAction::Register { gateway, address, lease } => {
                let result = now(self.store.register(gateway, address, lease));
                invariants.registered(&result, clock);
                ClusterEvent::Registered(result)
            }
            ClusterAction::Renew { member, sent_at } => {
                let result = now(self.store.renew(member));
                invariants.renewed(member, &result, clock);
                ClusterEvent::Renewed { member, sent_at, result }
            }
            ClusterAction::List { by } => ClusterEvent::Listed { by, result: now(self.store.members()) },
            ClusterAction::TakeOver { by, from } => {
                let result = now(self.store.take_over(by, from));
                invariants.took_over(by, from, &result, clock);
                if matches!(result, Ok(TakeOver::Done(_))) && !self.has_jumps {
                    self.check_that_none_believes_to_be(from);
                }
                ClusterEvent::TookOver { by, from: from.generation, result }
            }
            ClusterAction::Claim { by, server } => {
                let result = now(self.store.claim(by, keeper::key(&server)));
                invariants.asked(by, &result, clock);
                ClusterEvent::Claimed { by, server, result }
            }
            ClusterAction::TakeServer { by, server, from } => {
                let result = now(self.store.take_server(by, keeper::key(&server), from));
                invariants.asked(by, &result, clock);
                self.seen.servers_taken += u64::from(matches!(result, Ok(LeaseClaim::Granted)));
                ClusterEvent::Claimed { by, server, result }
            }
            ClusterAction::Leave(member) => {
                let result = now(self.store.leave(member));
                invariants.left(member, &result, clock);
                return Reply::Left;
            }
            other => panic!("not a request: {other:?}"),
        };
        Reply::Lease(event)
    }

    /// While its clock only rises, a member knows that it has lost its lease before the store gives it to another.
    fn check_that_none_believes_to_be(&self, lost: Member) {
        let believes = |node: &&Node| node.valid_member(self.now) == Some(lost);
        assert_eq!(
            self.nodes.iter().find(believes).map(|node| node.index),
            None,
            "{lost} was taken over and believes to be valid"
        );
    }

    // === nodes ===

    fn happen_at_node(&mut self, node: usize, life: u32, what: NodeHappening) {
        let here = &mut self.nodes[node];
        if here.life != life || !here.is_up() {
            return;
        }
        if here.is_asleep {
            here.waiting.push(what);
            return;
        }
        match what {
            NodeHappening::Due => self.due(node),
            NodeHappening::Reply { number, reply } => {
                if let Some(request) = self.nodes[node].pending.remove(&number) {
                    self.replied(node, request, reply);
                }
            }
            NodeHappening::TimeLimit { number } => {
                if let Some(request) = self.nodes[node].pending.remove(&number) {
                    let reply = no_reply(&request);
                    self.replied(node, request, reply);
                }
            }
            NodeHappening::NewCall => self.new_call(node),
            NodeHappening::SendBytes(call) => self.send_bytes(node, call),
            NodeHappening::Answered(call) => self.answered(node, call),
            NodeHappening::ToKeeper(action) => self.tell_keeper(node, action),
            NodeHappening::Stop => self.kill(node),
            NodeHappening::Leave(member) => self.request(node, Request::Lease(ClusterAction::Leave(member))),
        }
    }

    fn replied(&mut self, node: usize, request: Request, reply: Reply) {
        match (request, reply) {
            (_, Reply::Lease(event)) => self.step(node, event),
            (_, Reply::Left) => self.kill(node),
            (Request::Begin { call, .. }, Reply::Call(result)) => self.call_reply(node, call, CallReply::Begun(result)),
            (Request::MarkSent { call, .. }, Reply::Call(result)) => {
                self.call_reply(node, call, CallReply::Marked(result));
            }
            (Request::End { call, .. }, Reply::Call(result)) => self.call_reply(node, call, CallReply::Ended(result)),
            (Request::Lease(_), Reply::Call(_)) => unreachable!(),
        }
    }

    fn wake_up(&mut self, node: usize, life: u32) {
        if self.nodes[node].life != life {
            return;
        }
        self.nodes[node].is_asleep = false;
        for what in std::mem::take(&mut self.nodes[node].waiting) {
            self.happen_at_node(node, life, what);
        }
    }

    // === faults ===

    fn cause_fault(&mut self) {
        let node = usize::try_from(self.random.below(GATEWAYS as u64)).unwrap();
        let long = self.random.below(3 * LEASE_MICROS);
        let until = self.now + long;
        match self.random.below(20) {
            0..=3 => self.nodes[node].cut_until = until,
            4..=6 => self.nodes[node].slow_until = until,
            7..=11 if self.nodes[node].is_up() => {
                self.nodes[node].is_asleep = true;
                let life = self.nodes[node].life;
                self.after(long, Happening::WakeUp { node, life });
            }
            12..=14 if self.nodes[node].is_up() => {
                self.kill(node);
                self.after(long, Happening::Start { node });
            }
            15 => self.leave(node),
            16 => self.store_cut_until = self.now + self.random.below(LEASE_MICROS),
            17..=19 if !self.has_jumps => {}
            17 => self.store_offset += self.random.below(3600 * SECOND).cast_signed(),
            18 => self.store_offset -= self.random.below(60 * SECOND).cast_signed(),
            19 => self.store_offset += self.random.below(2 * LEASE_MICROS).cast_signed(),
            _ => {}
        }
    }
}

impl Seen {
    pub(super) fn add(&mut self, other: &Self) {
        self.answered += other.answered;
        self.unknown += other.unknown;
        self.not_sent += other.not_sent;
        self.takeovers += other.takeovers;
        self.fenced_writes += other.fenced_writes;
        self.servers_started += other.servers_started;
        self.servers_taken += other.servers_taken;
    }

    pub(super) fn assert_that_much_happened(&self) {
        let counts = [
            self.answered,
            self.unknown,
            self.not_sent,
            self.takeovers,
            self.fenced_writes,
            self.servers_started,
            self.servers_taken,
        ];
        assert!(counts.iter().all(|count| 100 < *count), "{self:?}");
    }
}

/// The store answers at once, in its simulated time.
fn now<T>(reply: toolway_host::cluster::LeaseReply<'_, T>) -> Result<T, LeaseError> {
    reply.now_or_never().unwrap()
}

fn no_reply(request: &Request) -> Reply {
    let error = || LeaseError::Store(RecordsError::unavailable("no answer in time"));
    Reply::Lease(match request.clone() {
        Request::Lease(ClusterAction::Register { .. }) => ClusterEvent::Registered(Err(error())),
        Request::Lease(ClusterAction::Renew { member, sent_at }) => {
            ClusterEvent::Renewed { member, sent_at, result: Err(error()) }
        }
        Request::Lease(ClusterAction::List { by }) => ClusterEvent::Listed { by, result: Err(error()) },
        Request::Lease(ClusterAction::TakeOver { by, from }) => {
            ClusterEvent::TookOver { by, from: from.generation, result: Err(error()) }
        }
        Request::Lease(ClusterAction::Claim { by, server } | ClusterAction::TakeServer { by, server, .. }) => {
            ClusterEvent::Claimed { by, server, result: Err(error()) }
        }
        Request::Lease(_) => return Reply::Left,
        Request::Begin { .. } | Request::MarkSent { .. } | Request::End { .. } => return Reply::Call(Err(error())),
    })
}
