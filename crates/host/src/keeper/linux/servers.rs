//! The keeper's servers and all that descends from them: started, reaped, ended.
//!
//! The process that was started is the server. When it ends badly, what it started ends with it; when it leaves in
//! peace, what it started may go on speaking for it until the server is let go. When everything happens is
//! [`super::role`]'s business: nothing here waits.

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
    HowEnded, Patience,
    census::{Census, Process},
    ending::{AT_ONCE, Ending},
    mark::Mark,
    order::{Report, ServerNumber, Start},
};

/// All servers of one keeper.
#[derive(Debug)]
pub(super) struct Household {
    me: i32,
    servers: BTreeMap<ServerNumber, Server>,
    /// What belongs to no server any more, on its way out.
    strays: Option<Ending>,
    /// All of it, on its way out.
    leaving: Option<Ending>,
    is_childless: bool,
    /// Not before then are descendants looked for again.
    next_look: Instant,
}

#[derive(Debug)]
struct Server {
    /// The process that was started, until it has ended.
    leader: Option<i32>,
    ending: Option<Ending>,
}

/// The processes below the keeper, by whose they are.
#[derive(Default)]
struct Belongings {
    of_servers: BTreeMap<ServerNumber, Vec<Process>>,
    strays: Vec<Process>,
}

/// How soon to look again who is left of a server whose first process has ended.
const AGAIN: Duration = Duration::from_millis(10);
/// Looking may take one part in this many of the time: a machine can have many processes.
const SHARE: u32 = 6;

// === impl Household ===

