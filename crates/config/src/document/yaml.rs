//! YAML, read into the common tree. Aliases are refused: a few lines of them can expand to more than fits in memory.

use std::collections::BTreeSet;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};

use super::{Member, Node, Problem, Value, add};

/// Maximum nesting depth.
const MAX_DEPTH: usize = 64;

pub(super) fn parse(text: &str) -> Result<Node, Problem> {
    let mut reader = Reader { parser: Parser::new_from_str(text) };
    let nothing = Node { value: Value::Map(Vec::new()), line: 1 };
    let mut root = None;
    loop {
        let (event, span) = reader.next()?;
        match event {
            Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
            Event::StreamEnd => return Ok(root.unwrap_or(nothing)),
            Event::DocumentStart(_) if root.is_some() => {
                return Err(Problem::syntax(span.start.line(), "only one YAML document per file is supported"));
            }
            Event::DocumentStart(_) => {}
            event => root = Some(reader.node(event, span, 0)?).filter(|node| node.value != Value::Null),
        }
    }
}

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), Problem> {
        let problem = |error: &ScanError| Problem::syntax(error.marker().line(), error.info());
        match self.parser.next_event() {
            Some(event) => event.map_err(|error| problem(&error)),
            None => Err(Problem::syntax(1, "unexpected end of file in a value")),
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, Problem> {
        let line = span.start.line();
        if MAX_DEPTH < depth {
            return Err(Problem::syntax(line, "nested too deeply"));
        }
        let value = match event {
            Event::Scalar(text, ScalarStyle::Plain, _, None) => plain(&text),
            Event::Scalar(text, ..) => Value::Text(text.into_owned()),
            Event::SequenceStart(..) => self.list(depth)?,
            Event::MappingStart(..) => self.map(depth)?,
            Event::Alias(_) => {
                return Err(Problem::syntax(line, "YAML aliases are not supported; write the value out"));
            }
            _ => return Err(Problem::syntax(line, "a value is missing")),
        };
        Ok(Node { value, line })
    }

    fn list(&mut self, depth: usize) -> Result<Value, Problem> {
        let mut elements = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Value::List(elements)),
                (event, span) => elements.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value, Problem> {
        let (mut members, mut seen) = (Vec::new(), BTreeSet::new());
        loop {
            let (key, line) = match self.next()? {
                (Event::MappingEnd, _) => return Ok(Value::Map(members)),
                (Event::Scalar(key, ..), span) => (key.into_owned(), span.start.line()),
                (_, span) => return Err(Problem::syntax(span.start.line(), "a key must be a string")),
            };
            let (event, span) = self.next()?;
            let node = self.node(event, span, depth + 1)?;
            add(&mut members, &mut seen, Member { key, line, node })?;
        }
    }
}

/// Value of an unquoted scalar, by the YAML core schema.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Flag(true),
        "false" | "False" | "FALSE" => Value::Flag(false),
        _ => match text.parse::<f64>() {
            Ok(number) if number.is_finite() && text.ends_with(|last: char| last.is_ascii_digit() || last == '.') => {
                Value::Number(number)
            }
            _ => Value::Text(text.to_owned()),
        },
    }
}
