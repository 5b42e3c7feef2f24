//! Edits of hand-written files: only the intended member changes.

use std::path::Path;

use super::{Change, Edit, NewValue, edit_text, plan_rule, rules_of};
use crate::{
    Config, RuleEffect, ServerName,
    document::Document,
    server::{DefinedBy, ServerConfig},
};

const KEPT: &str = r#"// mine
{
    "autoConnect": false, // slow machine
    "mcpServers": {
        // first
        "My Files": { "command": "files", "args": ["a"] }, // on one line

        "b": {
            "command": "b", /* why */
            "env": { "X": "1" }
        },
    }
}
"#;

fn name(text: &str) -> ServerName {
    text.parse().unwrap()
}

fn edited(edit: &Edit, text: &str) -> String {
    match edit_text(edit, None, Path::new("/x/toolway.json"), text).unwrap() {
        Change::Text { text, .. } => text,
        lines => panic!("{lines:?}"),
    }
}

fn problem(edit: &Edit, text: &str) -> String {
    edit_text(edit, None, Path::new("/x/toolway.json"), text).unwrap_err().to_string()
}

fn entry() -> NewValue {
    NewValue::Object(vec![
        ("command".to_owned(), NewValue::Text("npx".to_owned())),
        ("args".to_owned(), NewValue::texts(["-y", "x"])),
        ("env".to_owned(), NewValue::pairs([("KEY", "${KEY}")])),
    ])
}

#[test]
fn entry_is_added_at_the_end_and_the_rest_stays() {
    let text = edited(&Edit::Add { label: "New".to_owned(), entry: entry() }, KEPT);
    // The file ends its lists with a comma, so the new entry does too.
    let new = r#"            "env": { "X": "1" }
        },
        "New": {
            "command": "npx",
            "args": ["-y", "x"],
            "env": {
                "KEY": "${KEY}",
            },
        },
    }
"#;
    assert_eq!(text, KEPT.replace("            \"env\": { \"X\": \"1\" }\n        },\n    }\n", new));
}

#[test]
fn first_entry_creates_the_file() {
    let text = edited(&Edit::Add { label: "New".to_owned(), entry: entry() }, "");
    assert!(text.starts_with("{\n  \"mcpServers\": {\n    \"New\": {\n      \"command\": \"npx\",\n"), "{text}");
    assert!(text.ends_with("}\n"));
    let text = edited(&Edit::Add { label: "New".to_owned(), entry: entry() }, "{\n\t\"autoConnect\": true\n}\n");
    assert!(text.starts_with("{\n\t\"autoConnect\": true,\n\t\"mcpServers\": {\n\t\t\"New\": {"), "{text}");
}

