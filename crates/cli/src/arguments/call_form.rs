//! `tool(a: 1, b: "x")`: a call the way it stands in code, in one word.
//!
//! Values are JSON, also in single quotes where they are texts; names may stand in quotes, and values without a name
//! go to the arguments in order. A text without quotes is a mistake, so that nothing has to be guessed.

use toolway_wire::json::Raw;

use super::Problem;

/// A word of that form, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallForm<'a> {
    /// What stands before the parentheses.
    pub(crate) tool: &'a str,
    /// What stands in them.
    inside: &'a str,
}

/// One argument in the parentheses.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spoken {
    pub(super) name: Option<String>,
    /// JSON.
    pub(super) value: String,
}

impl<'a> CallForm<'a> {
    /// `None` where the word is a plain name.
    pub(crate) fn of(word: &'a str) -> Option<Self> {
        let (tool, inside) = word.strip_suffix(')')?.split_once('(')?;
        let plain = |letter: char| letter.is_alphanumeric() || "_-./:$".contains(letter);
        (!tool.is_empty() && tool.chars().all(plain)).then_some(Self { tool, inside })
    }

    pub(super) fn arguments(&self) -> Result<Vec<Spoken>, Problem> {
        let parts = split(self.inside, ',')?;
        // Nothing at all is no argument, and neither is what follows a last comma.
        let count = parts.len() - usize::from(parts.last().is_some_and(|last| last.trim().is_empty()));
        parts[..count].iter().map(|part| Spoken::of(part)).collect()
    }
}

impl Spoken {
    fn of(part: &str) -> Result<Self, Problem> {
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
fn name_of(text: &str) -> Result<String, Problem> {
    let quoted = unquoted(text).or_else(|| Raw::parse(text.to_owned()).ok()?.as_str().map(|name| name.into_owned()));
    match quoted {
        Some(name) => Ok(name),
        None if super::is_name(text) => Ok(text.to_owned()),
        None => Err(Problem::new(format!("`{text}` is no name of an argument."))),
    }
}

fn json(text: &str, name: Option<&str>) -> Result<String, Problem> {
    if let Some(text) = unquoted(text) {
        return Ok(Raw::of(&text).to_string());
    }
    let place = name.map(|name| format!("`{name}`: ")).unwrap_or_default();
    let wrong = |_| Problem {
        idea: Some("In parentheses a value is JSON: put a text in quotes.".to_owned()),
        ..Problem::new(format!("{place}`{text}` is no JSON."))
    };
    Raw::parse(text.to_owned()).map(|value| value.to_string()).map_err(wrong)
}

/// What stands in single quotes; a backslash keeps the next letter.
fn unquoted(text: &str) -> Option<String> {
    let inside = text.strip_prefix('\'')?.strip_suffix('\'')?;
    let (mut plain, mut letters) = (String::new(), inside.chars());
    while let Some(letter) = letters.next() {
        plain.push(if letter == '\\' { letters.next()? } else { letter });
    }
    Some(plain)
}

/// Splits a text at a sign that stands in no quotes and no brackets.
fn split(text: &str, sign: char) -> Result<Vec<&str>, Problem> {
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
        return Err(Problem::new("In the parentheses a quote is not closed."));
    }
    parts.push(&text[from..]);
    Ok(parts)
}
