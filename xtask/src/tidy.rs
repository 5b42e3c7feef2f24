//! The rules of this repository that a machine can check.
//!
//! This file reads the tree and `cargo metadata`; each rule is a pure function in a module of its own: sources and
//! their names in `source`, words and type names in `language`, files that pages name in `map`, test files that are not
//! compiled in `stories`, tuples where names are better in `tuples`, edges between crates in `edges`, third-party code in
//! `licence` and `supply`, lock files in `lock_file`.

mod edges;
mod language;
mod licence;
mod lock_file;
mod map;
mod source;
mod stories;
mod supply;
mod tuples;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fmt, fs, io};

use serde_json::Value;

/// One place that does not follow a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    place: String,
    message: String,
    weight: Weight,
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    /// A rule does not hold; the check fails.
    Broken,
    /// Someone should look; the check passes.
    WorthALook,
}

/// The text of every file a rule may want to read, by its path from the root, with `/` between the parts.
type Tree = BTreeMap<String, String>;

/// The root of the repository this was built in.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Every rule, over the repository at `root`.
pub(crate) fn check(root: &Path) -> io::Result<Vec<Finding>> {
    let tree = read_tree(root)?;
    let mut findings = Vec::new();
    for (path, text) in &tree {
        findings.extend(source::check(path, text));
        findings.extend(lock_file::check(path, text));
    }
    findings.extend(stories::check(&tree));
    findings.extend(language::check(&tree));
    findings.extend(map::check(&tree));
    findings.extend(tuples::check(&tree));

    findings.extend(edges::check(&ask_cargo(root, &["--no-deps"])?));
    let rules = supply::Rules::read(tree.get("deny.toml").map_or("", String::as_str)).map_err(io::Error::other)?;
    findings.extend(supply::check_lock(&rules, tree.get("Cargo.lock").map_or("", String::as_str)));
    let here = host_triple()?;
    findings.extend(supply::check_licences(&rules, &ask_cargo(root, &["--filter-platform", &here])?));
    Ok(findings)
}

/// The findings that make the check fail.
pub(crate) fn broken(findings: &[Finding]) -> impl Iterator<Item = &Finding> {
    findings.iter().filter(|finding| finding.weight == Weight::Broken)
}

// === impl Finding ===

impl Finding {
    fn broken(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into(), weight: Weight::Broken }
    }

    fn worth_a_look(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { weight: Weight::WorthALook, ..Self::broken(place, message) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.weight {
            Weight::Broken => "broken",
            Weight::WorthALook => "look",
        };
        write!(f, "{word}: {}: {}", self.place, self.message)
    }
}

// === reading ===

/// Folders whose contents are generated or installed.
const SKIPPED: &[&str] = &[".git", ".interop", "artifacts", "corpus", "node_modules", "target"];

fn read_tree(root: &Path) -> io::Result<Tree> {
    let mut tree = Tree::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            if path.is_symlink() || SKIPPED.contains(&name) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if source::is_one(name) || language::is_page(name) || lock_file::is_one(name) || name == "deny.toml"
            {
                let parts: Vec<_> = path.strip_prefix(root).map_err(io::Error::other)?.iter().collect();
                let place = parts.join("/".as_ref()).to_string_lossy().into_owned();
                tree.insert(place, fs::read_to_string(&path)?);
            }
        }
    }
    Ok(tree)
}

/// What `cargo metadata` says, without asking anyone outside this machine.
fn ask_cargo(root: &Path, arguments: &[&str]) -> io::Result<Value> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--offline", "--quiet"])
        .args(arguments)
        .current_dir(root)
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    serde_json::from_slice(&output.stdout).map_err(io::Error::other)
}

fn host_triple() -> io::Result<String> {
    let output = Command::new("rustc").arg("-vV").output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| io::Error::other("rustc does not say which platform this is"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_keeps_its_rules() {
        let findings = check(&root()).unwrap();
        let broken: Vec<_> = broken(&findings).map(ToString::to_string).collect();
        assert!(broken.is_empty(), "\n{}", broken.join("\n"));
    }

    #[test]
    fn the_tree_is_really_read() {
        let tree = read_tree(&root()).unwrap();
        for expected in ["Cargo.lock", "deny.toml", "xtask/src/tidy.rs", "tests/interop/package-lock.json"] {
            assert!(tree.contains_key(expected), "{expected} was not found");
        }
        assert!(!tree.keys().any(|path| path.contains("target/")));
    }

    #[test]
    fn a_finding_names_its_place() {
        assert_eq!(Finding::broken("a.rs", "no header").to_string(), "broken: a.rs: no header");
        assert_eq!(Finding::worth_a_look("a.rs", "long").to_string(), "look: a.rs: long");
    }
}
