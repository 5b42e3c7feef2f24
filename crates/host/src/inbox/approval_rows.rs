//! What an approval prompt shows of a call: its arguments as labelled rows, and warnings. Every surface shows the same.
//!
//! | part | file |
//! |---|---|
//! | bounds, and where rows are computed | `approval_rows/bounded.rs` |
//! | hidden characters | `approval_rows/hidden.rs` |
//! | which arguments stand first | `approval_rows/importance.rs` |
//!
//! Labels and values come from a model or a client and are untrusted: a surface draws them with [`crate::visible`].

mod bounded;
mod hidden;
mod importance;

use toolway_config::{Trust, visible};
use toolway_wire::json::{JsonKind, Raw};

use crate::policy::Annotations;

pub(crate) use bounded::{compute, levels};
pub(super) use hidden::warnings as hidden_warnings;
use importance::touches;

/// One argument of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentRow {
    /// Name of the argument that it is a part of.
    pub argument: String,
    /// Path of the argument: `path`, `edits[0].newText`.
    pub label: String,
    /// Text of a string, JSON of anything else. Complete; a surface may fold it.
    pub value: String,
    /// Whether it is a path, an address or a command, which decides what the call touches.
    pub important: bool,
    /// Whether label or value contain hidden characters, also inside JSON.
    pub has_hidden: bool,
    /// Set if the row is all arguments together, because they are too large or too deep to be shown one by one.
    pub whole: Option<WholeArguments>,
}

/// Arguments that are one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeArguments {
    /// Size as they will be sent.
    pub bytes: usize,
    /// Digest in hexadecimal.
    pub sha256: String,
}

/// A nested value with more leaves than this is one row of JSON.
const MAX_LEAVES: usize = 24;
/// A value nested deeper than this is one row of JSON.
const MAX_DEPTH: usize = 4;

/// All arguments of a call, paths, addresses and commands first. Members that occur twice are two rows: servers differ
/// in which of them counts. Surfaces use the rows of the item, which are computed once.
pub(crate) fn rows(arguments: Option<&Raw>) -> Vec<ArgumentRow> {
    let Some(arguments) = arguments else { return Vec::new() };
    #[cfg(test)]
    tests::WORK.with(|work| work.set(work.get() + arguments.as_bytes().len()));
    if bounded::are_too_large(arguments) {
        return vec![bounded::whole(arguments)];
    }
    let mut rows = Vec::new();
    match arguments.kind() {
        JsonKind::Object => {
            for member in arguments.members() {
                let first = rows.len();
                add(&mut rows, member.key.clone(), &member.value, 1);
                rows[first..].iter_mut().for_each(|row| row.argument.clone_from(&member.key));
            }
        }
        _ => rows.push(row("arguments".to_owned(), arguments)),
    }
    // Stable: otherwise the order of the arguments.
    rows.sort_by_key(|row| !row.important);
    rows
}

/// Whether an argument is a path, an address or a command, by its name or value.
pub fn is_important(name: &str, value: &Raw) -> bool {
    bounded::are_too_large(value) || row(name.to_owned(), value).important
}

/// Warnings about a call: what its annotations say, and how far they are to be believed.
pub fn warnings(annotations: Annotations, trust: Trust) -> Vec<String> {
    let mut warnings = Vec::new();
    if annotations.destructive {
        warnings.push("may delete or overwrite data".to_owned());
    } else if !annotations.read_only {
        warnings.push("changes data".to_owned());
    }
    if annotations.says_open_world {
        warnings.push("may reach systems outside this computer".to_owned());
    }
    if annotations.read_only && trust == Trust::Untrusted {
        warnings.push("the server calls it read-only, but the server is not trusted".to_owned());
    }
    warnings
}

