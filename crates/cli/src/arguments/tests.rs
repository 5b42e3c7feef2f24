//! Command-line arguments and the JSON they become.

use std::io::Write;

use toolway_host::validation::check::CheckResult;
use toolway_wire::json::Raw;

use super::{call_form::CallForm, check, read, read_form, read_strings};
use crate::schema::Schema;

const SCHEMA: &str = r##"{"type":"object","required":["text"],"properties":{
    "text":{"type":"string"},"count":{"type":"integer","minimum":1},"ratio":{"type":"number"},
    "flag":{"type":"boolean"},"tags":{"type":"array","items":{"type":"string"}},
    "sizes":{"type":"array","items":{"type":"integer"}},"extra":{"type":"object"},
    "mode":{"enum":["fast","slow",3]},"maybe":{"type":["integer","null"]},"both":{"type":["string","number"]},
    "place":{"$ref":"#/$defs/number"}},"$defs":{"number":{"type":"number"}}}"##;

/// Content of standard input.
const STDIN: &[u8] = b"{\"text\":  \"piped\"}";

fn schema() -> Schema {
    Schema::new(Raw::parse(SCHEMA).unwrap())
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn given(given: &[&str]) -> String {
    read(&words(given), &schema(), STDIN).unwrap().to_string()
}

fn problem(given: &[&str]) -> String {
    read(&words(given), &schema(), STDIN).unwrap_err().message
}

#[test]
fn value_is_converted_to_the_type_in_the_schema() {
    for (word, text) in [
        ("text=012", r#"{"text":"012"}"#),
        ("text=true", r#"{"text":"true"}"#),
        ("text=", r#"{"text":""}"#),
        ("text=a=b:=c", r#"{"text":"a=b:=c"}"#),
        ("text=@@home", r#"{"text":"@home"}"#),
        ("count=123456789012345678901234567890", r#"{"count":123456789012345678901234567890}"#),
        ("count=-5", r#"{"count":-5}"#),
        ("ratio=1.50", r#"{"ratio":1.50}"#),
        ("ratio=1e400", r#"{"ratio":1e400}"#),
        ("flag=false", r#"{"flag":false}"#),
        ("tags=one", r#"{"tags":["one"]}"#),
        (r#"tags=["a","b"]"#, r#"{"tags":["a","b"]}"#),
        (r#"extra={"x":1.0}"#, r#"{"extra":{"x":1.0}}"#),
        ("mode=3", r#"{"mode":3}"#),
        ("mode=fast", r#"{"mode":"fast"}"#),
        ("maybe=null", r#"{"maybe":null}"#),
        ("both=5", r#"{"both":"5"}"#),
        ("both:=5", r#"{"both":5}"#),
        ("place=7", r#"{"place":7}"#),
        (r#"text:="x\u0041""#, r#"{"text":"x\u0041"}"#),
        ("count:=1e2", r#"{"count":1e2}"#),
        ("-", r#"{"text":  "piped"}"#),
        ("text=@-", r#"{"text":"{\"text\":  \"piped\"}"}"#),
        ("extra:=@-", r#"{"extra":{"text":  "piped"}}"#),
        (r#"{"text":"x", "n":10000000000000000000000001}"#, r#"{"text":"x", "n":10000000000000000000000001}"#),
    ] {
        assert_eq!(given(&[word]), text, "{word}");
    }
}

#[test]
fn values_without_name_are_assigned_in_schema_order() {
    assert_eq!(given(&["hello", "3"]), r#"{"text":"hello","count":3}"#);
    assert_eq!(given(&["count=3", "hello", "0.5"]), r#"{"count":3,"text":"hello","ratio":0.5}"#);
    assert_eq!(given(&["https://example.org/?q=1"]), r#"{"text":"https://example.org/?q=1"}"#);
}

#[test]
fn repeated_name_makes_a_list_if_the_schema_has_one() {
    assert_eq!(given(&["tags=a", "tags=b", "sizes=1", "sizes=22"]), r#"{"tags":["a","b"],"sizes":[1,22]}"#);
    assert_eq!(problem(&["text=a", "text=b"]), "argument `text` is given twice");
}

#[test]
fn invalid_arguments_are_reported() {
    for (word, message) in [
        ("cuont=3", "unknown argument `cuont`; did you mean `count`?"),
        ("zebra=3", "unknown argument `zebra`"),
        ("count=many", "argument `count` must be an integer, not `many`"),
        ("count=1.5", "argument `count` must be an integer, not `1.5`"),
        ("flag=yes", "argument `flag` must be true or false, not `yes`"),
        ("mode=medium", "argument `mode` must be one of fast, slow, 3, not `medium`"),
        ("maybe=x", "argument `maybe` must be an integer or null, not `x`"),
        ("text:={", "argument `text`: invalid JSON: JSON is truncated"),
        (r#"{text:"hi"}"#, "invalid JSON at column 2, near `text:`"),
        ("{\"text\":\n  nope}", "invalid JSON at line 2, column 4, near `ope`"),
    ] {
        assert_eq!(problem(&[word]), message, "{word}");
    }
    assert!(problem(&[r#"{"a":1}"#, "text=x"]).starts_with("a JSON object contains all arguments"));
    assert!(problem(&["text=@/no/such/file"]).starts_with("cannot read `/no/such/file`: "));
}

#[test]
fn at_file_is_replaced_by_its_content() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"[1, 2.0]").unwrap();
    let path = file.path().to_str().unwrap();
    assert_eq!(given(&[&format!("text=@{path}")]), r#"{"text":"[1, 2.0]"}"#);
    assert_eq!(given(&[&format!("sizes:=@{path}")]), r#"{"sizes":[1, 2.0]}"#);
}

#[test]
fn schema_without_properties_accepts_any_name() {
    let any = Schema::new(Raw::parse(r#"{"type":"object"}"#).unwrap());
    assert_eq!(read(&words(&["a=1", "b:=2"]), &any, STDIN).unwrap().to_string(), r#"{"a":"1","b":2}"#);
}

#[test]
fn arguments_are_checked_against_the_schema() {
    let check = |text: &str| check::arguments(&schema(), &Raw::parse(text.to_owned()).unwrap());
    assert_eq!(check(r#"{"text":"x","count":123456789012345678901234567890}"#), CheckResult::Valid);
    assert_eq!(check("{}"), CheckResult::Invalid(vec!["missing argument `text`".to_owned()]));
    assert_eq!(
        check(r#"{"text":"x","count":0}"#),
        CheckResult::Invalid(vec!["argument `count`: 0 is less than the minimum of 1".to_owned()])
    );
}

#[test]
fn remote_references_are_never_fetched() {
    let far = Schema::new(Raw::parse(r#"{"$ref":"http://127.0.0.1:1/schema.json"}"#).unwrap());
    assert!(matches!(check::arguments(&far, &Raw::empty_object()), CheckResult::Unchecked(_)));
    let file = Schema::new(Raw::parse(r#"{"properties":{"a":{"$ref":"file:///etc/passwd"}}}"#).unwrap());
    assert!(matches!(check::arguments(&file, &Raw::empty_object()), CheckResult::Unchecked(_)));
}

#[test]
fn prompt_arguments_are_strings() {
    let names = words(&["name", "tone"]);
    let given = |given: &[&str]| read_strings(&words(given), &names, STDIN).map(|raw| raw.to_string());
    assert_eq!(given(&["tone=7", "Ada"]).unwrap(), r#"{"tone":"7","name":"Ada"}"#);
    assert_eq!(given(&["nmae=x"]).unwrap_err().message, "unknown argument `nmae`; did you mean `name`?");
}

#[test]
fn circular_schema_terminates() {
    for text in [
        r##"{"$ref":"#"}"##,
        r##"{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}"##,
        r##"{"properties":{"a":{"$ref":"#/properties/b"},"b":{"$ref":"#/properties/a"}}}"##,
    ] {
        let schema = Schema::new(Raw::parse(text).unwrap());
        assert_eq!(check::arguments(&schema, &Raw::parse(r#"{"a":1}"#).unwrap()), CheckResult::Valid, "{text}");
    }
}

#[test]
fn call_form_is_parsed() {
    for (word, tool, text) in [
        (r#"paint(text: "a, b: (c)", count: 3)"#, "paint", r#"{"text":"a, b: (c)","count":3}"#),
        (r"s.paint('it\'s', 7)", "s.paint", r#"{"text":"it's","count":7}"#),
        (
            r#"paint("text":'say "x"',count:123456789012345678901234567890)"#,
            "paint",
            r#"{"text":"say \"x\"","count":123456789012345678901234567890}"#,
        ),
        (
            r#"paint(tags: ["a","b"], extra: {"x": [1, {"y:": 2}]}, )"#,
            "paint",
            r#"{"tags":["a","b"],"extra":{"x": [1, {"y:": 2}]}}"#,
        ),
        ("paint(ratio: 1.50, flag: true, maybe: null)", "paint", r#"{"ratio":1.50,"flag":true,"maybe":null}"#),
        ("paint( )", "paint", "{}"),
    ] {
        let form = CallForm::of(word).unwrap();
        assert_eq!((form.tool, read_form(&form, &schema()).unwrap().to_string().as_str()), (tool, text), "{word}");
    }
    for plain in ["paint", "paint(", "paint)", "(text: 1)", "say hello (now)", "paint(1) "] {
        assert_eq!(CallForm::of(plain), None, "{plain}");
    }
}

#[test]
fn invalid_call_form_is_reported() {
    for (word, message) in [
        ("paint(text: hello)", "argument `text`: `hello` is not valid JSON"),
        ("paint(count: 012)", "argument `count`: `012` is not valid JSON"),
        ("paint(text: @/etc/hostname)", "argument `text`: `@/etc/hostname` is not valid JSON"),
        ("paint(text: \"a)", "unclosed quote in the parentheses"),
        ("paint(, count: 1)", "`` is not valid JSON"),
        ("paint(te xt: 1)", "`te xt` is not a valid argument name"),
        ("paint(txet: 1)", "unknown argument `txet`; did you mean `text`?"),
        ("paint(text: 'a', text: 'b')", "argument `text` is given twice"),
    ] {
        let problem = read_form(&CallForm::of(word).unwrap(), &schema()).unwrap_err();
        assert_eq!(problem.message, message, "{word}");
    }
}
