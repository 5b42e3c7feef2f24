//! Converts command-line arguments to the JSON arguments of a tool.
//!
//! `name=value` is converted to the type in the tool's schema, `name:=json` is taken as JSON, `@file` is replaced by the
//! file's content, and a value without a name is assigned to the next argument in schema order. Numbers keep their digits:
//! the JSON text is assembled without parsing them to floats.

pub(crate) mod call_form;
pub(crate) mod check;
mod coerce;

use std::{collections::BTreeSet, fs::File, io::Read};

use bytes::Bytes;
use toolway_wire::{
    json::{JsonError, JsonKind, Raw},
    limit::MESSAGE_BYTES,
    message::splice,
};

use self::call_form::CallForm;
use crate::{
    schema::{Property, Schema},
    suggestion,
};

/// Placeholder for standard input.
pub(crate) const STDIN: &str = "-";
/// Longest quoted text at a JSON error, in characters.
const MAX_NEAR: usize = 20;

/// Invalid arguments: what is wrong, and a hint if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArgumentError {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

/// One command-line argument, classified.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// A JSON object with all arguments.
    Object(&'a str),
    /// A JSON object from standard input.
    Stdin,
    /// `name=value`
    Text(&'a str, &'a str),
    /// `name:=json`
    Json(&'a str, &'a str),
    /// A value without a name.
    Bare(&'a str),
    /// A JSON value without a name.
    BareJson(&'a str),
}

/// An argument with its JSON value.
struct Argument {
    name: String,
    value: Raw,
}

/// Whether one of the arguments reads standard input.
pub(crate) fn uses_stdin(words: &[String]) -> bool {
    words.iter().any(|word| word == STDIN || word.split_once('=').is_some_and(|(_, value)| value == "@-"))
}

/// Converts `words` to the arguments of a tool with this schema. `stdin` is the content of standard input.
pub(crate) fn read(words: &[String], schema: &Schema, stdin: &[u8]) -> Result<Raw, ArgumentError> {
    let properties = schema.properties();
    let words: Vec<Token<'_>> = words.iter().map(|word| Token::of(word, &properties)).collect();
    match words[..] {
        [Token::Object(text)] => return object(text.to_owned().into_bytes(), "the arguments"),
        [Token::Stdin] => return object(stdin.to_vec(), "standard input"),
        _ => {}
    }
    collect_arguments(&words, schema, &properties, stdin)
}

/// Converts the arguments of the `tool(…)` form.
pub(crate) fn read_form(form: &CallForm<'_>, schema: &Schema) -> Result<Raw, ArgumentError> {
    let arguments = form.arguments()?;
    let words: Vec<Token<'_>> = arguments
        .iter()
        .map(|one| match &one.name {
            Some(name) => Token::Json(name, &one.value),
            None => Token::BareJson(&one.value),
        })
        .collect();
    collect_arguments(&words, schema, &schema.properties(), &[])
}

fn collect_arguments(
    words: &[Token<'_>],
    schema: &Schema,
    properties: &[Property],
    stdin: &[u8],
) -> Result<Raw, ArgumentError> {
    let mut given: Vec<Argument> = Vec::new();
    let mut bare = Positionals::of(words, properties);
    for word in words {
        let (name, value) = match *word {
            Token::Object(_) | Token::Stdin => {
                return Err(ArgumentError::new(
                    "a JSON object contains all arguments; it cannot be combined with others",
                ));
            }
            Token::Json(name, text) => (name, json(name, text, stdin)?),
            Token::Text(name, text) => (name, text_value(name, text, (schema, properties), stdin)?),
            Token::Bare(text) => {
                let name = bare.next(text)?;
                (name, text_value(name, text, (schema, properties), stdin)?)
            }
            Token::BareJson(text) => {
                let name = bare.next(text)?;
                (name, json(name, text, stdin)?)
            }
        };
        check_known(name, schema, properties)?;
        insert(&mut given, name, value, schema, properties)?;
    }
    Ok(to_object(&given))
}

/// Converts `words` to the arguments of a prompt, which are strings.
pub(crate) fn read_strings(words: &[String], names: &[String], stdin: &[u8]) -> Result<Raw, ArgumentError> {
    let mut given: Vec<Argument> = Vec::new();
    let taken: BTreeSet<&str> = words.iter().filter_map(|word| Some(word.split_once('=')?.0)).collect();
    let mut free = names.iter().filter(|name| !taken.contains(name.as_str()));
    for word in words {
        let (name, text) = match word.split_once('=') {
            Some((name, text)) if names.iter().any(|known| known == name) => (name, text),
            Some((name, _)) if is_name(name) => {
                return Err(unknown(name, names.iter().map(String::as_str)));
            }
            _ => match free.next() {
                Some(name) => (name.as_str(), word.as_str()),
                None => return Err(too_many(word)),
            },
        };
        if given.iter().any(|one| one.name == name) {
            return Err(ArgumentError::new(format!("argument `{name}` is given twice")));
        }
        given.push(Argument { name: name.to_owned(), value: Raw::of(&file_or_text(name, text, stdin)?) });
    }
    Ok(to_object(&given))
}

// === impl Token ===

impl<'a> Token<'a> {
    fn of(word: &'a str, properties: &[Property]) -> Self {
        if word == STDIN {
            return Self::Stdin;
        }
        if word.trim_start().starts_with('{') {
            return Self::Object(word);
        }
        let Some((name, text)) = word.split_once('=') else { return Self::Bare(word) };
        let is_known = |name: &str| properties.iter().any(|property| property.name == name);
        match name.strip_suffix(':') {
            Some(name) if is_known(name) || is_name(name) => Self::Json(name, text),
            None if is_known(name) || is_name(name) => Self::Text(name, text),
            // The equals sign belongs to the value, as in a URL.
            _ => Self::Bare(word),
        }
    }

    fn name(&self) -> Option<&'a str> {
        match self {
            Self::Text(name, _) | Self::Json(name, _) => Some(name),
            Self::Object(_) | Self::Stdin | Self::Bare(_) | Self::BareJson(_) => None,
        }
    }
}

/// Whether this looks like an argument name.
fn is_name(text: &str) -> bool {
    let plain = |letter: char| letter.is_alphanumeric() || "_-.$".contains(letter);
    text.starts_with(|first: char| first.is_alphabetic() || "_$".contains(first)) && text.chars().all(plain)
}

/// The arguments that are not given by name, in schema order.
struct Positionals<'a>(std::vec::IntoIter<&'a Property>);

impl<'a> Positionals<'a> {
    fn of(words: &[Token<'_>], properties: &'a [Property]) -> Self {
        let named: BTreeSet<&str> = words.iter().filter_map(Token::name).collect();
        let free: Vec<&Property> =
            properties.iter().filter(|property| !named.contains(property.name.as_str())).collect();
        Self(free.into_iter())
    }

    /// The name of the argument that this value is assigned to.
    fn next(&mut self, value: &str) -> Result<&'a str, ArgumentError> {
        self.0.next().map(|property| property.name.as_str()).ok_or_else(|| too_many(value))
    }
}

fn check_known(name: &str, schema: &Schema, properties: &[Property]) -> Result<(), ArgumentError> {
    if schema.allows_additional() || properties.iter().any(|property| property.name == name) {
        return Ok(());
    }
    Err(unknown(name, properties.iter().map(|property| property.name.as_str())))
}

fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> ArgumentError {
    ArgumentError::new(format!("unknown argument `{name}`{}", suggestion::did_you_mean(name, known)))
}

fn too_many(value: &str) -> ArgumentError {
    ArgumentError::new(format!("unexpected value `{value}`: all arguments are already given"))
}

/// Adds a value. A repeated name appends to a list if the schema has a list there, else it is an error.
fn insert(
    given: &mut Vec<Argument>,
    name: &str,
    value: Raw,
    schema: &Schema,
    properties: &[Property],
) -> Result<(), ArgumentError> {
    let Some(earlier) = given.iter_mut().find(|one| one.name == name) else {
        given.push(Argument { name: name.to_owned(), value });
        return Ok(());
    };
    let property = properties.iter().find(|property| property.name == name);
    let is_list = property.is_some_and(|property| schema.kinds(&property.schema).iter().any(|kind| kind == "array"));
    if !is_list || earlier.value.kind() != JsonKind::Array || value.kind() != JsonKind::Array {
        return Err(ArgumentError::new(format!("argument `{name}` is given twice")));
    }
    let elements = earlier.value.elements().into_iter().chain(value.elements());
    earlier.value = list(elements);
    Ok(())
}

fn text_value(
    name: &str,
    text: &str,
    (schema, properties): (&Schema, &[Property]),
    stdin: &[u8],
) -> Result<Raw, ArgumentError> {
    let text = file_or_text(name, text, stdin)?;
    let property = properties.iter().find(|property| property.name == name);
    match property {
        Some(property) => coerce::value(&text, schema, &property.schema).map_err(|expected| {
            ArgumentError::new(format!(
                "argument `{name}` must be {expected}, not `{}`",
                crate::output::clean::line(&text, 60)
            ))
        }),
        None => Ok(Raw::of(&text)),
    }
}

/// The text itself, the content of the file for `@file`, or `@text` for `@@text`.
fn file_or_text(name: &str, text: &str, stdin: &[u8]) -> Result<String, ArgumentError> {
    match text.strip_prefix('@') {
        None => Ok(text.to_owned()),
        Some(literal) if literal.starts_with('@') => Ok(literal.to_owned()),
        Some(file) => String::from_utf8(content(file, stdin)?).map_err(|_| {
            ArgumentError::new(format!(
                "argument `{name}`: `{file}` is not UTF-8 text; encode it first, e.g. as base64"
            ))
        }),
    }
}

fn json(name: &str, text: &str, stdin: &[u8]) -> Result<Raw, ArgumentError> {
    let bytes = match text.strip_prefix('@') {
        Some(file) => content(file, stdin)?,
        None => text.as_bytes().to_vec(),
    };
    parse_json(bytes).map_err(|problem| ArgumentError::new(format!("argument `{name}`: {problem}")))
}

fn object(text: Vec<u8>, what: &str) -> Result<Raw, ArgumentError> {
    let value = parse_json(text).map_err(ArgumentError::new)?;
    match value.kind() {
        JsonKind::Object => Ok(value),
        _ => Err(ArgumentError::new(format!("{what} must be a JSON object"))),
    }
}

/// Parses JSON; the error names the position and quotes the text there.
pub(crate) fn parse_json(text: Vec<u8>) -> Result<Raw, String> {
    let text = Bytes::from(text);
    Raw::parse(text.clone()).map_err(|error| match error {
        JsonError::Unexpected { at } => format!("invalid JSON at {}", position(&text, at)),
        other => format!("invalid JSON: {other}"),
    })
}

/// Line (if there are several), column, and the beginning of the text at a byte offset.
fn position(text: &[u8], at: usize) -> String {
    let (before, after) = text.split_at(at.min(text.len()));
    let (before, after) = (String::from_utf8_lossy(before), String::from_utf8_lossy(after));
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let line = before.matches('\n').count() + 1;
    let line = if 1 < line { format!("line {line}, ") } else { String::new() };
    let is_end = |letter: char| letter.is_whitespace() || "\",{}[]".contains(letter);
    let length = after.char_indices().skip(1).find(|(_, letter)| is_end(*letter)).map_or(after.len(), |(end, _)| end);
    let near: String = after[..length].chars().take(MAX_NEAR).collect();
    format!("{line}column {column}, near `{near}`")
}

/// Reads a file of at most the size of a message; `-` is standard input.
fn content(file: &str, stdin: &[u8]) -> Result<Vec<u8>, ArgumentError> {
    if file == STDIN {
        return Ok(stdin.to_vec());
    }
    let (mut bytes, bound) = (Vec::new(), MESSAGE_BYTES as u64);
    match File::open(file).and_then(|file| file.take(bound + 1).read_to_end(&mut bytes)) {
        Ok(length) if length as u64 <= bound => Ok(bytes),
        Ok(_) => Err(ArgumentError::new(format!("`{file}` is larger than {bound} bytes"))),
        Err(error) => Err(ArgumentError::new(format!("cannot read `{file}`: {error}"))),
    }
}

fn list(elements: impl Iterator<Item = Raw>) -> Raw {
    let texts: Vec<String> = elements.map(|element| element.to_string()).collect();
    // The elements are valid JSON, so the list is valid too.
    Raw::parse(format!("[{}]", texts.join(","))).unwrap_or_else(|_| Raw::empty_object())
}

fn to_object(given: &[Argument]) -> Raw {
    splice::object(given.iter().map(|one| (one.name.as_str(), &one.value)))
}

impl ArgumentError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }
}

#[cfg(test)]
mod tests;
