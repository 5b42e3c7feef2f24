//! The type of value each configuration key takes. The parser, the JSON Schema and the reference all use these tables.

use std::time::Duration;

use crate::{
    document::{Document, Member, Node, Value},
    error::ConfigError,
    interpolate::{Dialect, Template},
    warning::nearest,
};

/// One key of a Toolway configuration object.
#[derive(Debug)]
pub(crate) struct Key<T: 'static> {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    /// One sentence for the reference and for editors.
    pub(crate) doc: &'static str,
    /// A value as it may be written, in JSON.
    pub(crate) example: &'static str,
    /// Stores the value of the field in `T`.
    pub(crate) set: fn(&mut T, &Field<'_>) -> Result<(), ConfigError>,
}

/// Type of value that a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Text,
    Flag,
    /// A boolean, or a list of names.
    FlagOrTexts,
    /// A boolean, or an object with these keys.
    FlagOrMembers(&'static [(&'static str, Self)]),
    /// A whole number, zero or greater.
    Count,
    /// A number from 0 to 1.
    Share,
    /// A number, zero or greater.
    Number,
    /// A duration: seconds, or a string such as `500ms`, `30s`, `5m`, `2h`, `90d`.
    Time,
    /// A duration, or 0.
    TimeOrZero,
    /// A duration, or `unlimited`.
    TimeOrUnlimited,
    /// A number of bytes, or one with its unit.
    Size,
    /// A number of bytes with its unit, or `unlimited`.
    SizeOrUnlimited,
    Texts,
    /// A string, or a list of strings.
    TextOrTexts,
    /// An object of strings.
    Pairs,
    OneOf(&'static [&'static str]),
    /// One of these values, or one of the aliases that other hosts use for them.
    OneOfOrAlias(&'static [&'static str], &'static [&'static str]),
    /// A list of these values.
    ListOf(&'static [&'static str]),
    /// An object with these keys, all durations.
    Times(&'static [&'static str]),
    /// An object with these keys.
    Members(&'static [(&'static str, Self)]),
    /// A list of objects with these keys.
    ListOfMembers(&'static [(&'static str, Self)]),
    /// An object of names, each with an object with these keys.
    NamedMembers(&'static [(&'static str, Self)]),
    /// An object that is described in the text.
    AnyObject,
    /// One of these values, or an object whose `kind` decides which other keys it has.
    OneOfOrKind(&'static [&'static str], &'static [(&'static str, &'static [(&'static str, Self)])]),
    /// A TCP port, 1 to 65535.
    Port,
    /// An object with these keys, each with its allowed values.
    Choices(&'static [(&'static str, &'static [&'static str])]),
}

/// The value of a key, with the document it is in.
#[derive(Clone, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) document: &'a Document,
    /// The key with the keys above it.
    pub(crate) name: String,
    pub(crate) node: &'a Node,
}

impl Shape {
    /// Text for error messages, after "must be".
    pub(crate) fn expected(self) -> String {
        match self {
            Self::Text => "a string".to_owned(),
            Self::Flag => "true or false".to_owned(),
            Self::FlagOrTexts => "true, false or a list of strings".to_owned(),
            Self::FlagOrMembers(_) => "true, false or an object".to_owned(),
            Self::Count => "a whole number".to_owned(),
            Self::Share => "a number from 0 to 1".to_owned(),
            Self::Number => "a number, zero or greater".to_owned(),
            Self::Time => "a duration: seconds, or a string such as `500ms`, `30s`, `5m`, `2h` or `90d`".to_owned(),
            Self::TimeOrZero => "0, or a duration: seconds, or a string such as `30s` or `5m`".to_owned(),
            Self::TimeOrUnlimited => "a duration such as `2h` or `90d`, or `unlimited`".to_owned(),
            Self::Size => "a number of bytes, or a size such as `64KB` or `2MB`, greater than zero".to_owned(),
            Self::SizeOrUnlimited => "a size such as `500MB` or `2GB`, or `unlimited`".to_owned(),
            Self::Texts => "a list of strings".to_owned(),
            Self::TextOrTexts => "a string or a list of strings".to_owned(),
            Self::ListOfMembers(_) => "a list of objects".to_owned(),
            Self::NamedMembers(_) | Self::AnyObject => "an object".to_owned(),
            Self::Pairs | Self::Times(_) | Self::Choices(_) | Self::Members(_) => "an object".to_owned(),
            Self::OneOf(values) | Self::OneOfOrAlias(values, _) => Self::one_of(values),
            Self::ListOf(values) => format!("a list of {}", Self::one_of(values)),
            Self::OneOfOrKind(values, _) => format!("{} or an object with a `kind`", Self::one_of(values)),
            Self::Port => "a port, 1 to 65535".to_owned(),
        }
    }

