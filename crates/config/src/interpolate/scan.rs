//! Splits a string at its references, by the rules of its dialect.

use super::dialect::{Dialect, Form};
use crate::secret::SecretName;

/// A part of a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Literal text.
    Text(String),
    /// A value to look up.
    Reference(Reference),
}

/// A value to look up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// An environment variable.
    Variable {
        /// Variable name.
        name: String,
        /// Replacement if the variable is unset or empty.
        default: Option<Vec<Piece>>,
    },
    /// The content of a file, by its path as written.
    File(String),
    /// An entry of the keychain.
    Keychain {
        /// Service name.
        service: String,
        /// Entry name.
        entry: String,
    },
    /// A secret in Toolway's vault.
    Secret(SecretName),
    /// An input that the user enters once, by its id.
    Input(String),
    /// Home directory of the user.
    Home,
    /// Project folder.
    Folder,
    /// Last component of the project folder.
    FolderName,
    /// Path separator of this system.
    Separator,
    /// A placeholder that this dialect does not support.
    Unknown(String),
}

/// Maximum nesting of defaults; deeper ones are literal text.
const MAX_DEPTH: usize = 4;

/// The pieces of a string, in order.
pub(super) fn pieces(text: &str, dialect: Dialect) -> Vec<Piece> {
    if dialect.knows(Form::Whole)
        && let Some(reference) = whole(text)
    {
        return vec![Piece::Reference(reference)];
    }
    cut(text, dialect, 0)
}

/// Adds all references of the pieces, including those in defaults.
pub(super) fn collect(pieces: Vec<Piece>, found: &mut Vec<Reference>) {
    for piece in pieces {
        let Piece::Reference(reference) = piece else { continue };
        if let Reference::Variable { default: Some(default), .. } = &reference {
            collect(default.clone(), found);
        }
        found.push(reference);
    }
}

fn cut(text: &str, dialect: Dialect, depth: usize) -> Vec<Piece> {
    let (mut pieces, mut plain, mut rest) = (Vec::new(), String::new(), text);
    let braces = Braces::of(text);
    while let Some(at) = rest.find(['$', '{']) {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        if dialect.knows(Form::Escape)
            && let Some(after) = rest.strip_prefix("$${")
        {
            plain.push_str("${");
            rest = after;
            continue;
        }
        let brace = text.len() - rest.len() + usize::from(rest.starts_with('$'));
        let end = braces.end(brace).map(|end| end - (text.len() - rest.len()));
        if let Some((reference, after)) = reference(rest, end, dialect, depth) {
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(Piece::Reference(reference));
            rest = after;
        } else {
            // `${` as a whole, so that its brace is not scanned again.
            let length = if rest.starts_with("${") { 2 } else { 1 };
            plain.push_str(&rest[..length]);
            rest = &rest[length..];
        }
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        pieces.push(Piece::Text(plain));
    }
    pieces
}

/// The reference at the start of `text` and the rest after it; `end` is the offset of its closing brace.
fn reference(text: &str, end: Option<usize>, dialect: Dialect, depth: usize) -> Option<(Reference, &str)> {
    if text.starts_with("${") {
        let end = end.filter(|_| !matches!(dialect, Dialect::Literal | Dialect::Opencode))?;
        return braced(&text[2..end], dialect, depth).map(|reference| (reference, &text[end + 1..]));
    }
    if text.starts_with('{') {
        let end = end.filter(|_| dialect.knows(Form::Curly))?;
        return curly(&text[1..end]).map(|reference| (reference, &text[end + 1..]));
    }
    let after_dollar = text.strip_prefix('$')?;
    let name = match after_dollar.strip_prefix("env:").filter(|_| dialect.knows(Form::DollarEnv)) {
        Some(name) => name,
        None => dialect.knows(Form::Bare).then_some(after_dollar)?,
    };
    let length = name.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    is_name(&name[..length]).then(|| (variable(&name[..length]), &name[length..]))
}

/// Maximum length of a reference in bytes.
const MAX_LENGTH: usize = 1024;

/// Offsets of matching braces, found in one pass.
struct Braces(Vec<(usize, usize)>);

