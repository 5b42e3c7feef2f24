//! One check of a value against a schema. It uses no lock and no runtime; `schemas.rs` keeps what is compiled.

use std::sync::OnceLock;

use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;
use toolway_config::visible;
use toolway_wire::json::Raw;

use super::{cost, fast_check, flat_check::FlatSchema};

/// Result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckResult {
    /// The value matches.
    Valid,
    /// The value does not match; one message each.
    Invalid(Vec<String>),
    /// The schema or the value cannot be checked, and why. Nothing is rejected for that.
    Unchecked(String),
}

/// What is wrong with one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedProblem {
    /// JSON pointer of the value, or of a member that is missing.
    pub pointer: String,
    /// What is wrong, on one line.
    pub message: String,
}

/// What a value is, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Checked {
    /// The arguments of a call.
    Arguments,
    /// The structured content of a result.
    Result,
}

/// Whether messages quote the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quoting {
    /// They do: the value is the reader's own.
    Quoted,
    /// They do not: the message is recorded.
    Masked,
}

/// A schema, compiled at its first use.
#[derive(Debug)]
pub struct CompiledSchema {
    document: Result<Value, String>,
    /// The same, if it is so simple that values need not be parsed.
    flat: Option<FlatSchema>,
    validator: OnceLock<Result<Validator, String>>,
}

/// Larger schemas are not checked.
const SCHEMA_BYTES: usize = 1024 * 1024;
/// Larger values are not checked.
const VALUE_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of the compiled patterns of one schema.
const PATTERN_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of one compiled pattern. The time of a match grows with them.
const MAX_PATTERN: usize = 1024 * 1024;
/// Bytes that matching one pattern may keep.
const PATTERN_CACHE: usize = 64 * 1024;
/// Errors reported at once.
const MAX_ERRORS: usize = 5;
/// Characters of one error, which quotes the value and the schema.
const MAX_ERROR: usize = 200;

impl CompiledSchema {
    /// Reads a schema.
    pub fn new(schema: &Raw) -> Self {
        let document = if SCHEMA_BYTES < schema.as_bytes().len() {
            Err("the schema is too large".to_owned())
        } else {
            schema.read().map_err(|error| format!("the schema is not usable: {error}"))
        };
        let flat = document.as_ref().ok().and_then(FlatSchema::of);
        Self { document, flat, validator: OnceLock::new() }
    }

    /// Whether a value is valid, if that can be told without compiling the schema.
    pub(super) fn is_certainly_valid(&self, value: &Raw) -> bool {
        if self.flat.as_ref().is_some_and(|flat| flat.is_certainly_valid(value)) {
            return true;
        }
        let (Ok(document), Ok(value)) = (&self.document, value.read::<Value>()) else { return false };
        fast_check::is_certainly_valid(document, &value)
    }

    /// Checks a value. References to other documents are never fetched.
    pub fn check(&self, value: &Raw, what: Checked, quoting: Quoting) -> CheckResult {
        match self.problems(value, what, quoting) {
            Ok(problems) if problems.is_empty() => CheckResult::Valid,
            Ok(problems) => CheckResult::Invalid(problems.into_iter().map(|problem| problem.sentence(what)).collect()),
            Err(why) => CheckResult::Unchecked(why),
        }
    }

    /// The first problems of a value, or why it cannot be checked.
    fn problems(&self, value: &Raw, what: Checked, quoting: Quoting) -> Result<Vec<LocatedProblem>, String> {
        if VALUE_BYTES < value.as_bytes().len() {
            return Err("the value is too large".to_owned());
        }
        let document = self.document.as_ref().map_err(String::clone)?;
        let value: Value = value.read().map_err(|error| error.to_string())?;
        if fast_check::is_certainly_valid(document, &value) {
            return Ok(Vec::new());
        }
        let validator = self.validator.get_or_init(|| compile(document)).as_ref().map_err(String::clone)?;
        cost::check_value(document, &value).map_err(|why| format!("the schema cannot be checked: {why}"))?;
        let missing = missing(document, &value);
        let wrong = validator.iter_errors(&value).filter(|error| !is_covered_by(&missing, error));
        let wrong = wrong.map(|error| describe(&error, quoting));
        let named = missing.iter().map(|name| LocatedProblem {
            pointer: format!("/{}", escaped(name)),
            message: format!("missing {} `{}`", what.member(), line(name)),
        });
        Ok(named.chain(wrong).take(MAX_ERRORS).collect())
    }
}

impl LocatedProblem {
    /// The problem with its place.
    fn sentence(self, what: Checked) -> String {
        let place = self.pointer.trim_start_matches('/').replace('/', ".");
        let names_itself = self.message.starts_with("missing ");
        if place.is_empty() || names_itself {
            return self.message;
        }
        format!("{} `{}`: {}", what.member(), line(&place), self.message)
    }
}

