//! Paths in the arguments of a call, for servers with `allowFileAccess: false`.
//!
//! A tripwire, not a sandbox: it compares texts. Links are not followed; relative paths, paths inside other text, texts that
//! are encoded twice and what the server does by itself are not found. A text that is JSON is read as JSON too: some servers
//! parse a text where their schema has a list or an object.

use std::path::{Component, Path, PathBuf};

use toolway_wire::json::{JsonKind, Raw};
use url::Url;

use super::{PolicyInput, hosts};
use crate::call::CallKind;

/// Values deeper than this are refused: they cannot be checked.
const MAX_DEPTH: usize = 64;

/// Why a request is refused: the first path outside the roots, in one sentence. `None` if all are inside.
pub(super) fn refusal(input: &PolicyInput<'_>) -> Option<String> {
    let roots: Vec<PathBuf> = input.reach.roots.iter().filter_map(|root| path_of_uri(root)).collect();
    let of_uri = (input.subject.kind == CallKind::Resource).then(|| outside(&input.subject.raw_name, &roots)).flatten();
    let found = of_uri.or_else(|| search(input.arguments?, &roots, 0));
    found.map(|path| format!("`{}` is outside the roots of the server, and `allowFileAccess` is false", shown(&path)))
}

/// The first value outside the roots.
fn search(value: &Raw, roots: &[PathBuf], depth: usize) -> Option<String> {
    if MAX_DEPTH < depth {
        return Some("a value that is nested too deeply to be checked".to_owned());
    }
    match value.kind() {
        JsonKind::String => match value.as_str() {
            Some(text) => outside(&text, roots).or_else(|| search(&json_in(&text)?, roots, depth + 1)),
            None => Some("a text that is not Unicode and cannot be checked".to_owned()),
        },
        JsonKind::Array => value.elements().iter().find_map(|value| search(value, roots, depth + 1)),
        JsonKind::Object => value
            .members()
            .iter()
            .find_map(|member| outside(&member.key, roots).or_else(|| search(&member.value, roots, depth + 1))),
        _ => None,
    }
}

/// A list, an object or a text in a text.
fn json_in(text: &str) -> Option<Raw> {
    text.trim_start().starts_with(['[', '{', '"']).then(|| Raw::parse(text.to_owned()).ok()).flatten()
}

/// The text, if it is a path outside the roots, or contains a `file:` URI that is.
fn outside(text: &str, roots: &[PathBuf]) -> Option<String> {
    let others = hosts::other_readings(text);
    std::iter::once(text).chain(others.iter().map(String::as_str)).find_map(|text| {
        let is_outside = |uri: &String| !path_of_uri(uri).is_some_and(|path| is_inside(&path, roots));
        let path = absolute(text).filter(|path| !(is_inside(path, roots) && is_inside(&with_slashes(text), roots)));
        file_uris(text).into_iter().find(is_outside).or(path.map(|_| text.to_owned()))
    })
}

/// The path of a text as servers read it that take `\` for `/`.
fn with_slashes(text: &str) -> PathBuf {
    PathBuf::from(text.trim().replace('\\', "/"))
}

/// The `file:` URIs in a text: each up to the next white space or quote, and as parsers read it that take tabs and line
/// breaks out of a URL first, as those of browsers do.
fn file_uris(text: &str) -> Vec<String> {
    let mut uris = Vec::new();
    for (start, _) in text.char_indices() {
        // `git+file:` reads a file as `file:` does; `profile:` is a word.
        if text[..start].chars().next_back().is_some_and(char::is_alphanumeric) {
            continue;
        }
        let Some(length) = scheme_length(&text[start..]) else { continue };
        let rest = &text[start + length..];
        let up_to = |ends: fn(char) -> bool| &rest[..rest.find(ends).unwrap_or(rest.len())];
        let shortest = up_to(|letter| letter.is_whitespace() || QUOTES.contains(letter));
        let without_breaks = up_to(|letter| letter == ' ' || QUOTES.contains(letter)).replace(BREAKS, "");
        // A colon at the end of a word is one of a sentence.
        if !shortest.is_empty() || without_breaks.starts_with(['/', '\\']) {
            uris.extend([format!("file:{shortest}"), format!("file:{without_breaks}")]);
        }
    }
    uris
}

/// What ends a URI in a text.
const QUOTES: &str = "\"'<>`";
/// What parsers of URLs take out of them.
const BREAKS: [char; 3] = ['\t', '\n', '\r'];

/// Bytes of the scheme `file:` at the beginning of a text, with the tabs and line breaks inside it.
fn scheme_length(text: &str) -> Option<usize> {
    let mut expected = "file:".chars();
    for (index, letter) in text.char_indices().filter(|(index, letter)| *index == 0 || !BREAKS.contains(letter)) {
        if !expected.next()?.eq_ignore_ascii_case(&letter) {
            return None;
        }
        if letter == ':' {
            return Some(index + 1);
        }
    }
    None
}

/// A text that is an absolute path, of this system or of Windows, or of the home directory.
fn absolute(text: &str) -> Option<PathBuf> {
    let text = text.trim();
    let bytes = text.as_bytes();
    let of_drive =
        bytes.len() >= 3 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':' && matches!(bytes[2], b'\\' | b'/');
    let is_one = text.starts_with(['/', '\\']) || of_drive || begins_with_home(text);
    is_one.then(|| PathBuf::from(text))
}

