//! Parses the `tool(a: 1, b: "x")` form of a call.
//!
//! Values are JSON; strings may also be in single quotes. Names may be quoted, and values without a name are assigned to
//! the arguments in order. An unquoted string is an error.

use toolway_wire::json::Raw;

use super::ArgumentError;

/// A call of that form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallForm<'a> {
    /// Text before the parentheses.
    pub(crate) tool: &'a str,
    /// Text inside the parentheses.
    inside: &'a str,
}

/// One argument in the parentheses.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FormArgument {
    pub(super) name: Option<String>,
    /// JSON text.
    pub(super) value: String,
}

impl<'a> CallForm<'a> {
    /// `None` if the argument is a plain name.
    pub(crate) fn of(word: &'a str) -> Option<Self> {
        let (tool, inside) = word.strip_suffix(')')?.split_once('(')?;
        let plain = |letter: char| letter.is_alphanumeric() || "_-./:$".contains(letter);
        (!tool.is_empty() && tool.chars().all(plain)).then_some(Self { tool, inside })
    }

    pub(super) fn arguments(&self) -> Result<Vec<FormArgument>, ArgumentError> {
        let parts = split(self.inside, ',')?;
        // Empty parentheses and a trailing comma add no argument.
        let count = parts.len() - usize::from(parts.last().is_some_and(|last| last.trim().is_empty()));
        parts[..count].iter().map(|part| FormArgument::of(part)).collect()
    }
}

impl FormArgument {
    fn of(part: &str) -> Result<Self, ArgumentError> {
        let pieces = split(part, ':')?;
        let (name, text) = match pieces[..] {
            [value] => (None, value),
            [name, ..] => (Some(name_of(name.trim())?), &part[name.len() + 1..]),
            [] => (None, part),
        };
        Ok(Self { value: json(text.trim(), name.as_deref())?, name })
    }
}

/// A name, with or without quotes.
fn name_of(text: &str) -> Result<String, ArgumentError> {
    let quoted = unquoted(text).or_else(|| Raw::parse(text.to_owned()).ok()?.as_str().map(|name| name.into_owned()));
    match quoted {
        Some(name) => Ok(name),
        None if super::is_name(text) => Ok(text.to_owned()),
        None => Err(ArgumentError::new(format!("`{text}` is not a valid argument name"))),
    }
}

fn json(text: &str, name: Option<&str>) -> Result<String, ArgumentError> {
    if let Some(text) = unquoted(text) {
        return Ok(Raw::of(&text).to_string());
    }
    let place = name.map(|name| format!("argument `{name}`: ")).unwrap_or_default();
    let wrong = |_| ArgumentError {
        hint: Some("values in parentheses are JSON; put a string in quotes".to_owned()),
        ..ArgumentError::new(format!("{place}`{text}` is not valid JSON"))
    };
    Raw::parse(text.to_owned()).map(|value| value.to_string()).map_err(wrong)
}

/// The content of a single-quoted string; a backslash escapes the next character.
fn unquoted(text: &str) -> Option<String> {
    let inside = text.strip_prefix('\'')?.strip_suffix('\'')?;
    let (mut plain, mut letters) = (String::new(), inside.chars());
    while let Some(letter) = letters.next() {
        plain.push(if letter == '\\' { letters.next()? } else { letter });
    }
    Some(plain)
}

/// Splits a text at `sign` outside quotes and brackets.
fn split(text: &str, sign: char) -> Result<Vec<&str>, ArgumentError> {
    let (mut parts, mut from, mut depth, mut quote) = (Vec::new(), 0, 0_usize, None);
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match (quote, letter) {
            (Some(_), '\\') => drop(letters.next()),
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(letter),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, _) if letter == sign && depth == 0 => {
                parts.push(&text[from..at]);
                from = at + letter.len_utf8();
            }
            (None, _) => {}
        }
    }
    if quote.is_some() {
        return Err(ArgumentError::new("unclosed quote in the parentheses"));
    }
    parts.push(&text[from..]);
    Ok(parts)
}
