//! Headers: any text survives encoding and decoding, and the annotations of any schema are found or refused.
#![no_main]

#[path = "../../crates/wire/tests/it/oracle.rs"]
mod oracle;

use std::collections::BTreeSet;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use toolway_fuzz::{
    header::{ParamHeader, param_headers},
    json::Raw,
    private::{decode_header, encode_header},
};

const ANNOTATION: &str = "x-mcp-header";

fuzz_target!(|data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        round_trips(text);
    }
    if let Some(text) = decode_header(data) {
        round_trips(&text);
    }
    let Ok(schema) = Raw::parse(Bytes::copy_from_slice(data)) else { return };
    let found = param_headers(&schema);
    // With duplicate keys, parsers differ.
    if let (Ok(value), true) = (schema.read::<Value>(), each_key_once(&schema)) {
        match found {
            Ok(headers) => check(&headers, &value),
            Err(invalid) => assert!(count(&value, Data::No) != 0, "{invalid} in {schema}"),
        }
    }
});

fn round_trips(text: &str) {
    let header = encode_header(text).expect("every text can be encoded");
    assert!(header.iter().all(|byte| (0x20..=0x7e).contains(byte)), "{header:?}");
    assert_eq!(header.trim_ascii(), header, "surrounding whitespace of a header is lost");
    assert_eq!(decode_header(&header).as_deref(), Some(text));
}

/// Every annotation is found, reached through `properties` only, with unique names.
fn check(headers: &[ParamHeader], schema: &Value) {
    assert_eq!(headers.len(), count(schema, Data::No), "{schema}");
    let names: BTreeSet<&str> = headers.iter().map(|header| header.name.as_str()).collect();
    assert_eq!(names.len(), headers.len());
    for header in headers {
        let place = header.path.iter().fold(schema, |schema, key| &schema["properties"][key]);
        let name = format!("mcp-param-{}", place[ANNOTATION].as_str().expect("a string"));
        assert!(header.name.as_str().eq_ignore_ascii_case(&name));
        assert_eq!(header.integer, place["type"] == "integer");
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Data {
    /// Keys are argument names.
    Names,
    No,
}

/// Counts the annotations with a simple reference implementation.
fn count(schema: &Value, data: Data) -> usize {
    match schema {
        Value::Array(list) => list.iter().map(|inner| count(inner, Data::No)).sum(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| match (data, key.as_str()) {
                (Data::No, ANNOTATION) => 1,
                (Data::No, "const" | "enum" | "default" | "examples") => 0,
                (Data::No, "properties") if value.is_object() => count(value, Data::Names),
                _ => count(value, Data::No),
            })
            .sum(),
        _ => 0,
    }
}

fn each_key_once(value: &Raw) -> bool {
    let members = value.members();
    let keys: BTreeSet<&str> = members.iter().map(|member| member.key.as_str()).collect();
    keys.len() == members.len()
        && members.iter().all(|member| each_key_once(&member.value))
        && value.elements().iter().all(each_key_once)
}
