//! Processes found by a variable in their environment, which survives reparenting; their open files and memory.
//!
//! The environment of a keeper is empty; it is found by its arguments, which name its gateway.

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};

/// Variable that marks every process of a test.
pub(super) const VARIABLE: &str = "TOOLWAY_CHAOS";

/// The arguments of a keeper, before the PID of its gateway.
const KEEPER: [&str; 2] = ["mcp-keeper", "keep-the-servers-of"];
/// The mark of every started gateway by PID, also after its end.
static GATEWAYS: Mutex<BTreeMap<i32, String>> = Mutex::new(BTreeMap::new());

/// Registers a gateway, whose keeper belongs to the same test.
pub(super) fn register(gateway: u32, mark: &str) {
    GATEWAYS.lock().insert(gateway.cast_signed(), mark.to_owned());
}

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

/// The open files of a process; for a pipe, also how it is opened.
pub(super) fn files(pid: u32) -> Vec<String> {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let mut names: Vec<String> = open
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let name = fs::read_link(&path).ok()?.display().to_string();
            let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", path.file_name()?.to_str()?)).ok()?;
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap_or_default().trim();
            let mode = if flags.ends_with('1') { " to write" } else { " to read" };
            Some(if name.starts_with("pipe:") { name + mode } else { name })
        })
        .collect();
    names.sort_unstable();
    names
}

/// The other processes that have one of these files open, with their command lines.
pub(super) fn holders(pid: u32, names: &[&str]) -> Vec<String> {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let held = |other: i32| -> Vec<String> {
        let open = fs::read_dir(format!("/proc/{other}/fd")).into_iter().flatten();
        let open = open.filter_map(|entry| Some(fs::read_link(entry.ok()?.path()).ok()?.display().to_string()));
        open.filter(|open| names.contains(&open.as_str())).collect()
    };
    let others = pids.filter(|other| *other != pid.cast_signed());
    others
        .map(|other| (other, held(other)))
        .filter(|(_, held)| !held.is_empty())
        .map(|(other, held)| format!("{held:?} by {other} {}", command_line(other)))
        .collect()
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
        || gateway_of_keeper(pid).is_some_and(|gateway| GATEWAYS.lock().get(&gateway).is_some_and(|of| of == mark))
}

/// The gateway of a process, if the process is a keeper.
fn gateway_of_keeper(pid: i32) -> Option<i32> {
    let arguments = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
    let mut arguments = arguments.split('\0');
    let is_keeper = arguments.by_ref().take(KEEPER.len()).eq(KEEPER);
    is_keeper.then(|| arguments.next()?.parse().ok())?
}

fn command_line(pid: i32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ").trim_end().to_owned()
}
