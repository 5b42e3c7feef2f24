//! Limits on calls: `limits` of a server and of a client of the gateway, with those of single tools inside.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::{
    error::ConfigError,
    limits::parse_size,
    shape::{Field, Shape, put},
    tool_pattern::ToolPattern,
};

/// One set of limits. What is `None` is not limited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallLimit {
    /// Calls at once, and then evenly within a minute.
    pub calls_per_minute: Option<u32>,
    /// Calls within a day, by UTC.
    pub calls_per_day: Option<u32>,
    /// Calls at the same time.
    pub concurrent: Option<u32>,
    /// Bytes of the arguments of a call, and of its result, each.
    pub bytes_per_call: Option<u64>,
    /// Total time of a call.
    pub deadline: Option<Duration>,
}

/// The limits of a server or of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitLevel {
    /// Of all its calls.
    pub all: CallLimit,
    /// Of the tools that match, in addition. Every pattern counts for itself.
    pub tools: Vec<ToolLimit>,
}

/// The limits of tools by pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolLimit {
    /// The pattern as written.
    pub written: String,
    /// The tools that it covers.
    pub pattern: ToolPattern,
    /// Their limits.
    pub limit: CallLimit,
}

/// Whose limits are read: that decides what a pattern of tools matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitsOf {
    /// Patterns of the names of the tools of one server.
    Server,
    /// Patterns `SERVER.TOOL`.
    Client,
}

const LIMIT: &[(&str, Shape)] = &[
    ("callsPerMinute", Shape::Count),
    ("callsPerDay", Shape::Count),
    ("concurrent", Shape::Count),
    ("bytesPerCall", Shape::Size),
    ("deadline", Shape::Time),
];

/// The keys of `limits`.
pub(crate) const MEMBERS: &[(&str, Shape)] = &[
    ("callsPerMinute", Shape::Count),
    ("callsPerDay", Shape::Count),
    ("concurrent", Shape::Count),
    ("bytesPerCall", Shape::Size),
    ("deadline", Shape::Time),
    ("tools", Shape::NamedMembers(LIMIT)),
];

/// Reads `limits`.
pub(crate) fn read(field: &Field<'_>, of: LimitsOf) -> Result<LimitLevel, ConfigError> {
    let mut level = LimitLevel::default();
    for (key, field) in field.members()? {
        match key {
            "tools" => level.tools = read_tools(&field, of)?,
            _ => read_key(&mut level.all, key, &field, MEMBERS)?,
        }
    }
    Ok(level)
}

fn read_tools(field: &Field<'_>, of: LimitsOf) -> Result<Vec<ToolLimit>, ConfigError> {
    let tool = |(written, field): (&str, Field<'_>)| {
        let pattern = match of {
            LimitsOf::Server => ToolPattern::of_tool(written),
            LimitsOf::Client => written.parse().map_err(|_| field.expected(CLIENT_PATTERN))?,
        };
        let mut limit = CallLimit::default();
        for (key, field) in field.members()? {
            read_key(&mut limit, key, &field, LIMIT)?;
        }
        Ok(ToolLimit { written: written.to_owned(), pattern, limit })
    };
    field.members()?.into_iter().map(tool).collect()
}

/// What a key of `tools` of a client must be.
const CLIENT_PATTERN: &str = "under a pattern SERVER.TOOL; both parts may contain `*`, e.g. `files.write_*`";

