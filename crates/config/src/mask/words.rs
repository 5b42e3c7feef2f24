//! Finds secrets among the words of a longer text: a shell command, a JSON object in a variable.

use std::ops::Range;

use super::{is_secret_name, is_secret_text, looks_secret, ranges::token_start};

/// Words before a credential.
const SCHEMES: [&str; 3] = ["bearer", "basic", "token"];

/// What the words before say about the next one.
#[derive(Clone, Copy)]
enum Before<'a> {
    Nothing,
    /// `--token`, `Authorization:`, `"password" :`
    Name(&'a str),
    /// `Bearer`
    Scheme,
}

/// The words that are secret, or the part of each that is. Words of URLs are not looked at.
pub(super) fn in_words(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut before = Before::Nothing;
    // A name that is followed by `:` or `=` as a word of its own, as in JSON.
    let mut last = "";
    for (start, word) in words(text) {
        if matches!(word, ":" | "=" | ":=") {
            before = if is_secret_name(last) { Before::Name(last) } else { Before::Nothing };
            continue;
        }
        last = word;
        let range = match (split(word), before) {
            _ if word.contains("://") => None,
            (Some((name, value)), _) if is_secret_name(name) && is_scheme(value) => {
                before = Before::Scheme;
                continue;
            }
            (Some((name, value)), _) if is_secret_name(name) && !value.is_empty() => {
                let is_port = word[name.len()..].starts_with(':') && value.bytes().all(|byte| byte.is_ascii_digit());
                (!is_port && looks_secret(name, value)).then(|| start + name.len() + 1..start + word.len())
            }
            (_, Before::Name(_)) if is_scheme(word) => {
                before = Before::Scheme;
                continue;
            }
            (_, Before::Name(name)) if !word.starts_with('-') && looks_secret(name, word) => {
                Some(start..start + word.len())
            }
            (_, Before::Scheme) => Some(start..start + word.len()),
            _ => {
                let token = token_start(word);
                is_secret_text(&word[token..]).then(|| start + token..start + word.len())
            }
        };
        found.extend(range);
        before = said_by(word);
    }
    found
}

/// What a word says about the next one.
fn said_by(word: &str) -> Before<'_> {
    let is_option = word.starts_with("--") && !word.starts_with("--no-") && !word.contains('=');
    let name = word.strip_suffix([':', '=']).or_else(|| Some(word).filter(|_| is_option));
    match name.filter(|name| is_secret_name(name)) {
        Some(name) => Before::Name(name),
        None if word.eq_ignore_ascii_case("bearer") => Before::Scheme,
        None => Before::Nothing,
    }
}

fn is_scheme(word: &str) -> bool {
    SCHEMES.contains(&word.to_ascii_lowercase().as_str())
}

fn split(word: &str) -> Option<(&str, &str)> {
    let at = word.find(['=', ':'])?;
    Some((&word[..at], &word[at + 1..]))
}

/// The words of a text, each with its offset.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_break = |letter: char| letter.is_whitespace() || "\"'`{}[](),;|&<>\\".contains(letter);
    let mut at = 0;
    text.split(is_break).filter_map(move |word| {
        let start = at;
        // Every break is one character; its length is read from the text.
        at += word.len() + text[at + word.len()..].chars().next().map_or(0, char::len_utf8);
        (!word.is_empty()).then_some((start, word))
    })
}

#[cfg(test)]
mod tests {
    use super::in_words;

    #[test]
    fn secrets_in_commands_and_json_are_found() {
        for (text, left) in [
            ("export TOKEN=abc; npx server", "export TOKEN=*; npx server"),
            ("srv --token abc --level 3", "srv --token * --level 3"),
            ("curl -H 'Authorization: Bearer abc' x", "curl -H 'Authorization: Bearer *' x"),
            ("curl -H Authorization:Bearer abc", "curl -H Authorization:Bearer *"),
            (
                r#"{"Authorization": "Bearer ntn_1", "Version": "2022-06-28"}"#,
                r#"{"Authorization": "Bearer *", "Version": "2022-06-28"}"#,
            ),
            (r#"{"api_key":"abc","n":1}"#, r#"{"api_key":"*","n":1}"#),
            ("ü ghp_0123456789 ü", "ü * ü"),
            ("run --no-auth server --host auth:8080", "run --no-auth server --host auth:8080"),
            (
                "npx -y @modelcontextprotocol/server-github@2025.4.8",
                "npx -y @modelcontextprotocol/server-github@2025.4.8",
            ),
            ("see https://example.org/?token=x", "see https://example.org/?token=x"),
        ] {
            let mut masked = text.to_owned();
            in_words(text).into_iter().rev().for_each(|range| masked.replace_range(range, "*"));
            assert_eq!(masked, left);
        }
    }
}
