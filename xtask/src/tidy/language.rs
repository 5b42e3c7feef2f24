//! Plain English, as far as a machine can check it: avoided words, empty doc comments, one name for one type.
//!
//! The vocabulary itself stands in `CONTRIBUTING.md`.

use std::collections::BTreeMap;

use super::{Finding, Tree};

/// Words and phrases that hide the subject of a sentence. Each is split so that this file passes its own check.
const AVOIDED: &[(&str, &str)] =
    &[("who", "ever"), ("no", "body"), ("some", "body"), ("any", "body"), ("is ", "none"), ("that ", "which")];

/// Types that share a name on purpose: crate, name, and why.
const SAME_NAME: &[(&str, &str, &str)] = &[
    ("vault", "Attributes", ONE_OF_TWO_PLATFORMS),
    ("vault", "Bus", ONE_OF_TWO_PLATFORMS),
    ("vault", "Item", ONE_OF_TWO_PLATFORMS),
    ("vault", "KeychainSession", ONE_OF_TWO_PLATFORMS),
];
const ONE_OF_TWO_PLATFORMS: &str = "`keychain/secret_service.rs` and `keychain/none.rs` are never compiled together";

/// Checks all sources and pages.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<_> = tree.iter().flat_map(|(path, text)| check_file(path, text)).collect();
    findings.extend(check_type_names(tree));
    findings
}

/// Pages and scripts are checked for words; sources for words and doc comments. Not Python, where one of them is code.
pub(super) fn is_page(name: &str) -> bool {
    [".md", ".js", ".mjs", ".html"].iter().any(|ending| name.ends_with(ending))
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    let is_source = super::source::is_one(path);
    if !is_source && !is_page(path) {
        return Vec::new();
    }
    let lines: Vec<&str> = text.lines().collect();
    let mut findings = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let place = || format!("{path}:{}", index + 1);
        if let Some(word) = avoided_word(line) {
            findings.push(Finding::broken(place(), format!("avoid `{word}`; name the subject")));
        }
        if is_source && is_one_word_doc(&lines, index) {
            findings.push(Finding::broken(place(), "one-word doc comment; say what the name does not"));
        }
    }
    findings
}

fn avoided_word(line: &str) -> Option<String> {
    let lower = line.to_lowercase();
    AVOIDED.iter().map(|(a, b)| format!("{a}{b}")).find(|word| contains_word(&lower, word))
}

/// Finds `word` between characters that are not letters, so that it is found in `snake_case` names as well.
fn contains_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        let is_letter = |c: Option<char>| c.is_some_and(char::is_alphabetic);
        !is_letter(before) && !is_letter(after)
    })
}

fn is_one_word_doc(lines: &[&str], index: usize) -> bool {
    let doc = |index: Option<usize>| index.and_then(|index| lines.get(index)).and_then(|line| doc_text(line));
    let Some(text) = doc(Some(index)) else { return false };
    let one_word = !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '.');
    one_word && doc(index.checked_sub(1)).is_none() && doc(Some(index + 1)).is_none()
}

fn doc_text(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("///").map(str::trim)
}

/// Two public types of one name in one crate.
fn check_type_names(tree: &Tree) -> Vec<Finding> {
    let mut places: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for (path, text) in tree {
        let Some((krate, _)) = path.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/")) else { continue };
        for name in text.lines().filter_map(public_type) {
            places.entry((krate, name)).or_default().push(path);
        }
    }
    let excepted = |krate: &str, name: &str| SAME_NAME.iter().any(|(c, n, _)| (*c, *n) == (krate, name));
    places
        .into_iter()
        .filter(|((krate, name), paths)| paths.len() > 1 && !excepted(krate, name))
        .map(|((krate, name), paths)| {
            let message = format!("{} public types are named `{name}`: {}", paths.len(), paths.join(", "));
            Finding::broken(format!("crates/{krate}"), message)
        })
        .collect()
}

/// The name of the type that a line declares, if it is visible in the whole crate or outside it.
fn public_type(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = line.strip_prefix("pub ").or_else(|| line.strip_prefix("pub(crate) "))?;
    let (keyword, rest) = rest.split_once(' ')?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    ["struct", "enum", "trait", "type", "union"].contains(&keyword).then(|| &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        let tree: Tree = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn avoided_words_are_found_in_comments_names_and_pages() {
        let word = format!("{}{}", "no", "body");
        let found = messages(&[
            ("a.rs", &format!("// {word} asks\nfn {word}_asks() {{}}\n")),
            ("a.md", &word),
            ("a.js", &word),
        ]);
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[2].starts_with("broken: a.rs:1: avoid"), "{found:?}");
        assert!(messages(&[("a.rs", &format!("// {word}s\n")), ("a.txt", &word)]).is_empty());
        assert!(messages(&[("a.rs", "option.is_none()\n")]).is_empty());
    }

    #[test]
    fn one_word_doc_comment_is_found_and_the_end_of_a_paragraph_is_not() {
        assert_eq!(messages(&[("a.rs", "/// Which.\nfn a() {}\n")]).len(), 1);
        assert!(messages(&[("a.rs", "/// The name of a\n/// server.\nfn a() {}\n")]).is_empty());
        assert!(messages(&[("a.rs", "/// Server name.\nfn a() {}\n")]).is_empty());
    }

    #[test]
    fn two_public_types_of_one_name_in_one_crate_are_found() {
        let a = ("crates/a/src/x.rs", "pub struct Line;\n");
        assert_eq!(messages(&[a, ("crates/a/src/y.rs", "pub(crate) enum Line {}\n")]).len(), 1);
        assert!(messages(&[a, ("crates/b/src/y.rs", "pub struct Line;\n")]).is_empty());
        assert!(messages(&[a, ("crates/a/src/y.rs", "pub(super) struct Line;\nstruct Line;\n")]).is_empty());
    }
}
