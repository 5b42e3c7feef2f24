//! Words and the text they become.

use std::io::Write;

use toolway_wire::json::Raw;

use super::{
    call_form::CallForm,
    check::{self, Checked},
    read, read_form, read_strings,
};
use crate::schema::Schema;

const SCHEMA: &str = r##"{"type":"object","required":["text"],"properties":{
    "text":{"type":"string"},"count":{"type":"integer","minimum":1},"ratio":{"type":"number"},
    "flag":{"type":"boolean"},"tags":{"type":"array","items":{"type":"string"}},
    "sizes":{"type":"array","items":{"type":"integer"}},"extra":{"type":"object"},
    "mode":{"enum":["fast","slow",3]},"maybe":{"type":["integer","null"]},"both":{"type":["string","number"]},
    "place":{"$ref":"#/$defs/number"}},"$defs":{"number":{"type":"number"}}}"##;

/// What is on standard input.
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

fn problem(given: &[&str]) -> (String, Option<String>) {
    let problem = read(&words(given), &schema(), STDIN).unwrap_err();
    (problem.sentence, problem.idea)
}

#[test]
fn a_value_becomes_what_the_schema_wants() {
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
fn bare_values_go_to_the_next_argument_in_the_schemas_order() {
    assert_eq!(given(&["hello", "3"]), r#"{"text":"hello","count":3}"#);
    assert_eq!(given(&["count=3", "hello", "0.5"]), r#"{"count":3,"text":"hello","ratio":0.5}"#);
    assert_eq!(given(&["https://example.org/?q=1"]), r#"{"text":"https://example.org/?q=1"}"#);
}

#[test]
fn a_name_given_several_times_is_a_list_where_one_is_wanted() {
    assert_eq!(given(&["tags=a", "tags=b", "sizes=1", "sizes=22"]), r#"{"tags":["a","b"],"sizes":[1,22]}"#);
    assert_eq!(problem(&["text=a", "text=b"]).0, "`text` is given twice.");
}

#[test]
fn what_is_wrong_is_said_before_anything_is_sent() {
    assert_eq!(problem(&["cuont=3"]), ("`cuont` is no argument of it.".into(), Some("Did you mean `count`?".into())));
    assert_eq!(problem(&["count=many"]).0, "`count` must be an integer, not `many`.");
    assert_eq!(problem(&["count=1.5"]).0, "`count` must be an integer, not `1.5`.");
    assert_eq!(problem(&["flag=yes"]).0, "`flag` must be true or false, not `yes`.");
    assert_eq!(problem(&["mode=medium"]).0, "`mode` must be one of fast, slow, 3, not `medium`.");
    assert_eq!(problem(&["maybe=x"]).0, "`maybe` must be an integer or null, not `x`.");
    assert!(problem(&["text:={"]).0.starts_with("`text` is not JSON: "));
    assert_eq!(problem(&[r#"{"a":1}"#, "text=x"]).0, "A JSON object is all arguments; give it alone.");
    assert!(problem(&["text=@/no/such/file"]).0.starts_with("Cannot read /no/such/file: "));
}

#[test]
fn a_file_stands_for_its_content() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"[1, 2.0]").unwrap();
    let path = file.path().to_str().unwrap();
    assert_eq!(given(&[&format!("text=@{path}")]), r#"{"text":"[1, 2.0]"}"#);
    assert_eq!(given(&[&format!("sizes:=@{path}")]), r#"{"sizes":[1, 2.0]}"#);
}

#[test]
fn a_schema_without_names_takes_any() {
    let any = Schema::new(Raw::parse(r#"{"type":"object"}"#).unwrap());
    assert_eq!(read(&words(&["a=1", "b:=2"]), &any, STDIN).unwrap().to_string(), r#"{"a":"1","b":2}"#);
}

#[test]
fn arguments_are_checked_against_the_schema() {
    let check = |text: &str| check::arguments(&schema(), &Raw::parse(text.to_owned()).unwrap());
    assert_eq!(check(r#"{"text":"x","count":123456789012345678901234567890}"#), Checked::Fine);
    assert_eq!(check("{}"), Checked::Wrong(vec!["`text` is missing.".to_owned()]));
    assert_eq!(
        check(r#"{"text":"x","count":0}"#),
        Checked::Wrong(vec!["`count`: 0 is less than the minimum of 1.".to_owned()])
    );
}

#[test]
fn a_reference_to_another_document_is_never_fetched() {
    let far = Schema::new(Raw::parse(r#"{"$ref":"http://127.0.0.1:1/schema.json"}"#).unwrap());
    assert!(matches!(check::arguments(&far, &Raw::empty_object()), Checked::Unknown(_)));
    let file = Schema::new(Raw::parse(r#"{"properties":{"a":{"$ref":"file:///etc/passwd"}}}"#).unwrap());
    assert!(matches!(check::arguments(&file, &Raw::empty_object()), Checked::Unknown(_)));
}

#[test]
fn a_prompt_takes_strings() {
    let names = words(&["name", "tone"]);
    let given = |given: &[&str]| read_strings(&words(given), &names, STDIN).map(|raw| raw.to_string());
    assert_eq!(given(&["tone=7", "Ada"]).unwrap(), r#"{"tone":"7","name":"Ada"}"#);
    assert_eq!(given(&["nmae=x"]).unwrap_err().idea.as_deref(), Some("Did you mean `name`?"));
}

#[test]
fn a_schema_in_a_circle_is_no_trap() {
    for text in [
        r##"{"$ref":"#"}"##,
        r##"{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}"##,
        r##"{"properties":{"a":{"$ref":"#/properties/b"},"b":{"$ref":"#/properties/a"}}}"##,
    ] {
        let schema = Schema::new(Raw::parse(text).unwrap());
        assert_eq!(check::arguments(&schema, &Raw::parse(r#"{"a":1}"#).unwrap()), Checked::Fine, "{text}");
    }
}

#[test]
fn a_call_as_in_code_is_its_tool_and_json() {
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
fn a_call_as_in_code_guesses_nothing() {
    for (word, sentence) in [
        ("paint(text: hello)", "`text`: `hello` is no JSON."),
        ("paint(count: 012)", "`count`: `012` is no JSON."),
        ("paint(text: @/etc/hostname)", "`text`: `@/etc/hostname` is no JSON."),
        ("paint(text: \"a)", "In the parentheses a quote is not closed."),
        ("paint(, count: 1)", "`` is no JSON."),
        ("paint(te xt: 1)", "`te xt` is no name of an argument."),
        ("paint(txet: 1)", "`txet` is no argument of it."),
        ("paint(text: 'a', text: 'b')", "`text` is given twice."),
    ] {
        let problem = read_form(&CallForm::of(word).unwrap(), &schema()).unwrap_err();
        assert_eq!(problem.sentence, sentence, "{word}");
    }
}
