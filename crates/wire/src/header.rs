//! MCP headers (`MCP-*`, `Mcp-*`, `Mcp-Param-*`): made from the body of upstream requests, checked against the body of
//! downstream requests.

use std::{borrow::Cow, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::{
    json::{JsonKind, Raw},
    message::common_method,
    revision::Revision,
};

/// Protocol revision of a request.
pub const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// Session id of a stateful server.
pub const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// JSON-RPC method, repeated from the body.
pub const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// Tool, prompt, resource or task, repeated from the body.
pub const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// Id of the last event received before a stream broke.
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Names a request, so that its repetition is recognised.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Largest integer in a header: what every JSON parser represents exactly.
const MAX_SAFE_INTEGER: i64 = (1 << 53) - 1;

/// The idempotency key of a request as it was sent, which may be invalid; several headers are one key of several lines.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Option<Arc<str>> {
    headers.get(IDEMPOTENCY_KEY)?;
    let values = headers.get_all(IDEMPOTENCY_KEY).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    Some(values.collect::<Vec<_>>().join("\n").into())
}

/// A tool argument that its schema (`x-mcp-header`) repeats in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamHeader {
    /// Header name, `mcp-param-…`.
    pub name: HeaderName,
    /// Keys from the root of the arguments to the argument.
    pub path: Vec<String>,
    /// Whether the value is compared as a number.
    pub integer: bool,
}

/// An invalid `x-mcp-header` annotation; its tool is not listed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid x-mcp-header at `{path}`: {reason}")]
pub struct InvalidAnnotation {
    /// Path in the schema.
    pub path: String,
    /// Why it is invalid.
    pub reason: &'static str,
}

/// A header that is missing, malformed or differs from the body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{header} {problem}")]
pub struct HeaderMismatch {
    /// Header name.
    pub header: String,
    /// What is wrong with the header.
    pub problem: &'static str,
}

/// Returns the headers that every stateless request carries.
pub(crate) fn standard(revision: Revision, method: &str, params: Option<&Raw>) -> Vec<(HeaderName, HeaderValue)> {
    // Room for the headers that every POST adds.
    let mut headers = Vec::with_capacity(8);
    headers.push((PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str())));
    if let Some(value) = common_method(method.as_bytes()).map(HeaderValue::from_static).or_else(|| encode(method)) {
        headers.push((METHOD, value));
    }
    if let Some(name) = name_param(method, params).and_then(|name| encode_raw(&name)) {
        headers.push((NAME, name));
    }
    headers
}

/// The param that `Mcp-Name` repeats.
fn name_param(method: &str, params: Option<&Raw>) -> Option<Raw> {
    let key = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return None,
    };
    params.and_then(|params| params.get(key))
}

/// As [`encode`], for a JSON string; a plain string is not copied.
fn encode_raw(value: &Raw) -> Option<HeaderValue> {
    let text = value.as_bytes();
    let plain = |byte: &u8| (0x21..=0x7e).contains(byte) && !matches!(byte, b'\\' | b'=');
    match text {
        [b'"', inside @ .., b'"'] if inside.iter().all(plain) => {
            HeaderValue::from_maybe_shared(value.bytes().slice(1..text.len() - 1)).ok()
        }
        _ => encode(&value.as_str()?),
    }
}

/// Encodes a value for a header: plain if possible, otherwise base64 between markers.
pub(crate) fn encode(value: &str) -> Option<HeaderValue> {
    let printable = value.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
    let trimmed = value.trim_matches([' ', '\t']) == value;
    let marked = value.starts_with(MARK) && value.ends_with(END);
    let text = if printable && trimmed && !marked {
        Cow::Borrowed(value)
    } else {
        Cow::Owned(format!("{MARK}{}{END}", STANDARD.encode(value)))
    };
    HeaderValue::from_str(&text).ok()
}

/// Decodes a header value; `None` if malformed.
pub(crate) fn decode(header: &HeaderValue) -> Option<String> {
    let text = std::str::from_utf8(header.as_bytes()).ok()?.trim_matches([' ', '\t']);
    if !text.bytes().all(|byte| (0x20..=0x7e).contains(&byte) || byte == b'\t') {
        return None;
    }
    match text.strip_prefix(MARK).and_then(|rest| rest.strip_suffix(END)) {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
        None => Some(text.to_owned()),
    }
}

const MARK: &str = "=?base64?";
const END: &str = "?=";

/// Returns the arguments that a schema repeats in headers; an error if any annotation is invalid.
pub fn param_headers(schema: &Raw) -> Result<Vec<ParamHeader>, InvalidAnnotation> {
    if !may_have_annotations(schema) {
        return Ok(Vec::new());
    }
    let mut headers: Vec<ParamHeader> = Vec::new();
    walk(schema, &mut Vec::new(), Place::Reachable, &mut headers)?;
    for (index, header) in headers.iter().enumerate() {
        if headers[..index].iter().any(|other| other.name == header.name) {
            return Err(InvalidAnnotation {
                path: header.path.join("."),
                reason: "another argument has the same header name",
            });
        }
    }
    Ok(headers)
}

