//! One test binary per crate, `tests/it/main.rs`, and every file in it is compiled.

use super::{Finding, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.keys().filter_map(|path| check_file(path, tree)).collect()
}

fn check_file(path: &str, tree: &Tree) -> Option<Finding> {
    let (package, inside) = path.strip_suffix(".rs")?.split_once("/tests/")?;
    // Peers of the interop stories are crates below the root's own `tests/`; they have sources, not stories.
    // Unit tests that outgrew their file are below `src/`.
    if inside.contains("src/") || package.contains("/src/") {
        return None;
    }
    if !inside.contains('/') {
        return Some(Finding::broken(path, "is a test binary of its own; make it a module of `tests/it/main.rs`"));
    }
    let story = inside.strip_prefix("it/").filter(|story| *story != "main")?;
    let (parent, module) = match story.rsplit_once('/') {
        Some((folder, module)) => (format!("{package}/tests/it/{folder}.rs"), module),
        None => (format!("{package}/tests/it/main.rs"), story),
    };
    let declared = tree.get(&parent).is_some_and(|text| declares(text, module));
    (!declared).then(|| Finding::broken(path, format!("is not declared in {parent} and is not compiled")))
}

fn declares(text: &str, module: &str) -> bool {
    let declaration = format!("mod {module};");
    text.lines().map(str::trim_start).any(|line| !line.starts_with("//") && line.ends_with(&declaration))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let tree = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn declared_files_are_fine() {
        let files = [
            ("crates/wire/tests/it/main.rs", "//! Stories.\nmod reading;\nmod up;\n"),
            ("crates/wire/tests/it/reading.rs", "//! Reading.\n"),
            ("crates/wire/tests/it/up.rs", "//! Up.\npub(crate) mod probing;\n"),
            ("crates/wire/tests/it/up/probing.rs", "//! Probing.\n"),
            ("tests/interop/rmcp-peer/src/main.rs", "//! A peer.\n"),
            ("crates/auth/src/session/tests/renewing.rs", "//! Unit tests.\n"),
        ];
        assert!(found(&files).is_empty());
    }

    #[test]
    fn a_forgotten_file_is_found() {
        let files = [
            ("crates/wire/tests/it/main.rs", "//! Stories.\n// mod reading;\nmod spreading;\n"),
            ("crates/wire/tests/it/reading.rs", "//! Reading.\n"),
            ("crates/wire/tests/it/spreading.rs", "//! Spreading.\n"),
            ("crates/wire/tests/it/up/probing.rs", "//! Probing.\n"),
        ];
        assert_eq!(
            found(&files),
            [
                "broken: crates/wire/tests/it/reading.rs: is not declared in crates/wire/tests/it/main.rs and is not compiled",
                "broken: crates/wire/tests/it/up/probing.rs: is not declared in crates/wire/tests/it/up.rs and is not compiled",
            ]
        );
    }

    #[test]
    fn a_second_test_binary_is_found() {
        let found = found(&[("crates/wire/tests/exchange.rs", "//! One exchange.\n")]);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("test binary of its own"));
    }
}
