//! The map stays true: every source file that `ARCHITECTURE.md` and `CONTRIBUTING.md` name exists.

use super::{Finding, Tree};

/// Pages whose file names are checked. Others show files of users as well.
const PAGES: [&str; 2] = ["ARCHITECTURE.md", "CONTRIBUTING.md"];

/// Named as what this repository does not have.
const ABSENT: [&str; 1] = ["mod.rs"];

/// Finds file names in backticks that no file of the repository ends with.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let pages = PAGES.iter().filter_map(|page| Some((*page, tree.get(*page)?)));
    pages.flat_map(|(page, text)| missing_files(page, text, tree)).collect()
}

fn missing_files(page: &str, text: &str, tree: &Tree) -> Vec<Finding> {
    let lines = text.lines().enumerate();
    let named = lines.flat_map(|(index, line)| file_names(line).map(move |name| (index + 1, name)));
    named
        .filter(|(_, name)| !exists(name, tree))
        .map(|(line, name)| Finding::broken(format!("{page}:{line}"), format!("there is no file `{name}`")))
        .collect()
}

/// Names of Rust files in the code spans of a line, without patterns.
fn file_names(line: &str) -> impl Iterator<Item = &str> {
    let spans = line.split('`').skip(1).step_by(2);
    spans.filter(|span| span.ends_with(".rs") && !span.contains([' ', '{', '*', '<']) && !ABSENT.contains(span))
}

fn exists(name: &str, tree: &Tree) -> bool {
    let ending = format!("/{name}");
    tree.keys().any(|path| path == name || path.ends_with(&ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_that_was_renamed_is_found_on_the_map() {
        let files = [
            ("ARCHITECTURE.md", "| send | `connection/wake.rs`, `gone.rs` |\n`{a,b}.rs`, no `mod.rs`\n"),
            ("crates/host/src/connection/wake.rs", ""),
            ("README.md", "`also_gone.rs`"),
        ];
        let tree: Tree = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        let found: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["broken: ARCHITECTURE.md:1: there is no file `gone.rs`"]);
    }
}
