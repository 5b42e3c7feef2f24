//! `toolway tools`, and `toolway ping`.

use crate::home::{Home, sample};

#[test]
fn tools_are_listed_as_signatures() {
    let home = Home::with_sample();
    let expected = "\
echo(text: string)  [read-only]
    Say a text back
add(a: number, b: number)  [read-only]
    Add two numbers
count(pause?: integer = 0, to?: integer = 3)  [read-only]
    Count up to a number, telling of each step
picture()  [read-only]
    Give a small picture and what it shows
greet()  [read-only]
    Ask who you are, then greet you
write_memo(text: string)  [destructive]
    Replace the text of memo://today
fail()  [read-only]
    Fail, to see what that looks like
";
    assert_eq!(home.run(&["tools", "sample", "-o", "human"]).ok(), expected);
    assert_eq!(home.run(&["@sample", "tools", "-o", "human"]).ok(), expected);
    assert_eq!(home.run(&["tools", "--stdio", &sample(), "-o", "human"]).ok(), expected);
}

#[test]
fn one_tool_is_shown_in_full() {
    let home = Home::with_sample();
    let expected = r#"echo(text: string)  [read-only]
    Say a text back
  text (string) What to say
  input schema:
    {
      "properties": {
        "text": {
          "description": "What to say",
          "type": "string"
        }
      },
      "required": [
        "text"
      ],
      "type": "object"
    }
"#;
    assert_eq!(home.run(&["tools", "sample", "echo", "-o", "human"]).ok(), expected);
    home.run(&["tools", "sample", "eccho"]).failed(2, "unknown_tool");
}

#[test]
fn machines_get_the_protocols_objects() {
    let home = Home::with_sample();
    let all = home.run(&["tools", "sample"]).json();
    assert_eq!(all["tools"].as_array().unwrap().len(), 7);
    assert_eq!(all["tools"][0]["name"], "echo");

    let lines = home.run(&["tools", "sample", "-o", "ndjson"]);
    let names: Vec<String> = lines
        .ok()
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(home.run(&["tools", "sample", "-o", "raw"]).ok(), names.join("\n") + "\n");
}

#[test]
fn a_ping_says_which_revision_is_spoken() {
    let home = Home::with_sample();
    let said = home.run(&["ping", "sample", "-o", "human"]);
    assert!(said.ok().starts_with("toolway-sample speaks 2026-07-28 (modern); connected in "), "{said:?}");
    let said = home.run(&["ping", "old-sample"]).json();
    assert_eq!((&said["protocolVersion"], &said["era"]), (&"2025-11-25".into(), &"legacy".into()));
    assert_eq!(home.run(&["ping", "sample", "--era", "legacy", "-o", "raw"]).ok(), "2025-11-25\n");
    // What was chosen once is not remembered.
    assert_eq!(home.run(&["ping", "sample", "-o", "raw"]).ok(), "2026-07-28\n");
}
