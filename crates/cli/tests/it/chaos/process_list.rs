//! Processes found by a variable in their environment, which survives reparenting; their open files and memory.

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

/// Variable that marks every process of a test.
pub(super) const VARIABLE: &str = "TOOLWAY_CHAOS";

/// The processes of a test by PID, with their command lines.
pub(super) fn processes(mark: &str) -> BTreeMap<i32, String> {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| is_marked(*pid, mark)).map(|pid| (pid, command_line(pid))).collect()
}

/// Waits until the processes satisfy a condition.
#[track_caller]
pub(super) fn until(mark: &str, patience: Duration, such: impl Fn(&BTreeMap<i32, String>) -> bool) {
    let began = Instant::now();
    loop {
        let there = processes(mark);
        if such(&there) {
            return;
        }
        assert!(began.elapsed() < patience, "after {patience:?} there are still {there:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The open files of a process.
pub(super) fn files(pid: u32) -> Vec<String> {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let mut names: Vec<String> =
        open.filter_map(|entry| Some(fs::read_link(entry.ok()?.path()).ok()?.display().to_string())).collect();
    names.sort_unstable();
    names
}

/// Proportional memory of a process in kilobytes.
pub(super) fn memory(pid: u32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = rollup.lines().find(|line| line.starts_with("Pss:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Sends SIGKILL; the process may have exited already.
pub(super) fn kill(pid: i32) {
    let _gone = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
}

fn is_marked(pid: i32, mark: &str) -> bool {
    let wanted = format!("{VARIABLE}={mark}");
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
}

fn command_line(pid: i32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ").trim_end().to_owned()
}