impl Checked {
    /// The noun of messages.
    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::Arguments => "arguments",
            Self::Result => "results",
        }
    }

    fn member(self) -> &'static str {
        match self {
            Self::Arguments => "argument",
            Self::Result => "member",
        }
    }
}

/// Checks arguments against the input schema of a tool.
pub fn arguments(schema: &Raw, arguments: &Raw) -> CheckResult {
    CompiledSchema::new(schema).check(arguments, Checked::Arguments, Quoting::Quoted)
}

/// What is wrong with arguments, each with its place; empty if they match or cannot be checked.
pub fn located_problems(schema: &Raw, arguments: &Raw) -> Vec<LocatedProblem> {
    CompiledSchema::new(schema).problems(arguments, Checked::Arguments, Quoting::Quoted).unwrap_or_default()
}

/// Compiles a schema. Patterns are matched in linear time, so one with look-around is not supported.
fn compile(document: &Value) -> Result<Validator, String> {
    let unusable = |why: String| format!("the schema cannot be checked: {}", line(&why));
    let patterns = cost::check_schema(document).map_err(|why| unusable(why.to_string()))?;
    let size = (PATTERN_BYTES / patterns.max(1)).min(MAX_PATTERN);
    let patterns = PatternOptions::regex().size_limit(size).dfa_size_limit(PATTERN_CACHE);
    let options = jsonschema::options().offline().with_pattern_options(patterns);
    options.build(document).map_err(|error| unusable(error.to_string()))
}

/// Required members that are missing.
fn missing(schema: &Value, value: &Value) -> Vec<String> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    required.filter(|name| value.is_object() && value.get(name).is_none()).map(str::to_owned).collect()
}

fn is_covered_by(missing: &[String], error: &ValidationError<'_>) -> bool {
    !missing.is_empty() && error.kind().keyword() == "required" && error.instance_path().to_string().is_empty()
}

fn describe(error: &ValidationError<'_>, quoting: Quoting) -> LocatedProblem {
    let message = line(&match quoting {
        Quoting::Quoted => error.to_string(),
        Quoting::Masked => error.masked().to_string(),
    });
    LocatedProblem { pointer: error.instance_path().to_string(), message }
}

/// A key as a part of a JSON pointer.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Text of others on one line: bounded, with hidden characters escaped.
fn line(text: &str) -> String {
    let kept: String = text.chars().take(MAX_ERROR).collect();
    let ellipsis = if kept.len() < text.len() { "…" } else { "" };
    format!("{}{ellipsis}", visible::one_line(&kept))
}

#[cfg(test)]
mod tests {
    use toolway_wire::json::Raw;

    use super::{CheckResult, arguments, located_problems};

    fn check(schema: &str, given: &str) -> CheckResult {
        arguments(&Raw::parse(schema.to_owned()).unwrap(), &Raw::parse(given.to_owned()).unwrap())
    }

