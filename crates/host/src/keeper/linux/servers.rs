//! The servers of the keeper and their descendants: started, reaped, ended.
//!
//! If the started process of a server fails, its descendants are ended with it. If it exits with status 0, they may
//! continue until the server is closed. [`super::process`] decides when; nothing here waits.

use std::{
    collections::BTreeMap,
    io,
    os::{fd::OwnedFd, unix::process::CommandExt},
    process::Command,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    process::{Signal, WaitOptions, getpid},
};

use super::{
    ProcessExit, ShutdownTimeouts,
    mark::Mark,
    process_snapshot::{Process, ProcessSnapshot},
    protocol::{KeeperReport, ProgramSpec, ServerNumber},
    termination::{AT_ONCE, Termination},
};

/// All servers of a keeper.
#[derive(Debug)]
pub(super) struct KeptServers {
    me: i32,
    servers: BTreeMap<ServerNumber, Server>,
    /// Set while processes that belong to no server are being ended.
    strays: Option<Termination>,
    /// Set while everything is being ended.
    shutdown: Option<Termination>,
    is_childless: bool,
    /// Time of the next process snapshot.
    next_snapshot: Instant,
}

#[derive(Debug)]
struct Server {
    /// Id of the started process, until it has ended.
    leader: Option<i32>,
    termination: Option<Termination>,
}

/// The descendants of the keeper, by server.
#[derive(Default)]
struct ProcessOwners {
    of_servers: BTreeMap<ServerNumber, Vec<Process>>,
    strays: Vec<Process>,
}

/// Shortest time between two process snapshots.
const SNAPSHOT_INTERVAL: Duration = Duration::from_millis(10);
/// Snapshots may take at most one part in this many of the time, because there may be many processes.
const SNAPSHOT_SHARE: u32 = 6;

// === impl KeptServers ===

