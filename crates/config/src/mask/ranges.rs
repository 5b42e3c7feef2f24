//! Finds the ranges of a text that are secrets, depending on the role of the text.

use std::ops::Range;

use super::{is_secret_header, is_secret_name, is_secret_text, looks_secret, words::in_words};

/// Role of a text; decides which parts of it are secret.
#[derive(Clone, Copy)]
pub(crate) enum Role<'a> {
    /// A command, a path or a URL.
    Plain,
    Variable(&'a str),
    Header(&'a str),
    /// An argument; the field is the previous argument, which may be an option that names this one.
    Argument(&'a str),
}

/// Placeholder for a reference in a scanned text; not a secret by itself.
pub(crate) const REFERENCE: char = '\u{fffc}';

/// The secret ranges of a text, in order.
pub(crate) fn secrets(text: &str, role: Role<'_>) -> Vec<Range<usize>> {
    let found = match role {
        Role::Plain => None,
        Role::Variable(name) => {
            let token = &text[token_start(text)..];
            let is_secret = || looks_secret(name, token) || looks_secret(name, text) || !in_words(text).is_empty();
            is_secret().then_some(0..text.len())
        }
        Role::Header(name) => {
            let start = token_start(text);
            is_secret_header(name, &text[start..]).then_some(start..text.len())
        }
        Role::Argument(before) => in_argument(text, before),
    };
    let has_text = |range: &Range<usize>| text[range.clone()].chars().any(|letter| letter != REFERENCE);
    match found.filter(has_text) {
        Some(range) => vec![range],
        None => {
            let words = if matches!(role, Role::Argument(_)) { in_words(text) } else { Vec::new() };
            let mut all: Vec<Range<usize>> = in_urls(text).into_iter().chain(words).filter(has_text).collect();
            all.sort_by_key(|range| range.start);
            all.dedup_by(|next, before| next.start < before.end);
            all
        }
    }
}

/// Start of the token: the prefix before it (`Bearer`, `--token=`) is not secret.
pub(super) fn token_start(text: &str) -> usize {
    text.rfind([' ', '=']).map_or(0, |at| at + 1)
}

fn in_argument(text: &str, before: &str) -> Option<Range<usize>> {
    let is_option = before.starts_with('-') && !before.starts_with("--no-") && !before.contains('=');
    if is_option && !text.starts_with('-') && looks_secret(before, text) {
        return Some(0..text.len());
    }
    // `--token=x`, `TOKEN=x`, `Authorization: Bearer x`.
    for between in ['=', ':'] {
        let Some((name, value)) = text.split_once(between) else { continue };
        let is_name = !name.contains(|letter: char| letter.is_whitespace() || "/?&".contains(letter));
        let is_port = between == ':' && value.bytes().all(|byte| byte.is_ascii_digit());
        if is_name && !is_port && is_secret_name(name) && looks_secret(name, value.trim()) {
            let start = if between == ':' { value.rfind(' ').map_or(0, |at| at + 1) } else { 0 };
            return Some(name.len() + 1 + start..text.len());
        }
    }
    let start = token_start(text);
    is_secret_text(&text[start..]).then_some(start..text.len())
}

/// Secrets in the userinfo, path and query of every URL in the text.
fn in_urls(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find("://") {
        let (scheme, start) = (&text[from..from + at], from + at + 3);
        let length = text[start..].find(|letter: char| letter.is_whitespace() || "\"'<>".contains(letter));
        let end = length.map_or(text.len(), |length| start + length);
        // Two URLs may be separated by a comma only.
        let end = text[start..end].find("://").map_or(end, |_| next_url(text, start, end));
        let user_ends = user_part(&text[start..end]).map(|length| start + length);
        if let Some(user_ends) = user_ends {
            found.extend(in_user_part(scheme, &text[start..user_ends]).map(|it| start + it.start..start + it.end));
        }
        found.extend(in_path(text, user_ends.unwrap_or(start), end));
        found.extend(in_query(text, user_ends.unwrap_or(start), end));
        from = end;
    }
    found
}

/// Offset of the scheme of the next URL.
fn next_url(text: &str, start: usize, end: usize) -> usize {
    let at = start + text[start..end].find("://").unwrap_or_default();
    let is_scheme = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
    start + text[start..at].trim_end_matches(is_scheme).len()
}

/// Length of the userinfo before `@`. A password may contain `/`: if the text after `:` is not a port, it is a password.
fn user_part(address: &str) -> Option<usize> {
    let host_ends = address.find(['/', '?', '#']).unwrap_or(address.len());
    if let Some(at) = address[..host_ends].rfind('@') {
        return Some(at);
    }
    let port = address[..host_ends].rsplit_once(':')?.1;
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit()) || port.contains([REFERENCE, ']']);
    address.rfind('@').filter(|_| !is_port)
}

/// The secret range of a userinfo: the password, and the user name if it looks like a key or is alone in an http URL.
fn in_user_part(scheme: &str, user: &str) -> Option<Range<usize>> {
    let scheme = scheme.to_ascii_lowercase();
    let is_web = scheme.ends_with("http") || scheme.ends_with("https");
    match user.split_once(':') {
        Some((name, password)) if is_secret_text(name) || password.is_empty() => Some(0..user.len()),
        Some((name, _)) => Some(name.len() + 1..user.len()),
        None => (is_web || is_secret_text(user)).then_some(0..user.len()),
    }
}

fn in_path(text: &str, start: usize, end: usize) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let end = text[start..end].find(['?', '#']).map_or(end, |length| start + length);
    let mut at = start;
    // The first segment is the host.
    for (index, segment) in text[start..end].split('/').enumerate() {
        if 0 < index && is_secret_text(segment) {
            found.push(at..at + segment.len());
        }
        at += segment.len() + 1;
    }
    found
}

