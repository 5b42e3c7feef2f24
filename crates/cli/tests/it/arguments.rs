//! Arguments as typed, and as the server receives them.

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
fn every_argument_form_is_converted_by_the_schema() {
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
fn dash_reads_one_object_from_standard_input() {
    let home = Home::with_sample();
    let ran = home.run_with_input(&["call", "sample.add", "-", "-o", "human"], "{\"a\": 2,\n \"b\": 40}\n");
    assert_eq!(ran.ok(), "{\"sum\":42.0}\n");
    let ran = home.run_with_input(&["call", "sample.add", "-", "-o", "human"], "[]");
    assert_eq!(
        (ran.code, ran.talk.lines().next()),
        (2, Some("toolway: tool `add`: standard input must be a JSON object"))
    );
}

#[test]
fn invalid_arguments_are_reported_with_the_signature() {
    let home = Home::with_sample();
    for (words, talk) in [
        (
            &["sample.add", "a=2"][..],
            "toolway: tool `add`: missing argument `b`\nthe call was not sent\nhint: usage: add(a: number, b: number)\n",
        ),
        (
            &["sample.write_memo", "txt=x"],
            "toolway: tool `write_memo`: unknown argument `txt`; did you mean `text`?\nthe call was not sent\nhint: usage: write_memo(text: string)\n",
        ),
        (
            &["sample.count", "to=many"],
            "toolway: tool `count`: argument `to` must be an integer, not `many`\nthe call was not sent\nhint: usage: count(pause?: integer = 0, to?: integer = 3)\n",
        ),
        (
            &["sample.count", "to=5000"],
            "toolway: tool `count`: argument `to`: 5000 is greater than the maximum of 1000\nthe call was not sent\nhint: usage: count(pause?: integer = 0, to?: integer = 3)\n",
        ),
        (
            &["sample.add", "1", "2", "3"],
            "toolway: tool `add`: unexpected value `3`: all arguments are already given\nthe call was not sent\nhint: usage: add(a: number, b: number)\n",
        ),
        (
            &["sample.ecko", "text=x"],
            "toolway: the server has no tool `ecko`; did you mean `echo`?\nthe call was not sent\nhint: list its tools with `toolway tools sample`\n",
        ),
    ] {
        let ran = home.run(&[&["call", "-o", "human"][..], words].concat());
        assert_eq!((ran.code, ran.talk.as_str(), ran.out.as_str()), (2, talk, ""));
    }
}
