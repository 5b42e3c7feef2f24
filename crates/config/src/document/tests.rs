//! The same values in three languages.

use std::path::Path;

use super::{Document, Member, Node, Value};

fn root(file: &str, text: &str) -> Result<Node, String> {
    Document::of(Path::new(file), text).map(|document| document.root).map_err(|error| error.to_string())
}

/// A value with its lines, on one line.
fn plain(node: &Node) -> String {
    let line = node.line;
    match &node.value {
        Value::Null => format!("null@{line}"),
        Value::Flag(flag) => format!("{flag}@{line}"),
        Value::Number(number) => format!("{number}@{line}"),
        Value::Text(text) => format!("{text:?}@{line}"),
        Value::List(list) => format!("[{}]", list.iter().map(plain).collect::<Vec<_>>().join(" ")),
        Value::Map(members) => {
            let member = |member: &Member| format!("{}@{}: {}", member.key, member.line, plain(&member.node));
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(" "))
        }
    }
}

#[test]
fn three_languages_give_the_same_tree() {
    let json = "{\n\"b\": {\n\"t\": \"x\", \"n\": 1.5 },\n\"a\": [\ntrue, // yes\n\"y\"\n]\n}";
    let yaml = "\nb:\n  {t: x, n: 1.5}\na: \n- true # yes\n- y\n";
    let toml = "\n[b]\nt = \"x\"\nn = 1.5\n";
    assert_eq!(plain(&root("x.json", json).unwrap()), "{b@2: {t@3: \"x\"@3 n@3: 1.5@3} a@4: [true@5 \"y\"@6]}");
    assert_eq!(plain(&root("x.yaml", yaml).unwrap()), "{b@2: {t@3: \"x\"@3 n@3: 1.5@3} a@4: [true@5 \"y\"@6]}");
    assert_eq!(plain(&root("x.toml", toml).unwrap()), "{b@2: {t@3: \"x\"@3 n@4: 1.5@4}}");
}

#[test]
fn yaml_scalars_follow_the_core_schema() {
    let text = "a: no\nb: 'true'\nc: ~\nd: 012\ne: 0x10\nf: 1e3\ng: .inf\nh: 1.2.3\ni:\nj: \"5\"\n";
    assert_eq!(
        plain(&root("x.yml", text).unwrap()),
        "{a@1: \"no\"@1 b@2: \"true\"@2 c@3: null@3 d@4: 12@4 e@5: \"0x10\"@5 f@6: 1000@6 g@7: \".inf\"@7 \
         h@8: \"1.2.3\"@8 i@9: null@9 j@10: \"5\"@10}"
    );
}

#[test]
fn invalid_document_is_refused_with_its_line() {
    for (file, text, expected) in [
        ("x.json", "{\n\"a\": 1,\n\"a\": 2}", "x.json:3: duplicate key `a`"),
        ("x.yaml", "a: 1\na: 2\n", "x.yaml:2: duplicate key `a`"),
        ("x.yaml", "a: &x 1\nb: *x\n", "x.yaml:2: YAML aliases are not supported; write the value out"),
        ("x.yaml", "a: 1\n---\nb: 2\n", "x.yaml:2: only one YAML document per file is supported"),
        ("x.yaml", "? [a]\n: 1\n", "x.yaml:1: a key must be a string"),
        ("x.toml", "a = 1\na = 2\n", "x.toml:2: duplicate key"),
    ] {
        assert_eq!(root(file, text), Err(expected.to_owned()));
    }
    for (file, text, start) in [
        ("x.json", "{\n\"a\": ", "x.json:"),
        ("x.json", &"[".repeat(100_000), "x.json:1: "),
        ("x.yaml", &"[".repeat(100_000), "x.yaml:1: "),
        ("x.yaml", "a: [\n", "x.yaml:"),
        ("x.toml", &format!("a = {}", "[".repeat(100_000)), "x.toml:1: "),
    ] {
        let refused = root(file, text).unwrap_err();
        assert!(refused.starts_with(start), "{refused}");
    }
}

#[test]
fn file_without_content_is_an_empty_document() {
    for (file, text) in
        [("x.json", ""), ("x.json", "\u{feff}// x"), ("x.yaml", "# x\n"), ("x.yaml", "~"), ("x.toml", "")]
    {
        assert_eq!(plain(&root(file, text).unwrap()), "{}", "{text:?}");
    }
}
