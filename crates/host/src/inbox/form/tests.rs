//! Forms: every schema that the protocol allows, and values that do not fit.

use serde_json::{Value, json};
use toolway_wire::json::Raw;

use super::{FieldKind, Form};

fn form(properties: &Value) -> Result<Form, String> {
    Form::of(&Raw::of(&json!({ "type": "object", "properties": properties, "required": ["x"] })))
}

fn field(definition: &Value) -> super::FormField {
    form(&json!({ "x": definition })).unwrap().fields.remove(0)
}

#[test]
fn every_kind_of_field_is_read_and_converts_what_a_user_types() {
    for (definition, typed, expected) in [
        (json!({ "type": "string" }), "a b", json!("a b")),
        (json!({ "type": "number" }), " 1.5 ", json!(1.5)),
        (json!({ "type": "integer", "minimum": 1, "maximum": 9 }), "9", json!(9)),
        (json!({ "type": "boolean" }), "Yes", json!(true)),
        (json!({ "type": "boolean" }), "n", json!(false)),
        (json!({ "type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"] }), "Green", json!("g")),
        (json!({ "type": "string", "enum": ["r", "g"] }), "2", json!("g")),
        (json!({ "type": "string", "oneOf": [{ "const": "r", "title": "Red" }] }), "Red", json!("r")),
        (json!({ "type": "array", "items": { "type": "string", "enum": ["a", "b"] } }), "b, 1", json!(["b", "a"])),
        (json!({ "type": "array", "items": { "anyOf": [{ "const": "a", "title": "A" }] } }), "A", json!(["a"])),
        (json!({ "type": "string", "format": "email" }), "a@b.c", json!("a@b.c")),
        (json!({ "type": "string", "format": "date" }), "2024-02-29", json!("2024-02-29")),
        (
            json!({ "type": "string", "format": "date-time" }),
            "2026-01-01T10:00:00+01:00",
            json!("2026-01-01T10:00:00+01:00"),
        ),
        (json!({ "type": "string", "format": "uri" }), "https://a.example", json!("https://a.example")),
    ] {
        assert_eq!(field(&definition).parse(typed), Ok(expected), "{definition}");
    }
}

#[test]
fn values_that_do_not_fit_are_refused_with_what_is_expected() {
    for (definition, typed, expected) in [
        (json!({ "type": "string", "minLength": 3 }), "ab", "must have at least 3 characters"),
        (json!({ "type": "string", "maxLength": 1 }), "äb", "must have at most 1 characters"),
        (json!({ "type": "string", "format": "email" }), "a@", "must be an e-mail address such as `name@example.com`"),
        (json!({ "type": "string", "format": "uri" }), "nowhere", "must be a URI such as `https://example.com`"),
        (json!({ "type": "string", "format": "date" }), "2023-02-29", "must be a date such as `2026-07-28`"),
        (json!({ "type": "string", "format": "date" }), "2023-13-01", "must be a date such as `2026-07-28`"),
        (
            json!({ "type": "string", "format": "date-time" }),
            "2026-01-01T10:00",
            "must be a time such as `2026-07-28T12:00:00Z`",
        ),
        (json!({ "type": "integer" }), "1.5", "must be an integer"),
        (json!({ "type": "integer", "minimum": 2 }), "1", "must be at least 2"),
        (json!({ "type": "number", "maximum": 2 }), "2.5", "must be at most 2"),
        (json!({ "type": "number" }), "two", "`two` is not a number"),
        (json!({ "type": "boolean" }), "maybe", "`maybe` is not `yes` or `no`"),
        (json!({ "type": "string", "enum": ["r"] }), "3", "`3` is not an option"),
        (json!({ "type": "array", "minItems": 1, "items": { "enum": ["a"] } }), "", "choose at least 1"),
        (json!({ "type": "array", "maxItems": 1, "items": { "enum": ["a"] } }), "a,a", "choose at most 1"),
    ] {
        assert_eq!(field(&definition).parse(typed), Err(expected.to_owned()), "{definition}");
    }
}

#[test]
fn an_answer_needs_every_required_field_and_no_unknown_one() {
    let form = form(&json!({ "x": { "type": "string" }, "y": { "type": "boolean" } })).unwrap();
    let check = |content: Value| form.check(content.as_object().unwrap());
    assert_eq!(check(json!({ "x": "a" })), Ok(()));
    let problems = check(json!({ "y": "no", "z": 1 })).unwrap_err();
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let expected = ["`x`: a value is required", "`y`: must be `true` or `false`", "`z`: the form has no such field"];
    assert_eq!(problems, expected);
}

#[test]
fn schemas_that_are_no_forms_are_refused() {
    for (definition, expected) in [
        (json!({ "type": "object" }), "field `x`: the type `object` is not allowed in a form"),
        (json!({}), "field `x`: it has no type"),
        (json!({ "type": "array", "items": { "type": "string" } }), "field `x`: the items of a list must be options"),
        (json!({ "type": "string", "enum": [] }), "field `x`: it has no options"),
        (json!({ "type": "string", "enum": [1] }), "field `x`: an option is not text"),
    ] {
        assert_eq!(form(&json!({ "x": definition })), Err(expected.to_owned()));
    }
    let many: serde_json::Map<_, _> = (0..201).map(|n| (format!("f{n}"), json!({ "type": "string" }))).collect();
    assert!(form(&Value::Object(many)).unwrap_err().contains("at most 200 fields"));
}

#[test]
fn secrets_are_recognised_and_unusable_defaults_are_dropped() {
    for name in ["password", "api_key", "API-Token", "PIN"] {
        let form = Form::of(&Raw::of(&json!({ "properties": { name: { "type": "string" } } }))).unwrap();
        assert!(form.fields[0].looks_secret, "{name}");
    }
    assert!(!field(&json!({ "type": "string", "title": "Opinion" })).looks_secret);
    assert_eq!(field(&json!({ "type": "integer", "default": "x" })).default, None);
    assert_eq!(field(&json!({ "type": "integer", "default": 3 })).default, Some(json!(3)));
    assert_eq!(field(&json!({ "type": "integer", "title": "Age" })).label(), "Age");
    assert!(matches!(
        field(&json!({ "type": "string", "pattern": "^a" })).kind,
        FieldKind::Text { pattern: Some(_), .. }
    ));
}

#[test]
fn default_values_are_charged_with_all_their_text() {
    let long = "x".repeat(10_000);
    let one = field(&json!({ "type": "string", "default": long }));
    let many = field(&json!({ "type": "array", "items": { "enum": [long] }, "default": vec![long.as_str(); 50] }));
    let short = field(&json!({ "type": "array", "items": { "enum": ["a"] }, "default": vec!["a"; 50_000] }));
    assert!(one.kept_bytes() > 10_000 && many.kept_bytes() > 51 * 10_000, "{}", many.kept_bytes());
    assert!(short.kept_bytes() > 50_000 * (size_of::<Value>() + 1), "{}", short.kept_bytes());
}

#[test]
fn values_that_are_not_text_are_not_the_empty_option() {
    let field = field(&json!({ "type": "array", "items": { "enum": ["", "a"] } }));
    assert_eq!(field.check(&json!(["", "a"])), Ok(()));
    for value in [json!(1), json!(null), json!(["a"]), json!({})] {
        assert_eq!(field.check(&json!([value])), Err(format!("`{value}` is not an option")));
    }
}
