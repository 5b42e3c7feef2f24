//! How a definition differs from its baseline: one change on each line, complete, with hidden characters made visible.

use serde_json::Value;
use toolway_config::visible;

/// Bytes of the lines of a difference. Beyond it the whole old and new value of each changed member are shown instead: the
/// paths of the values inside would fill more than the values themselves.
const MAX_BYTES: usize = 512 * 1024;

/// How two definitions differ, one change on each line, with hidden characters made visible. Never empty, and never cut.
pub fn difference(before: &Value, after: &Value) -> Vec<String> {
    let mut lines = Lines { lines: Vec::new(), bytes: 0, depth: Depth::All };
    lines.compare(before, after, "");
    if MAX_BYTES < lines.bytes {
        lines = Lines { lines: Vec::new(), bytes: 0, depth: Depth::Members };
        lines.compare(before, after, "");
    }
    if lines.lines.is_empty() {
        lines.lines.push("a value that is not shown has changed".to_owned());
    }
    lines.lines
}

struct Lines {
    lines: Vec<String>,
    bytes: usize,
    depth: Depth,
}

/// How far the members of a definition are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    All,
    /// As a whole each.
    Members,
}

impl Lines {
    fn add(&mut self, line: String) {
        self.bytes += line.len();
        // A list that is too long is made again in the other form.
        if self.depth == Depth::Members || self.bytes <= MAX_BYTES {
            self.lines.push(line);
        }
    }

    /// Adds a line for each value that differs.
    fn compare(&mut self, before: &Value, after: &Value, path: &str) {
        if before == after || MAX_BYTES < self.bytes && self.depth == Depth::All {
            return;
        }
        let is_opened = self.depth == Depth::All || path.is_empty();
        let (Value::Object(old), Value::Object(new), true) = (before, after, is_opened) else {
            return self.add(format!("{}: was {}, is now {}", shown_path(path), shown(before), shown(after)));
        };
        for (key, value) in old {
            let below = format!("{path}/{}", escaped(key));
            match new.get(key) {
                Some(now) => self.compare(value, now, &below),
                None => self.add(format!("{}: removed, was {}", shown_path(&below), shown(value))),
            }
        }
        for (key, value) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
            self.add(format!("{}: added {}", shown_path(&format!("{path}/{}", escaped(key))), shown(value)));
        }
    }
}

/// A key as a part of a path, so that two keys never look alike.
fn escaped(key: &str) -> String {
    let quoted = Value::String(key.to_owned()).to_string();
    quoted[1..quoted.len() - 1].replace('~', "~0").replace('/', "~1")
}

fn shown_path(path: &str) -> String {
    visible::one_line(path.trim_start_matches('/'))
}

/// A value as JSON, in which line ends, quotes and backslashes are escaped.
fn shown(value: &Value) -> String {
    visible::one_line(&value.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_that_differ_in_what_is_not_seen_look_different() {
        for (before, after, expected) in [
            ("a b", "a\nb", r#"d: was "a b", is now "a\nb""#),
            ("a", "a\u{200b}", r#"d: was "a", is now "a\u{200b}""#),
            (r"a\n", "a\n", r#"d: was "a\\n", is now "a\n""#),
            (r"a\u{200b}", "a\u{200b}", r#"d: was "a\\u{5c}u{200b}", is now "a\u{200b}""#),
            ("e\u{301}", "é", "d: was \"e\\u{301}\", is now \"é\""),
        ] {
            let lines = difference(&json!({ "d": before }), &json!({ "d": after }));
            let halves: Vec<&str> = lines[0].split(", is now ").collect();
            assert_ne!(halves[0].trim_start_matches("d: was "), halves[1], "{lines:?}");
            if !after.contains('é') {
                assert_eq!(lines, [expected]);
            }
        }
    }

    #[test]
    fn the_difference_of_many_values_is_not_cut() {
        let many = |word: &str| -> Value { (0..2_000).map(|n| (format!("k{n}"), json!(word))).collect() };
        let lines = difference(&json!({ "inputSchema": many("a") }), &json!({ "inputSchema": many("b") }));
        assert_eq!(lines.len(), 2_000);
        assert!(lines[1_999].ends_with(r#"was "a", is now "b""#), "{}", lines[1_999]);
    }

    #[test]
    fn a_long_path_does_not_multiply_what_is_shown() {
        let long = "p".repeat(20_000);
        let inner = |word: &str| -> Value { (0..2_000).map(|n| (format!("k{n}"), json!(word))).collect() };
        let of = |word: &str| json!({ "inputSchema": { (long.as_str()): inner(word) }, "description": word });
        let lines = difference(&of("before"), &of("after"));
        assert_eq!(lines.len(), 2, "one for each member");
        assert!(lines.iter().map(String::len).sum::<usize>() < 1024 * 1024);
        let schema = lines.iter().find(|line| line.starts_with("inputSchema: was")).unwrap();
        assert_eq!(schema.matches("\"before\"").count() + schema.matches("\"after\"").count(), 4_000, "complete");
    }
}