#[test]
fn entry_on_one_line_stays_on_one_line() {
    let text = edited(&Edit::Disable { name: name("my-files") }, KEPT);
    assert_eq!(text, KEPT.replace(r#""args": ["a"] }"#, r#""args": ["a"], "enabled": false }"#));
    assert_eq!(edited(&Edit::Enable { name: name("my-files") }, &text), KEPT);
}

#[test]
fn member_is_added_to_the_entry_and_not_to_its_last_value() {
    for (entry, with) in [
        (r#"{"command":"b","env":{"X":"1"}}"#, r#"{"command":"b","env":{"X":"1"}, "enabled": false}"#),
        (r#"{ "command": "b", "env": {} , }"#, r#"{ "command": "b", "env": {} , "enabled": false }"#),
        (r#"{ "command": "}" /* } */ }"#, r#"{ "command": "}" /* } */, "enabled": false }"#),
    ] {
        let text = format!("{{ \"mcpServers\": {{ \"b\": {entry} }} }}\n");
        let off = edited(&Edit::Disable { name: name("b") }, &text);
        assert_eq!(off, text.replace(entry, with));
        let config = Config::of(&Document::of(Path::new("/x/toolway.json"), &off).unwrap(), None).unwrap();
        assert!(!config.find("b").unwrap().is_enabled());
    }
}

#[test]
fn one_member_changes() {
    let changes = vec![
        ("command".to_owned(), Some(NewValue::Text("c".to_owned()))),
        ("env".to_owned(), None),
        ("idleStop".to_owned(), Some(NewValue::Number(90.0))),
    ];
    let text = edited(&Edit::Update { name: name("b"), changes }, KEPT);
    assert!(
        text.contains("            \"command\": \"c\", /* why */\n            \"idleStop\": 90\n        },\n"),
        "{text}"
    );
    assert!(
        text.contains("// first\n        \"My Files\": { \"command\": \"files\", \"args\": [\"a\"] }, // on one line")
    );
}

#[test]
fn nested_members_change_one_by_one() {
    let text = |value: &str| Some(NewValue::Text(value.to_owned()));
    let changes = vec![
        ("env.Y".to_owned(), text("2")),
        ("env.X".to_owned(), None),
        ("timeouts.idle".to_owned(), Some(NewValue::Number(9.0))),
    ];
    let edit = Edit::Update { name: name("b"), changes };
    let after = edited(&edit, KEPT);
    let env = after.lines().find(|line| line.contains("\"env\"")).unwrap();
    assert!(env.contains("\"Y\": \"2\"") && !env.contains("\"X\""), "{after}");
    assert!(after.contains("/* why */") && after.contains("\"idle\": 9"), "{after}");

    let changes = vec![("env.A".to_owned(), text("1")), ("env.B".to_owned(), text("2"))];
    let after = edited(&Edit::Update { name: name("my-files"), changes }, KEPT);
    let line = r#""My Files": { "command": "files", "args": ["a"], "env": {"A":"1", "B": "2"} }, // on one line"#;
    assert!(after.contains(line), "{after}");
}

#[test]
fn entry_is_removed_and_its_neighbours_stay() {
    let text = edited(&Edit::Remove { name: name("b") }, KEPT);
    assert!(!text.contains("\"b\"") && text.contains("\"My Files\"") && text.contains("// slow machine"), "{text}");
    Config::of(&Document::of(Path::new("/x/toolway.json"), &text).unwrap(), None).unwrap();
}

#[test]
fn an_edit_that_would_break_the_file_is_refused() {
    let broken = Edit::Update { name: name("b"), changes: vec![("command".to_owned(), Some(NewValue::Number(1.0)))] };
    assert_eq!(problem(&broken, KEPT), "/x/toolway.json:9: `mcpServers.b.command` must be a string");
    let twice = Edit::Add { label: "my files".to_owned(), entry: entry() };
    assert_eq!(
        problem(&twice, KEPT),
        "/x/toolway.json:6: `my files` and `My Files` both give the server name `my-files`; rename one of them"
    );
    assert_eq!(problem(&Edit::Remove { name: name("z") }, KEPT), "/x/toolway.json: unknown server `z`");
    assert!(problem(&Edit::Remove { name: name("z") }, "{,").starts_with("/x/toolway.json:1: "));
}

#[test]
fn invalid_entry_can_be_fixed_or_removed_and_does_not_block_other_edits() {
    let broken = KEPT.replace("\"X\": \"1\"", "\"X\": 1");
    let changes = vec![("env".to_owned(), None)];
    let right = edited(&Edit::Update { name: name("b"), changes }, &broken);
    Config::of(&Document::of(Path::new("/x/toolway.json"), &right).unwrap(), None).unwrap();
    assert!(!edited(&Edit::Remove { name: name("b") }, &broken).contains("\"b\""));
    assert!(edited(&Edit::Disable { name: name("my-files") }, &broken).contains("\"enabled\": false"));
    let again = Edit::Add { label: "B".to_owned(), entry: entry() };
    let same = "/x/toolway.json:10: `B` and `b` both give the server name `b`; rename one of them";
    assert_eq!(problem(&again, &broken), same);
}

#[test]
fn server_of_another_host_is_overridden_in_the_toolway_file() {
    let mut server = ServerConfig::process(name("theirs"), "x", &[]);
    server.label = "Theirs".to_owned();
    server.source.defined_by = DefinedBy::User;
    let on_theirs = |edit: &Edit, text: &str| match edit_text(edit, Some(&server), Path::new("/x/toolway.json"), text) {
        Ok(Change::Text { text, .. }) => text,
        other => panic!("{other:?}"),
    };
    let off = on_theirs(&Edit::Disable { name: name("theirs") }, "{}\n");
    assert_eq!(off, "{\n  \"mcpServers\": {\n    \"Theirs\": {\n      \"enabled\": false\n    }\n  }\n}\n");
    let on = on_theirs(&Edit::Enable { name: name("theirs") }, &off);
    assert_eq!(on, off.replace("false", "true"));
}

#[test]
fn yaml_is_not_edited_but_the_lines_are_returned() {
    let file = Path::new("/x/toolway.yaml");
    let add = Edit::Add { label: "Two words".to_owned(), entry: entry() };
    let Change::Lines { lines, advice, .. } = edit_text(&add, None, file, "autoConnect: true\n").unwrap() else {
        panic!("lines");
    };
    assert_eq!(advice, "Add these lines under `mcpServers` in /x/toolway.yaml.");
    assert_eq!(lines, "\"Two words\":\n  command: \"npx\"\n  args: [\"-y\",\"x\"]\n  env:\n    KEY: \"${KEY}\"\n");
    let indented: String = lines.lines().map(|line| format!("  {line}\n")).collect();
    let whole = Document::of(file, &format!("mcpServers:\n{indented}")).unwrap();
    assert!(Config::of(&whole, None).unwrap().find("two-words").is_some());

    let text = "mcpServers:\n  a:\n    command: x\n    disabled: true\n";
    let Change::Lines { lines, advice, .. } = edit_text(&Edit::Enable { name: name("a") }, None, file, text).unwrap()
    else {
        panic!("lines");
    };
    assert_eq!(lines, "");
    assert_eq!(advice, "Remove `disabled` and `enabled` under `mcpServers.a` in /x/toolway.yaml.");
}

#[test]
fn change_is_refused_if_the_file_was_changed_in_the_meantime() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("toolway.json");
    let add = |label: &str| Edit::Add { label: label.to_owned(), entry: entry() };
    let (one, two) = (super::plan(&add("one"), None, &file).unwrap(), super::plan(&add("two"), None, &file).unwrap());
    one.write().unwrap();
    let refused = two.write().unwrap_err().to_string();
    assert!(refused.ends_with("toolway.json: the file was changed in the meantime; try again"), "{refused}");
    super::plan(&add("two"), None, &file).unwrap().write().unwrap();

    let config = Config::read(&file, None).unwrap();
    let off = super::plan(&Edit::Disable { name: name("one") }, config.find("one"), Path::new("/nowhere.json"));
    off.unwrap().write().unwrap();
    let config = Config::read(&file, None).unwrap();
    assert_eq!(["one", "two"].map(|name| config.find(name).unwrap().is_enabled()), [false, true]);
}

#[test]
fn entry_of_another_host_is_not_removed() {
    let mut server = ServerConfig::process(name("theirs"), "x", &[]);
    server.source.format = crate::server::Format::Cursor;
    let refused = super::plan(&Edit::Remove { name: name("theirs") }, Some(&server), Path::new("/x/toolway.json"));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "the program: `theirs` is defined in a file of cursor, which is never changed; disable the server instead"
    );
}

#[test]
fn replaced_file_keeps_its_permissions() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("a/toolway.json"), folder.path().join("link.json"));
    super::replace(&file, "one").unwrap();
    let mode = || std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    super::replace(&link, "two").unwrap();
    assert_eq!((std::fs::read_to_string(&file).unwrap().as_str(), mode()), ("two", 0o640));
    assert!(link.is_symlink());
    assert_eq!(std::fs::read_dir(folder.path().join("a")).unwrap().count(), 1);
}

#[test]
fn a_rule_is_added_on_one_line_and_comments_stay() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("toolway.json");
    let rule = NewValue::Object(vec![("then".to_owned(), NewValue::Text("ask".to_owned()))]);
    let planned = |index| match plan_rule(&file, &rule, index, DefinedBy::User).unwrap() {
        Change::Text { text, .. } => text,
        other @ Change::Lines { .. } => panic!("{other:?}"),
    };
    assert_eq!(planned(0), "{\n  \"policy\": {\n    \"rules\": [\n      {\"then\":\"ask\"}\n    ]\n  }\n}\n");
    let text = "{ // mine\n  \"policy\": {\n    \"rules\": [\n      { \"then\": \"deny\" }, // why\n      { \"then\": \"allow\" }\n    ]\n  }\n}\n";
    std::fs::write(&file, text).unwrap();
    for index in 0..=2 {
        let after = planned(index);
        let kept: Vec<&str> = after.lines().filter(|line| !line.contains("\"then\":\"ask\"")).collect();
        assert_eq!(
            kept.join("\n").replace("},", "}").replace("} // why", "}, // why"),
            text.trim_end().replace("},\n", "}\n")
        );
        std::fs::write(folder.path().join("after.json"), &after).unwrap();
        let rules = rules_of(&folder.path().join("after.json")).unwrap();
        assert_eq!(rules[index].then, RuleEffect::Ask, "{after}");
    }
    let allows = NewValue::Object(vec![("then".to_owned(), NewValue::Text("allow".to_owned()))]);
    assert!(plan_rule(&file, &allows, 0, DefinedBy::Project).is_err());
    let yaml = plan_rule(&folder.path().join("toolway.yaml"), &rule, 0, DefinedBy::User).unwrap();
    assert!(matches!(yaml, Change::Lines { lines, .. } if lines == "- {\"then\":\"ask\"}\n"));
}

#[cfg(unix)]
#[test]
fn file_with_a_secret_in_clear_becomes_private() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("toolway.json");
    let written = |text: &str| {
        std::fs::write(&file, "{}").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        super::replace_config(&file, text).unwrap();
        std::fs::metadata(&file).unwrap().permissions().mode() & 0o777
    };
    let entry = |value: &str| {
        format!(r#"{{ "mcpServers": {{ "a": {{ "command": "x", "env": {{ "TOKEN": "{value}" }} }} }} }}"#)
    };
    assert_eq!(written(&entry("hunter2")), 0o600);
    assert_eq!(written(&entry("${secret:a-TOKEN}")), 0o644);
    assert_eq!(written(r#"{ "models": { "m": { "vendor": "openai", "model": "m", "apiKey": "hunter2" } } }"#), 0o600);
}
