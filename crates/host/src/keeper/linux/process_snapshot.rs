//! Who runs, and who descends from whom: one reading of `/proc`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Every process, at one moment.
#[derive(Debug, Default)]
pub(super) struct Census {
    processes: BTreeMap<i32, Process>,
}

/// What a census knows of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) session: i32,
    /// It has ended, and nobody has asked how.
    pub(super) is_zombie: bool,
    /// When it began; with its number it is unmistakable.
    began: u64,
}

// === impl Census ===

impl Census {
    pub(super) fn take() -> io::Result<Self> {
        let pids = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        Ok(Self { processes: pids.filter_map(|pid| Some((pid, Process::look(pid)?))).collect() })
    }

    pub(super) fn children_of(&self, parent: i32) -> impl Iterator<Item = &Process> {
        self.processes.values().filter(move |process| process.parent == parent)
    }

    /// These and all that descend from them, without those that have ended.
    pub(super) fn descent(&self, roots: impl IntoIterator<Item = i32>) -> Vec<Process> {
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
    /// `None` when it is gone.
    pub(super) fn look(pid: i32) -> Option<Self> {
        Self::read(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn read(pid: i32, stat: &str) -> Option<Self> {
        // The name comes first, in parentheses, and can contain anything.
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        Some(Self {
            pid,
            is_zombie: matches!(*fields.first()?, "Z" | "X"),
            parent: fields.get(1)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            began: fields.get(19)?.parse().ok()?,
        })
    }

    /// Signals this very process, not one that has its number by now.
    pub(super) fn signal(&self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else { return };
        let signalled = pidfd_open(pid, PidfdFlags::empty()).and_then(|held| {
            let is_same = Self::look(self.pid).is_some_and(|now| now.began == self.began);
            if is_same { pidfd_send_signal(held, signal) } else { Ok(()) }
        });
        if let Err(error) = signalled {
            tracing::debug!(%error, pid = self.pid, "a process could not be signalled");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::{Census, Process};

    #[test]
    fn a_name_can_contain_anything() {
        let stat = "17 (a) Z 1 (b) S 4 5 6 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 87654 2285568 0";
        let process = Process { pid: 17, parent: 4, session: 6, is_zombie: false, began: 87654 };
        assert_eq!(Process::read(17, stat), Some(process));
        assert_eq!(Process::read(17, "17 (a)"), None);
    }

    #[test]
    fn a_descent_has_grandchildren_and_no_zombies() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 60 & read line; kill $!"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pid = i32::try_from(shell.id()).unwrap();
        let descent = loop {
            let descent = Census::take().unwrap().descent([pid]);
            if descent.len() == 2 {
                break descent;
            }
        };
        assert!(descent.iter().any(|process| process.parent == pid));
        drop(shell.stdin.take());
        while !Census::take().unwrap().descent([pid]).is_empty() {}
        shell.wait().unwrap();
    }
}
