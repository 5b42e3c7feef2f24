//! Replaces the secret parts of one text by references. References that it has stay.

use std::ops::Range;

use super::role::TextRole;
use crate::{
    interpolate::{Piece, Reference, Template},
    mask::{self, REFERENCE, is_secret_default, secrets},
};

/// The text with a reference for each secret; `None` if it has none. `pick` gets the word that names a secret and its
/// value, and returns the reference.
pub(super) fn rewrite<E>(
    text: &str,
    role: TextRole<'_>,
    pick: &mut impl FnMut(&str, &str) -> Result<String, E>,
) -> Result<Option<String>, E> {
    let template = Template::new(text, role.dialect(), 0);
    let pieces = template.pieces();
    let joined = mask::joined(&pieces);
    let ranges = ranges(&joined, role, mask::has_secret_part(&template));
    let (written, count) = render(&pieces, &joined, &ranges, role, pick)?;
    Ok((0 < count).then_some(written))
}

/// The secret ranges of a text with [`REFERENCE`] for each reference.
fn ranges(joined: &str, role: TextRole<'_>, has_secret_part: bool) -> Vec<Range<usize>> {
    let whole = 0..joined.len();
    let Some(mask) = role.mask() else {
        return match role {
            TextRole::Prose => known_keys(joined),
            _ if mask::is_plain(joined) || !joined.contains(|letter| letter != REFERENCE) => Vec::new(),
            _ => vec![whole],
        };
    };
    let found = secrets(joined, mask);
    match role {
        TextRole::Variable(_) if !found.is_empty() => vec![whole],
        // A key in the host name, or in a part that is not a path or a query.
        TextRole::Address if found.is_empty() && has_secret_part => vec![whole],
        _ => found,
    }
}

/// The words that begin as keys of well-known services do.
fn known_keys(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    for word in text.split_inclusive(|letter: char| letter.is_whitespace() || "\"'`,;()<>=:".contains(letter)) {
        let key = word.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric());
        if mask::looks_like_key(key) {
            found.push(at..at + key.len());
        }
        at += word.len();
    }
    found
}

/// The text of the pieces with references, and how many were made.
fn render<E>(
    pieces: &[Piece],
    joined: &str,
    ranges: &[Range<usize>],
    role: TextRole<'_>,
    pick: &mut impl FnMut(&str, &str) -> Result<String, E>,
) -> Result<(String, usize), E> {
    let (mut text, mut count, mut at) = (String::new(), 0, 0);
    for piece in pieces {
        let plain = match piece {
            Piece::Text(plain) => plain,
            Piece::Reference(reference) => {
                let (written, inner) = rendered_reference(reference, role, pick)?;
                text.push_str(&written);
                count += inner;
                at += REFERENCE.len_utf8();
                continue;
            }
        };
        let end = at + plain.len();
        for range in ranges {
            if end <= range.start || range.end <= at {
                continue;
            }
            let part = range.start.max(at)..range.end.min(end);
            // What only separates references is not a secret.
            if !joined[part.clone()].contains(char::is_alphanumeric) {
                continue;
            }
            text.push_str(&escaped(&joined[at..part.start]));
            text.push_str(&pick(word(joined, range, role), &joined[part.clone()])?);
            count += 1;
            at = part.end;
        }
        text.push_str(&escaped(&joined[at..end]));
        at = end;
    }
    Ok((text, count))
}

/// A reference in Toolway's syntax; a secret in its default is replaced.
fn rendered_reference<E>(
    reference: &Reference,
    role: TextRole<'_>,
    pick: &mut impl FnMut(&str, &str) -> Result<String, E>,
) -> Result<(String, usize), E> {
    let Reference::Variable { name, default: Some(default) } = reference else { return Ok((written(reference), 0)) };
    let joined = mask::joined(default);
    let whole = 0..joined.len();
    // The name of the variable may say that it is secret, or the key that it is used for.
    let (ranges, role) = match is_secret_default(name, default) {
        true => (vec![whole], TextRole::Variable(name)),
        false => (ranges(&joined, role, false), role),
    };
    let (default, count) = render(default, &joined, &ranges, role, pick)?;
    Ok((format!("${{{name}:-{default}}}"), count))
}

/// A reference without a default, as it is written in Toolway's syntax.
fn written(reference: &Reference) -> String {
    match reference {
        Reference::Variable { name, .. } => format!("${{{name}}}"),
        Reference::File(path) => format!("${{file:{path}}}"),
        Reference::Keychain { service, entry } => format!("${{keychain:{service}/{entry}}}"),
        Reference::Secret(name) => name.reference(),
        Reference::Unknown(text) => text.clone(),
        // Not in Toolway's syntax.
        Reference::Input(id) => format!("${{input:{id}}}"),
        Reference::Home => "${userHome}".to_owned(),
        Reference::Folder => "${workspaceFolder}".to_owned(),
        Reference::FolderName => "${workspaceFolderBasename}".to_owned(),
        Reference::Separator => "${/}".to_owned(),
    }
}

/// The word that names a secret: the key before it if there is one, else that of its role.
fn word<'a>(text: &'a str, range: &Range<usize>, role: TextRole<'a>) -> &'a str {
    let of_role = match role {
        TextRole::Variable(name) | TextRole::Header(name) | TextRole::Whole(name) => return name,
        TextRole::Argument(before) if before.starts_with('-') && !before.contains('=') => {
            before.trim_start_matches('-')
        }
        TextRole::Address => "url",
        TextRole::Argument(_) | TextRole::Plain | TextRole::Prose => "secret",
    };
    if text[range.end..].starts_with('@') {
        return "password";
    }
    let before = text[..range.start].strip_suffix('=');
    let key = before.and_then(|before| before.rsplit(['?', '&', ';', '#', ' ', '"', '\'']).next());
    let key = key.map(|key| key.trim_start_matches('-')).filter(|key| !key.is_empty());
    key.unwrap_or(of_role)
}

/// Escapes a literal text.
pub(crate) fn escaped(text: &str) -> String {
    text.replace("${", "$${")
}