impl KeptServers {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            me: getpid().as_raw_nonzero().get(),
            servers: BTreeMap::new(),
            strays: None,
            shutdown: None,
            is_childless: true,
            next_snapshot: now,
        }
    }

    pub(super) fn start(
        &mut self,
        server: ServerNumber,
        program: &ProgramSpec,
        streams: io::Result<[OwnedFd; 3]>,
    ) -> KeeperReport {
        let started = streams.and_then(|streams| {
            let mut command = command(program, streams);
            Mark::new(self.me, server).apply_during(|| command.spawn())
        });
        match started.map(|child| child.id().cast_signed()) {
            Ok(pid) => {
                self.is_childless = false;
                self.servers.insert(server, Server { leader: Some(pid), termination: None });
                KeeperReport::Started { server, pid }
            }
            Err(error) => KeeperReport::NotStarted { server, code: error.raw_os_error(), reason: error.to_string() },
        }
    }

    /// Ends a server. [`Self::advance`] ends its remaining processes.
    pub(super) fn end(
        &mut self,
        server: ServerNumber,
        timeouts: ShutdownTimeouts,
        now: Instant,
    ) -> Option<KeeperReport> {
        let Some(known) = self.servers.get_mut(&server) else { return Some(KeeperReport::Gone { server }) };
        known.end(timeouts, now);
        self.next_snapshot = now;
        None
    }

    /// Ends all servers.
    pub(super) fn shut_down(&mut self, timeouts: ShutdownTimeouts, now: Instant) {
        self.shutdown = Some(match self.shutdown {
            Some(shutdown) => shutdown.shortened(timeouts, now),
            None => Termination::new(timeouts, now),
        });
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        self.shutdown.is_some()
    }

    /// Whether no process is left. Orphans become our children, so no child means no descendant.
    pub(super) fn is_empty(&self) -> bool {
        self.is_childless
    }

    /// Reaps ended children.
    pub(super) fn reap(&mut self, now: Instant) -> Vec<KeeperReport> {
        let mut reports = Vec::new();
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    let how = ProcessExit::new(status.exit_status(), status.terminating_signal());
                    reports.extend(self.handle_exit(pid.as_raw_nonzero().get(), how, now));
                }
                Ok(None) => break,
                Err(Errno::INTR) => {}
                Err(_) => {
                    self.is_childless = true;
                    break;
                }
            }
        }
        reports
    }

    /// Sends the signals that are due, and finds servers that are gone.
    pub(super) fn advance(&mut self, now: Instant) -> Vec<KeeperReport> {
        if let Some(shutdown) = &mut self.shutdown {
            if let Some(signal) = shutdown.due(now) {
                self.signal_all_descendants(signal, now);
            }
            return Vec::new();
        }
        let mut signals = BTreeMap::new();
        for (number, server) in &mut self.servers {
            if let Some(signal) = server.termination.as_mut().and_then(|termination| termination.due(now)) {
                signals.insert(*number, signal);
            }
        }
        if signals.is_empty() && !(self.needs_snapshot() && self.next_snapshot <= now) {
            return Vec::new();
        }
        let Some(snapshot) = self.take_snapshot(now) else { return Vec::new() };
        let owners = self.owners(&snapshot);
        for (number, signal) in signals {
            signal_all(owners.of_servers.get(&number), signal);
        }
        let reports = self.remove_gone(&owners);
        self.end_strays(&snapshot, now);
        reports
    }

    /// When to call [`Self::advance`] at the latest.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        if let Some(shutdown) = &self.shutdown {
            return Some(shutdown.next(now).max(self.next_snapshot));
        }
        let terminations = self.servers.values().filter_map(|server| server.termination.as_ref());
        let next_snapshot = self.needs_snapshot().then_some(self.next_snapshot);
        terminations.map(|termination| termination.next(now)).chain(next_snapshot).min()
    }

    fn handle_exit(&mut self, pid: i32, how: ProcessExit, now: Instant) -> Option<KeeperReport> {
        let (number, server) = self.servers.iter_mut().find(|(_, server)| server.leader == Some(pid))?;
        server.leader = None;
        if how != ProcessExit::Exited(0) && server.termination.is_none() {
            server.end(AT_ONCE, now);
        }
        self.next_snapshot = now;
        Some(KeeperReport::Ended { server: *number, how })
    }

    /// Whether process snapshots are needed: a server is not gone while its started process runs.
    fn needs_snapshot(&self) -> bool {
        let is_dissolving = |server: &Server| server.leader.is_none() && server.termination.is_some();
        self.strays.is_some()
            || self.servers.values().any(is_dissolving)
            || (self.servers.is_empty() && !self.is_childless)
    }

    fn take_snapshot(&mut self, now: Instant) -> Option<ProcessSnapshot> {
        let began = Instant::now();
        let snapshot = ProcessSnapshot::take();
        self.next_snapshot = now + SNAPSHOT_INTERVAL.max(began.elapsed() * SNAPSHOT_SHARE);
        match snapshot {
            Ok(snapshot) => Some(snapshot),
            Err(error) => {
                tracing::debug!(%error, "cannot read the process table");
                None
            }
        }
    }

    fn owners(&self, snapshot: &ProcessSnapshot) -> ProcessOwners {
        let mut owners = ProcessOwners::default();
        for child in snapshot.children_of(self.me) {
            let is_led = |server: &Server| server.leader == Some(child.pid);
            let led = self.servers.iter().find(|(_, server)| is_led(server)).map(|(number, _)| *number);
            let marked = || Mark::of(child.pid).and_then(|mark| mark.server_of(self.me));
            let descendants = snapshot.descendants([child.pid]);
            match led.or_else(marked) {
                Some(number) if self.servers.contains_key(&number) => {
                    owners.of_servers.entry(number).or_default().extend(descendants);
                }
                Some(_) => owners.strays.extend(descendants),
                // Without a mark its server is unknown; it is a stray once no server is left.
                None if self.servers.is_empty() => owners.strays.extend(descendants),
                None => {}
            }
        }
        owners
    }

    fn remove_gone(&mut self, owners: &ProcessOwners) -> Vec<KeeperReport> {
        let is_gone = |number: &ServerNumber, server: &Server| {
            let is_empty = owners.of_servers.get(number).is_none_or(Vec::is_empty);
            server.leader.is_none() && server.termination.is_some() && is_empty
        };
        let gone = self.servers.extract_if(.., |number, server| is_gone(number, server));
        gone.map(|(server, _)| KeeperReport::Gone { server }).collect()
    }

    fn end_strays(&mut self, snapshot: &ProcessSnapshot, now: Instant) {
        let strays = self.owners(snapshot).strays;
        if strays.is_empty() {
            self.strays = None;
            return;
        }
        let termination = self.strays.get_or_insert_with(|| Termination::new(AT_ONCE, now));
        if let Some(signal) = termination.due(now) {
            signal_all(Some(&strays), signal);
        }
    }

    fn signal_all_descendants(&mut self, signal: Signal, now: Instant) {
        let Some(snapshot) = self.take_snapshot(now) else { return };
        let children: Vec<i32> = snapshot.children_of(self.me).map(|process| process.pid).collect();
        signal_all(Some(&snapshot.descendants(children)), signal);
    }
}

// === impl Server ===

impl Server {
    fn end(&mut self, timeouts: ShutdownTimeouts, now: Instant) {
        self.termination = Some(match self.termination {
            Some(termination) => termination.shortened(timeouts, now),
            None => Termination::new(timeouts, now),
        });
    }
}

/// Without a shell, with exactly the given environment.
fn command(program: &ProgramSpec, [input, output, errors]: [OwnedFd; 3]) -> Command {
    let mut command = Command::new(&program.command);
    command.args(&program.arguments).env_clear().envs(program.environment.iter().cloned());
    command.current_dir(&program.directory).process_group(0);
    command.stdin(input).stdout(output).stderr(errors);
    command
}

fn signal_all(processes: Option<&Vec<Process>>, signal: Signal) {
    for process in processes.into_iter().flatten() {
        process.signal(signal);
    }
}
