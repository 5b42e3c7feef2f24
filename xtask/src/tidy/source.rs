//! What every Rust file keeps to: a header, a name that says the thing, a size one can read, tests that run.

use super::Finding;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &["common", "helper", "helpers", "manager", "misc", "types", "util", "utils"];

/// A file that passes this has usually become two things.
const LONG: usize = 400;

/// A file that passes this has become two things.
const TOO_LONG: usize = 600;

pub(super) fn is_one(name: &str) -> bool {
    name.ends_with(".rs")
}

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    if !is_one(path) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    if !text.starts_with("//!") {
        findings.push(Finding::broken(path, "does not open with `//!` and what it owns"));
    }
    findings.extend(check_name(path));
    findings.extend(text.lines().enumerate().filter_map(|(index, line)| check_line(path, index + 1, line)));
    findings.extend(check_length(path, text));
    findings
}

fn check_name(path: &str) -> Option<Finding> {
    let mut parts = path.trim_end_matches(".rs").split('/');
    if path.ends_with("/mod.rs") {
        return Some(Finding::broken(path, "is a `mod.rs`; name it `<module>.rs` beside its folder"));
    }
    let name = parts.find(|part| EMPTY_NAMES.contains(part))?;
    Some(Finding::broken(path, format!("`{name}` does not say what is inside")))
}

fn check_line(path: &str, number: usize, line: &str) -> Option<Finding> {
    let line = line.trim_start();
    let place = format!("{path}:{number}");
    if line.starts_with("#[ignore]") {
        return Some(Finding::broken(place, "`#[ignore]` without a reason; write `#[ignore = \"why\"]`"));
    }
    // A module inside a file; one with a file of its own is found by its path.
    let module = line.strip_suffix(" {")?.rsplit_once("mod ").filter(|(before, _)| is_visibility(before))?.1;
    EMPTY_NAMES
        .contains(&module)
        .then(|| Finding::broken(place, format!("a module named `{module}` does not say what is inside")))
}

fn is_visibility(text: &str) -> bool {
    let text = text.trim_end();
    text.is_empty() || text == "pub" || text.starts_with("pub(")
}

fn check_length(path: &str, text: &str) -> Option<Finding> {
    if is_test_file(path) {
        return None;
    }
    let lines = lines_without_tests(text);
    let message = format!("{lines} lines without tests; look for the second noun");
    if lines > TOO_LONG {
        Some(Finding::broken(path, message))
    } else {
        (lines > LONG).then(|| Finding::worth_a_look(path, message))
    }
}

pub(super) fn is_test_file(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/it/")
}

/// How many lines there are outside top-level `#[cfg(test)]` modules.
fn lines_without_tests(text: &str) -> usize {
    let mut count = 0;
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let opens = |next: &&str| next.starts_with("mod ") && next.ends_with('{');
        if line == "#[cfg(test)]" && lines.peek().is_some_and(opens) {
            // rustfmt puts the brace that closes a top-level module at the start of its line.
            let _body = lines.by_ref().find(|line| *line == "}");
        } else {
            count += 1;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        check(path, text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_file_with_a_header_and_a_good_name_is_fine() {
        assert!(messages("crates/wire/src/frame.rs", "//! Frames.\n\nfn read() {}\n").is_empty());
    }

    #[test]
    fn a_file_without_a_header_is_found() {
        let found = messages("crates/wire/src/frame.rs", "// Frames.\n");
        assert_eq!(found, ["broken: crates/wire/src/frame.rs: does not open with `//!` and what it owns"]);
        assert_eq!(messages("a.rs", "").len(), 1);
    }

    #[test]
    fn mod_rs_is_found() {
        let found = messages("crates/wire/src/up/mod.rs", "//! Up.\n");
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("`mod.rs`"));
    }

    #[test]
    fn an_empty_name_is_found_as_a_file_a_folder_and_a_module() {
        assert_eq!(messages("crates/wire/src/utils.rs", "//! Odds.\n").len(), 1);
        assert_eq!(messages("crates/wire/src/common/frame.rs", "//! Odds.\n").len(), 1);
        assert_eq!(messages("crates/wire/src/a.rs", "//! A.\npub(crate) mod helpers {\n}\n").len(), 1);
        assert_eq!(messages("crates/wire/src/a.rs", "//! A.\nmod types {\n}\n").len(), 1);
        assert!(messages("crates/wire/src/a.rs", "//! A.\nmod frame {\n}\n// the mod types {\n").is_empty());
        assert!(messages("crates/wire/src/commonplace.rs", "//! Named for itself.\n").is_empty());
    }

    #[test]
    fn an_ignored_test_says_why() {
        let found = messages("a.rs", "//! A.\n#[test]\n    #[ignore]\nfn slow() {}\n");
        assert_eq!(found, ["broken: a.rs:3: `#[ignore]` without a reason; write `#[ignore = \"why\"]`"]);
        assert!(messages("a.rs", "//! A.\n#[test]\n#[ignore = \"needs a second machine\"]\nfn slow() {}\n").is_empty());
    }

    #[test]
    fn a_long_file_is_worth_a_look_and_a_longer_one_is_broken() {
        let file = |lines: usize| format!("//! A.\n{}", "fn a() {}\n".repeat(lines - 1));
        assert!(check("a.rs", &file(LONG)).is_empty());
        assert!(messages("a.rs", &file(LONG + 1))[0].starts_with("look: "));
        assert!(messages("a.rs", &file(TOO_LONG))[0].starts_with("look: "));
        assert!(messages("a.rs", &file(TOO_LONG + 1))[0].starts_with("broken: "));
    }

    #[test]
    fn tests_do_not_count_as_length() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    fn a() {}\n".repeat(900));
        assert_eq!(lines_without_tests(&format!("//! A.\nfn a() {{}}\n{tests}fn b() {{}}\n")), 3);
        assert_eq!(lines_without_tests("//! A.\n#[cfg(test)]\nmod tests;\n"), 3);
        assert!(check("crates/wire/tests/it/reading.rs", &format!("//! A.\n{tests}")).is_empty());
        let long = format!("//! A.\n{}", "fn a() {}\n".repeat(900));
        assert!(check("crates/wire/src/frame/tests.rs", &long).is_empty());
        assert!(check("crates/wire/tests/it/reading.rs", &long).is_empty());
        assert_eq!(check("crates/wire/src/tests_of_strength.rs", &long).len(), 1);
    }
}