fn read_key(
    limit: &mut CallLimit,
    key: &str,
    field: &Field<'_>,
    known: &[(&'static str, Shape)],
) -> Result<(), ConfigError> {
    match key {
        "callsPerMinute" => put(&mut limit.calls_per_minute, Some(positive(field)?)),
        "callsPerDay" => put(&mut limit.calls_per_day, Some(positive(field)?)),
        "concurrent" => put(&mut limit.concurrent, Some(positive(field)?)),
        "bytesPerCall" => put(&mut limit.bytes_per_call, Some(size(field)?)),
        "deadline" => put(&mut limit.deadline, Some(field.time()?)),
        _ => Err(field.unknown(known.iter().map(|(key, _)| *key))),
    }
}

fn positive(field: &Field<'_>) -> Result<u32, ConfigError> {
    let count = Some(field.count()?).filter(|count| 0 < *count);
    count.ok_or_else(|| field.expected("a whole number greater than zero"))
}

fn size(field: &Field<'_>) -> Result<u64, ConfigError> {
    let number = field.count().ok().map(u64::from).filter(|bytes| 0 < *bytes);
    let size = number.or_else(|| field.text().ok().and_then(parse_size));
    size.ok_or_else(|| field.wrong(Shape::Size))
}

impl CallLimit {
    /// Whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The keys that are set, with their values as JSON: counts, bytes, and seconds.
    pub fn values(&self) -> Vec<(&'static str, Value)> {
        let members = [
            ("callsPerMinute", self.calls_per_minute.map(Value::from)),
            ("callsPerDay", self.calls_per_day.map(Value::from)),
            ("concurrent", self.concurrent.map(Value::from)),
            ("bytesPerCall", self.bytes_per_call.map(Value::from)),
            ("deadline", self.deadline.map(seconds)),
        ];
        members.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }

    /// The smaller of each.
    fn restricted_by(&self, other: &Self) -> Self {
        Self {
            calls_per_minute: smaller(self.calls_per_minute, other.calls_per_minute),
            calls_per_day: smaller(self.calls_per_day, other.calls_per_day),
            concurrent: smaller(self.concurrent, other.concurrent),
            bytes_per_call: smaller(self.bytes_per_call, other.bytes_per_call),
            deadline: smaller(self.deadline, other.deadline),
        }
    }
}

impl LimitLevel {
    /// Whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && self.tools.iter().all(|tool| tool.limit.is_empty())
    }

    /// These limits as they are written, as JSON; `None` if there are none.
    pub fn to_json(&self) -> Option<Value> {
        let object = |limit: &CallLimit| -> Map<String, Value> {
            limit.values().into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
        };
        let mut level = object(&self.all);
        if !self.tools.is_empty() {
            let tools = self.tools.iter().map(|tool| (tool.written.clone(), Value::Object(object(&tool.limit))));
            level.insert("tools".to_owned(), Value::Object(tools.collect()));
        }
        (!level.is_empty()).then_some(Value::Object(level))
    }

    /// These limits with those of another file, which can only make them stricter.
    #[must_use]
    pub(crate) fn restricted_by(mut self, other: Self) -> Self {
        self.all = self.all.restricted_by(&other.all);
        for tool in other.tools {
            match self.tools.iter_mut().find(|known| known.written == tool.written) {
                Some(known) => known.limit = known.limit.restricted_by(&tool.limit),
                None => self.tools.push(tool),
            }
        }
        self
    }
}

fn smaller<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

fn seconds(time: Duration) -> Value {
    if time.subsec_nanos() == 0 { json!(time.as_secs()) } else { json!(time.as_secs_f64()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, document::Document};

    fn server(limits: &str) -> Result<LimitLevel, String> {
        let text = format!(r#"{{"mcpServers": {{"files": {{"command": "files", "limits": {limits}}}}}}}"#);
        let document = Document::of("/x/toolway.json".as_ref(), &text).map_err(|error| error.to_string())?;
        let config = Config::of(&document, None).map_err(|error| error.to_string())?;
        Ok(config.servers.values().next().map(|server| server.limits.clone()).unwrap_or_default())
    }

    #[test]
    fn limits_of_a_server_and_of_its_tools_are_read() {
        let level = server(
            r#"{"callsPerMinute": 50, "callsPerDay": 1000, "concurrent": 4, "bytesPerCall": "64KB", "deadline": "30s",
                "tools": {"write_*": {"callsPerDay": 5, "bytesPerCall": 100}}}"#,
        )
        .unwrap();
        assert_eq!(
            level.to_json().unwrap(),
            json!({
                "callsPerMinute": 50, "callsPerDay": 1000, "concurrent": 4, "bytesPerCall": 65536, "deadline": 30,
                "tools": { "write_*": { "callsPerDay": 5, "bytesPerCall": 100 } },
            })
        );
        let pattern = &level.tools[0].pattern;
        assert!(pattern.matches("files", "write_file") && !pattern.matches("files", "read_file"));
    }

    #[test]
    fn a_misspelt_limit_or_a_value_without_meaning_is_an_error() {
        for (limits, expected) in [
            (r#"{"callPerMinute": 1}"#, "did you mean `callsPerMinute`"),
            (r#"{"tools": {"x": {"callsPerDays": 1}}}"#, "did you mean `callsPerDay`"),
            (r#"{"tools": {"x": {"tools": {}}}}"#, "unknown key"),
            (r#"{"callsPerMinute": 0}"#, "greater than zero"),
            (r#"{"concurrent": 1.5}"#, "a whole number"),
            (r#"{"bytesPerCall": "many"}"#, "a number of bytes, or a size such as `64KB`"),
            (r#"{"bytesPerCall": 0}"#, "a number of bytes"),
            (r#"{"deadline": "soon"}"#, "a duration"),
            (r#"{"tools": ["x"]}"#, "an object"),
            ("50", "an object"),
        ] {
            let error = server(limits).unwrap_err();
            assert!(error.contains(expected), "{limits}: {error}");
        }
    }

    #[test]
    fn another_file_makes_limits_only_stricter() {
        let own = server(r#"{"callsPerMinute": 50, "deadline": 5, "tools": {"a": {"concurrent": 2}}}"#).unwrap();
        let other = r#"{"callsPerMinute": 90, "callsPerDay": 7, "deadline": 2,
                        "tools": {"a": {"concurrent": 1}, "b": {"concurrent": 3}}}"#;
        let both = own.restricted_by(server(other).unwrap());
        assert_eq!(
            both.to_json().unwrap(),
            json!({
                "callsPerMinute": 50, "callsPerDay": 7, "deadline": 2,
                "tools": { "a": { "concurrent": 1 }, "b": { "concurrent": 3 } },
            })
        );
    }
}
