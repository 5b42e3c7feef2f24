//! Forms of servers: the schemas that the protocol allows for elicitation, as fields with checks.

mod json;

use std::fmt;

use serde_json::{Map, Number, Value};
use toolway_wire::json::Raw;

/// Fields of one form.
const MAX_FIELDS: usize = 200;
/// Options of one field.
const MAX_OPTIONS: usize = 1_000;
/// Bytes that an allocator uses for the shortest text.
const SMALL_TEXT: usize = 32;
/// Words in a name or title that suggest a secret.
const SECRET_WORDS: &[&str] =
    &["password", "passwd", "passphrase", "secret", "token", "apikey", "api key", "credential", "private key", "cvv"];

/// The fields of a form, in the order of its schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Form {
    /// Its fields.
    pub fields: Vec<FormField>,
}

/// One field. Names, titles and descriptions are the server's text.
#[derive(Clone, Debug, PartialEq)]
pub struct FormField {
    /// Key in the answer.
    pub name: String,
    /// Display name.
    pub title: Option<String>,
    /// Explanation shown below the title.
    pub description: Option<String>,
    /// Whether an answer without it is invalid.
    pub required: bool,
    /// What may be entered.
    pub kind: FieldKind,
    /// Value to start with.
    pub default: Option<Value>,
    /// Whether its name suggests a secret. A server must not ask for secrets in a form.
    pub looks_secret: bool,
}

/// What may be entered into a field.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldKind {
    /// Free text.
    Text {
        /// Required format.
        format: Option<TextFormat>,
        /// Minimum number of characters.
        min_length: Option<u64>,
        /// Maximum number of characters.
        max_length: Option<u64>,
        /// Regular expression that the server expects; shown, and checked by the server.
        pattern: Option<String>,
    },
    /// A number.
    Number {
        /// Whether it must be an integer.
        integer: bool,
        /// Smallest value.
        minimum: Option<f64>,
        /// Largest value.
        maximum: Option<f64>,
    },
    /// Yes or no.
    Boolean,
    /// One of several options.
    Choice {
        /// The options.
        options: Vec<FormOption>,
    },
    /// Any number of several options.
    MultiChoice {
        /// The options.
        options: Vec<FormOption>,
        /// Minimum number of options.
        min_items: Option<u64>,
        /// Maximum number of options.
        max_items: Option<u64>,
    },
}

/// One option of a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormOption {
    /// Value in the answer.
    pub value: String,
    /// Display name.
    pub title: Option<String>,
}

/// Formats of text that the protocol allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// An e-mail address.
    Email,
    /// A URI.
    Uri,
    /// A date, as `2026-07-28`.
    Date,
    /// A time, as `2026-07-28T12:00:00Z`.
    DateTime,
}

/// Why a value of a form is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldProblem {
    /// Name of the field.
    pub field: String,
    /// What is wrong.
    pub message: String,
}

// === impl Form ===

impl Form {
    /// Reads the `requestedSchema` of an elicitation, or says why it is not a form of the protocol.
    pub fn of(schema: &Raw) -> Result<Self, String> {
        let properties = schema.get("properties").map(|properties| properties.members()).unwrap_or_default();
        if properties.len() > MAX_FIELDS {
            return Err(format!("a form has at most {MAX_FIELDS} fields, this one has {}", properties.len()));
        }
        let required: Vec<String> =
            schema.get("required").and_then(|list| serde_json::from_slice(list.as_bytes()).ok()).unwrap_or_default();
        let field = |member: toolway_wire::json::Member| {
            let definition: Value =
                serde_json::from_slice(member.value.as_bytes()).map_err(|error| error.to_string())?;
            let is_required = required.contains(&member.key);
            FormField::of(member.key, &definition, is_required)
        };
        Ok(Self { fields: properties.into_iter().map(field).collect::<Result<_, _>>()? })
    }

    /// About how many bytes it takes in memory.
    pub(super) fn kept_bytes(&self) -> usize {
        self.fields.iter().map(FormField::kept_bytes).sum()
    }