/// Whether the text may contain an annotation; a cheap check without parsing, since most schemas have none.
pub(crate) fn may_have_annotations(text: &Raw) -> bool {
    text.may_mention(ANNOTATION)
}

const ANNOTATION: &str = "x-mcp-header";

/// Whether an annotation is allowed at this position.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Reached through `properties` only.
    Reachable,
    /// Reached through `items`, `oneOf`, `$defs` or similar.
    Elsewhere,
}

fn walk(
    schema: &Raw,
    path: &mut Vec<String>,
    place: Place,
    headers: &mut Vec<ParamHeader>,
) -> Result<(), InvalidAnnotation> {
    if schema.kind() == JsonKind::Array {
        return schema.elements().iter().try_for_each(|inner| walk(inner, path, Place::Elsewhere, headers));
    }
    for member in schema.members() {
        match member.key.as_str() {
            ANNOTATION => headers.push(annotation(schema, &member.value, path, place)?),
            "properties" if member.value.kind() == JsonKind::Object => {
                for property in member.value.members() {
                    path.push(property.key);
                    walk(&property.value, path, place, headers)?;
                    path.pop();
                }
            }
            // Data, not schemas.
            "const" | "enum" | "default" | "examples" => {}
            _ if matches!(member.value.kind(), JsonKind::Object | JsonKind::Array) => {
                walk(&member.value, path, Place::Elsewhere, headers)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn annotation(schema: &Raw, value: &Raw, path: &[String], place: Place) -> Result<ParamHeader, InvalidAnnotation> {
    let invalid = |reason| Err(InvalidAnnotation { path: path.join("."), reason });
    if place == Place::Elsewhere || path.is_empty() {
        return invalid("not reachable through `properties` alone");
    }
    let Some(text) = value.as_str().filter(|text| !text.is_empty()) else {
        return invalid("must be a non-empty string");
    };
    let Ok(name) = HeaderName::try_from(format!("mcp-param-{text}")) else { return invalid("not a valid header name") };
    let kind = schema.get("type");
    match kind.as_ref().and_then(Raw::as_str).as_deref() {
        Some("string" | "boolean") => Ok(ParamHeader { name, path: path.to_vec(), integer: false }),
        Some("integer") => Ok(ParamHeader { name, path: path.to_vec(), integer: true }),
        _ => invalid("only strings, integers and booleans can be in a header"),
    }
}

/// Returns the headers for these arguments.
pub(crate) fn from_arguments(annotated: &[ParamHeader], arguments: Option<&Raw>) -> Vec<(HeaderName, HeaderValue)> {
    let value = |param: &ParamHeader| {
        let text = argument_text(&argument(param, arguments)?)?;
        Some((param.name.clone(), encode(&text)?))
    };
    annotated.iter().filter_map(value).collect()
}

fn argument(param: &ParamHeader, arguments: Option<&Raw>) -> Option<Raw> {
    let mut value = arguments?.clone();
    for key in &param.path {
        value = value.get(key)?;
    }
    (value.kind() != JsonKind::Null).then_some(value)
}

fn argument_text(value: &Raw) -> Option<String> {
    match value.kind() {
        JsonKind::String => value.as_str().map(Cow::into_owned),
        JsonKind::Boolean => Some(value.to_string()),
        JsonKind::Number => {
            let number = parse_integer(&value.text())?;
            (number.abs() <= MAX_SAFE_INTEGER).then(|| number.to_string())
        }
        JsonKind::Object | JsonKind::Array | JsonKind::Null => None,
    }
}

/// Parses an integer; accepts `42.0`.
fn parse_integer(text: &str) -> Option<i64> {
    let digits = text
        .split_once('.')
        .map_or(text, |(whole, rest)| if rest.bytes().all(|byte| byte == b'0') { whole } else { text });
    digits.parse().ok()
}

/// Checks the headers of a stateless request against its body, except for the version. `annotated`: the headers that the
/// schema of a tool requires.
pub(crate) fn check(
    headers: &HeaderMap,
    method: &str,
    params: Option<&Raw>,
    annotated: impl FnOnce(&str) -> Vec<ParamHeader>,
) -> Result<(), HeaderMismatch> {
    expect(headers, &METHOD, method)?;
    let name = name_param(method, params);
    let name = name.as_ref().and_then(Raw::as_str);
    if let Some(name) = &name {
        expect(headers, &NAME, name)?;
    }
    let annotated = name.filter(|_| method == "tools/call").map(|tool| annotated(&tool)).unwrap_or_default();
    let arguments = if annotated.is_empty() { None } else { params.and_then(|params| params.get("arguments")) };
    for param in &annotated {
        let text = argument(param, arguments.as_ref()).as_ref().and_then(argument_text);
        match (text, headers.get(&param.name)) {
            (None, None) => {}
            (None, Some(_)) => return mismatch(&param.name, "is set, but the body has no such argument"),
            (Some(text), _) if param.integer => {
                let given = headers.get(&param.name).and_then(decode).and_then(|given| parse_integer(&given));
                if given.map(|number| number.to_string()) != Some(text) {
                    return mismatch(&param.name, "does not match the body");
                }
            }
            (Some(text), _) => expect(headers, &param.name, &text)?,
        }
    }
    Ok(())
}

/// Returns the value of a header that must occur exactly once: with two values, intermediaries and servers could disagree
/// on which one counts.
pub(crate) fn single_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<&'a HeaderValue, &'static str> {
    let mut given = headers.get_all(name).iter();
    match (given.next(), given.next()) {
        (None, _) => Err("is missing"),
        (Some(value), None) => Ok(value),
        (Some(_), Some(_)) => Err("is set more than once"),
    }
}

fn expect(headers: &HeaderMap, name: &HeaderName, value: &str) -> Result<(), HeaderMismatch> {
    let given = match single_value(headers, name) {
        Ok(given) => given,
        Err(problem) => return mismatch(name, problem),
    };
    if equals_plain(given, value) {
        return Ok(());
    }
    match decode(given) {
        None => mismatch(name, "is malformed"),
        Some(given) if given == value => Ok(()),
        Some(_) => mismatch(name, "does not match the body"),
    }
}

/// Whether the header equals this value literally, without anything to trim or decode.
fn equals_plain(given: &HeaderValue, value: &str) -> bool {
    let plain = |byte: u8| (0x21..=0x7e).contains(&byte) && byte != b'=';
    given.as_bytes() == value.as_bytes() && value.bytes().all(plain)
}

fn mismatch(name: &HeaderName, problem: &'static str) -> Result<(), HeaderMismatch> {
    Err(HeaderMismatch { header: name.to_string(), problem })
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::{check, decode, encode, from_arguments, param_headers};
    use crate::json::Raw;

    fn raw(text: &str) -> Raw {
        Raw::parse(text.to_owned()).unwrap()
    }

    #[test]
    fn values_are_plain_where_possible_and_round_trip() {
        for (value, spelled) in [
            ("us-west1", "us-west1"),
            ("a b", "a b"),
            ("", ""),
            ("über", "=?base64?w7xiZXI=?="),
            (" a", "=?base64?IGE=?="),
            ("a\tb", "=?base64?YQli?="),
            ("=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="),
            ("a\r\nX: y", "=?base64?YQ0KWDogeQ==?="),
        ] {
            let header = encode(value).unwrap();
            assert_eq!(header, spelled);
            assert_eq!(decode(&header).as_deref(), Some(value));
        }
        assert_eq!(decode(&HeaderValue::from_static("=?base64?eA?=")), None, "bad padding");
        assert_eq!(decode(&HeaderValue::from_static("=?BASE64?eA==?=")).as_deref(), Some("=?BASE64?eA==?="));
    }

    #[test]
    fn annotations_are_valid_only_under_properties() {
        let schema = raw(r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},
            "deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}}}}"#);
        let headers = param_headers(&schema).unwrap();
        let made = from_arguments(&headers, Some(&raw(r#"{"region":"x","deep":{"n":42.0}}"#)));
        assert_eq!(made.len(), 2);
        assert_eq!(made[1].1, "42");
        assert!(from_arguments(&headers, Some(&raw(r#"{"region":null}"#))).is_empty());
        for bad in [
            r#"{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":""}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"a b"}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":7}}}"#,
            r#"{"properties":{"a":{"items":{"type":"string","x-mcp-header":"A"}}}}"#,
            r#"{"oneOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}"#,
        ] {
            assert!(param_headers(&raw(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn headers_are_checked_against_the_body() {
        let schema = raw(r#"{"properties":{"n":{"type":"integer","x-mcp-header":"N"}}}"#);
        let annotated = param_headers(&schema).unwrap();
        let params = raw(r#"{"name":"t","arguments":{"n":42}}"#);
        let mut headers = HeaderMap::new();
        let verdict = |headers: &HeaderMap| check(headers, "tools/call", Some(&params), |_| annotated.clone()).is_ok();
        assert!(!verdict(&headers));
        headers.insert("mcp-method", HeaderValue::from_static("tools/call"));
        headers.insert("mcp-name", HeaderValue::from_static(" t"));
        assert!(!verdict(&headers), "the argument's header is missing");
        headers.insert("mcp-param-n", HeaderValue::from_static("42.0"));
        assert!(verdict(&headers));
        headers.insert("mcp-param-n", HeaderValue::from_static("43"));
        assert!(!verdict(&headers));
        headers.insert("mcp-method", HeaderValue::from_static("Tools/call"));
        assert!(!verdict(&headers));
    }
}
