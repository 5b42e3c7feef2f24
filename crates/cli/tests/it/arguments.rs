//! Arguments as a person types them, and what the server gets.

use crate::home::Home;

/// The arguments of the request that would be sent.
#[track_caller]
fn sent(home: &Home, tool: &str, words: &[&str]) -> String {
    let ran = home.run(&[&["call", tool][..], words, &["--dry-run"]].concat());
    let text = ran.ok();
    let start = text.find("\"arguments\":").unwrap() + 12;
    let end = text.find(",\"_meta\"").unwrap();
    text[start..end].to_owned()
}

#[test]
fn every_form_of_argument_is_sent_as_the_schema_wants_it() {
    let home = Home::with_sample();
    home.write("note.txt", "from a file\n");
    home.write("number.json", " 7.50 ");
    for (tool, words, arguments) in [
        ("sample.echo", &["text=5"][..], r#"{"text":"5"}"#),
        ("sample.echo", &["text=@note.txt"], r#"{"text":"from a file\n"}"#),
        ("sample.echo", &["text=@@note.txt"], r#"{"text":"@note.txt"}"#),
        ("sample.echo", &["hello there"], r#"{"text":"hello there"}"#),
        (
            "sample.add",
            &["a=123456789012345678901234567890", "b=-0.10"],
            r#"{"a":123456789012345678901234567890,"b":-0.10}"#,
        ),
        ("sample.add", &["1", "-2"], r#"{"a":1,"b":-2}"#),
        ("sample.add", &["b=1", "2"], r#"{"b":1,"a":2}"#),
        ("sample.add", &["a:=@number.json", "b:=1e3"], r#"{"a":7.50,"b":1e3}"#),
        ("sample.add", &[r#"{"b": 1, "a": 2.0}"#], r#"{"b": 1, "a": 2.0}"#),
        ("sample.picture", &[], "{}"),
    ] {
        assert_eq!(sent(&home, tool, words), arguments, "{tool} {words:?}");
    }
}

#[test]
fn a_dash_reads_one_object_from_standard_input() {
    let home = Home::with_sample();
    let ran = home.run_with_input(&["call", "sample.add", "-", "-o", "human"], "{\"a\": 2,\n \"b\": 40}\n");
    assert_eq!(ran.ok(), "{\"sum\":42.0}\n");
    let ran = home.run_with_input(&["call", "sample.add", "-", "-o", "human"], "[]");
    assert_eq!(
        (ran.code, ran.talk.lines().next()),
        (2, Some("toolway: `add`: In standard input there must be one JSON object."))
    );
}

#[test]
fn what_is_wrong_is_said_with_the_signature_before_anything_is_sent() {
    let home = Home::with_sample();
    for (words, talk) in [
        (&["sample.add", "a=2"][..], "toolway: `add`: `b` is missing.\nIt takes: add(a: number, b: number)\n"),
        (
            &["sample.write_memo", "txt=x"],
            "toolway: `write_memo`: `txt` is no argument of it.\nIt takes: write_memo(text: string)\nDid you mean `text`?\n",
        ),
        (
            &["sample.count", "to=many"],
            "toolway: `count`: `to` must be an integer, not `many`.\nIt takes: count(pause?: integer = 0, to?: integer = 3)\n",
        ),
        (
            &["sample.count", "to=5000"],
            "toolway: `count`: `to`: 5000 is greater than the maximum of 1000.\nIt takes: count(pause?: integer = 0, to?: integer = 3)\n",
        ),
        (
            &["sample.add", "1", "2", "3"],
            "toolway: `add`: `3` is one value too many.\nIt takes: add(a: number, b: number)\n",
        ),
        (&["sample.ecko", "text=x"], "toolway: The server has no tool `ecko`.\nDid you mean `echo`?\n"),
    ] {
        let ran = home.run(&[&["call", "-o", "human"][..], words].concat());
        assert_eq!((ran.code, ran.talk.as_str(), ran.out.as_str()), (2, talk, ""));
    }
}