    /// Checks an answer: every required field, every value, no other names.
    pub fn check(&self, content: &Map<String, Value>) -> Result<(), Vec<FieldProblem>> {
        let problem = |field: &str, message: String| FieldProblem { field: field.to_owned(), message };
        let of_field = |field: &FormField| match content.get(&field.name) {
            Some(value) => field.check(value).err().map(|message| problem(&field.name, message)),
            None if field.required => Some(problem(&field.name, "a value is required".to_owned())),
            None => None,
        };
        let is_known = |name: &&String| self.fields.iter().any(|field| field.name == **name);
        let unknown = content.keys().filter(|name| !is_known(name));
        let unknown = unknown.map(|name| problem(name, "the form has no such field".to_owned()));
        let problems: Vec<_> = self.fields.iter().filter_map(of_field).chain(unknown).collect();
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}

// === impl FormField ===

impl FormField {
    fn kept_bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, |text| text.len().max(SMALL_TEXT));
        let of_option =
            |option: &FormOption| size_of::<FormOption>() + option.value.len().max(SMALL_TEXT) + text(&option.title);
        let kind = match &self.kind {
            FieldKind::Text { pattern, .. } => text(pattern),
            FieldKind::Number { .. } | FieldKind::Boolean => 0,
            FieldKind::Choice { options } | FieldKind::MultiChoice { options, .. } => {
                options.iter().map(of_option).sum()
            }
        };
        let default = self.default.as_ref().map_or(0, value_bytes);
        size_of::<Self>() + self.name.len() + text(&self.title) + text(&self.description) + kind + default
    }

    fn of(name: String, definition: &Value, required: bool) -> Result<Self, String> {
        let text = |key: &str| definition[key].as_str().map(str::to_owned);
        let kind = FieldKind::of(definition).map_err(|why| format!("field `{name}`: {why}"))?;
        let (title, description) = (text("title"), text("description"));
        let shown = format!("{name} {}", title.as_deref().unwrap_or_default()).to_lowercase().replace(['_', '-'], " ");
        let is_text = matches!(kind, FieldKind::Text { .. });
        let looks_secret = is_text
            && (SECRET_WORDS.iter().any(|word| shown.contains(word)) || shown.split(' ').any(|word| word == "pin"));
        let field = Self { name, title, description, required, kind, default: None, looks_secret };
        // A default that the field itself does not allow is not offered.
        let default = definition.get("default").filter(|default| field.check(default).is_ok()).cloned();
        Ok(Self { default, ..field })
    }

    /// The title, or the name.
    pub fn label(&self) -> &str {
        self.title.as_deref().filter(|title| !title.is_empty()).unwrap_or(&self.name)
    }

    /// Converts what a user typed, and checks it.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        let value = match &self.kind {
            FieldKind::Text { .. } => Value::String(text.to_owned()),
            FieldKind::Number { .. } => {
                let number = text.trim().parse::<Number>().map_err(|_| format!("`{text}` is not a number"))?;
                Value::Number(number)
            }
            FieldKind::Boolean => match text.trim().to_lowercase().as_str() {
                "y" | "yes" | "true" | "1" => Value::Bool(true),
                "n" | "no" | "false" | "0" => Value::Bool(false),
                _ => return Err(format!("`{text}` is not `yes` or `no`")),
            },
            FieldKind::Choice { options } => Value::String(chosen(options, text)?),
            FieldKind::MultiChoice { options, .. } => {
                let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
                Value::Array(parts.map(|part| chosen(options, part).map(Value::String)).collect::<Result<_, _>>()?)
            }
        };
        self.check(&value)?;
        Ok(value)
    }

    /// Checks a value, and says what is wrong with it.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        match (&self.kind, value) {
            (FieldKind::Text { format, min_length, max_length, .. }, Value::String(text)) => {
                let length = text.chars().count() as u64;
                if min_length.is_some_and(|least| length < least) {
                    return Err(format!("must have at least {} characters", min_length.unwrap_or_default()));
                }
                if max_length.is_some_and(|most| length > most) {
                    return Err(format!("must have at most {} characters", max_length.unwrap_or_default()));
                }
                format.map_or(Ok(()), |format| format.check(text))
            }
            (FieldKind::Number { integer, minimum, maximum }, Value::Number(number)) => {
                let value = number.as_f64().unwrap_or(f64::NAN);
                match () {
                    () if *integer && value.fract() != 0.0 => Err("must be an integer".to_owned()),
                    () if minimum.is_some_and(|least| value < least) => {
                        Err(format!("must be at least {}", minimum.unwrap_or_default()))
                    }
                    () if maximum.is_some_and(|most| value > most) => {
                        Err(format!("must be at most {}", maximum.unwrap_or_default()))
                    }
                    () => Ok(()),
                }
            }
            (FieldKind::Boolean, Value::Bool(_)) => Ok(()),
            (FieldKind::Choice { options }, Value::String(text)) => is_option(options, text),
            (FieldKind::MultiChoice { options, min_items, max_items }, Value::Array(values)) => {
                let number = values.len() as u64;
                if min_items.is_some_and(|least| number < least) {
                    return Err(format!("choose at least {}", min_items.unwrap_or_default()));
                }
                if max_items.is_some_and(|most| number > most) {
                    return Err(format!("choose at most {}", max_items.unwrap_or_default()));
                }
                let check = |value: &Value| match value {
                    Value::String(text) => is_option(options, text),
                    other => Err(format!("`{other}` is not an option")),
                };
                values.iter().try_for_each(check)
            }
            (kind, _) => Err(format!("must be {}", kind.noun())),
        }
    }
}

