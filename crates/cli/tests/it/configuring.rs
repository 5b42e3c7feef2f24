//! `toolway config`: values, their origins, errors and paths.

use std::path::Path;

use crate::home::{Home, Ran, TOOLWAY, root};

/// Runs the program in a directory of the home.
pub(crate) fn run_in(home: &Home, folder: &str, words: &[&str]) -> Ran {
    Ran::of(&home.command(words).current_dir(home.path(folder)).output().unwrap())
}

/// Replaces the path of the home by `HOME`.
pub(crate) fn stable(home: &Home, text: &str) -> String {
    text.replace(home.path("").to_str().unwrap().trim_end_matches('/'), "HOME")
}

const OWN: &str = "HOME/.config/toolway/toolway.json";

#[test]
fn every_value_is_shown_with_its_origin() {
    let home = Home::new();
    home.configure(
        "{\n  \"autoConnect\": false,\n  \"mcpServers\": {\n    \"Files\": {\n      \"command\": \"files\",\n      \
         \"env\": { \"API_KEY\": \"hunter2hunter2\", \"REF\": \"${TOKEN}\" }\n    }\n  }\n}",
    );
    let mut command = home.command(&["config", "show", "-o", "human", "--timeout", "7"]);
    command.env("TOOLWAY_NAMING_PREFIX", "auto");
    let said = Ran::of(&command.output().unwrap());
    let text = stable(&home, said.ok());
    let rows: Vec<String> = text
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join(" | "))
        .collect();
    for row in [
        "KEY | VALUE | FROM".to_owned(),
        format!("autoConnect | false | {OWN}:2"),
        "requestTimeout | 7 | --timeout".to_owned(),
        "naming.prefix | \"auto\" | TOOLWAY_NAMING_PREFIX".to_owned(),
        "imports | [] | default".to_owned(),
        format!("mcpServers.Files.command | \"files\" | {OWN}:5"),
        format!("mcpServers.Files.env.API_KEY | \"•••\" | {OWN}:6"),
        format!("mcpServers.Files.env.REF | \"${{TOKEN}}\" | {OWN}:6"),
        "mcpServers.Files.cwd | \"HOME\" | default".to_owned(),
        "mcpServers.Files.timeouts.total | 7 | --timeout".to_owned(),
    ] {
        assert!(rows.contains(&row), "{row}\n{rows:#?}");
    }
    assert!(!text.contains("hunter2"), "{text}");

    let json = home.run(&["config", "show", "mcpServers.Files.command"]).json();
    let own = home.path(".config/toolway/toolway.json");
    let expected = serde_json::json!({ "values": [{
        "key": "mcpServers.Files.command", "value": "files",
        "origin": { "from": "file", "file": own.to_str().unwrap(), "line": 5 },
    }] });
    assert_eq!(json, expected);
    assert_eq!(home.run(&["config", "show", "autoConnect", "-o", "raw"]).ok(), "autoConnect=false\n");
    home.run(&["config", "show", "zebra"]).failed(2, "unknown_key");
}