    #[test]
    fn invalid_arguments_are_named() {
        let schema = r#"{"type":"object","properties":{"n":{"type":"integer","minimum":1}},"required":["n"]}"#;
        assert_eq!(check(schema, r#"{"n":3}"#), CheckResult::Valid);
        assert_eq!(check(schema, r#"{"n":123456789012345678901234567890}"#), CheckResult::Valid);
        assert_eq!(check(schema, "{}"), CheckResult::Invalid(vec!["missing argument `n`".to_owned()]));
        let CheckResult::Invalid(errors) = check(schema, r#"{"n":"x"}"#) else { panic!() };
        assert_eq!(errors, [r#"argument `n`: "x" is not of type "integer""#]);
    }

    #[test]
    fn problems_name_their_place() {
        let schema = r#"{"properties":{"a/b":{"items":{"type":"integer"}}},"required":["c"]}"#;
        let raw = |text: &str| Raw::parse(text.to_owned()).unwrap();
        let found = located_problems(&raw(schema), &raw(r#"{"a/b":[1,"x"]}"#));
        let places: Vec<_> = found.iter().map(|problem| problem.pointer.as_str()).collect();
        assert_eq!(places, ["/c", "/a~1b/1"]);
        assert_eq!(found[0].message, "missing argument `c`");
        assert!(located_problems(&raw(r#"{"type":"number of apples"}"#), &raw("{}")).is_empty());
    }

    #[test]
    fn hidden_characters_in_messages_are_escaped() {
        let schema = r#"{"properties":{"n\u202e":{"enum":["\u001b[2J\u200b"]}}}"#;
        let CheckResult::Invalid(errors) = check(schema, r#"{"n\u202e":"\u2066x\ue000"}"#) else { panic!() };
        assert!(errors[0].is_ascii() && errors[0].contains("202e") && errors[0].contains("2066"), "{errors:?}");
    }

    /// What a server may send to hang or to crash us, or to reach other hosts.
    #[test]
    fn a_schema_that_cannot_be_checked_rejects_nothing() {
        let wide = format!(r#"{{"enum":["{}"]}}"#, "x".repeat(1_100_000));
        let deep = format!("{}{}{}", r#"{"not":"#.repeat(110), "{}", "}".repeat(110));
        for schema in [
            r#"{"$ref":"http://127.0.0.1:1/schema.json"}"#,
            r#"{"properties":{"n":{"$ref":"file:///etc/passwd"}}}"#,
            r#"{"type":"number of apples"}"#,
            r#"{"properties":{"n":{"pattern":"(?=a)b"}}}"#,
            r#"{"properties":{"n":{"pattern":"("}}}"#,
            r#"{"properties":{"n":{"pattern":"((a{1000}){1000}){1000}"}}}"#,
            r#"{"$schema":"http://127.0.0.1:1/meta","type":"array"}"#,
            &wide,
            &deep,
        ] {
            let shown: String = schema.chars().take(60).collect();
            assert!(matches!(check(schema, r#"{"n":"x"}"#), CheckResult::Unchecked(_)), "{shown}");
        }
    }

    /// Each pattern is small as text, and large when it is compiled.
    #[test]
    fn many_patterns_take_bounded_memory_and_reject_nothing() {
        let properties: Vec<String> =
            (0..5_000).map(|n| format!(r#""p{n}":{{"pattern":"\\w{{2{:02}}}"}}"#, n % 100)).collect();
        let schema = format!(r#"{{"properties":{{{}}}}}"#, properties.join(","));
        assert!(matches!(check(&schema, r#"{"p1":"x"}"#), CheckResult::Unchecked(_)));
        let few = r#"{"properties":{"n":{"pattern":"^[\\p{L} -]{1,20}$"},"m":{"pattern":"^\\w+@\\w+$"}}}"#;
        assert_eq!(check(few, r#"{"n":"Zoë","m":"a@b"}"#), CheckResult::Valid);
    }

    #[test]
    fn five_thousand_members_and_a_long_enum_are_checked() {
        let properties: Vec<String> =
            (0..5_000).map(|n| format!(r#""p{n}":{{"type":"integer","minimum":0}}"#)).collect();
        let schema = format!(r#"{{"properties":{{{}}}}}"#, properties.join(","));
        assert_eq!(check(&schema, r#"{"p4999":1}"#), CheckResult::Valid);
        assert!(matches!(check(&schema, r#"{"p4999":-1}"#), CheckResult::Invalid(_)));
        let words: Vec<String> = (0..10_000).map(|n| format!("\"w{n}\"")).collect();
        let schema = format!(r#"{{"properties":{{"a":{{"enum":[{}]}}}}}}"#, words.join(","));
        assert!(matches!(check(&schema, r#"{"a":"x"}"#), CheckResult::Invalid(_)));
    }

    #[test]
    fn hostile_patterns_end_in_bounded_time() {
        let began = std::time::Instant::now();
        for pattern in ["[ab]*a[ab]{2000}c", "(a?){900}a{900}$", "(([ab]{1,30}){1,30})c"] {
            let schema = format!(r#"{{"properties":{{"n":{{"pattern":"{pattern}"}}}}}}"#);
            let of = |length: usize| check(&schema, &format!(r#"{{"n":"{}"}}"#, "ab".repeat(length / 2)));
            assert!(matches!(of(200_000), CheckResult::Unchecked(_)), "{pattern}");
            of(4_000);
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(50), "{:?}", began.elapsed());
    }

    /// A backtracking engine needs longer than the age of the universe.
    #[test]
    fn patterns_are_matched_in_linear_time() {
        let given = format!(r#"{{"n":"{}!"}}"#, "a".repeat(5_000));
        let checked = check(r#"{"properties":{"n":{"pattern":"^(a+)+$"}}}"#, &given);
        assert!(matches!(checked, CheckResult::Invalid(_)), "{checked:?}");
    }

    #[test]
    fn circular_schema_terminates() {
        for schema in [
            r##"{"$ref":"#"}"##,
            r##"{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}"##,
            r##"{"properties":{"a":{"$ref":"#/properties/b"},"b":{"$ref":"#/properties/a"}}}"##,
        ] {
            assert_eq!(check(schema, r#"{"a":1}"#), CheckResult::Valid, "{schema}");
        }
    }
}
