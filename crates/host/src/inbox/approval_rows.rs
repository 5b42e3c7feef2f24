//! What an approval prompt shows of a call: its arguments as labelled rows, and warnings. Every surface shows the same.
//!
//! Labels and values come from a model or a client and are untrusted: a surface removes control sequences itself.

use toolway_config::Trust;
use toolway_wire::json::{JsonKind, Raw};

use crate::policy::Annotations;

/// One argument of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentRow {
    /// Path of the argument: `path`, `edits[0].newText`.
    pub label: String,
    /// Text of a string, JSON of anything else. Complete; a surface may fold it.
    pub value: String,
    /// Whether it is a path, an address or a command, which decides what the call touches.
    pub important: bool,
}

/// A nested value with more leaves than this is one row of JSON.
const MAX_LEAVES: usize = 24;
/// A value nested deeper than this is one row of JSON.
const MAX_DEPTH: usize = 4;

/// Bytes of a nested value that is searched for paths, addresses and commands. A larger one may have some.
const MAX_SEARCHED: usize = 64 * 1024;

/// Words in the name of an argument that decides what a call touches.
const IMPORTANT_WORDS: &str = "path paths file files filename dir directory folder source destination target url urls uri \
    uris endpoint host hostname domain command commands cmd script shell program executable args sql statement code \
    recipient recipients to cc bcc email emails branch repo repository amount cwd workdir filepath hosts scripts argv \
    query expression src dst dest link links href address addresses location pathname dirname";
/// Endings of such words that are written together with what is before them: `baseurl`.
const IMPORTANT_ENDINGS: &[&str] =
    &["path", "paths", "url", "urls", "uri", "uris", "dir", "directory", "command", "filename"];

/// All arguments of a call, paths, addresses and commands first. Members that occur twice are two rows: servers differ
/// in which of them counts.
pub fn rows(arguments: Option<&Raw>) -> Vec<ArgumentRow> {
    let Some(arguments) = arguments else { return Vec::new() };
    let mut rows = Vec::new();
    match arguments.kind() {
        JsonKind::Object => {
            for member in arguments.members() {
                add(&mut rows, member.key, &member.value, 1);
            }
        }
        _ => rows.push(row("arguments".to_owned(), arguments)),
    }
    // Stable: otherwise the order of the arguments.
    rows.sort_by_key(|row| !row.important);
    rows
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
        JsonKind::Object | JsonKind::Array => MAX_SEARCHED < text.len() || touches(&label, value),
        _ => is_important_name(&label) || is_place(&text),
    };
    ArgumentRow { label, value: text, important }
}

/// Whether an argument, or anything inside, is a path, an address or a command by its name or value. The depth of the
/// recursion is bounded by the parser.
pub(crate) fn touches(name: &str, value: &Raw) -> bool {
    let inside = match value.kind() {
        JsonKind::Object => value.members().iter().any(|member| touches(&member.key, &member.value)),
        JsonKind::Array => value.elements().iter().any(|element| touches("", element)),
        JsonKind::String => value.as_str().is_none_or(|text| may_name_a_place(&text)),
        JsonKind::Number | JsonKind::Boolean | JsonKind::Null => false,
    };
    inside || is_important_name(name) || may_name_a_place(name)
}