fn in_query(text: &str, start: usize, end: usize) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let Some(query) = text[start..end].find(['?', '#']) else { return found };
    let mut at = start + query + 1;
    for pair in text[at..end].split(['&', ';', '#', '?']) {
        if let Some((name, value)) = pair.split_once('=')
            && looks_secret(name, value)
        {
            found.push(at + name.len() + 1..at + pair.len());
        }
        at += pair.len() + 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Role, secrets};

    fn masked(text: &str, role: Role<'_>) -> String {
        let mut masked = text.to_owned();
        for range in secrets(text, role).into_iter().rev() {
            masked.replace_range(range, "*");
        }
        masked
    }

    #[test]
    fn passwords_and_keys_in_urls_are_masked() {
        for (text, left) in [
            ("http://user:pw@example.org/a?api_key=x&q=1", "http://user:*@example.org/a?api_key=*&q=1"),
            ("postgres://u:pw@db/x", "postgres://u:*@db/x"),
            ("postgres://u:p/w@db/x", "postgres://u:*@db/x"),
            ("--db=postgres://u:p@w@db", "--db=postgres://u:*@db"),
            ("https://hunter@example.org/", "https://*@example.org/"),
            ("redis://:pw@cache", "redis://:*@cache"),
            ("amqp://a:x@one,amqp://b:y@two", "amqp://a:*@one,amqp://b:*@two"),
            ("see https://example.org/#access_token=x now", "see https://example.org/#access_token=* now"),
            ("https://example.org/sk-abcdef123/mcp?sig=x", "https://example.org/*/mcp?sig=*"),
            ("ssh://git@example.org/a", "ssh://git@example.org/a"),
            ("https://example.org:8080/@scope/a?page=2", "https://example.org:8080/@scope/a?page=2"),
            ("postgres://u:\u{fffc}@db", "postgres://u:\u{fffc}@db"),
        ] {
            for role in [Role::Plain, Role::Argument(""), Role::Variable("WHERE")] {
                assert_eq!(masked(text, role), left);
            }
        }
    }

    #[test]
    fn value_of_a_secret_option_is_masked() {
        for (before, text, left) in [
            ("--token", "x y", "*"),
            ("", "--password=a=b", "--password=*"),
            ("-e", "MYPASS=hunter8", "MYPASS=*"),
            ("--header", "Authorization: Bearer abc", "Authorization: Bearer *"),
            ("--token", "--verbose", "--verbose"),
            ("--no-auth", "server", "server"),
            ("--auth", "true", "true"),
            ("--token", "\u{fffc}", "\u{fffc}"),
            ("-p", "8080", "8080"),
            ("--host", "auth:8080", "auth:8080"),
            ("--level", "debug", "debug"),
        ] {
            assert_eq!(masked(text, Role::Argument(before)), left, "{before} {text}");
        }
    }
}