#[test]
fn project_layer_is_between_user_and_environment() {
    let home = Home::new();
    home.configure(r#"{ "mcpServers": { "a": { "command": "a" }, "b": { "command": "b" } } }"#);
    home.write("work/toolway.json", r#"{ "mcpServers": { "b": { "enabled": false, "excludeTools": ["x"] } } }"#);
    std::fs::create_dir_all(home.path("work/deep")).unwrap();
    let shown = run_in(&home, "work/deep", &["config", "show", "mcpServers.b.enabled", "-o", "human"]);
    assert!(stable(&home, shown.ok()).contains("false  HOME/work/toolway.json:1"), "{shown:?}");
    assert_eq!(home.run(&["config", "show", "mcpServers.b.enabled", "-o", "raw"]).ok(), "mcpServers.b.enabled=true\n");
    // With --config no other file is read.
    let named = ["config", "show", "mcpServers.b.enabled", "--config", "../.config/toolway/toolway.json", "-o", "raw"];
    assert_eq!(run_in(&home, "work", &named).ok(), "mcpServers.b.enabled=true\n");
}

#[test]
fn check_reports_file_and_line() {
    let home = Home::new();
    home.run(&["config", "check"]).ok();
    home.configure(
        "{\n\"colour\": 1,\n\"mcpServers\": {\n\"a\": { \"command\": \"x\", \"args\": [\"${UNSET}\"] },\n\
         \"b\": { \"command\": \"x\", \"retrys\": 3 },\n\
         \"off\": { \"command\": \"${UNSET}\", \"enabled\": false } } }",
    );
    let checked = home.run(&["config", "check", "-o", "human"]);
    assert_eq!(checked.code, 2);
    assert_eq!(
        stable(&home, &checked.out),
        format!(
            "{OWN}:4: `a.args` needs the environment variable `UNSET`, which is not set\n\
             {OWN}:5: unknown key `mcpServers.b.retrys` is ignored; did you mean `retries`? (warning)\n\
             {OWN}:2: unknown key `colour` is ignored; did you mean `cluster`? (warning)\n"
        )
    );
    assert_eq!(checked.talk, "toolway: the configuration has 1 error\n");

    let strict = home.run(&["config", "check", "--strict"]);
    strict.failed(2, "config");
    let findings: serde_json::Value = serde_json::from_str(&strict.out).unwrap();
    let lines: Vec<_> = findings["problems"].as_array().unwrap().iter().map(|found| found["line"].clone()).collect();
    assert_eq!(lines, [4, 5, 2]);
    assert_eq!(findings["problems"][1]["file"], home.path(".config/toolway/toolway.json").to_str().unwrap());
    assert_eq!(findings["warnings"].as_array().unwrap().len(), 0);

    let mut command = home.command(&["config", "check"]);
    assert_eq!(Ran::of(&command.env("UNSET", "set").output().unwrap()).code, 0);
    home.configure("{\n\"mcpServers\": {\n");
    let broken = home.run(&["config", "check", "-o", "human"]);
    assert_eq!(broken.code, 2);
    assert!(stable(&home, &broken.out).starts_with(&format!("{OWN}:")), "{broken:?}");
}

#[test]
fn paths_are_shown() {
    let home = Home::new();
    let own = home.path(".config/toolway/toolway.json");
    assert_eq!(home.run(&["config", "path", "-o", "raw"]).ok(), format!("{}\n", own.display()));
    let project = home.write("work/toolway.yaml", "mcpServers: {}\n");
    let paths = run_in(&home, "work", &["config", "path"]).json();
    let real = project.canonicalize().unwrap();
    assert_eq!((paths["user"].as_str(), paths["project"].as_str()), (own.to_str(), real.to_str()));
    assert_eq!(paths["accepted"], home.path(".local/state/toolway/accepted.json").to_str().unwrap());
    let human = home.run(&["config", "path", "-o", "human"]);
    assert!(human.ok().contains("does not exist"), "{human:?}");
    // A YAML file is used if there is one.
    let yaml = home.write(".config/toolway/toolway.yaml", "{}\n");
    assert_eq!(home.run(&["config", "path", "-o", "raw"]).ok(), format!("{}\n", yaml.display()));
}

#[test]
fn schema_matches_the_reference() {
    let said: serde_json::Value = Home::new().run(&["config", "schema"]).json();
    let written = std::fs::read_to_string(root().join("docs/reference/config.schema.json")).unwrap();
    assert_eq!(said, serde_json::from_str::<serde_json::Value>(&written).unwrap());
}

#[test]
fn warnings_about_imported_files_are_shown_only_by_check() {
    let home = Home::new();
    home.configure(r#"{ "imports": ["kiro"] }"#);
    let entry = format!(
        r#"{{ "mcpServers": {{ "k": {{ "command": "{TOOLWAY}", "args": ["sample"], "autoApprove": [] }} }} }}"#
    );
    home.write(".kiro/settings/mcp.json", &entry);
    let said = home.run(&["call", "k.echo", "text=hi", "-o", "raw"]);
    assert_eq!((said.ok(), said.talk.as_str()), ("hi\n", ""));
    let checked = home.run(&["config", "check"]).json();
    let message = checked["warnings"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("`mcpServers.k.autoApprove` is a key of other MCP hosts"), "{message}");
    assert!(Path::new(checked["warnings"][0]["file"].as_str().unwrap()).ends_with(".kiro/settings/mcp.json"));
}
