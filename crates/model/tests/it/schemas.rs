//! Tool schemas as servers write them (`tests/schemas/tools.json`), adapted for every vendor or left out with a reason.
//!
//! `accepts` are arguments that the original accepts; an adapted schema must accept them too. `leftOut` has the reason per
//! vendor.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolway_model::{
    Vendor,
    schema::{ToolWords, adapt, adapt_hinted},
};

use crate::schema_rules::check;

const VENDORS: [Vendor; 4] = [Vendor::Anthropic, Vendor::Openai, Vendor::OpenaiChat, Vendor::Gemini];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tool {
    name: String,
    schema: Value,
    accepts: Vec<Value>,
    left_out: Map<String, Value>,
}

fn tools() -> Vec<Tool> {
    let mut tools: Vec<Tool> = serde_json::from_str(include_str!("../schemas/tools.json")).unwrap();
    // Too large for a file.
    for tool in &mut tools {
        if let Some(bytes) = tool.schema["$generate"].as_u64() {
            tool.schema = json!({ "type": "object", "description": "x".repeat(usize::try_from(bytes).unwrap()) });
        }
    }
    tools
}

#[test]
fn every_tool_is_adapted_validly_for_every_vendor_or_left_out_with_a_reason() {
    let tools = tools();
    assert!(tools.len() >= 60, "{}", tools.len());
    let mut wrong = Vec::new();
    for tool in &tools {
        for vendor in VENDORS {
            let expected = tool.left_out.get(vendor.as_str()).and_then(Value::as_str);
            match (adapt(vendor, &tool.name, "A tool.", &tool.schema), expected) {
                (Ok(adapted), None) => {
                    if let Err(why) = check(vendor, &adapted) {
                        wrong.push(format!("{} for {vendor:?}: {why} in {}", tool.name, adapted.input_schema));
                    }
                }
                (Err(left_out), Some(reason)) if left_out.reason == reason => {}
                (found, expected) => wrong.push(format!("{} for {vendor:?}: {found:?}, not {expected:?}", tool.name)),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_adapted_schema_is_never_narrower_than_the_original() {
    let mut wrong = Vec::new();
    for tool in tools().iter().filter(|tool| !tool.accepts.is_empty()) {
        let original = jsonschema::validator_for(&tool.schema).unwrap();
        for vendor in VENDORS {
            let Ok(adapted) = adapt(vendor, &tool.name, "A tool.", &tool.schema) else { continue };
            let validator = jsonschema::draft202012::new(&adapted.input_schema).unwrap();
            for arguments in &tool.accepts {
                assert!(original.is_valid(arguments), "{}: {arguments} is not an example", tool.name);
                if let Err(error) = validator.validate(arguments) {
                    wrong.push(format!("{} for {vendor:?}: {error} in {}", tool.name, adapted.input_schema));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn adapting_twice_changes_nothing() {
    for tool in tools() {
        for vendor in VENDORS {
            let Ok(once) = adapt(vendor, &tool.name, "A tool.", &tool.schema) else { continue };
            let twice = adapt(vendor, &tool.name, "A tool.", &once.input_schema).unwrap();
            assert_eq!(once.input_schema, twice.input_schema, "{} for {vendor:?}", tool.name);
        }
    }
}

#[test]
fn alternatives_at_the_top_become_one_object() {
    let schema = json!({ "oneOf": [
        { "type": "object", "properties": { "kind": { "const": "a" }, "x": { "type": "integer" } }, "required": ["kind", "x"] },
        { "type": "object", "properties": { "kind": { "const": "b" } }, "required": ["kind"] },
    ] });
    let adapted = adapt(Vendor::Anthropic, "tool", "", &schema).unwrap().input_schema;
    let kind = json!({ "anyOf": [{ "enum": ["a"], "type": "string" }, { "enum": ["b"], "type": "string" }] });
    let expected =
        json!({ "type": "object", "properties": { "kind": kind, "x": { "type": "integer" } }, "required": ["kind"] });
    assert_eq!(adapted, expected);
}

#[test]
fn gemini_keeps_recursion_through_optional_properties_only() {
    let node = json!({
        "type": "object",
        "properties": { "value": { "type": "integer" }, "next": { "$ref": "#/$defs/Node" } },
        "required": ["value", "next"],
    });
    let schema =
        json!({ "type": "object", "properties": { "list": { "$ref": "#/$defs/Node" } }, "$defs": { "Node": node } });
    let adapted = adapt(Vendor::Gemini, "tool", "", &schema).unwrap().input_schema;
    assert_eq!(adapted["$defs"]["Node"]["required"], json!(["value"]));
    assert_eq!(adapted["$defs"]["Node"]["properties"]["next"], json!({ "$ref": "#/$defs/Node" }));
}

#[test]
fn names_and_descriptions_fit_the_vendor() {
    let schema = json!({ "type": "object" });
    let long = "n".repeat(65);
    let cases = [
        ("", "is empty"),
        ("1st", "begins with `1`"),
        ("a b", "contains ` `"),
        ("ä", "contains `ä`"),
        (&long, "has 65 characters instead of at most 64"),
    ];
    for (name, problem) in cases {
        let left_out = adapt(Vendor::Openai, name, "", &schema).unwrap_err().to_string();
        assert_eq!(left_out, format!("tool `{name}` is not offered to openai: its name {problem}"));
    }
    let long = "ä".repeat(2_000);
    for (vendor, characters) in [(Vendor::Openai, 1_024), (Vendor::OpenaiChat, 1_024), (Vendor::Anthropic, 2_000)] {
        let tool = adapt(vendor, "tool", &long, &schema).unwrap();
        assert_eq!(tool.description.chars().count(), characters, "{vendor:?}");
    }
}

/// As `find` of the MongoDB server has them.
#[test]
fn only_names_of_parameters_decide_whether_anthropic_is_offered_a_tool() {
    let filter = json!({ "type": "object", "properties": { "$and": { "type": "array" }, "a b": {} } });
    let stages =
        json!({ "type": "array", "items": { "anyOf": [{ "type": "object", "properties": { "$search": filter } }] } });
    let nested = json!({ "type": "object", "properties": { "filter": filter, "pipeline": stages } });
    let adapted = adapt(Vendor::Anthropic, "mongodb__find", "Find.", &nested).unwrap().input_schema;
    assert!(adapted["properties"]["filter"]["properties"]["$and"].is_object(), "{adapted}");
    let top = json!({ "type": "object", "anyOf": [{ "properties": { "$top": {} } }] });
    let left_out = adapt(Vendor::Anthropic, "graph__list", "List.", &top).unwrap_err();
    assert_eq!(left_out.reason, "the name of its parameter `$top` contains `$`");
    for vendor in [Vendor::Openai, Vendor::OpenaiChat, Vendor::Gemini] {
        assert!(adapt(vendor, "graph__list", "List.", &top).is_ok(), "{vendor:?}");
    }
}

#[test]
fn hints_after_a_description_are_never_cut() {
    let long = "ä".repeat(2_000);
    let words = ToolWords { description: &long, hints: "Hints of the server: may delete data." };
    let adapted = adapt_hinted(Vendor::Openai, "files__delete", words, &json!({})).unwrap();
    assert_eq!(adapted.description.chars().count(), 1_024);
    assert!(adapted.description.ends_with("ä…\n\nHints of the server: may delete data."), "{}", adapted.description);
    let alone = ToolWords { description: "", ..words };
    let adapted = adapt_hinted(Vendor::Openai, "files__delete", alone, &json!({})).unwrap();
    assert_eq!(adapted.description, words.hints);
}
