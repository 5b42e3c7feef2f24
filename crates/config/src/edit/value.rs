//! A value to write.

use jsonc_parser::cst::CstInputValue;
use serde_json::Value;

/// A value to write; members keep their order.
#[derive(Clone, Debug, PartialEq)]
pub enum NewValue {
    /// A boolean.
    Flag(bool),
    /// A number.
    Number(f64),
    /// A string.
    Text(String),
    /// A list.
    List(Vec<Self>),
    /// An object.
    Object(Vec<(String, Self)>),
}

impl NewValue {
    /// A list of strings.
    pub fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::List(texts.into_iter().map(|text| Self::Text(text.into())).collect())
    }

    /// An object of strings.
    pub fn pairs<T: Into<String>>(pairs: impl IntoIterator<Item = (T, T)>) -> Self {
        Self::Object(pairs.into_iter().map(|(key, value)| (key.into(), Self::Text(value.into()))).collect())
    }

    /// The new values of changes, as one object; `env.NAME` is nested in `env`.
    pub fn nested(changes: &[(String, Option<Self>)]) -> Self {
        let mut members: Vec<(String, Self)> = Vec::new();
        for (key, value) in changes {
            let Some(value) = value.clone() else { continue };
            let Some((outer, inner)) = key.split_once('.') else {
                members.push((key.clone(), value));
                continue;
            };
            match members.iter_mut().find(|(known, _)| known == outer) {
                Some((_, Self::Object(within))) => within.push((inner.to_owned(), value)),
                _ => members.push((outer.to_owned(), Self::Object(vec![(inner.to_owned(), value)]))),
            }
        }
        Self::Object(members)
    }

    /// Converts a JSON value; `None` if it contains `null`.
    pub fn of_json(value: &Value) -> Option<Self> {
        match value {
            Value::Null => None,
            Value::Bool(flag) => Some(Self::Flag(*flag)),
            Value::Number(number) => number.as_f64().map(Self::Number),
            Value::String(text) => Some(Self::Text(text.clone())),
            Value::Array(elements) => elements.iter().map(Self::of_json).collect::<Option<_>>().map(Self::List),
            Value::Object(members) => {
                let member = |(key, value): (&String, &Value)| Some((key.clone(), Self::of_json(value)?));
                members.iter().map(member).collect::<Option<_>>().map(Self::Object)
            }
        }
    }

    /// The value as JSON.
    pub fn json(&self) -> Value {
        match self {
            Self::Flag(flag) => Value::from(*flag),
            Self::Number(number) if number.fract() == 0.0 && number.abs() < 1e15 => {
                #[expect(clippy::cast_possible_truncation, reason = "whole and small, so nothing is lost")]
                let whole = *number as i64;
                Value::from(whole)
            }
            Self::Number(number) => Value::from(*number),
            Self::Text(text) => Value::from(text.as_str()),
            Self::List(elements) => elements.iter().map(Self::json).collect(),
            Self::Object(members) => members.iter().map(|(key, value)| (key.clone(), value.json())).collect(),
        }
    }

    pub(super) fn input(&self) -> CstInputValue {
        match self {
            Self::Flag(flag) => CstInputValue::Bool(*flag),
            Self::Number(_) => CstInputValue::Number(self.json().to_string()),
            Self::Text(text) => CstInputValue::String(text.clone()),
            Self::List(elements) => CstInputValue::Array(elements.iter().map(Self::input).collect()),
            Self::Object(members) => {
                CstInputValue::Object(members.iter().map(|(key, value)| (key.clone(), value.input())).collect())
            }
        }
    }

    /// The value as lines of YAML; strings are quoted as in JSON.
    pub fn yaml(&self) -> String {
        let mut lines = String::new();
        self.write_yaml(0, &mut lines);
        lines
    }

    fn write_yaml(&self, depth: usize, lines: &mut String) {
        let Self::Object(members) = self else { return };
        for (key, value) in members {
            lines.push_str(&"  ".repeat(depth));
            lines.push_str(&yaml_key(key));
            match value {
                Self::Object(inner) if !inner.is_empty() => {
                    lines.push_str(":\n");
                    value.write_yaml(depth + 1, lines);
                }
                other => {
                    lines.push_str(": ");
                    lines.push_str(&other.json().to_string());
                    lines.push('\n');
                }
            }
        }
    }
}

fn yaml_key(key: &str) -> String {
    let plain = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let letter = key.starts_with(|first: char| first.is_ascii_alphabetic());
    let reserved = matches!(key.to_ascii_lowercase().as_str(), "true" | "false" | "null" | "yes" | "no" | "on" | "off");
    if plain && letter && !reserved { key.to_owned() } else { Value::from(key).to_string() }
}
