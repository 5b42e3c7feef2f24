//! Memory of the processes of servers, with everything that they started. Read on request only.

use std::collections::BTreeMap;

/// Resident memory of all processes, with their parents. Empty where the system has no `/proc`.
#[derive(Debug, Default)]
pub struct ProcessMemory(BTreeMap<u32, ProcessEntry>);

#[derive(Debug)]
struct ProcessEntry {
    parent: u32,
    bytes: u64,
}

impl ProcessMemory {
    /// Reads all processes of the machine. Takes some milliseconds.
    pub fn read() -> Self {
        let folders = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = folders.filter_map(|folder| folder.file_name().to_str()?.parse::<u32>().ok());
        Self(numbers.filter_map(|process| Some((process, ProcessEntry::read(process)?))).collect())
    }

    /// Bytes of the process with everything that it started; `None` if it is unknown. Pages that processes share count
    /// once for each.
    pub fn of(&self, process: u32) -> Option<u64> {
        let mut bytes = self.0.get(&process)?.bytes;
        let mut tree = vec![process];
        // The snapshot is not of one moment, so a cycle of reused ids must end.
        for _ in 0..self.0.len() {
            let Some(parent) = tree.pop() else { break };
            for (child, entry) in self.0.iter().filter(|(child, entry)| entry.parent == parent && **child != process) {
                bytes += entry.bytes;
                tree.push(*child);
            }
        }
        Some(bytes)
    }
}

impl ProcessEntry {
    fn read(process: u32) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{process}/status")).ok()?)
    }

    fn parse(status: &str) -> Option<Self> {
        let number = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        Some(Self { parent: u32::try_from(number("PPid:")?).ok()?, bytes: number("VmRSS:").unwrap_or(0) * 1024 })
    }
}

#[cfg(test)]
mod tests {
    use super::{ProcessEntry, ProcessMemory};

    #[test]
    fn memory_is_that_of_all_that_a_process_started() {
        let entry = |parent, bytes| ProcessEntry { parent, bytes };
        let memory = ProcessMemory([(7, entry(1, 40)), (8, entry(7, 30)), (9, entry(8, 5)), (10, entry(1, 9))].into());
        assert_eq!(memory.of(7), Some(75));
        assert_eq!(memory.of(10), Some(9));
        assert_eq!(memory.of(11), None);
    }

    #[test]
    fn memory_is_read_in_kilobytes() {
        let read = ProcessEntry::parse("Name:\tnode\nPPid:\t12\nVmRSS:\t  76800 kB\n").unwrap();
        assert_eq!((read.parent, read.bytes), (12, 76_800 * 1024));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn own_process_has_memory() {
        assert!(ProcessMemory::read().of(std::process::id()).unwrap() > 0);
    }
}