    /// These values as a choice: `a`, `b` or `c`.
    pub(crate) fn one_of(values: &[&str]) -> String {
        let quoted: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
        match quoted.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
            None => String::new(),
        }
    }
}

impl<'a> Field<'a> {
    pub(crate) fn new(document: &'a Document, name: String, node: &'a Node) -> Self {
        Self { document, name, node }
    }

    pub(crate) fn text(&self) -> Result<&'a str, ConfigError> {
        match &self.node.value {
            Value::Text(text) => Ok(text),
            _ => Err(self.wrong(Shape::Text)),
        }
    }

    pub(crate) fn flag(&self) -> Result<bool, ConfigError> {
        match self.node.value {
            Value::Flag(flag) => Ok(flag),
            _ => Err(self.wrong(Shape::Flag)),
        }
    }

    pub(crate) fn number(&self) -> Result<f64, ConfigError> {
        match self.node.value {
            Value::Number(number) => Ok(number),
            _ => Err(self.expected("a number")),
        }
    }

    pub(crate) fn count(&self) -> Result<u32, ConfigError> {
        let number = self.number().map_err(|_| self.wrong(Shape::Count))?;
        let whole = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number);
        // In range and whole, so nothing is lost.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked in the line above")]
        whole.then_some(number as u32).ok_or_else(|| self.wrong(Shape::Count))
    }

    pub(crate) fn port(&self) -> Result<u16, ConfigError> {
        let port = self.count().ok().and_then(|port| u16::try_from(port).ok()).filter(|port| 0 < *port);
        port.ok_or_else(|| self.wrong(Shape::Port))
    }

    pub(crate) fn time(&self) -> Result<Duration, ConfigError> {
        let time = match &self.node.value {
            Value::Number(seconds) => duration_from_secs(*seconds),
            Value::Text(text) => parse_duration(text),
            _ => None,
        };
        time.ok_or_else(|| self.wrong(Shape::Time))
    }

    pub(crate) fn time_or_zero(&self) -> Result<Duration, ConfigError> {
        let is_zero = match &self.node.value {
            Value::Number(seconds) => *seconds == 0.0,
            Value::Text(text) => matches!(text.as_str(), "0" | "0s"),
            _ => false,
        };
        if is_zero { Ok(Duration::ZERO) } else { self.time().map_err(|_| self.wrong(Shape::TimeOrZero)) }
    }

    /// A number of `unit`s, as other hosts write durations.
    pub(crate) fn time_in(&self, unit: Duration) -> Result<Duration, ConfigError> {
        let number = self.number()?;
        duration_from_secs(number * unit.as_secs_f64()).ok_or_else(|| self.expected("a duration greater than zero"))
    }

    pub(crate) fn choice<T: Copy>(&self, values: &[(&'static str, T)], shape: Shape) -> Result<T, ConfigError> {
        let text = self.text().map_err(|_| self.wrong(shape))?;
        values.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| self.wrong(shape))
    }

    pub(crate) fn fields(&self) -> Result<Vec<Self>, ConfigError> {
        let Value::List(elements) = &self.node.value else { return Err(self.wrong(Shape::Texts)) };
        Ok(elements.iter().map(|node| Self::new(self.document, self.name.clone(), node)).collect())
    }

    /// The elements of a list.
    pub(crate) fn list(&self, shape: Shape) -> Result<Vec<Self>, ConfigError> {
        self.fields().map_err(|_| self.wrong(shape))
    }

    pub(crate) fn text_or_texts(&self) -> Result<Vec<String>, ConfigError> {
        match &self.node.value {
            Value::Text(text) => Ok(vec![text.clone()]),
            _ => self.texts().map_err(|_| self.wrong(Shape::TextOrTexts)),
        }
    }

    pub(crate) fn texts(&self) -> Result<Vec<String>, ConfigError> {
        let text = |field: Self| field.text().map(str::to_owned).map_err(|_| field.wrong(Shape::Texts));
        self.fields()?.into_iter().map(text).collect()
    }

    pub(crate) fn template(&self, dialect: Dialect) -> Result<Template, ConfigError> {
        self.text().map(|text| Template::new(text, dialect, self.node.line))
    }

    pub(crate) fn templates(&self, dialect: Dialect) -> Result<Vec<Template>, ConfigError> {
        let template = |field: Self| field.template(dialect).map_err(|_| field.wrong(Shape::Texts));
        self.fields()?.into_iter().map(template).collect()
    }

    pub(crate) fn members(&self) -> Result<Vec<(&'a str, Self)>, ConfigError> {
        let Value::Map(members) = &self.node.value else { return Err(self.wrong(Shape::Pairs)) };
        let field = |member: &'a Member| {
            let name = format!("{}.{}", self.name, member.key);
            (member.key.as_str(), Self::new(self.document, name, &member.node))
        };
        Ok(members.iter().map(field).collect())
    }

    pub(crate) fn pairs(&self, dialect: Dialect) -> Result<Vec<(String, Template)>, ConfigError> {
        let pair = |(key, field): (&str, Self)| Ok((key.to_owned(), field.template(dialect)?));
        self.members()?.into_iter().map(pair).collect()
    }

    /// A field for a missing key of this object; errors about it name the line of the object.
    pub(crate) fn below(&self, key: &str) -> Self {
        Self::new(self.document, format!("{}.{key}", self.name), self.node)
    }

    /// The error for an unknown key.
    pub(crate) fn unknown<'b>(&self, known: impl Iterator<Item = &'b str>) -> ConfigError {
        let key = self.name.rsplit('.').next().unwrap_or_default();
        let problem = match nearest(key, known) {
            Some(near) => format!("unknown key `{}`; did you mean `{near}`?", self.name),
            None => format!("unknown key `{}`", self.name),
        };
        ConfigError::Refused { place: self.document.place(self.node.line), problem }
    }

    pub(crate) fn wrong(&self, shape: Shape) -> ConfigError {
        self.expected(&shape.expected())
    }

    pub(crate) fn expected(&self, expected: &str) -> ConfigError {
        ConfigError::Expected {
            place: self.document.place(self.node.line),
            key: self.name.clone(),
            expected: expected.to_owned(),
        }
    }
}