// === impl FieldKind ===

impl FieldKind {
    fn of(definition: &Value) -> Result<Self, String> {
        let whole = |key: &str| definition[key].as_u64();
        if let Some(options) = options(definition)? {
            return Ok(Self::Choice { options });
        }
        match definition["type"].as_str() {
            Some("string") => Ok(Self::Text {
                format: definition["format"].as_str().and_then(TextFormat::parse),
                min_length: whole("minLength"),
                max_length: whole("maxLength"),
                pattern: definition["pattern"].as_str().map(str::to_owned),
            }),
            Some(kind @ ("number" | "integer")) => Ok(Self::Number {
                integer: kind == "integer",
                minimum: definition["minimum"].as_f64(),
                maximum: definition["maximum"].as_f64(),
            }),
            Some("boolean") => Ok(Self::Boolean),
            Some("array") => {
                let options = options(&definition["items"])?.ok_or("the items of a list must be options")?;
                Ok(Self::MultiChoice { options, min_items: whole("minItems"), max_items: whole("maxItems") })
            }
            Some(other) => Err(format!("the type `{other}` is not allowed in a form")),
            None => Err("it has no type".to_owned()),
        }
    }

    /// What a value is, after `must be`.
    fn noun(&self) -> &'static str {
        match self {
            Self::Text { .. } => "text",
            Self::Number { integer: false, .. } => "a number",
            Self::Number { integer: true, .. } => "an integer",
            Self::Boolean => "`true` or `false`",
            Self::Choice { .. } => "one of the options",
            Self::MultiChoice { .. } => "a list of options",
        }
    }
}

/// Bytes of a value outside itself: of its text or of its values.
fn value_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len().max(SMALL_TEXT),
        Value::Array(values) => values.iter().map(|value| size_of::<Value>() + value_bytes(value)).sum(),
        _ => 0,
    }
}

