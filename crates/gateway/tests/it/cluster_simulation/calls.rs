//! Calls of the simulated gateways: recorded, marked, sent, answered, recorded again, and told to their clients.

use toolway_host::{
    cluster::{LeaseError, Member},
    record::Delivery,
};
use toolway_testkit::lease_stories::CallWrite;
use uuid::Uuid;

use super::world::{At, MILLISECOND, NodeHappening, Request, SECOND, World};

/// A call that has not been told to its client.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeCall {
    by: Member,
    is_written: bool,
    /// What its record shall say, and since when.
    ending: Option<(Delivery, At)>,
    is_told: bool,
}

#[derive(Debug)]
pub(super) enum CallReply {
    Begun(Result<CallWrite, LeaseError>),
    Marked(Result<CallWrite, LeaseError>),
    Ended(Result<CallWrite, LeaseError>),
}

/// How long an answer waits to be recorded.
const HELD: At = 10 * SECOND;

impl World {
    pub(super) fn new_call(&mut self, node: usize) {
        if self.faults_go_on() {
            let pause = self.random.below(6 * SECOND);
            self.at_node(pause, node, NodeHappening::NewCall);
        } else {
            return;
        }
        let Some(by) = self.nodes[node].valid_member(self.now) else { return };
        let call = Uuid::from_u64_pair(self.random.below(u64::MAX), self.now);
        self.nodes[node].calls.insert(call, NodeCall { by, is_written: false, ending: None, is_told: false });
        self.request(node, Request::Begin { by, call });
    }

    pub(super) fn call_reply(&mut self, node: usize, call: Uuid, reply: CallReply) {
        let Some(known) = self.nodes[node].calls.get(&call).copied() else { return };
        let is_valid = self.nodes[node].valid_member(self.now) == Some(known.by);
        match reply {
            CallReply::Begun(Ok(CallWrite::Written)) if is_valid => {
                self.request(node, Request::MarkSent { by: known.by, call });
            }
            CallReply::Marked(Ok(CallWrite::Written)) if is_valid => {
                let delay = self.random.below(5 * MILLISECOND);
                self.at_node(delay, node, NodeHappening::SendBytes(call));
            }
            // Whether the write has succeeded is not known.
            CallReply::Begun(Ok(CallWrite::Written) | Err(LeaseError::Store(_)))
            | CallReply::Marked(Ok(CallWrite::Written) | Err(LeaseError::Store(_))) => {
                self.end(node, call, Delivery::NotSent);
            }
            CallReply::Begun(_) | CallReply::Marked(_) => self.tell(node, call, Delivery::NotSent),
            CallReply::Ended(result) => self.end_reply(node, call, known, &result),
        }
    }

    fn end_reply(&mut self, node: usize, call: Uuid, known: NodeCall, result: &Result<CallWrite, LeaseError>) {
        let Some((outcome, since)) = known.ending else { return };
        match result {
            Ok(_) => self.tell(node, call, outcome),
            Err(LeaseError::Fenced(_)) => self.tell(node, call, unrecorded(outcome)),
            Err(LeaseError::Store(_)) => {
                let outcome = if HELD < self.now - since { unrecorded(outcome) } else { outcome };
                if HELD < self.now - since && !known.is_told {
                    self.invariants.client_was_told(call, outcome);
                    self.nodes[node].calls.insert(call, NodeCall { is_told: true, ..known });
                }
                self.end(node, call, outcome);
            }
        }
    }

    /// The first byte leaves the process.
    pub(super) fn send_bytes(&mut self, node: usize, call: Uuid) {
        let Some(known) = self.nodes[node].calls.get_mut(&call) else { return };
        known.is_written = true;
        self.invariants.server_has_acted(call);
        let delay = self.random.below(3 * SECOND);
        self.at_node(delay, node, NodeHappening::Answered(call));
    }

    pub(super) fn answered(&mut self, node: usize, call: Uuid) {
        self.end(node, call, Delivery::Answered);
    }

    /// The lease of these calls is lost.
    pub(super) fn end_calls(&mut self, node: usize, by: Member) {
        let calls: Vec<Uuid> =
            self.nodes[node].calls.iter().filter(|(_, call)| call.by == by).map(|(id, _)| *id).collect();
        for call in calls {
            let is_written = self.nodes[node].calls.get(&call).is_some_and(|call| call.is_written);
            self.tell(node, call, if is_written { Delivery::Unknown } else { Delivery::NotSent });
        }
    }

    fn end(&mut self, node: usize, call: Uuid, outcome: Delivery) {
        let now = self.now;
        let Some(known) = self.nodes[node].calls.get_mut(&call) else { return };
        let since = known.ending.map_or(now, |(_, since)| since);
        known.ending = Some((outcome, since));
        let by = known.by;
        self.request(node, Request::End { by, call, outcome });
    }

    fn tell(&mut self, node: usize, call: Uuid, outcome: Delivery) {
        let known = self.nodes[node].calls.remove(&call);
        if known.is_some_and(|known| !known.is_told) {
            self.invariants.client_was_told(call, outcome);
        }
    }
}

/// What a client is told if the end was not recorded.
fn unrecorded(outcome: Delivery) -> Delivery {
    if outcome == Delivery::NotSent { outcome } else { Delivery::Unknown }
}