/// Stores a parsed value; always `Ok`, so that it can end a `set` closure.
pub(crate) fn put<T>(place: &mut T, value: T) -> Result<(), ConfigError> {
    *place = value;
    Ok(())
}

/// Ten years, in seconds. Sums of such durations do not overflow.
const LONGEST: f64 = 10.0 * 365.0 * 24.0 * 3600.0;

/// A duration greater than zero and at most ten years.
pub(crate) fn duration_from_secs(seconds: f64) -> Option<Duration> {
    (0.0 < seconds && seconds <= LONGEST).then(|| Duration::from_secs_f64(seconds)).filter(|time| !time.is_zero())
}

/// What [`parse_duration`] accepts, as a regular expression for the JSON Schema.
pub(crate) const TIME_PATTERN: &str = r"^[0-9]+(\.[0-9]+)?(ms|s|m|min|h|d)?$";

/// Parses `500ms`, `30s`, `5m`, `2h`, or a number of seconds; `None` for zero and for anything else.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    let whole = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let (before, after) = digits.split_once('.').unwrap_or((digits, "0"));
    digits
        .parse::<f64>()
        .ok()
        .filter(|_| whole(before) && whole(after))
        .and_then(|number| duration_from_secs(number * unit))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::parse_duration;

    #[test]
    fn times_are_read_with_their_unit() {
        for (text, time) in [
            ("500ms", Some(Duration::from_millis(500))),
            ("30s", Some(Duration::from_secs(30))),
            ("1.5m", Some(Duration::from_secs(90))),
            ("2h", Some(Duration::from_secs(7200))),
            ("7", Some(Duration::from_secs(7))),
            ("0", None),
            ("-1s", None),
            ("1 s", None),
            ("s", None),
            ("90d", Some(Duration::from_secs(90 * 86_400))),
            ("1w", None),
            ("9999999999999999h", None),
        ] {
            assert_eq!(parse_duration(text), time, "{text}");
        }
    }
}
