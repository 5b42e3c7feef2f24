//! The difference that an edit makes to a file, for a person: lines around the changes, without secrets.

use std::path::Path;

use similar::{ChangeTag, TextDiff};
use toolway_config::document::Document;
use toolway_console::backend::DifferenceLine;

/// Lines before and after a change.
const CONTEXT: usize = 3;
/// Lines that are shown.
const MAX_LINES: usize = 400;
/// Bytes of a line that are shown.
const MAX_LINE: usize = 2_000;
/// What stands in place of a secret.
const MASK: &str = "•••";

/// The changed lines with those around them.
pub(super) fn difference(file: &Path, before: &str, after: &str) -> Vec<DifferenceLine> {
    let secrets = secrets_of(file, &[before, after]);
    let compared = TextDiff::from_lines(before, after);
    let mut lines = Vec::new();
    let mut next = 0;
    for group in compared.grouped_ops(CONTEXT) {
        let first = group.first().map_or(next, |op| op.old_range().start);
        if next < first {
            lines.push(DifferenceLine { kind: "skipped", text: String::new() });
        }
        next = group.last().map_or(next, |op| op.old_range().end);
        for change in group.iter().flat_map(|op| compared.iter_changes(op)) {
            let kind = match change.tag() {
                ChangeTag::Equal => "same",
                ChangeTag::Insert => "added",
                ChangeTag::Delete => "removed",
            };
            lines.push(DifferenceLine { kind, text: masked(change.value(), &secrets) });
        }
    }
    if next < before.lines().count() && !lines.is_empty() {
        lines.push(DifferenceLine { kind: "skipped", text: String::new() });
    }
    lines.truncate(MAX_LINES);
    lines
}

/// The secrets in clear, also as they are spelt in JSON; long ones first.
fn secrets_of(file: &Path, texts: &[&str]) -> Vec<String> {
    let documents = texts.iter().filter_map(|text| Document::of(file, text).ok());
    let found = documents.flat_map(|document| document.clear_secrets());
    let mut secrets: Vec<String> = found.map(|secret| secret.value.expose().to_owned()).collect();
    let spelt: Vec<String> =
        secrets.iter().map(|secret| serde_json::Value::from(secret.as_str()).to_string()).collect();
    secrets.extend(spelt.iter().map(|text| text.trim_matches('"').to_owned()));
    secrets.retain(|secret| !secret.is_empty());
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.dedup();
    secrets
}

fn masked(line: &str, secrets: &[String]) -> String {
    let line = line.trim_end_matches(['\n', '\r']);
    let line = secrets.iter().fold(line.to_owned(), |line, secret| line.replace(secret.as_str(), MASK));
    line[..line.floor_char_boundary(MAX_LINE)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn changes_are_shown_with_lines_around_them_and_without_secrets() {
        let before = "{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"a\", \"env\": { \"TOKEN\": \"ghp_0123456789abcdefghijk\" } },\n    \"b\": {}\n  }\n}\n";
        let after = before.replace("\"b\": {}", "\"b\": { \"command\": \"b\" }");
        let lines = difference("toolway.json".as_ref(), before, &after);
        let kinds: Vec<&str> = lines.iter().map(|line| line.kind).collect();
        assert_eq!(kinds, ["same", "same", "same", "removed", "added", "same", "same"]);
        assert!(lines.iter().all(|line| !line.text.contains("ghp_")), "{lines:?}");
        assert!(lines[2].text.contains("•••"), "{lines:?}");
        assert!(difference("toolway.json".as_ref(), before, before).is_empty());
    }

    #[test]
    fn a_file_on_one_line_shows_no_secret_either() {
        let before = r#"{"mcpServers":{"a":{"url":"https://a/mcp","headers":{"Authorization":"Bearer tok-en\"quoted-0123456789"}}}}"#;
        let after = before.replace("https://a/mcp", "https://b/mcp");
        for line in difference("toolway.json".as_ref(), before, &after) {
            assert!(!line.text.contains("quoted-0123456789"), "{line:?}");
        }
    }
}