impl Braces {
    fn of(text: &str) -> Self {
        let (mut open, mut pairs) = (Vec::new(), Vec::new());
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                b'{' => open.push(at),
                b'}' => pairs.extend(open.pop().map(|start| (start, at))),
                _ => {}
            }
        }
        pairs.sort_unstable();
        Self(pairs)
    }

    /// Offset of the brace that closes the one at `start`, if it is within [`MAX_LENGTH`].
    fn end(&self, start: usize) -> Option<usize> {
        let index = self.0.binary_search_by_key(&start, |(start, _)| *start).ok()?;
        Some(self.0[index].1).filter(|end| end - start <= MAX_LENGTH)
    }
}

fn braced(inside: &str, dialect: Dialect, depth: usize) -> Option<Reference> {
    if dialect.knows(Form::Editor)
        && let Some(reference) = editor(inside)
    {
        return Some(reference);
    }
    let unknown = || Some(Reference::Unknown(format!("${{{inside}}}")));
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    if default.is_some() && is_name(name.strip_prefix("env:").unwrap_or(name)) && !dialect.knows(Form::Default) {
        return unknown();
    }
    let default = match default {
        Some(default) if depth < MAX_DEPTH => Some(cut(default, dialect, depth + 1)),
        Some(default) => Some(vec![Piece::Text(default.to_owned())]),
        None => None,
    };
    if is_name(name) {
        let name = name.to_owned();
        return if dialect.knows(Form::Braced) { Some(Reference::Variable { name, default }) } else { unknown() };
    }
    let (kind, rest) = name.split_once(':').filter(|(kind, _)| is_name(kind))?;
    match kind {
        "env" if dialect.knows(Form::Env) && is_name(rest) => {
            Some(Reference::Variable { name: rest.to_owned(), default })
        }
        // A path or an entry may itself contain `:-`.
        "file" if dialect.knows(Form::File) => Some(Reference::File(inside["file:".len()..].to_owned())),
        "keychain" if dialect.knows(Form::Keychain) => keychain(&inside["keychain:".len()..]).or_else(unknown),
        "secret" if dialect.knows(Form::Secret) => {
            inside["secret:".len()..].parse().map(Reference::Secret).ok().or_else(unknown)
        }
        "input" if dialect.knows(Form::Input) => Some(Reference::Input(rest.to_owned())),
        _ => unknown(),
    }
}

fn editor(inside: &str) -> Option<Reference> {
    match inside {
        "userHome" => Some(Reference::Home),
        "workspaceFolder" => Some(Reference::Folder),
        "workspaceFolderBasename" => Some(Reference::FolderName),
        "pathSeparator" | "/" => Some(Reference::Separator),
        _ => None,
    }
}

fn curly(inside: &str) -> Option<Reference> {
    let (kind, rest) = inside.split_once(':')?;
    match kind {
        "env" if is_name(rest) => Some(variable(rest)),
        "file" if !rest.is_empty() => Some(Reference::File(rest.to_owned())),
        "env" => Some(Reference::Unknown(format!("{{{inside}}}"))),
        _ => None,
    }
}

/// A string that is a reference as a whole. `file://` is a URL and `file:name` a common database URL, so neither is one.
fn whole(text: &str) -> Option<Reference> {
    if let Some(place) = text.strip_prefix("keychain:") {
        return Some(keychain(place).unwrap_or_else(|| Reference::Unknown(text.to_owned())));
    }
    let path = text.strip_prefix("file:")?;
    let is_path = path.starts_with("~/") || (path.starts_with('/') && !path.starts_with("//"));
    is_path.then(|| Reference::File(path.to_owned()))
}

fn keychain(place: &str) -> Option<Reference> {
    let (service, entry) = place.split_once('/')?;
    let both = !service.is_empty() && !entry.is_empty();
    both.then(|| Reference::Keychain { service: service.to_owned(), entry: entry.to_owned() })
}

fn variable(name: &str) -> Reference {
    Reference::Variable { name: name.to_owned(), default: None }
}

/// Whether this is a valid variable name.
pub(crate) fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !text.is_empty() && text.bytes().all(plain) && !text.starts_with(|first: char| first.is_ascii_digit())
}
