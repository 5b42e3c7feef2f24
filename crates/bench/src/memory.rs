//! Memory use of a `toolway` process, including its keeper process.

use std::{fs, io, path::PathBuf};

/// Proportional set size in bytes, of a process and of its descendants that run the same executable.
pub(crate) fn proportional_set_size(process: u32) -> io::Result<u64> {
    ours(process)?.into_iter().map(|process| kilobytes(process, "smaps_rollup", "Pss:")).sum()
}

/// The largest resident set since [`reset_peak`], in bytes.
pub(crate) fn peak(process: u32) -> io::Result<u64> {
    kilobytes(process, "status", "VmHWM:")
}

/// Resets the peak.
pub(crate) fn reset_peak(process: u32) -> io::Result<()> {
    fs::write(format!("/proc/{process}/clear_refs"), "5")
}

fn kilobytes(process: u32, file: &str, name: &str) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/{file}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.split_whitespace().next()).unwrap_or_default();
    number.parse::<u64>().map(|number| number * 1024).map_err(io::Error::other)
}

/// The process and its descendants of the same executable.
fn ours(process: u32) -> io::Result<Vec<u32>> {
    let executable = executable(process);
    let mut found = vec![process];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        next += 1;
        found.extend(children(parent)?.into_iter().filter(|child| self::executable(*child) == executable));
    }
    Ok(found)
}

fn executable(process: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/exe")).ok()
}

fn children(parent: u32) -> io::Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Ok(process) = entry?.file_name().to_string_lossy().parse::<u32>() else { continue };
        // A process may end while it is inspected.
        let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else { continue };
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        if after_name.split_whitespace().nth(1) == Some(parent.to_string().as_str()) {
            found.push(process);
        }
    }
    Ok(found)
}
