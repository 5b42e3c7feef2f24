//! The keepers of the simulated gateways and the processes they start. A keeper does not sleep with its gateway.

use toolway_config::ServerName;
use toolway_gateway::cluster::{ClockTime, ClusterAction};
use toolway_host::cluster::LeaseKey;

use super::world::{At, Happening, SECOND, World};

/// One process of a server.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) server: String,
    node: usize,
    life: u32,
    /// By the clock of its node.
    until: ClockTime,
    is_ending: bool,
    /// Another one is wanted once it has ended.
    next_until: Option<ClockTime>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum KeeperHappening {
    /// The time of a process may be over.
    Due,
    /// A process has ended.
    Ended,
}

/// How long a process takes to end.
const END_TIME: At = 2 * SECOND;

pub(super) fn key(server: &ServerName) -> LeaseKey {
    LeaseKey::Cluster(server.clone())
}

impl World {
    pub(super) fn tell_keeper(&mut self, node: usize, action: ClusterAction) {
        match action {
            ClusterAction::AllowServer { server, until } => self.allow(node, server.as_str(), until),
            _ => self.end_processes_of(node),
        }
    }

    fn allow(&mut self, node: usize, server: &str, until: ClockTime) {
        let here = &self.nodes[node];
        if until <= here.clock(self.now) {
            return;
        }
        let life = here.life;
        let due = here.true_time(until);
        let own = |process: &&mut Process| process.server == server && process.node == node && process.life == life;
        match self.invariants.processes.values_mut().find(own) {
            Some(process) if process.is_ending => process.next_until = Some(until),
            Some(process) => process.until = process.until.max(until),
            None => {
                let process =
                    Process { server: server.to_owned(), node, life, until, is_ending: false, next_until: None };
                let number = self.invariants.process_has_started(process);
                self.after(due - self.now, Happening::AtKeeper { process: number, what: KeeperHappening::Due });
            }
        }
    }

    pub(super) fn happen_at_keeper(&mut self, number: u64, what: KeeperHappening) {
        let Some(process) = self.invariants.processes.get(&number) else { return };
        let node = process.node;
        match what {
            KeeperHappening::Due if process.is_ending => {}
            KeeperHappening::Due if self.nodes[node].clock(self.now) < process.until => {
                let due = self.nodes[node].true_time(process.until);
                self.after(due - self.now, Happening::AtKeeper { process: number, what: KeeperHappening::Due });
            }
            KeeperHappening::Due => self.end_process(number),
            KeeperHappening::Ended => {
                let Some(process) = self.invariants.processes.remove(&number) else { return };
                if let Some(until) = process.next_until.filter(|_| self.nodes[node].life == process.life) {
                    self.allow(node, &process.server, until);
                }
            }
        }
    }

    /// Ends the processes that earlier and present gateways of a node have started.
    pub(super) fn end_processes_of(&mut self, node: usize) {
        let own = self.invariants.processes.iter_mut().filter(|(_, process)| process.node == node);
        let numbers: Vec<u64> = own
            .map(|(number, process)| {
                process.next_until = None;
                *number
            })
            .collect();
        numbers.into_iter().for_each(|number| self.end_process(number));
    }

    fn end_process(&mut self, number: u64) {
        let Some(process) = self.invariants.processes.get_mut(&number).filter(|process| !process.is_ending) else {
            return;
        };
        process.is_ending = true;
        let delay = self.random.below(END_TIME);
        self.after(delay, Happening::AtKeeper { process: number, what: KeeperHappening::Ended });
    }
}