/// Whether any word of a text could be a path or an address. Wider than [`is_place`]: what is missed here is covered by a
/// saved approval without being asked about.
fn may_name_a_place(text: &str) -> bool {
    text.split_whitespace().any(|word| {
        word.contains(['/', '\\', '@'])
            || word.starts_with(['~', '$', '%'])
            || word.contains("..")
            || word.split_once(':').is_some_and(|(_, rest)| !rest.is_empty())
    })
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

/// Whether the name, or the name of its parent, has one of the words.
fn is_important_name(label: &str) -> bool {
    words(label).iter().any(|word| {
        IMPORTANT_WORDS.split_whitespace().any(|important| important == word)
            || IMPORTANT_ENDINGS.iter().any(|ending| word.ends_with(ending))
    })
}

/// The words of a label in snake case, kebab case or camel case, without numbers. Capitals before a word in camel case are
/// taken as part of it and as a word of their own: `URLPath`, `URLs`.
fn words(label: &str) -> Vec<String> {
    let mut words = Vec::new();
    for part in label.split(|letter: char| !letter.is_alphabetic()) {
        let mut rest = part;
        while !rest.is_empty() {
            let (word, after) = rest.split_at(camel_case_end(rest));
            words.push(word.to_lowercase());
            // `URLPath` is `URL` and `Path`.
            let capitals: Vec<_> = word.char_indices().take_while(|(_, letter)| letter.is_uppercase()).collect();
            if let [_, .., (last, _)] = capitals[..]
                && word.chars().any(char::is_lowercase)
            {
                words.extend([word[..last].to_lowercase(), word[last..].to_lowercase()]);
            }
            rest = after;
        }
    }
    words
}

/// Where the first capital after a small letter stands.
fn camel_case_end(text: &str) -> usize {
    let pairs = text.char_indices().zip(text.char_indices().skip(1));
    let mut ends = pairs.filter(|((_, one), (_, next))| !one.is_uppercase() && next.is_uppercase());
    ends.next().map_or(text.len(), |(_, (end, _))| end)
}

/// Whether a text is a path or a URL.
fn is_place(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    let is_path = ["/", "~/", "./", "../", "\\\\"].iter().any(|start| first.starts_with(start)) && 1 < first.len();
    let is_drive = matches!(first.as_bytes(), [drive, b':', b'\\' | b'/', ..] if drive.is_ascii_alphabetic());
    let scheme = first.split_once("://").map(|(scheme, _)| scheme).unwrap_or_default();
    let is_url = !scheme.is_empty()
        && scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '.'));
    is_path || is_drive || is_url
}

#[cfg(test)]
mod tests {
    #[test]
    fn hidden_forms_of_paths_and_addresses_are_found() {
        let texts = [" /etc/passwd", "a\n/etc/passwd", "/", "~", "~root/.ssh", "..", "..\\x", "C:x", "a/../../b"];
        let more = ["$HOME/.ssh", "file:/etc/passwd", "mailto:x", "a@evil.example", "evil.example/x", "rm /tmp/x"];
        for text in texts.into_iter().chain(more) {
            assert!(super::may_name_a_place(text), "{text}");
        }
        for text in ["milk", "Release on Thursday: freeze on Tuesday.", ""] {
            assert!(!super::may_name_a_place(text), "{text}");
        }
    }

    use toolway_config::Trust;
    use toolway_wire::json::Raw;

    use super::{rows, warnings, words};
    use crate::policy::Annotations;

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
    fn names_are_split_into_words() {
        assert_eq!(words("sourceFile_name[0].toURL"), ["source", "file", "name", "to", "url"]);
        assert_eq!(words("URLPath2x"), ["urlpath", "url", "path", "x"]);
        assert_eq!(words("URLs"), ["urls", "ur", "ls"]);
        assert_eq!(words("[0]"), Vec::<String>::new());
    }

    #[test]
    fn names_of_paths_are_found_in_every_spelling() {
        for name in [
            "path2",
            "2path",
            "file_path_1",
            "URLPath",
            "XMLFile",
            "imageURL",
            "URLs",
            "s3Uri",
            "PATH",
            "baseurl",
            "outDir",
        ] {
            assert!(super::is_important_name(name), "{name}");
        }
        for name in ["text", "count2", "HTMLBody", "note_1", "isDirty"] {
            assert!(!super::is_important_name(name), "{name}");
        }
    }

    #[test]
    fn annotations_become_warnings() {
        let text = |read_only, destructive, says_open_world, trust| {
            let open_world = true;
            warnings(Annotations { read_only, destructive, open_world, says_open_world }, trust).join("; ")
        };
        assert_eq!(text(true, false, false, Trust::Read), "");
        assert!(text(true, false, false, Trust::Untrusted).contains("not trusted"));
        assert!(text(false, true, true, Trust::Read).starts_with("may delete or overwrite data; may reach"));
        assert_eq!(text(false, false, false, Trust::Full), "changes data");
    }
}
