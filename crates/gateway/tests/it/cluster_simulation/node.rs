//! One simulated gateway: its clock, its membership and what it waits for.

use std::{collections::BTreeMap, time::Duration};

use toolway_gateway::cluster::{ClockTime, ClusterAction, ClusterEvent, Membership, ServerPlace};
use toolway_host::cluster::{GatewayId, Member};
use uuid::Uuid;

use super::{
    calls::NodeCall,
    world::{At, LEASE, MILLISECOND, NodeHappening, Request, SECOND, SERVERS, World},
};

/// A machine on which one gateway after the other runs.
pub(super) struct Node {
    pub(super) index: usize,
    /// Number of the process; what belongs to an earlier one is lost.
    pub(super) life: u32,
    pub(super) membership: Option<Membership>,
    pub(super) is_asleep: bool,
    /// What happened while the process was asleep.
    pub(super) waiting: Vec<NodeHappening>,
    pub(super) pending: BTreeMap<u64, Request>,
    pub(super) calls: BTreeMap<Uuid, NodeCall>,
    pub(super) cut_until: At,
    pub(super) slow_until: At,
    is_leaving: bool,
    /// When the last message to the keeper arrives: they keep their order.
    pipe_until: At,
    due_at: At,
}

/// Clocks of different machines differ by this much and more.
const CLOCK_STEP: u64 = 1_000_000 * SECOND;
/// Time in which a keeper has ended all processes.
const ALL_ENDED: At = 2 * SECOND + 500 * MILLISECOND;

impl Node {
    pub(super) fn stopped(index: usize) -> Self {
        Self {
            index,
            life: 0,
            membership: None,
            is_asleep: false,
            waiting: Vec::new(),
            pending: BTreeMap::new(),
            calls: BTreeMap::new(),
            cut_until: 0,
            slow_until: 0,
            is_leaving: false,
            pipe_until: 0,
            due_at: At::MAX,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.membership.is_some()
    }

    pub(super) fn heal(&mut self) {
        self.cut_until = 0;
        self.slow_until = 0;
    }

    pub(super) fn place(&self, server: &str, now: At) -> ServerPlace {
        let name = server.parse().unwrap();
        self.membership.as_ref().map_or(ServerPlace::Unknown, |own| own.place(&name, self.clock(now)))
    }

    /// The member in whose name it begins calls.
    pub(super) fn valid_member(&self, now: At) -> Option<Member> {
        self.membership.as_ref()?.valid_member(self.clock(now))
    }

    /// Its own clock: it begins anywhere, and is faster or slower by up to 450 millionths.
    pub(super) fn clock(&self, now: At) -> ClockTime {
        let drift = i64::try_from(now).unwrap() * self.drift() / 1_000_000;
        Duration::from_micros((self.index as u64 + 1) * CLOCK_STEP + now.saturating_add_signed(drift))
    }

    /// The true time of a time of its clock, or a little later.
    pub(super) fn true_time(&self, clock: ClockTime) -> At {
        let Ok(micros) = u64::try_from(clock.as_micros()) else { return At::MAX };
        let elapsed = micros.saturating_sub((self.index as u64 + 1) * CLOCK_STEP);
        let corrected = u128::from(elapsed) * 1_000_000 / u128::try_from(1_000_000 + self.drift()).unwrap();
        u64::try_from(corrected).map_or(At::MAX, |at| at.saturating_add(2))
    }

    fn drift(&self) -> i64 {
        (i64::try_from(self.index).unwrap() - 5) * 90
    }
}

impl World {
    /// Starts a new process on a node where none runs.
    pub(super) fn start(&mut self, node: usize) {
        if self.nodes[node].is_up() {
            return;
        }
        let gateway = GatewayId(Uuid::from_u64_pair(u64::from(self.nodes[node].life) + 1, node as u64));
        let here = &mut self.nodes[node];
        let address = format!("10.0.0.{node}:7719").parse().unwrap();
        here.membership = Some(Membership::new(gateway, address, LEASE, here.clock(self.now)));
        here.is_leaving = false;
        here.due_at = At::MAX;
        for server in SERVERS {
            self.step(node, ClusterEvent::Wanted(server.parse().unwrap()));
        }
        let first = self.random.below(4 * SECOND);
        self.at_node(first, node, NodeHappening::NewCall);
    }

    /// Ends the process at once. Its keeper ends what it had started.
    pub(super) fn kill(&mut self, node: usize) {
        let here = &mut self.nodes[node];
        let next =
            Node { life: here.life + 1, cut_until: here.cut_until, slow_until: here.slow_until, ..Node::stopped(node) };
        let before = std::mem::replace(here, next);
        self.end_processes_of(node);
        if before.is_leaving {
            self.after(SECOND, super::world::Happening::Start { node });
        }
    }

    /// Shuts the process down in order.
    pub(super) fn leave(&mut self, node: usize) {
        let here = &mut self.nodes[node];
        if here.is_up() && !here.is_asleep && !here.is_leaving {
            here.is_leaving = true;
            self.step(node, ClusterEvent::Leaving);
            self.at_node(10 * SECOND, node, NodeHappening::Stop);
        }
    }

    pub(super) fn due(&mut self, node: usize) {
        self.nodes[node].due_at = At::MAX;
        self.step(node, ClusterEvent::Woken);
    }

    /// One step of the membership, and its actions.
    pub(super) fn step(&mut self, node: usize, event: ClusterEvent) {
        let here = &mut self.nodes[node];
        let clock = here.clock(self.now);
        let Some(membership) = &mut here.membership else { return };
        let actions = membership.step(clock, event);
        let wakes_at = membership.wakes_at();
        let due = here.true_time(wakes_at).max(self.now);
        if due < here.due_at && due != At::MAX {
            here.due_at = due;
            self.at_node(due - self.now, node, NodeHappening::Due);
        }
        for action in actions {
            self.act(node, action);
        }
    }

    fn act(&mut self, node: usize, action: ClusterAction) {
        match action {
            ClusterAction::EndCalls(member) => self.end_calls(node, member),
            ClusterAction::AdoptTasks(_) => {}
            ClusterAction::AllowServer { .. } | ClusterAction::EndServers => {
                // Written to a pipe: the process may fall asleep before.
                let arrives_at = self.now + self.random.below(5 * MILLISECOND);
                let here = &mut self.nodes[node];
                here.pipe_until = here.pipe_until.max(arrives_at);
                let delay = here.pipe_until - self.now;
                self.at_node(delay, node, NodeHappening::ToKeeper(action));
            }
            ClusterAction::Leave(member) => self.at_node(ALL_ENDED, node, NodeHappening::Leave(member)),
            request => self.request(node, Request::Lease(request)),
        }
    }
}
