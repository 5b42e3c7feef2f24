//! `toolway tools`, and `toolway ping`.

use crate::home::{Home, TOOLWAY, sample};

#[test]
fn tools_are_listed_as_signatures() {
    let home = Home::with_sample();
    let expected = "\
echo(text: string)  [read-only]
    Return a text
add(a: number, b: number)  [read-only]
    Add two numbers
count(pause?: integer = 0, to?: integer = 3)  [read-only]
    Count up to a number and report progress at each step
picture()  [read-only]
    Return a small image and its size
greet()  [read-only]
    Ask for your name and greet you
write_memo(text: string)  [destructive]
    Replace the text of memo://today
fail()  [read-only]
    Always fail, to show a failed tool call
";
    assert_eq!(home.run(&["tools", "sample", "-o", "human"]).ok(), expected);
    assert_eq!(home.run(&["@sample", "tools", "-o", "human"]).ok(), expected);
    assert_eq!(home.run(&["tools", "--stdio", &sample(), "-o", "human"]).ok(), expected);
}

#[test]
fn one_tool_is_shown_in_full() {
    let home = Home::with_sample();
    let expected = r#"echo(text: string)  [read-only]
  title: Echo
    Return a text
  example:
    toolway call sample.echo text=example
  text (string) Text to return
  input schema:
    {
      "properties": {
        "text": {
          "description": "Text to return",
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
fn json_output_has_the_protocol_objects() {
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
fn ping_shows_the_protocol_revision() {
    let home = Home::with_sample();
    let said = home.run(&["ping", "sample", "-o", "human"]);
    assert!(said.ok().starts_with("toolway-sample: protocol 2026-07-28 (modern), connected in "), "{said:?}");
    let said = home.run(&["ping", "old-sample"]).json();
    assert_eq!((&said["protocolVersion"], &said["era"]), (&"2025-11-25".into(), &"legacy".into()));
    assert_eq!(home.run(&["ping", "sample", "--era", "legacy", "-o", "raw"]).ok(), "2025-11-25\n");
    // A forced era is not cached.
    assert_eq!(home.run(&["ping", "sample", "-o", "raw"]).ok(), "2026-07-28\n");
}

#[test]
fn resources_and_prompts_of_all_servers_are_listed_with_their_origin() {
    let home = Home::with_sample();
    assert_eq!(home.run(&["resources", "-o", "raw"]).ok(), "old-sample\tmemo://today\nsample\tmemo://today\n");
    let said = home.run(&["resources", "templates"]).json();
    let templates = said["resourceTemplates"].as_array().unwrap();
    let servers: Vec<_> = templates.iter().map(|it| it["_meta"]["toolway/origin"]["server"].clone()).collect();
    assert_eq!(servers, ["old-sample", "sample"]);
    let human = home.run(&["resources", "-o", "human"]);
    assert!(human.ok().starts_with("old-sample memo://today  "), "{human:?}");

    let names = home.run(&["prompts", "-o", "raw"]);
    let names: Vec<&str> = names.ok().lines().collect();
    assert_eq!(names, ["old-sample__introduce", "sample__introduce"]);
    let prompts = home.run(&["prompts"]).json();
    let origin = &prompts["prompts"][0]["_meta"]["toolway/origin"];
    assert_eq!(*origin, serde_json::json!({ "server": "old-sample", "name": "introduce" }));
    home.run(&["prompts", "get", names[0], "name=Ada"]).ok();
}

#[test]
fn options_override_naming_and_auto_connect() {
    let home = Home::new();
    home.configure(&format!(
        r#"{{ "naming": {{ "prefix": "always" }}, "mcpServers": {{ "only": {{ "command": "{TOOLWAY}", "args": ["sample"] }} }} }}"#
    ));
    let first = |words: &[&str]| home.run(words).ok().lines().next().unwrap().to_owned();
    assert_eq!(first(&["tools", "-o", "raw"]), "only__echo");
    assert_eq!(first(&["tools", "-o", "raw", "--prefix", "auto"]), "echo");
    assert_eq!(first(&["--auto-connect", "false", "config", "show", "autoConnect", "-o", "raw"]), "autoConnect=false");
    let shown = home.run(&["config", "show", "naming.prefix", "--prefix", "never"]).json();
    assert_eq!(shown["values"][0]["origin"], serde_json::json!({ "from": "option", "name": "--prefix" }));
    home.run(&["tools", "--prefix", "sometimes"]).failed(2, "usage");
}

#[test]
fn without_prefixes_only_the_first_item_of_a_name_is_offered() {
    let home = Home::with_sample();
    let names = home.run(&["tools", "-o", "raw", "--prefix", "never"]);
    assert_eq!(names.ok(), "echo\nadd\ncount\npicture\ngreet\nwrite_memo\nfail\n");
    let status = home.run(&["status", "--prefix", "never", "-o", "human"]);
    assert!(status.ok().contains("ignored)"), "{status:?}");
    assert_eq!(home.run(&["call", "echo", "text=hi", "--prefix", "never", "-o", "raw"]).ok(), "hi\n");
    home.run(&["call", "echo", "text=hi", "--prefix", "auto"]).failed(2, "unknown_server");
}

#[test]
fn tools_of_all_servers_are_grouped_by_server() {
    let home = Home::with_sample();
    let ran = home.run(&["tools", "-o", "human"]);
    let groups: Vec<&str> = ran.ok().split("\n\n").collect();
    assert!(
        groups[0].starts_with("old-sample  7 tools, stdio\nold-sample__echo(text: string)  [read-only]\n"),
        "{ran:?}"
    );
    assert!(groups[1].starts_with("sample  7 tools, stdio\nsample__echo("), "{ran:?}");
    assert_eq!(ran.talk, "toolway: 14 tools of 2 servers\n");
}

#[test]
fn example_of_a_tool_can_be_run() {
    let home = Home::with_sample();
    for tool in ["echo", "add", "count"] {
        let shown = home.run(&["tools", "sample", tool, "-o", "human"]);
        let example = shown.ok().lines().find_map(|line| line.trim().strip_prefix("toolway ")).unwrap().to_owned();
        home.run(&example.split(' ').collect::<Vec<_>>()).ok();
    }
}

#[test]
fn descriptions_fit_the_terminal() {
    let home = Home::with_sample();
    let around = home.command(&[]);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &format!("stty cols 40; exec {TOOLWAY} tools sample")]).env_clear().env("NO_COLOR", "1");
    command.envs(around.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let (_, shown) = home.run_at_terminal(command, "");
    assert!(shown.contains("    Count up to a number and report pro…\r\n"), "{shown:?}");
    let piped = home.run(&["tools", "sample", "-o", "human"]);
    assert!(piped.ok().contains("    Count up to a number and report progress at each step\n"), "{piped:?}");
}