impl Household {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            me: getpid().as_raw_nonzero().get(),
            servers: BTreeMap::new(),
            strays: None,
            leaving: None,
            is_childless: true,
            next_look: now,
        }
    }

    pub(super) fn start(&mut self, server: ServerNumber, program: &Start, streams: io::Result<[OwnedFd; 3]>) -> Report {
        let started = streams.and_then(|streams| {
            let mut command = command(program, streams);
            Mark::new(self.me, server).worn_during(|| command.spawn())
        });
        match started.map(|child| child.id().cast_signed()) {
            Ok(pid) => {
                self.is_childless = false;
                self.servers.insert(server, Server { leader: Some(pid), ending: None });
                Report::Started { server, pid }
            }
            Err(error) => Report::NotStarted { server, code: error.raw_os_error(), reason: error.to_string() },
        }
    }

    /// Lets go of a server. What is left of it is found by [`Self::go_on`].
    pub(super) fn end(&mut self, server: ServerNumber, patience: Patience, now: Instant) -> Option<Report> {
        let Some(known) = self.servers.get_mut(&server) else { return Some(Report::Gone { server }) };
        known.end(patience, now);
        self.next_look = now;
        None
    }

    /// Lets go of everything.
    pub(super) fn leave(&mut self, patience: Patience, now: Instant) {
        self.leaving = Some(match self.leaving {
            Some(leaving) => leaving.hurried(patience, now),
            None => Ending::new(patience, now),
        });
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    /// Nobody is left. Whoever loses a parent becomes our child, so no child means no descendant.
    pub(super) fn is_empty(&self) -> bool {
        self.is_childless
    }

    /// Sees to children that have ended.
    pub(super) fn reap(&mut self, now: Instant) -> Vec<Report> {
        let mut reports = Vec::new();
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    let how = HowEnded::new(status.exit_status(), status.terminating_signal());
                    reports.extend(self.ended(pid.as_raw_nonzero().get(), how, now));
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

    /// Does what is due by now.
    pub(super) fn go_on(&mut self, now: Instant) -> Vec<Report> {
        if let Some(leaving) = &mut self.leaving {
            if let Some(signal) = leaving.due(now) {
                self.signal_everybody(signal, now);
            }
            return Vec::new();
        }
        let mut signals = BTreeMap::new();
        for (number, server) in &mut self.servers {
            if let Some(signal) = server.ending.as_mut().and_then(|ending| ending.due(now)) {
                signals.insert(*number, signal);
            }
        }
        if signals.is_empty() && !(self.is_looking() && self.next_look <= now) {
            return Vec::new();
        }
        let Some(census) = self.look(now) else { return Vec::new() };
        let belongings = self.belongings(&census);
        for (number, signal) in signals {
            signal_all(belongings.of_servers.get(&number), signal);
        }
        let reports = self.forget_the_gone(&belongings);
        self.end_strays(&census, now);
        reports
    }

    /// When to call [`Self::go_on`] at the latest, if nothing else happens.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        if let Some(leaving) = &self.leaving {
            return Some(leaving.next(now).max(self.next_look));
        }
        let endings = self.servers.values().filter_map(|server| server.ending.as_ref());
        let look = self.is_looking().then_some(self.next_look);
        endings.map(|ending| ending.next(now)).chain(look).min()
    }

    fn ended(&mut self, pid: i32, how: HowEnded, now: Instant) -> Option<Report> {
        let (number, server) = self.servers.iter_mut().find(|(_, server)| server.leader == Some(pid))?;
        server.leader = None;
        if how != HowEnded::Exited(0) && server.ending.is_none() {
            server.end(AT_ONCE, now);
        }
        self.next_look = now;
        Some(Report::Ended { server: *number, how })
    }

    /// As long as the process that was started runs, its server is not gone, and nobody needs to look.
    fn is_looking(&self) -> bool {
        let is_dissolving = |server: &Server| server.leader.is_none() && server.ending.is_some();
        self.strays.is_some()
            || self.servers.values().any(is_dissolving)
            || (self.servers.is_empty() && !self.is_childless)
    }

    fn look(&mut self, now: Instant) -> Option<Census> {
        let began = Instant::now();
        let census = Census::take();
        self.next_look = now + AGAIN.max(began.elapsed() * SHARE);
        match census {
            Ok(census) => Some(census),
            Err(error) => {
                tracing::debug!(%error, "the processes cannot be read");
                None
            }
        }
    }

    fn belongings(&self, census: &Census) -> Belongings {
        let mut belongings = Belongings::default();
        for child in census.children_of(self.me) {
            let is_led = |server: &Server| server.leader == Some(child.pid);
            let led = self.servers.iter().find(|(_, server)| is_led(server)).map(|(number, _)| *number);
            let marked = || Mark::of(child.pid).and_then(|mark| mark.server_of(self.me));
            let descent = census.descent([child.pid]);
            match led.or_else(marked) {
                Some(number) if self.servers.contains_key(&number) => {
                    belongings.of_servers.entry(number).or_default().extend(descent);
                }
                Some(_) => belongings.strays.extend(descent),
                // Without a mark it may be anybody's; whoever it was, they are gone when nobody is left.
                None if self.servers.is_empty() => belongings.strays.extend(descent),
                None => {}
            }
        }
        belongings
    }

    fn forget_the_gone(&mut self, belongings: &Belongings) -> Vec<Report> {
        let is_gone = |number: &ServerNumber, server: &Server| {
            let nobody = belongings.of_servers.get(number).is_none_or(Vec::is_empty);
            server.leader.is_none() && server.ending.is_some() && nobody
        };
        let gone = self.servers.extract_if(.., |number, server| is_gone(number, server));
        gone.map(|(server, _)| Report::Gone { server }).collect()
    }

    fn end_strays(&mut self, census: &Census, now: Instant) {
        let strays = self.belongings(census).strays;
        if strays.is_empty() {
            self.strays = None;
            return;
        }
        let ending = self.strays.get_or_insert_with(|| Ending::new(AT_ONCE, now));
        if let Some(signal) = ending.due(now) {
            signal_all(Some(&strays), signal);
        }
    }

    fn signal_everybody(&mut self, signal: Signal, now: Instant) {
        let Some(census) = self.look(now) else { return };
        let children: Vec<i32> = census.children_of(self.me).map(|process| process.pid).collect();
        signal_all(Some(&census.descent(children)), signal);
    }
}

// === impl Server ===

impl Server {
    fn end(&mut self, patience: Patience, now: Instant) {
        self.ending = Some(match self.ending {
            Some(ending) => ending.hurried(patience, now),
            None => Ending::new(patience, now),
        });
    }
}

/// No shell is involved, and the environment is what the order says.
fn command(program: &Start, [input, output, errors]: [OwnedFd; 3]) -> Command {
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
