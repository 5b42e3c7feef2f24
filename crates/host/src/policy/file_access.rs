//! Paths in the arguments of a call, for servers with `allowFileAccess: false`.
//!
//! A tripwire, not a sandbox: it compares texts. Links are not followed, relative paths and paths inside other text are not
//! found, and what the server does by itself is not seen.

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
        JsonKind::String => outside(&value.as_str()?, roots),
        JsonKind::Array => value.elements().iter().find_map(|value| search(value, roots, depth + 1)),
        JsonKind::Object => value
            .members()
            .iter()
            .find_map(|member| outside(&member.key, roots).or_else(|| search(&member.value, roots, depth + 1))),
        _ => None,
    }
}

/// The text, if it is a path outside the roots, or contains a `file:` URI that is.
fn outside(text: &str, roots: &[PathBuf]) -> Option<String> {
    let others = hosts::other_readings(text);
    std::iter::once(text).chain(others.iter().map(String::as_str)).find_map(|text| {
        let uris = file_uris(text).filter(|uri| !path_of_uri(uri).is_some_and(|path| is_inside(&path, roots)));
        let path = absolute(text).filter(|path| !is_inside(path, roots)).map(|_| text.to_owned());
        uris.map(str::to_owned).next().or(path)
    })
}

/// The `file:` URIs in a text, each up to the next space or quote.
fn file_uris(text: &str) -> impl Iterator<Item = &str> {
    let is_start = |index: &usize| {
        let scheme = text.as_bytes().get(*index..*index + 5);
        let before = text[..*index].chars().next_back();
        scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"file:"))
            && !before.is_some_and(|letter| letter.is_alphanumeric() || "+-.".contains(letter))
    };
    let starts = text.char_indices().map(|(index, _)| index).filter(is_start).collect::<Vec<_>>();
    starts.into_iter().map(|start| {
        let rest = &text[start..];
        &rest[..rest.find(|letter: char| letter.is_whitespace() || "\"'<>`".contains(letter)).unwrap_or(rest.len())]
    })
}

/// A text that is an absolute path, of this system or of Windows, or of the home directory.
fn absolute(text: &str) -> Option<PathBuf> {
    let text = text.trim();
    let bytes = text.as_bytes();
    let of_drive =
        bytes.len() >= 3 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':' && matches!(bytes[2], b'\\' | b'/');
    let is_one = text.starts_with(['/', '\\']) || text == "~" || text.starts_with("~/") || of_drive;
    is_one.then(|| PathBuf::from(text))
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
    use super::outside;

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
            "C:\\Users\\ada",
            "\\\\share\\x",
            "/home/ada/notes\u{2044}..",
        ] {
            assert!(outside(text, &roots).is_some(), "{text}");
        }
    }
}
