//! Environment variables that a server asks for on standard error.

/// A variable that a server asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NeededVariable {
    pub(super) name: String,
    /// Whether the user's shell has it.
    pub(super) is_known: bool,
}

/// Words with which a line says that something is missing.
const MISSING: [&str; 9] = [
    "required",
    "missing",
    "not set",
    "must be set",
    "must set",
    "undefined",
    "not defined",
    "not found",
    "please set",
];

/// Variables that a line may name for another reason.
const COMMON: [&str; 8] = ["PATH", "HOME", "USER", "SHELL", "PWD", "TERM", "LANG", "NODE_OPTIONS"];

/// The variables named in lines of standard error, in order: those that `is_known` finds, and others only in a line that
/// says that something is missing.
pub(super) fn needed(lines: &[String], is_known: impl Fn(&str) -> bool) -> Vec<NeededVariable> {
    let mut found: Vec<NeededVariable> = Vec::new();
    for line in lines {
        let lower = line.to_lowercase();
        let says_missing = MISSING.iter().any(|word| lower.contains(word)) || lower.contains("environment variable");
        for name in names(line) {
            let known = is_known(name);
            let counts = known || says_missing && name.contains('_') && !name.starts_with("ERR_");
            if counts && !COMMON.contains(&name) && found.iter().all(|other| other.name != name) {
                found.push(NeededVariable { name: name.to_owned(), is_known: known });
            }
        }
    }
    found
}

/// The words of a line that can be names of variables: capital letters, digits and underscores.
fn names(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    let is_name = |word: &&str| {
        let capital = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        2 < word.len() && word.bytes().all(capital) && word.starts_with(|first: char| first.is_ascii_uppercase())
    };
    words.filter(is_name)
}

#[cfg(test)]
mod tests {
    use super::needed;

    fn found(line: &str, known: &[&str]) -> Vec<String> {
        needed(&[line.to_owned()], |name| known.contains(&name)).into_iter().map(|needed| needed.name).collect()
    }

    #[test]
    fn only_variables_that_are_asked_for_are_found() {
        for (line, known, expected) in [
            ("Error: GITHUB_TOKEN is required", &["GITHUB_TOKEN"][..], &["GITHUB_TOKEN"][..]),
            ("Error: GITHUB_TOKEN is required", &[], &["GITHUB_TOKEN"]),
            ("KeyError: 'SLACK_TEAM'", &["SLACK_TEAM"], &["SLACK_TEAM"]),
            ("KeyError: 'SLACK_TEAM'", &[], &[]),
            ("set BRAVE_API_KEY environment variable", &[], &["BRAVE_API_KEY"]),
            ("missing A_B or C_D", &["C_D"], &["A_B", "C_D"]),
            ("ERR_MODULE: not found in PATH", &[], &[]),
            ("GET https://x failed: HTTP 500", &["EDITOR"], &[]),
        ] {
            assert_eq!(found(line, known), expected, "{line}");
        }
    }
}
