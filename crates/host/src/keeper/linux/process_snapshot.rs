//! All running processes and their parents: one reading of `/proc`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// All processes at one moment.
#[derive(Debug, Default)]
pub(super) struct ProcessSnapshot {
    processes: BTreeMap<i32, Process>,
}

/// One process of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) session: i32,
    /// Ended and not reaped yet.
    pub(super) is_zombie: bool,
    /// Start time; unique together with the id.
    started_at: u64,
}

// === impl ProcessSnapshot ===

impl ProcessSnapshot {
    pub(super) fn take() -> io::Result<Self> {
        let pids = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        Ok(Self { processes: pids.filter_map(|pid| Some((pid, Process::read(pid)?))).collect() })
    }

    pub(super) fn children_of(&self, parent: i32) -> impl Iterator<Item = &Process> {
        self.processes.values().filter(move |process| process.parent == parent)
    }

    /// These processes and all their descendants, without those that have ended.
    pub(super) fn descendants(&self, roots: impl IntoIterator<Item = i32>) -> Vec<Process> {
        let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for process in self.processes.values() {
            children.entry(process.parent).or_default().push(process.pid);
        }
        let (mut to_visit, mut seen): (Vec<i32>, _) = (roots.into_iter().collect(), BTreeSet::new());
        while let Some(pid) = to_visit.pop() {
            if seen.insert(pid) {
                to_visit.extend(children.get(&pid).into_iter().flatten());
            }
        }
        let known = seen.iter().filter_map(|pid| self.processes.get(pid));
        known.filter(|process| !process.is_zombie).copied().collect()
    }
}

// === impl Process ===

impl Process {
    /// Reads one process; `None` if it is gone.
    pub(super) fn read(pid: i32) -> Option<Self> {
        Self::parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(pid: i32, stat: &str) -> Option<Self> {
        // The name comes first, in parentheses, and may contain any character.
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        Some(Self {
            pid,
            is_zombie: matches!(*fields.first()?, "Z" | "X"),
            parent: fields.get(1)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            started_at: fields.get(19)?.parse().ok()?,
        })
    }

    /// Whether this process still runs and has the same parent. The parent has not ended since this process was read then,
    /// because a process hands its children over before its id is free.
    pub(super) fn has_same_parent(&self) -> bool {
        let is_same = |now: Self| now.started_at == self.started_at && now.parent == self.parent && !now.is_zombie;
        Self::read(self.pid).is_some_and(is_same)
    }

    /// Signals this process, but not another one that has got its id.
    pub(super) fn signal(&self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else { return };
        let signalled = pidfd_open(pid, PidfdFlags::empty()).and_then(|held| {
            let is_same = Self::read(self.pid).is_some_and(|now| now.started_at == self.started_at);
            if is_same { pidfd_send_signal(held, signal) } else { Ok(()) }
        });
        if let Err(error) = signalled {
            tracing::debug!(%error, pid = self.pid, "cannot signal a process");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::{Process, ProcessSnapshot};

    #[test]
    fn process_name_may_contain_any_character() {
        let stat = "17 (a) Z 1 (b) S 4 5 6 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 87654 2285568 0";
        let process = Process { pid: 17, parent: 4, session: 6, is_zombie: false, started_at: 87654 };
        assert_eq!(Process::parse(17, stat), Some(process));
        assert_eq!(Process::parse(17, "17 (a)"), None);
    }

    #[test]
    fn descendants_include_grandchildren_but_no_zombies() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 60 & read line; kill $!"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pid = i32::try_from(shell.id()).unwrap();
        let descendants = loop {
            let descendants = ProcessSnapshot::take().unwrap().descendants([pid]);
            if descendants.len() == 2 {
                break descendants;
            }
        };
        assert!(descendants.iter().any(|process| process.parent == pid));
        drop(shell.stdin.take());
        while !ProcessSnapshot::take().unwrap().descendants([pid]).is_empty() {}
        shell.wait().unwrap();
    }
}
