//! Memory of processes, and the keeper process of this one, for measuring examples.

use std::fs;

/// Process id of the keeper of this process, if there is one.
pub fn keeper() -> Option<String> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().filter_map(Result::ok);
    let children = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let pids: Vec<String> = children.flat_map(|pids| pids.split(' ').map(str::to_owned).collect::<Vec<_>>()).collect();
    let is_keeper = |pid: &String| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|it| it == "mcp-keeper\n");
    pids.into_iter().find(is_keeper)
}

/// Memory of a process in KiB from `smaps_rollup`: `Rss`, `Pss`. `None` if it cannot be read.
pub fn kilobytes(pid: &str, name: &str) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find(|line| line.split(':').next() == Some(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::{keeper, kilobytes};

    #[test]
    fn memory_of_this_process_is_read_and_there_is_no_keeper() {
        let (rss, pss) = (kilobytes("self", "Rss").unwrap(), kilobytes("self", "Pss").unwrap());
        assert!(0 < pss && pss <= rss, "{pss} of {rss}");
        assert_eq!(kilobytes("self", "Weight"), None);
        assert_eq!(keeper(), None);
    }
}
