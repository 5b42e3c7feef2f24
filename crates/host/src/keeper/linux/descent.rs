//! Finds out whether a process descends from a keeper: by the mark that it has inherited, else by its ancestors.

use rustix::process::getpid;

use super::{Descent, mark, process, process_snapshot::Process};

/// Walks to the first ancestor before the result is unknown. Another one is needed only if an ancestor ends meanwhile.
const WALKS: usize = 16;

pub(in crate::keeper) fn own_descent() -> Descent {
    if mark::is_marked() { Descent::Marked } else { by_ancestors(getpid().as_raw_nonzero().get()) }
}

pub(in crate::keeper) fn descent(process: u32) -> Descent {
    let Ok(pid) = i32::try_from(process) else { return Descent::Unknown };
    match mark::is_process_marked(pid) {
        Some(true) => Descent::Marked,
        Some(false) => by_ancestors(pid),
        None => Descent::Unknown,
    }
}

fn by_ancestors(pid: i32) -> Descent {
    (0..WALKS).find_map(|_| walk(pid)).unwrap_or(Descent::Unknown)
}

/// Looks for a keeper, and for this process, from a process up to the first one; `None` if one of them ended meanwhile.
fn walk(pid: i32) -> Option<Descent> {
    let ours = getpid().as_raw_nonzero().get();
    let mut child = Process::read(pid)?;
    loop {
        let parent = Process::read(child.parent);
        let is_keeper = child.parent == ours || process::is_keeper(child.parent);
        if !child.has_same_parent() {
            return None;
        }
        match parent {
            _ if is_keeper => return Some(Descent::Ancestor { pid: child.parent.unsigned_abs() }),
            Some(parent) => child = parent,
            // The first process, or one that the system hides (`hidepid`, a namespace).
            None => return Some(Descent::Independent),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::{Descent, descent, own_descent};

    #[test]
    fn children_are_servers_and_our_parent_is_not() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert_eq!(descent(child.id()), Descent::Ancestor { pid: std::process::id() });
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(descent(u32::MAX), Descent::Unknown, "a process that has ended may have been one");
        assert_eq!(descent(std::process::id()), Descent::Independent);
        assert_eq!(descent(std::os::unix::process::parent_id()), Descent::Independent);
        assert_eq!(own_descent(), Descent::Independent);
    }

    #[test]
    fn a_limit_on_file_locks_marks_a_process_and_its_children() {
        let script = "ulimit -x 4611686018427387904; sh -c 'sleep 60 & echo $!; read line; kill $!'";
        let mut shell =
            Command::new("bash").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(shell.stdout.take().unwrap()), &mut line).unwrap();
        assert_eq!(descent(line.trim().parse().unwrap()), Descent::Marked);
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }
}