fn add(rows: &mut Vec<ArgumentRow>, label: String, value: &Raw, depth: usize) {
    let is_flat = depth < MAX_DEPTH && leaves(value, MAX_DEPTH - depth) <= MAX_LEAVES;
    match value.kind() {
        JsonKind::Object if is_flat => {
            let members = value.members();
            if members.is_empty() {
                rows.push(row(label, value));
                return;
            }
            for member in members {
                add(rows, format!("{label}.{}", member.key), &member.value, depth + 1);
            }
        }
        JsonKind::Array if is_flat => {
            let elements = value.elements();
            if elements.is_empty() {
                rows.push(row(label, value));
                return;
            }
            for (index, element) in elements.iter().enumerate() {
                add(rows, format!("{label}[{index}]"), element, depth + 1);
            }
        }
        _ => rows.push(row(label, value)),
    }
}

fn row(label: String, value: &Raw) -> ArgumentRow {
    let text = match value.kind() {
        JsonKind::String => value.as_str().map_or_else(|| value.to_string(), std::borrow::Cow::into_owned),
        _ => value.to_string(),
    };
    let important = match value.kind() {
        JsonKind::Object | JsonKind::Array => touches(&label, value),
        _ => importance::is_important_name(&label) || importance::is_place(&text),
    };
    let has_hidden = match value.as_str() {
        Some(_) => visible::has_hidden(&text),
        None => hidden::in_json(&text),
    };
    let has_hidden = has_hidden || hidden::in_label(&label);
    ArgumentRow { argument: String::new(), label, value: text, important, has_hidden, whole: None }
}

/// Number of scalar values; more than [`MAX_LEAVES`] if the value is too deep to tell.
fn leaves(value: &Raw, depth: usize) -> usize {
    let parts = match value.kind() {
        JsonKind::Object => value.members().into_iter().map(|member| member.value).collect(),
        JsonKind::Array => value.elements_within(MAX_LEAVES),
        _ => return 1,
    };
    if depth == 0 || MAX_LEAVES < parts.len() {
        return MAX_LEAVES + 1;
    }
    parts.iter().map(|part| leaves(part, depth - 1)).sum::<usize>().max(1)
}

#[cfg(test)]
mod tests {
    use toolway_config::Trust;
    use toolway_wire::json::Raw;

    use super::{compute, hidden_warnings, rows, warnings};
    use crate::policy::Annotations;

