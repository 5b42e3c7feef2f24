//! `MCP-*`, `Mcp-*` and `Mcp-Param-*`: made from the body on the way up, checked against the body on the way down.

use std::borrow::Cow;

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::{
    json::{Kind, Raw},
    message::usual_method,
    revision::Revision,
};

/// The revision of a request.
pub const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The session of a stateful server.
pub const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The method, outside the body.
pub const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The tool, prompt, resource or task, outside the body.
pub const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// Where a broken stream goes on.
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Integers a header may carry: those every JSON reader keeps exactly.
const MAX_SAFE_INTEGER: i64 = (1 << 53) - 1;

/// An argument that a tool's schema wants in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamHeader {
    /// `Mcp-Param-…`
    pub name: HeaderName,
    /// The way to the argument, from the root of the arguments.
    pub path: Vec<String>,
    /// Compared as a number.
    pub integer: bool,
}

/// An `x-mcp-header` that no client may follow; its tool is left out of the list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid x-mcp-header at `{path}`: {reason}")]
pub struct InvalidAnnotation {
    /// Where in the schema.
    pub path: String,
    /// Why.
    pub reason: &'static str,
}

/// Header and body disagree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{header} {problem}")]
pub struct HeaderMismatch {
    /// The header.
    pub header: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

/// The headers every stateless request carries.
pub(crate) fn standard(revision: Revision, method: &str, params: Option<&Raw>) -> Vec<(HeaderName, HeaderValue)> {
    // With room for what every POST adds.
    let mut headers = Vec::with_capacity(8);
    headers.push((PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str())));
    if let Some(value) = usual_method(method.as_bytes()).map(HeaderValue::from_static).or_else(|| encode(method)) {
        headers.push((METHOD, value));
    }
    if let Some(name) = named(method, params).and_then(|name| encode_raw(&name)) {
        headers.push((NAME, name));
    }
    headers
}

/// What `Mcp-Name` repeats.
fn named(method: &str, params: Option<&Raw>) -> Option<Raw> {
    let key = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return None,
    };
    params.and_then(|params| params.get(key))
}

/// As [`encode`], of a JSON string; one that is plain is not copied.
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

/// A value as a header spells it: plain where it can be, else base64 between markers.
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

/// The value a header spells; `None` where it is malformed.
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

/// The arguments a schema wants in headers; an error when any annotation is invalid.
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
                reason: "another argument has the same name",
            });
        }
    }
    Ok(headers)
}

/// Whether there can be an annotation: most schemas have none, and it takes no parsing to see that.
pub(crate) fn may_have_annotations(text: &Raw) -> bool {
    text.may_mention(ANNOTATION)
}

const ANNOTATION: &str = "x-mcp-header";

/// Whether an annotation may stand here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Only `properties` keys lead here.
    Reachable,
    /// Something else does: `items`, `oneOf`, `$defs` …
    Elsewhere,
}

fn walk(
    schema: &Raw,
    path: &mut Vec<String>,
    place: Place,
    headers: &mut Vec<ParamHeader>,
) -> Result<(), InvalidAnnotation> {
    if schema.kind() == Kind::Array {
        return schema.elements().iter().try_for_each(|inner| walk(inner, path, Place::Elsewhere, headers));
    }
    for member in schema.members() {
        match member.key.as_str() {
            ANNOTATION => headers.push(annotation(schema, &member.value, path, place)?),
            "properties" if member.value.kind() == Kind::Object => {
                for property in member.value.members() {
                    path.push(property.key);
                    walk(&property.value, path, place, headers)?;
                    path.pop();
                }
            }
            // Data, not schemas.
            "const" | "enum" | "default" | "examples" => {}
            _ if matches!(member.value.kind(), Kind::Object | Kind::Array) => {
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
    let Some(text) = value.as_str().filter(|text| !text.is_empty()) else { return invalid("not a non-empty string") };
    let Ok(name) = HeaderName::try_from(format!("mcp-param-{text}")) else { return invalid("not a header name") };
    let kind = schema.get("type");
    match kind.as_ref().and_then(Raw::as_str).as_deref() {
        Some("string" | "boolean") => Ok(ParamHeader { name, path: path.to_vec(), integer: false }),
        Some("integer") => Ok(ParamHeader { name, path: path.to_vec(), integer: true }),
        _ => invalid("only strings, integers and booleans can be in a header"),
    }
}

/// The headers these arguments call for.
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
    (value.kind() != Kind::Null).then_some(value)
}

fn argument_text(value: &Raw) -> Option<String> {
    match value.kind() {
        Kind::String => value.as_str().map(Cow::into_owned),
        Kind::Boolean => Some(value.to_string()),
        Kind::Number => {
            let number = whole(&value.text())?;
            (number.abs() <= MAX_SAFE_INTEGER).then(|| number.to_string())
        }
        Kind::Object | Kind::Array | Kind::Null => None,
    }
}

/// `42`, also when spelled `42.0`.
fn whole(text: &str) -> Option<i64> {
    let digits = text
        .split_once('.')
        .map_or(text, |(whole, rest)| if rest.bytes().all(|byte| byte == b'0') { whole } else { text });
    digits.parse().ok()
}

/// Checks the headers of a stateless request against its body, the version excepted.
pub(crate) fn check(
    headers: &HeaderMap,
    method: &str,
    params: Option<&Raw>,
    annotated: &[ParamHeader],
) -> Result<(), HeaderMismatch> {
    expect(headers, &METHOD, method)?;
    if let Some(name) = named(method, params).as_ref().and_then(Raw::as_str) {
        expect(headers, &NAME, &name)?;
    }
    let arguments = if annotated.is_empty() { None } else { params.and_then(|params| params.get("arguments")) };
    for param in annotated {
        let text = argument(param, arguments.as_ref()).as_ref().and_then(argument_text);
        match (text, headers.get(&param.name)) {
            (None, None) => {}
            (None, Some(_)) => return mismatch(&param.name, "is given for an argument that is not"),
            (Some(text), _) if param.integer => {
                let given = headers.get(&param.name).and_then(decode).and_then(|given| whole(&given));
                if given.map(|number| number.to_string()) != Some(text) {
                    return mismatch(&param.name, "does not match the body");
                }
            }
            (Some(text), _) => expect(headers, &param.name, &text)?,
        }
    }
    Ok(())
}

/// The one value of a header: where there are two, whoever reads the first and whoever reads the last disagree.
pub(crate) fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<&'a HeaderValue, &'static str> {
    let mut given = headers.get_all(name).iter();
    match (given.next(), given.next()) {
        (None, _) => Err("is missing"),
        (Some(value), None) => Ok(value),
        (Some(_), Some(_)) => Err("is given twice"),
    }
}

fn expect(headers: &HeaderMap, name: &HeaderName, value: &str) -> Result<(), HeaderMismatch> {
    let given = match only(headers, name) {
        Ok(given) => given,
        Err(problem) => return mismatch(name, problem),
    };
    if spells(given, value) {
        return Ok(());
    }
    match decode(given) {
        None => mismatch(name, "is malformed"),
        Some(given) if given == value => Ok(()),
        Some(_) => mismatch(name, "does not match the body"),
    }
}

/// Whether a header says this value as it is: nothing in it would be trimmed or is a mark of another spelling.
fn spells(given: &HeaderValue, value: &str) -> bool {
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
    fn values_are_plain_where_they_can_be_and_come_back_either_way() {
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
    fn annotations_are_valid_only_on_the_straight_way() {
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
        let verdict = |headers: &HeaderMap| check(headers, "tools/call", Some(&params), &annotated).is_ok();
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
