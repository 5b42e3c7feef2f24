//! Which stretches of a text are secrets, given what the text is for.

use std::ops::Range;

use super::{is_secret_header, is_secret_text, looks_secret, names_secret};

/// What a text is for, which decides what in it is a secret.
#[derive(Clone, Copy)]
pub(crate) enum Role<'a> {
    /// A command, a path or an address.
    Plain,
    Variable(&'a str),
    Header(&'a str),
    /// After an argument, which may be an option that says what this one is.
    Argument(&'a str),
}

/// Stands for a reference in a text that is looked through: by itself it is no secret.
pub(crate) const REFERENCE: char = '\u{fffc}';

/// The stretches of a text that are secrets, in order.
pub(crate) fn secrets(text: &str, role: Role<'_>) -> Vec<Range<usize>> {
    let found = match role {
        Role::Plain => None,
        Role::Variable(name) => {
            let token = &text[last_word(text)..];
            (looks_secret(name, token) || looks_secret(name, text)).then_some(0..text.len())
        }
        Role::Header(name) => {
            let start = last_word(text);
            is_secret_header(name, &text[start..]).then_some(start..text.len())
        }
        Role::Argument(before) => in_argument(text, before),
    };
    let is_said = |range: &Range<usize>| text[range.clone()].chars().any(|letter| letter != REFERENCE);
    match found.filter(is_said) {
        Some(range) => vec![range],
        None => in_addresses(text).into_iter().filter(is_said).collect(),
    }
}

/// The word before a token is not secret: `Bearer`, `--token=`.
fn last_word(text: &str) -> usize {
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
        if is_name && !is_port && names_secret(name) && looks_secret(name, value.trim()) {
            let start = if between == ':' { value.rfind(' ').map_or(0, |at| at + 1) } else { 0 };
            return Some(name.len() + 1 + start..text.len());
        }
    }
    let start = last_word(text);
    is_secret_text(&text[start..]).then_some(start..text.len())
}

/// The user part and the keys in the path and the query of every address.
fn in_addresses(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find("://") {
        let (scheme, start) = (&text[from..from + at], from + at + 3);
        let length = text[start..].find(|letter: char| letter.is_whitespace() || "\"'<>".contains(letter));
        let end = length.map_or(text.len(), |length| start + length);
        // Of two that only a comma parts, each has its own.
        let end = text[start..end].find("://").map_or(end, |_| next_address(text, start, end));
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

/// Where the letters of the next address's scheme begin.
fn next_address(text: &str, start: usize, end: usize) -> usize {
    let at = start + text[start..end].find("://").unwrap_or_default();
    let is_scheme = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
    start + text[start..at].trim_end_matches(is_scheme).len()
}

/// How long the part before the `@` is. A password with a `/` in it is one too: no port is a word.
fn user_part(address: &str) -> Option<usize> {
    let host_ends = address.find(['/', '?', '#']).unwrap_or(address.len());
    if let Some(at) = address[..host_ends].rfind('@') {
        return Some(at);
    }
    let port = address[..host_ends].rsplit_once(':')?.1;
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit()) || port.contains([REFERENCE, ']']);
    address.rfind('@').filter(|_| !is_port)
}

/// The password; the name too where it is a key. On the web a name alone is one.
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
    // The first is the host.
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
    fn addresses_lose_their_passwords_and_keys_wherever_they_stand() {
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
    fn an_option_says_what_stands_behind_or_after_it() {
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
