//! Adapted results and server requests, revision by revision.

use serde_json::json;

use super::{adapt_server_request, capabilities, info, result};
use crate::{json::Raw, message::splice, revision::Revision};

const OLDEST: Revision = Revision::V2024_11_05;
const BATCHES: Revision = Revision::V2025_03_26;
const FORMS: Revision = Revision::V2025_06_18;
const TASKS: Revision = Revision::V2025_11_25;
const MODERN: Revision = Revision::V2026_07_28;

fn raw(text: &str) -> Raw {
    Raw::parse(text.to_owned()).unwrap()
}

fn fitted(revision: Revision, method: &str, text: &str) -> String {
    let whole = raw(text);
    splice::edited(&whole, &result(revision, method, &whole)).to_string()
}

/// Method, result, and what clients of these revisions receive; every other revision receives it unchanged.
type Row = (&'static str, &'static str, &'static [(&'static [Revision], &'static str)]);

const LEGACY: &[Revision] = &[OLDEST, BATCHES, FORMS, TASKS];
const OLD: &[Revision] = &[OLDEST, BATCHES];

const RESULTS: &[Row] = &[
    ("ping", r#"{"resultType":"complete", "x": 1}"#, &[(LEGACY, r#"{"x": 1}"#)]),
    ("tools/list", r#"{"tools":[ ],"ttlMs":5,"cacheScope":"private"}"#, &[(LEGACY, r#"{"tools":[ ]}"#)]),
    (
        "tools/list",
        r#"{"tools":[{"name":"a","execution":{"taskSupport":"optional"}}, {"name":"b"}]}"#,
        &[(&[OLDEST, BATCHES, FORMS, MODERN], r#"{"tools":[{"name":"a"},{"name":"b"}]}"#)],
    ),
    (
        "tools/list",
        r#"{"tools":[{"name":"a","inputSchema":{"type":"object","properties":{"x":true,"y":false,"z":{"const":true}}}}]}"#,
        &[(
            LEGACY,
            r#"{"tools":[{"name":"a","inputSchema":{"type":"object","properties":{"x":{},"y":{"not":{}},"z":{"const":true}}}}]}"#,
        )],
    ),
    (
        "tools/list",
        r#"{"tools":[{"name":"a","outputSchema":{"type":"array"}}]}"#,
        &[(LEGACY, r#"{"tools":[{"name":"a"}]}"#)],
    ),
    (
        "tools/list",
        r#"{"tools":[{"name":"a","title":"A","outputSchema":{"type":"object"},"_meta":{"k":1}}]}"#,
        &[(OLD, r#"{"tools":[{"name":"a"}]}"#)],
    ),
    (
        "tools/list",
        r#"{"tools":[{"name":"a","icons":[{"src":"data:,"}]}]}"#,
        &[(&[OLDEST, BATCHES, FORMS], r#"{"tools":[{"name":"a"}]}"#)],
    ),
    (
        "prompts/list",
        r#"{"prompts":[{"name":"a","icons":[]}]}"#,
        &[(&[OLDEST, BATCHES, FORMS], r#"{"prompts":[{"name":"a"}]}"#)],
    ),
    (
        "resources/list",
        r#"{"resources":[{"uri":"a","icons":[]}]}"#,
        &[(&[OLDEST, BATCHES, FORMS], r#"{"resources":[{"uri":"a"}]}"#)],
    ),
    (
        "tools/call",
        r#"{"content":[{"type":"resource_link","uri":"a:b","name":"n","icons":[]}]}"#,
        &[
            (OLD, r#"{"content":[{"text":"n: a:b","type":"text"}]}"#),
            (&[FORMS], r#"{"content":[{"type":"resource_link","uri":"a:b","name":"n"}]}"#),
        ],
    ),
    (
        "tools/list",
        r#"{"tools":[{"name":"a","annotations":{"readOnlyHint":true}}]}"#,
        &[(&[OLDEST], r#"{"tools":[{"name":"a"}]}"#)],
    ),
    (
        "prompts/list",
        r#"{"prompts":[{"name":"p","title":"P","arguments":[{"name":"a","title":"A"}]}]}"#,
        &[(OLD, r#"{"prompts":[{"name":"p","arguments":[{"name":"a"}]}]}"#)],
    ),
    (
        "resources/list",
        r#"{"resources":[{"uri":"a:b","name":"n","title":"N"}]}"#,
        &[(OLD, r#"{"resources":[{"uri":"a:b","name":"n"}]}"#)],
    ),
    (
        "tools/call",
        r#"{"content":[],"structuredContent":{"a":1}}"#,
        &[(OLD, r#"{"content":[{"text":"{\"a\":1}","type":"text"}]}"#)],
    ),
    (
        "tools/call",
        r#"{"content":[{"type":"text","text":"{ \"a\":1 }"}],"structuredContent":{"a":1}}"#,
        &[(OLD, r#"{"content":[{"type":"text","text":"{ \"a\":1 }"}]}"#)],
    ),
    (
        "tools/call",
        r#"{"content":[{"type":"text","text":"hello"}],"structuredContent":{"result":"hello"}}"#,
        &[(OLD, r#"{"content":[{"type":"text","text":"hello"}]}"#)],
    ),
    (
        "tools/call",
        r#"{"content":[{"type":"text","text":"1"},{"type":"text","text":"b"}],"structuredContent":{"result":[1,"b"]}}"#,
        &[(OLD, r#"{"content":[{"type":"text","text":"1"},{"type":"text","text":"b"}]}"#)],
    ),
    (
        "tools/call",
        r#"{"content":[{"type":"text","text":"x"}],"structuredContent":[1,2]}"#,
        &[(LEGACY, r#"{"content":[{"type":"text","text":"x"},{"text":"[1,2]","type":"text"}]}"#)],
    ),
    (
        "tools/call",
        r#"{"content":[{"type":"resource_link","uri":"a:b","name":"n"}]}"#,
        &[(OLD, r#"{"content":[{"text":"n: a:b","type":"text"}]}"#)],
    ),
    (
        "tools/call",
        r#"{"content":[{"type":"audio","data":"","mimeType":"audio/wav"}, {"type":"text","text":"t"}]}"#,
        &[(
            &[OLDEST],
            r#"{"content":[{"text":"[audio (audio/wav) omitted: not supported by this client's protocol revision]","type":"text"},{"type":"text","text":"t"}]}"#,
        )],
    ),
    (
        "prompts/get",
        r#"{"messages":[{"role":"user","content":{"type":"text","text":"t","_meta":{}}}]}"#,
        &[(OLD, r#"{"messages":[{"role":"user","content":{"type":"text","text":"t"}}]}"#)],
    ),
    (
        "tools/call",
        r#"{"content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"x"},"k":1}}"#,
        &[(LEGACY, r#"{"content":[],"_meta":{"k":1}}"#)],
    ),
];

#[test]
fn results_are_adapted_per_revision_and_otherwise_unchanged() {
    for (method, text, expected) in RESULTS {
        for revision in Revision::ALL {
            let changed = expected.iter().find(|(revisions, _)| revisions.contains(&revision));
            let wanted = changed.map_or(*text, |(_, wanted)| wanted);
            assert_eq!(fitted(revision, method, text), wanted, "{method} for {revision}: {text}");
        }
    }
}

#[test]
fn malformed_lists_and_blocks_are_not_changed() {
    for text in [r#"{"tools":7}"#, r#"{"tools":[7,null,"x"]}"#, r#"{"content":"x"}"#, r#"{"content":[7,{"type":9}]}"#] {
        for revision in Revision::ALL {
            for method in ["tools/list", "tools/call", "prompts/list", "prompts/get", "resources/read"] {
                assert_eq!(fitted(revision, method, text), text, "{method} for {revision}");
            }
        }
    }
}

#[test]
fn declared_capabilities_outweigh_the_revision() {
    let kept = r#"{"roots":{},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"x":1}"#;
    for (declared, expected) in [
        (
            r#"{"roots":{"listChanged":true},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"tasks":{},"x":1}"#,
            kept,
        ),
        (r#"{ "elicitation" : {} }"#, r#"{ "elicitation" : {} }"#),
        (r#"{"elicitation":true,"sampling":null}"#, r#"{"elicitation":{}}"#),
    ] {
        assert_eq!(capabilities(&raw(declared)).0.to_string(), expected);
    }
    let several = raw(r#"{"message":"m","requestedSchema":{"properties":{"many":{"type":"array"}}}}"#);
    let adapted = adapt_server_request(FORMS, &capabilities(&raw(kept)), "elicitation/create", &several);
    assert_eq!(adapted.to_string(), several.to_string(), "it is the form of a newer revision");
}

#[test]
fn older_forms_use_named_choices_and_keep_the_rest() {
    let params = raw(r#"{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{
            "one":{"type":"string","oneOf":[{"const":"a","title":"A"},{"const":"b"}],"default":"a"},
            "yes":{"type":"boolean","default":true},"plain":{"type":"string"}}}}"#);
    let plain = capabilities(&raw(r#"{"elicitation":{}}"#));
    let adapted = |revision, params| adapt_server_request(revision, &plain, "elicitation/create", params);
    let form = adapted(FORMS, &params);
    let form: serde_json::Value = form.read().unwrap();
    assert_eq!(
        form,
        json!({ "message": "m", "requestedSchema": { "type": "object", "properties": {
            "one": { "type": "string", "enum": ["a", "b"], "enumNames": ["A", "b"], "default": "a" },
            "yes": { "type": "boolean", "default": true },
            "plain": { "type": "string" },
        } } })
    );
    assert_eq!(adapted(TASKS, &params).to_string(), params.to_string());
    let several = raw(r#"{"message":"m","requestedSchema":{"properties":{"many":{"type":"array"}}}}"#);
    assert_eq!(adapted(FORMS, &several).to_string(), several.to_string());
}

#[test]
fn older_sampling_has_one_block_per_message() {
    let params = raw(
        r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"audio","data":"","mimeType":"m"}]}],"maxTokens":5}"#,
    );
    let declared = capabilities(&raw(r#"{"sampling":{}}"#));
    let adapted = |revision, params| adapt_server_request(revision, &declared, "sampling/createMessage", params);
    let sampled = |revision| adapted(revision, &params).to_string();
    assert_eq!(sampled(TASKS), params.to_string());
    assert_eq!(
        sampled(FORMS),
        r#"{"messages":[{"role":"user","content":{"type":"text","text":"a"}},{"role":"user","content":{"type":"audio","data":"","mimeType":"m"}}],"maxTokens":5}"#
    );
    assert!(sampled(OLDEST).contains("omitted"), "{}", sampled(OLDEST));
    let plain = raw(r#"{"messages":[{"role":"user","content":{"type":"text","text":"a"}}] }"#);
    assert_eq!(adapted(OLDEST, &plain).to_string(), plain.to_string());
}

#[test]
fn server_info_is_limited_to_the_revision() {
    let whole = r#"{"name":"a","title":"A","version":"1","icons":[],"description":"d","websiteUrl":"u"}"#;
    for (revision, expected) in [
        (OLDEST, r#"{"name":"a","version":"1"}"#),
        (BATCHES, r#"{"name":"a","version":"1"}"#),
        (FORMS, r#"{"name":"a","title":"A","version":"1"}"#),
        (TASKS, whole),
        (MODERN, whole),
    ] {
        assert_eq!(info(revision, &raw(whole)).to_string(), expected, "{revision}");
    }
}
