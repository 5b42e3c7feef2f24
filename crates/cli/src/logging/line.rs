//! Formats one event of the operator log: time, level and message, then fields. Values come from servers and clients and
//! are escaped and cut.

use std::{
    fmt::{self, Write as _},
    time::SystemTime,
};

use serde_json::{Map, Value};
use toolway_gateway::records::LogFormat;
use toolway_wire::time::rfc3339_of;
use tracing::{
    Level, Metadata,
    field::{Field, Visit},
};

/// The message and the fields of an event or a span.
#[derive(Debug, Default)]
pub(super) struct Fields {
    message: String,
    values: Vec<(&'static str, Value)>,
}

/// Maximum length of a value, in characters.
const MAX_VALUE_CHARS: usize = 2_000;

/// Formats an event as one line, with its line break.
pub(super) fn format(format: LogFormat, at: SystemTime, metadata: &Metadata<'static>, fields: &Fields) -> String {
    let (at, level) = (rfc3339_of(at), level_word(*metadata.level()));
    match format {
        LogFormat::Text => {
            let mut text = format!("{at} {} {}", level.to_uppercase(), quoted_if_needed(&fields.message, ' '));
            for (name, value) in &fields.values {
                let value = value.as_str().map_or_else(|| value.to_string(), |value| quoted_if_needed(value, '-'));
                // Writing to a `String` cannot fail.
                let _written = write!(text, " {name}={value}");
            }
            text.push('\n');
            text
        }
        LogFormat::Json => {
            let mut object: Map<String, Value> =
                fields.values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
            for (name, value) in [
                ("time", at.as_str()),
                ("event", "log"),
                ("level", level),
                ("module", module(metadata)),
                ("message", &fields.message),
            ] {
                object.insert(name.to_owned(), value.into());
            }
            format!("{}\n", Value::Object(object))
        }
    }
}

/// Name of a level in logs and metrics.
pub(super) fn level_word(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

/// The module that logged, without the prefix of our crates: `host::connection::supervisor`.
pub(super) fn module(metadata: &Metadata<'static>) -> &'static str {
    metadata.target().strip_prefix("toolway_").unwrap_or(metadata.target())
}

/// The text itself if it contains only letters, digits, common punctuation and `also`; else quoted and escaped.
fn quoted_if_needed(text: &str, also: char) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:@;,`'()+".contains(letter) || letter == also;
    if !text.is_empty() && text.chars().all(plain) { text.to_owned() } else { format!("{text:?}") }
}

// === impl Fields ===

impl Fields {
    /// Adds the fields of a span around it that are not set yet.
    pub(super) fn inherit(&mut self, outer: &Self) {
        for (name, value) in &outer.values {
            if self.values.iter().all(|(known, _)| known != name) {
                self.values.push((name, value.clone()));
            }
        }
    }

    fn set(&mut self, field: &Field, value: Value) {
        self.values.retain(|(name, _)| *name != field.name());
        self.values.push((field.name(), value));
    }

    fn set_text(&mut self, field: &Field, text: &str) {
        let text: String = text.chars().take(MAX_VALUE_CHARS).collect();
        if field.name() == "message" {
            self.message = text;
        } else {
            self.set(field, text.into());
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set_text(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set_text(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value.into());
    }
}