/// `~`, `~name/`, `$NAME/`, `${NAME}/` and `%NAME%\`, which shells and many servers replace by an absolute path.
fn begins_with_home(text: &str) -> bool {
    let first = text.split(['/', '\\']).next().unwrap_or_default();
    let has_more = first.len() < text.len();
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let is_name = |name: &str| {
        name.bytes().next().is_some_and(is_letter)
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.()".contains(&byte))
    };
    let braced = |name: &'_ str| name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).map(str::len);
    let variable = match (first.strip_prefix('$'), first.strip_prefix('%')) {
        (Some(name), _) => braced(name).map_or(Some(name), |length| name.get(1..=length)),
        (None, Some(name)) => name.strip_suffix('%'),
        (None, None) => None,
    };
    match first.strip_prefix('~') {
        Some("") => true,
        Some(name) => has_more && is_name(name),
        None => has_more && variable.is_some_and(is_name),
    }
}

fn path_of_uri(uri: &str) -> Option<PathBuf> {
    let url = Url::parse(uri).ok().filter(|url| url.scheme() == "file")?;
    url.to_file_path().ok()
}

/// Compares component by component, after `..` has been resolved in the text.
fn is_inside(path: &Path, roots: &[PathBuf]) -> bool {
    let path = resolved(path);
    roots.iter().any(|root| path.starts_with(resolved(root)))
}

fn resolved(path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => drop(resolved.pop()),
            component => resolved.push(component),
        }
    }
    resolved
}

fn shown(text: &str) -> String {
    toolway_config::visible::one_line(text)
}

#[cfg(test)]
mod tests {
    use toolway_wire::json::Raw;

    use super::{outside, search};

    #[test]
    fn paths_in_texts_of_json_are_found_and_what_cannot_be_read_is_refused() {
        let roots = ["/home/ada/notes".into()];
        let found = |arguments: &str| search(&Raw::parse(arguments.to_owned()).unwrap(), &roots, 0);
        for outside in [
            r#"{"paths": "[\"/home/ada/notes/a\", \"/etc/passwd\"]"}"#,
            r#"{"options": " {\"deep\": \"[\\\"/etc/passwd\\\"]\"}"}"#,
            r#"{"path": "\"/etc/passwd\""}"#,
            r#"{"path": "/etc/passwd\ud800"}"#,
            r#"{"/etc/passwd": true}"#,
        ] {
            assert!(found(outside).is_some(), "{outside}");
        }
        for inside in [
            r#"{"paths": "[\"/home/ada/notes/a\", \"b\"]"}"#,
            r#"{"text": "{a: /etc/passwd}"}"#,
            r#"{"text": "\"quoted\" and more"}"#,
        ] {
            assert_eq!(found(inside), None, "{inside}");
        }
    }

    #[test]
    fn paths_outside_the_roots_are_found_in_whatever_form() {
        let roots = ["/home/ada/notes".into()];
        for inside in [
            "/home/ada/notes",
            "/home/ada/notes/a b.md",
            "/home/ada/notes/../notes/x",
            "file:///home/ada/notes/x",
            "FILE:///home/ada/notes/x",
            "see file:///home/ada/notes/x and a/b",
            "notes/a.md",
            "../notes",
            "and/or",
            "profile: x",
            "https://example.org/etc/passwd",
            "in that file: a note",
            "file:",
            "~5 minutes / day",
            "$5/month",
            "100%/year",
            "/home/ada/notes/a\\b",
            "in that file:\n- a",
            "of the\nfile: a",
            "see file:///home/ada/notes/x\nand more",
            "fi le:///etc/passwd",
        ] {
            assert_eq!(outside(inside, &roots), None, "{inside}");
        }
        for text in [
            "/etc/passwd",
            " /etc/passwd",
            "/home/ada/notes-evil/x",
            "/home/ada/notes/../../eve/x",
            "/home/ada",
            "/home/Ada/notes/x",
            "file:///etc/passwd",
            "File:/etc/passwd",
            "file://localhost/etc/passwd",
            "file://other.example/home/ada/notes/x",
            "file:///home/ada/notes/%2e%2e/%2e%2e/eve",
            "%2Fetc%2Fpasswd",
            "read file:///etc/passwd please",
            "(file:///etc/passwd)",
            "~/.ssh/id_ed25519",
            "~root/.ssh/id_rsa",
            "$HOME/.ssh/id_rsa",
            "${HOME}/.ssh/id_rsa",
            "%USERPROFILE%\\.ssh\\id_rsa",
            "git+file:///etc",
            "view-source:file:///etc/passwd",
            "fi\tle:///etc/passwd",
            "F\r\nILE\n:///etc/passwd",
            "file:\n///etc/passwd",
            "file:///home/ada/notes/\n../../../etc/passwd",
            "file:///home/ada/notes/x\t/../../../eve",
            "//etc/passwd",
            "/proc/self/root/etc/passwd",
            "file:///home/ada/notes/..%2f..%2f..%2fetc",
            "FILE:\\\\etc\\passwd",
            "file:etc/passwd",
            "file:%2F%2F%2Fetc%2Fpasswd",
            "\\\\?\\C:\\Windows",
            "c:/Windows",
            "C:\\Users\\ada",
            "\\\\share\\x",
            "/home/ada/notes\u{2044}..",
            "/home/ada/notes\\..\\..\\eve",
            "/home/ada/notes/..\\../eve",
        ] {
            assert!(outside(text, &roots).is_some(), "{text}");
        }
    }
}
