//! `toolway policy allow | ask | deny`: rules that take effect, and hints that print the command.

use serde_json::json;

use crate::{
    configuring::run_in,
    home::{Home, TOOLWAY},
};

const FILE: &str = ".config/toolway/toolway.json";

/// A home with these rules, each on a line of its own after a comment.
fn home(rules: &[&str]) -> Home {
    let home = Home::new();
    let rules: Vec<String> = rules.iter().map(|rule| format!("      // kept\n      {rule}")).collect();
    let servers = format!(r#""mcpServers": {{ "sample": {{ "command": "{TOOLWAY}", "args": ["sample"] }} }}"#);
    home.configure(&format!(
        "{{\n  {servers},\n  \"policy\": {{\n    \"rules\": [\n{}\n    ]\n  }}\n}}\n",
        rules.join(",\n")
    ));
    home
}

fn decided(home: &Home, words: &[&str]) -> String {
    let words = [&["policy", "explain", "sample.write_memo"], words].concat();
    home.run(&words).json()["decision"].as_str().unwrap().to_owned()
}

#[test]
fn a_rule_is_written_where_it_takes_effect() {
    let everything = r#"{ "then": "ask" }"#;
    let passwords = r#"{ "match": { "arguments": { "/text": "*password*" } }, "then": "deny" }"#;
    let home = home(&[passwords, everything]);
    assert_eq!(decided(&home, &["text=x"]), "ask");
    let shown = home.run(&["policy", "allow", "sample.write_memo", "--caller", "agent", "--dry-run", "-o", "human"]);
    assert!(shown.ok().contains("+       {\"match\":{\"caller\":\"agent\""), "{shown:?}");
    assert_eq!(decided(&home, &["text=x"]), "ask", "nothing was written");
    let added = home.run(&["policy", "allow", "sample.write_memo", "--caller", "agent"]).json();
    assert_eq!((&added["changed"], &added["stricter"]), (&json!(true), &json!([6])), "{added}");
    assert_eq!(decided(&home, &["text=x"]), "allow");
    assert_eq!(decided(&home, &["text=my password"]), "deny", "a stricter rule with a condition stays");
    assert_eq!(decided(&home, &["--caller", "client:a", "text=x"]), "ask");
    let again = home.run(&["policy", "allow", "sample.write_memo", "--caller", "agent"]).json();
    assert_eq!(again["changed"], false, "{again}");
    home.run(&["policy", "deny", "sample.write_memo", "--argument", "/text=*secret*", "--reason", "no"]).ok();
    assert_eq!(decided(&home, &["text=a secret"]), "deny", "it precedes what allows");
    assert_eq!(decided(&home, &["text=x"]), "allow");
    let text = std::fs::read_to_string(home.path(FILE)).unwrap();
    assert_eq!(text.matches("// kept").count(), 2, "{text}");
    home.run(&["policy", "ask", "nonsense"]).failed(2, "arguments");
    home.run(&["policy", "ask", "sample.echo", "--argument", "path=x"]).failed(2, "usage");
}

#[test]
fn a_project_file_takes_rules_that_ask_or_deny() {
    let home = home(&[r#"{ "then": "allow" }"#]);
    home.folder("clone");
    run_in(&home, "clone", &["policy", "allow", "sample.write_memo", "--project"]).failed(2, "arguments");
    run_in(&home, "clone", &["policy", "deny", "sample.write_memo", "--project"]).ok();
    let said = run_in(&home, "clone", &["policy", "explain", "sample.write_memo", "text=x"]).json();
    assert_eq!((&said["decision"], &said["user"]["decision"]), (&json!("deny"), &json!("allow")), "{said}");
    assert_eq!(decided(&home, &["text=x"]), "allow", "outside of the project");
}
