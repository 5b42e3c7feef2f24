//! Words of a command line as the arguments of a tool: the exact text that is sent.
//!
//! `name=value` becomes what the tool's schema wants, `name:=json` is taken as JSON, `@file` stands for a file's
//! content, a bare value goes to the next argument in the schema's order. Numbers keep their digits: the text is put
//! together by hand and never goes through a float.

pub(crate) mod call_form;
pub(crate) mod check;
mod coerce;
mod plain;

use std::{collections::BTreeSet, fs::File, io::Read};

use toolway_wire::{
    json::{Kind, Raw},
    limit::MESSAGE_BYTES,
    message::splice,
};

use self::call_form::CallForm;
use crate::{
    schema::{Property, Schema},
    similar,
};

/// Stands for standard input.
pub(crate) const STDIN: &str = "-";

/// Why words are no arguments: a sentence, and a better idea if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) sentence: String,
    pub(crate) idea: Option<String>,
}

/// One word.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Word<'a> {
    /// All arguments at once.
    Object(&'a str),
    /// The same, from standard input.
    Stdin,
    /// `name=value`
    Text(&'a str, &'a str),
    /// `name:=json`
    Json(&'a str, &'a str),
    /// A value for the next argument.
    Bare(&'a str),
    /// The same, as JSON.
    BareJson(&'a str),
}

/// An argument with the text it will be sent as.
struct Given {
    name: String,
    value: Raw,
}

/// Whether one of the words stands for standard input.
pub(crate) fn want_stdin(words: &[String]) -> bool {
    words.iter().any(|word| word == STDIN || word.split_once('=').is_some_and(|(_, value)| value == "@-"))
}

/// The arguments that `words` give to a tool with this schema; `stdin` is what came in there.
pub(crate) fn read(words: &[String], schema: &Schema, stdin: &[u8]) -> Result<Raw, Problem> {
    let properties = schema.properties();
    let words: Vec<Word<'_>> = words.iter().map(|word| Word::of(word, &properties)).collect();
    match words[..] {
        [Word::Object(text)] => return object(text.to_owned().into_bytes(), "the argument"),
        [Word::Stdin] => return object(stdin.to_vec(), "standard input"),
        _ => {}
    }
    gathered(&words, schema, &properties, stdin)
}

/// The arguments that stand in the parentheses of a call.
pub(crate) fn read_form(form: &CallForm<'_>, schema: &Schema) -> Result<Raw, Problem> {
    let spoken = form.arguments()?;
    let words: Vec<Word<'_>> = spoken
        .iter()
        .map(|one| match &one.name {
            Some(name) => Word::Json(name, &one.value),
            None => Word::BareJson(&one.value),
        })
        .collect();
    gathered(&words, schema, &schema.properties(), &[])
}

fn gathered(words: &[Word<'_>], schema: &Schema, properties: &[Property], stdin: &[u8]) -> Result<Raw, Problem> {
    let mut given: Vec<Given> = Vec::new();
    let mut bare = Bare::of(words, properties);
    for word in words {
        let (name, value) = match *word {
            Word::Object(_) | Word::Stdin => {
                return Err(Problem::new("A JSON object is all arguments; give it alone."));
            }
            Word::Json(name, text) => (name, json(name, text, stdin)?),
            Word::Text(name, text) => (name, text_value(name, text, (schema, properties), stdin)?),
            Word::Bare(text) => {
                let name = bare.next(text)?;
                (name, text_value(name, text, (schema, properties), stdin)?)
            }
            Word::BareJson(text) => {
                let name = bare.next(text)?;
                (name, json(name, text, stdin)?)
            }
        };
        known(name, schema, properties)?;
        put(&mut given, name, value, schema, properties)?;
    }
    Ok(written(&given))
}

/// The arguments that `words` give to a prompt: names and strings.
pub(crate) fn read_strings(words: &[String], names: &[String], stdin: &[u8]) -> Result<Raw, Problem> {
    let mut given: Vec<Given> = Vec::new();
    let taken: BTreeSet<&str> = words.iter().filter_map(|word| Some(word.split_once('=')?.0)).collect();
    let mut free = names.iter().filter(|name| !taken.contains(name.as_str()));
    for word in words {
        let (name, text) = match word.split_once('=') {
            Some((name, text)) if names.iter().any(|known| known == name) => (name, text),
            Some((name, _)) if is_name(name) => {
                let idea =
                    similar::to(name, names.iter().map(String::as_str)).map(|near| format!("Did you mean `{near}`?"));
                return Err(Problem { idea, ..Problem::new(format!("`{name}` is no argument of it.")) });
            }
            _ => match free.next() {
                Some(name) => (name.as_str(), word.as_str()),
                None => return Err(Problem::new(format!("`{word}` is one value too many."))),
            },
        };
        if given.iter().any(|one| one.name == name) {
            return Err(Problem::new(format!("`{name}` is given twice.")));
        }
        given.push(Given { name: name.to_owned(), value: Raw::of(&file_or_text(name, text, stdin)?) });
    }
    Ok(written(&given))
}

// === impl Word ===

impl<'a> Word<'a> {
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
            // An address or a formula has an equals sign too.
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

/// Whether this can be meant as an argument's name.
fn is_name(text: &str) -> bool {
    let plain = |letter: char| letter.is_alphanumeric() || "_-.$".contains(letter);
    text.starts_with(|first: char| first.is_alphabetic() || "_$".contains(first)) && text.chars().all(plain)
}

/// The arguments that nobody named, in order.
struct Bare<'a>(std::vec::IntoIter<&'a Property>);

impl<'a> Bare<'a> {
    fn of(words: &[Word<'_>], properties: &'a [Property]) -> Self {
        let named: BTreeSet<&str> = words.iter().filter_map(Word::name).collect();
        let free: Vec<&Property> =
            properties.iter().filter(|property| !named.contains(property.name.as_str())).collect();
        Self(free.into_iter())
    }

    /// The name of the argument that this value goes to.
    fn next(&mut self, value: &str) -> Result<&'a str, Problem> {
        let property = self.0.next().ok_or_else(|| Problem::new(format!("`{value}` is one value too many.")))?;
        Ok(&property.name)
    }
}

fn known(name: &str, schema: &Schema, properties: &[Property]) -> Result<(), Problem> {
    if schema.welcomes_others() || properties.iter().any(|property| property.name == name) {
        return Ok(());
    }
    let names = properties.iter().map(|property| property.name.as_str());
    let idea = similar::to(name, names).map(|near| format!("Did you mean `{near}`?"));
    Err(Problem { idea, ..Problem::new(format!("`{name}` is no argument of it.")) })
}

/// Adds a value; a name given several times is a list where the schema wants one.
fn put(
    given: &mut Vec<Given>,
    name: &str,
    value: Raw,
    schema: &Schema,
    properties: &[Property],
) -> Result<(), Problem> {
    let Some(earlier) = given.iter_mut().find(|one| one.name == name) else {
        given.push(Given { name: name.to_owned(), value });
        return Ok(());
    };
    let property = properties.iter().find(|property| property.name == name);
    let is_list = property.is_some_and(|property| schema.kinds(&property.schema).iter().any(|kind| kind == "array"));
    if !is_list || earlier.value.kind() != Kind::Array || value.kind() != Kind::Array {
        return Err(Problem::new(format!("`{name}` is given twice.")));
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
) -> Result<Raw, Problem> {
    let text = file_or_text(name, text, stdin)?;
    let property = properties.iter().find(|property| property.name == name);
    match property {
        Some(property) => coerce::value(&text, schema, &property.schema).map_err(|expected| {
            Problem::new(format!("`{name}` must be {expected}, not `{}`.", crate::output::clean::line(&text, 60)))
        }),
        None => Ok(Raw::of(&text)),
    }
}

/// The text itself, the content of `@file`, or what stands after the first at sign of `@@`.
fn file_or_text(name: &str, text: &str, stdin: &[u8]) -> Result<String, Problem> {
    match text.strip_prefix('@') {
        None => Ok(text.to_owned()),
        Some(literal) if literal.starts_with('@') => Ok(literal.to_owned()),
        Some(file) => String::from_utf8(content(file, stdin)?).map_err(|_| {
            Problem::new(format!("`{name}`: {file} is not text; say base64 or another way the tool takes."))
        }),
    }
}

fn json(name: &str, text: &str, stdin: &[u8]) -> Result<Raw, Problem> {
    let bytes = match text.strip_prefix('@') {
        Some(file) => content(file, stdin)?,
        None => text.as_bytes().to_vec(),
    };
    Raw::parse(bytes).map_err(|error| Problem::new(format!("`{name}` is not JSON: {error}.")))
}

fn object(text: Vec<u8>, what: &str) -> Result<Raw, Problem> {
    let value = Raw::parse(text).map_err(|error| Problem::new(format!("In {what} is no JSON: {error}.")))?;
    match value.kind() {
        Kind::Object => Ok(value),
        _ => Err(Problem::new(format!("In {what} there must be one JSON object."))),
    }
}

/// A file's content, within what a message may hold; `-` is standard input.
fn content(file: &str, stdin: &[u8]) -> Result<Vec<u8>, Problem> {
    if file == STDIN {
        return Ok(stdin.to_vec());
    }
    let (mut bytes, bound) = (Vec::new(), MESSAGE_BYTES as u64);
    match File::open(file).and_then(|file| file.take(bound + 1).read_to_end(&mut bytes)) {
        Ok(length) if length as u64 <= bound => Ok(bytes),
        Ok(_) => Err(Problem::new(format!("{file} is larger than {bound} bytes."))),
        Err(error) => Err(Problem::new(format!("Cannot read {file}: {error}."))),
    }
}

fn list(elements: impl Iterator<Item = Raw>) -> Raw {
    let texts: Vec<String> = elements.map(|element| element.to_string()).collect();
    // Values that were checked, put together to one that need not be.
    Raw::parse(format!("[{}]", texts.join(","))).unwrap_or_else(|_| Raw::empty_object())
}

fn written(given: &[Given]) -> Raw {
    splice::object(given.iter().map(|one| (one.name.as_str(), &one.value)))
}

impl Problem {
    fn new(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), idea: None }
    }
}

#[cfg(test)]
mod tests;
