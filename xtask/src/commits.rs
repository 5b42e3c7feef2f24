//! `cargo xtask commits REVISION`: commit subjects since a revision that are longer than the habit.

use std::io;
use std::process::Command;

/// Characters a commit subject may have.
const LONGEST: usize = 72;

/// Subjects over [`LONGEST`] characters since `revision`, with the abbreviated commit id.
pub(crate) fn too_long(revision: &str) -> io::Result<Vec<String>> {
    let range = format!("{revision}..HEAD");
    let output = Command::new("git").args(["log", "--format=%h %s", "--end-of-options", &range]).output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter(|line| is_too_long(line)).map(str::to_owned).collect())
}

fn is_too_long(line: &str) -> bool {
    line.split_once(' ').is_some_and(|(_, subject)| subject.chars().count() > LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commit_id_does_not_count() {
        assert!(!is_too_long(&format!("0123456789 {}", "a".repeat(LONGEST))));
        assert!(is_too_long(&format!("0123456789 {}", "ä".repeat(LONGEST + 1))));
    }

    #[test]
    fn an_unknown_revision_is_an_error() {
        assert!(too_long("no-such-revision").is_err());
    }
}