/// The options of a schema: `enum` with or without `enumNames`, or `oneOf`/`anyOf` with `const` and `title`.
fn options(definition: &Value) -> Result<Option<Vec<FormOption>>, String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let titled = definition["oneOf"].as_array().or_else(|| definition["anyOf"].as_array());
    let options: Vec<Option<FormOption>> = if let Some(values) = definition["enum"].as_array() {
        let title = |index: usize| definition["enumNames"].get(index).and_then(text);
        let option = |(index, value)| Some(FormOption { value: text(value)?, title: title(index) });
        values.iter().enumerate().map(option).collect()
    } else if let Some(values) = titled {
        let option = |value: &Value| Some(FormOption { value: text(&value["const"])?, title: text(&value["title"]) });
        values.iter().map(option).collect()
    } else {
        return Ok(None);
    };
    if options.len() > MAX_OPTIONS {
        return Err(format!("it has more than {MAX_OPTIONS} options"));
    }
    let options: Option<Vec<FormOption>> = options.into_iter().collect();
    let options = options.ok_or("an option is not text")?;
    if options.is_empty() { Err("it has no options".to_owned()) } else { Ok(Some(options)) }
}

/// The value of an option, by its value, its title or its number from 1.
fn chosen(options: &[FormOption], text: &str) -> Result<String, String> {
    let text = text.trim();
    let named = options.iter().find(|option| option.value == text || option.title.as_deref() == Some(text));
    let by_number = || text.parse::<usize>().ok().and_then(|number| options.get(number.checked_sub(1)?));
    named.or_else(by_number).map(|option| option.value.clone()).ok_or_else(|| format!("`{text}` is not an option"))
}

fn is_option(options: &[FormOption], text: &str) -> Result<(), String> {
    let known = options.iter().any(|option| option.value == text);
    if known { Ok(()) } else { Err(format!("`{text}` is not an option")) }
}

// === impl TextFormat ===

impl TextFormat {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "email" => Some(Self::Email),
            "uri" => Some(Self::Uri),
            "date" => Some(Self::Date),
            "date-time" => Some(Self::DateTime),
            _ => None,
        }
    }

    /// The word in a schema.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Uri => "uri",
            Self::Date => "date",
            Self::DateTime => "date-time",
        }
    }

    fn check(self, text: &str) -> Result<(), String> {
        let is_valid = match self {
            Self::Email => is_email(text),
            Self::Uri => url::Url::parse(text).is_ok(),
            Self::Date => is_date(text),
            Self::DateTime => is_date_time(text),
        };
        let example = match self {
            Self::Email => "an e-mail address such as `name@example.com`",
            Self::Uri => "a URI such as `https://example.com`",
            Self::Date => "a date such as `2026-07-28`",
            Self::DateTime => "a time such as `2026-07-28T12:00:00Z`",
        };
        if is_valid { Ok(()) } else { Err(format!("must be {example}")) }
    }
}

fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    !local.is_empty() && !local.contains('@') && !domain.is_empty() && !text.contains(char::is_whitespace)
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    let number = |part: &str, digits: usize| {
        let is_digits = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        is_digits.then(|| part.parse::<u32>().ok()).flatten()
    };
    let (Some(year), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2)) else {
        return false;
    };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

fn is_date_time(text: &str) -> bool {
    let Some((date, rest)) = text.split_once(['T', 't', ' ']) else { return false };
    let zone = rest.find(['Z', 'z', '+', '-']);
    let Some((clock, zone)) = zone.and_then(|at| rest.split_at_checked(at)) else { return false };
    let two = |part: &str, most: u32| part.len() == 2 && part.parse::<u32>().is_ok_and(|value| value <= most);
    let seconds = |part: &str| {
        let (whole, fraction) = part.split_once('.').unwrap_or((part, "0"));
        two(whole, 60) && !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit())
    };
    let clock: Vec<&str> = clock.split(':').collect();
    let is_clock =
        matches!(clock.as_slice(), [hour, minute, second] if two(hour, 23) && two(minute, 59) && seconds(second));
    let is_offset = || {
        let offset = zone.get(1..).and_then(|offset| offset.split_once(':'));
        offset.is_some_and(|(hour, minute)| two(hour, 23) && two(minute, 59))
    };
    is_date(date) && is_clock && (zone.eq_ignore_ascii_case("z") || is_offset())
}

impl fmt::Display for FieldProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.field, self.message)
    }
}

#[cfg(test)]
mod tests;
