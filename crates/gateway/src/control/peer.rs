//! Whether a control request comes from the user or from a process that the gateway has started.

/// Whether the peer is a process that the gateway has started, or one that such a process has started. A peer that cannot
/// be examined counts as one.
pub(super) fn is_descendant(peer: Option<i32>) -> bool {
    peer.and_then(|process| u32::try_from(process).ok()).is_none_or(descends_from_us)
}

/// Whether a process is one of ours. The keeper is our child and adopts orphans, so that every process of a server is.
#[cfg(target_os = "linux")]
fn descends_from_us(process: u32) -> bool {
    let ours = std::process::id();
    let mut at = process;
    loop {
        // The same process may embed the gateway and its client.
        match parent(at) {
            Some(parent) if parent == ours => return true,
            Some(0 | 1) => return false,
            Some(parent) => at = parent,
            None => return true,
        }
    }
}

/// The parent of a process; `None` if it has ended.
#[cfg(target_os = "linux")]
fn parent(process: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in parentheses may contain anything.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Parents of processes are not examined here; `docs/security.md` says what that means.
#[cfg(not(target_os = "linux"))]
fn descends_from_us(_process: u32) -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::{Command, Stdio};

    use super::descends_from_us;

    #[test]
    fn children_are_ours_and_our_parent_is_not() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(descends_from_us(child.id()));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(descends_from_us(u32::MAX), "a process that has ended may have been one");
        assert!(!descends_from_us(std::process::id()) && !descends_from_us(std::os::unix::process::parent_id()));
    }
}
