//! TOML, read into the common tree.

use ::toml::de::{DeTable, DeValue};

use super::{Lines, Member, Node, Problem, Value};

pub(super) fn parse(text: &str) -> Result<Node, Problem> {
    let lines = Lines::of(text);
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        Problem::syntax(lines.line(at), error.message())
    })?;
    map(table.get_ref(), &lines).map(|value| Node { value, line: 1 })
}

// The parser has bounded the depth and refused duplicate keys.
fn node(value: &DeValue<'_>, line: usize, lines: &Lines) -> Result<Node, Problem> {
    let number = |text: &str| {
        let plain = text.replace('_', "");
        plain.parse().map(Value::Number).map_err(|_| Problem::syntax(line, format!("invalid number `{text}`")))
    };
    let value = match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(integer) if integer.radix() == 10 => number(integer.as_str())?,
        DeValue::Integer(integer) => Value::Text(integer.as_str().to_owned()),
        DeValue::Float(float) => number(float.as_str())?,
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Datetime(time) => Value::Text(time.to_string()),
        DeValue::Array(list) => {
            let element = |element: &::toml::Spanned<DeValue<'_>>| {
                node(element.get_ref(), lines.line(element.span().start), lines)
            };
            Value::List(list.iter().map(element).collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => map(table, lines)?,
    };
    Ok(Node { value, line })
}

/// Members in file order, which the table does not keep.
fn map(table: &DeTable<'_>, lines: &Lines) -> Result<Value, Problem> {
    let mut members = Vec::new();
    for (key, value) in table {
        let start = key.span().start;
        let node = node(value.get_ref(), lines.line(start), lines)?;
        members.push((start, Member { key: key.get_ref().to_string(), line: lines.line(start), node }));
    }
    members.sort_by_key(|(start, _)| *start);
    Ok(Value::Map(members.into_iter().map(|(_, member)| member).collect()))
}