    thread_local! {
        /// Bytes of arguments of which rows were computed on this thread.
        pub(super) static WORK: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    #[tokio::test]
    async fn rows_of_long_arguments_are_not_computed_on_the_runtime() {
        let deep = format!("{}{}", "[".repeat(60), "]".repeat(60));
        let nasty = format!(r#"{{"a":[{}{deep}]}}"#, format!("{deep},").repeat(2_000));
        let nasty = Raw::parse(nasty).unwrap();
        let before = WORK.get();
        for _ in 0..4 {
            let rows = compute(Some(&nasty)).await;
            let [row] = &rows[..] else { panic!("{rows:?}") };
            assert_eq!(row.whole.as_ref().unwrap().bytes, nasty.as_bytes().len());
        }
        assert_eq!(WORK.get(), before);
        compute(Some(&Raw::parse(r#"{"a":1}"#).unwrap())).await;
        assert_eq!(WORK.get(), before + 7);
    }

    #[test]
    fn large_and_deep_arguments_are_one_row_with_size_and_digest() {
        let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(64 * 1024));
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(32), "]".repeat(32));
        for text in [large, deep] {
            let rows = rows(Some(&Raw::parse(text.clone()).unwrap()));
            let [row] = &rows[..] else { panic!("{rows:?}") };
            let whole = row.whole.as_ref().unwrap();
            assert_eq!((row.value.as_str(), whole.bytes, whole.sha256.len()), (text.as_str(), text.len(), 64));
        }
        assert_eq!(rows(Some(&Raw::of(&serde_json::json!({ "text": "x".repeat(60_000) }))))[0].whole, None);
    }

    #[test]
    fn arguments_with_hidden_characters_are_named() {
        let arguments = serde_json::json!({
            "command": "ls \u{1b}]; rm -rf x\u{7}", "plain": "a\nb", "deep": { "a": { "b": { "c": { "d": "\u{202e}" } } } },
            "na\u{200b}me": 1,
        });
        let named = hidden_warnings(&rows(Some(&Raw::of(&arguments))));
        assert_eq!(
            named,
            [
                "argument `command` contains hidden characters",
                "argument `deep` contains hidden characters",
                "argument `na\\u{200b}me` contains hidden characters",
            ]
        );
    }

    /// A half of a character makes a string unreadable; what stands beside it is hidden all the same.
    #[test]
    fn strings_and_names_that_are_not_unicode_count_as_hidden() {
        for text in
            [r#"{"a":"x\ud800"}"#, r#"{"a":"\u001b]0;x\u0007\udc00"}"#, r#"{"\ud800":1}"#, r#"{"a":{"\udfff":1}}"#]
        {
            let rows = rows(Some(&Raw::parse(text).unwrap()));
            assert!(rows.len() == 1 && rows[0].has_hidden, "{text}: {rows:?}");
        }
        assert!(!rows(Some(&Raw::parse(r#"{"a":"\ud83d\ude00"}"#).unwrap()))[0].has_hidden);
    }

    fn shown(text: &'static str) -> Vec<String> {
        let rows = rows(Some(&Raw::parse(text).unwrap()));
        let mark = |important| if important { "!" } else { " " };
        rows.into_iter().map(|row| format!("{}{}: {}", mark(row.important), row.label, row.value)).collect()
    }

    #[test]
    fn paths_addresses_and_commands_come_first() {
        let text = r#"{"note":"hi","count":3,"filePath":"a.txt","where":"https://example.org/x","cmd":"rm -rf x"}"#;
        assert_eq!(
            shown(text),
            ["!filePath: a.txt", "!where: https://example.org/x", "!cmd: rm -rf x", " note: hi", " count: 3"]
        );
    }

    #[test]
    fn nested_arguments_are_rows_and_large_ones_are_json() {
        assert_eq!(
            shown(r#"{"edits":[{"old":"a","new":"b"}],"tags":[],"on":null}"#),
            [" edits[0].old: a", " edits[0].new: b", " tags: []", " on: null"]
        );
        assert_eq!(shown(r#"{"a":{"b":{"c":{"d":{"e":1}}}}}"#), [r#" a: {"b":{"c":{"d":{"e":1}}}}"#]);
        let many = Raw::of(&serde_json::json!({ "numbers": (0..100).collect::<Vec<_>>() }));
        assert_eq!(rows(Some(&many)).len(), 1);
        assert_eq!(rows(None), []);
        assert_eq!(shown("[1]"), [" arguments: [1]"]);
    }

    #[test]
    fn a_row_of_json_with_a_path_inside_comes_first() {
        assert_eq!(
            shown(r#"{"n":1,"o":{"b":{"c":{"d":{"e":1}}}},"a":{"b":{"c":{"d":{"e":"/etc"}}}}}"#),
            [r#"!a: {"b":{"c":{"d":{"e":"/etc"}}}}"#, " n: 1", r#" o: {"b":{"c":{"d":{"e":1}}}}"#]
        );
    }

    #[test]
    fn both_values_of_a_repeated_argument_are_shown() {
        assert_eq!(shown(r#"{"path":"a.txt","path":"/etc/passwd"}"#), ["!path: a.txt", "!path: /etc/passwd"]);
    }

    #[test]
    fn annotations_become_warnings() {
        let text = |read_only, destructive, says_open_world, trust| {
            let open_world = true;
            let says_destructive = destructive;
            let idempotent = false;
            let annotations =
                Annotations { read_only, destructive, idempotent, says_destructive, open_world, says_open_world };
            warnings(annotations, trust).join("; ")
        };
        assert_eq!(text(true, false, false, Trust::Read), "");
        assert!(text(true, false, false, Trust::Untrusted).contains("not trusted"));
        assert!(text(false, true, true, Trust::Read).starts_with("may delete or overwrite data; may reach"));
        assert_eq!(text(false, false, false, Trust::Full), "changes data");
    }
}
