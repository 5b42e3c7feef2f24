//! JSON with comments, read into the common tree.

use std::collections::BTreeSet;

use jsonc_parser::{CollectOptions, ParseOptions, ast, common::Ranged, parse_to_ast};

use super::{Lines, Member, Node, Problem, Value, add, line_of};

/// Extensions of JSON that are accepted: comments and trailing commas.
pub(crate) const ACCEPTED: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

pub(super) fn parse(text: &str) -> Result<Node, Problem> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &ACCEPTED)
        .map_err(|error| Problem::syntax(line_of(text.as_bytes(), error.range().start), error.kind().to_string()))?;
    let lines = Lines::of(text);
    match parsed.value {
        Some(value) => node(value, &lines),
        // An empty file, or only comments.
        None => Ok(Node { value: Value::Map(Vec::new()), line: 1 }),
    }
}

// The parser has bounded the depth.
fn node(value: ast::Value<'_>, lines: &Lines) -> Result<Node, Problem> {
    let line = lines.line(value.start());
    let value = match value {
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::BooleanLit(flag) => Value::Flag(flag.value),
        ast::Value::NumberLit(number) => number
            .value
            .parse()
            .map(Value::Number)
            .map_err(|_| Problem::syntax(line, format!("invalid number `{}`", number.value)))?,
        ast::Value::StringLit(text) => Value::Text(text.value.into_owned()),
        ast::Value::Array(list) => {
            Value::List(list.elements.into_iter().map(|element| node(element, lines)).collect::<Result<_, _>>()?)
        }
        ast::Value::Object(object) => map(object, lines)?,
    };
    Ok(Node { value, line })
}

fn map(object: ast::Object<'_>, lines: &Lines) -> Result<Value, Problem> {
    let (mut members, mut seen) = (Vec::new(), BTreeSet::new());
    for property in object.properties {
        let line = lines.line(property.range.start);
        let member = Member { key: property.name.into_string(), line, node: node(property.value, lines)? };
        add(&mut members, &mut seen, member)?;
    }
    Ok(Value::Map(members))
}
