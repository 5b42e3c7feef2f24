//! An invalid entry or project file: everything else works, and the reason is shown.

use serde_json::{Value, json};

use crate::{
    configuring::{run_in, stable},
    home::{Home, TOOLWAY},
};

const OWN: &str = "HOME/.config/toolway/toolway.json";
const REASON: &str = "`mcpServers.Bad.env.A` must be a string";

/// The sample server, an invalid entry, and an entry that overrides a server that no longer exists.
fn one_bad() -> Home {
    let home = Home::new();
    home.configure(&format!(
        "{{ \"mcpServers\": {{\n\"good\": {{ \"command\": \"{TOOLWAY}\", \"args\": [\"sample\"] }},\n\
         \"Bad\": {{ \"command\": \"x\", \"env\": {{ \"A\": 5 }} }},\n\"gone\": {{ \"enabled\": false }}\n}} }}"
    ));
    home
}

#[test]
fn invalid_entry_is_reported_and_does_not_affect_others() {
    let home = one_bad();
    let said = home.run(&["call", "good.echo", "text=hi", "-o", "raw"]);
    assert_eq!(said.ok(), "hi\n");
    assert!(
        stable(&home, &said.talk).contains(&format!("toolway: {OWN}:3: `Bad` is not used: {REASON}\n")),
        "{said:?}"
    );
    assert_eq!(home.run(&["tools"]).json()["tools"].as_array().unwrap().len(), 7);

    for words in [&["call", "bad.echo"][..], &["tools", "Bad"], &["status", "bad"], &["@bad", "ping"]] {
        let failure = home.run(words).failed(2, "config");
        let message = stable(&home, failure["message"].as_str().unwrap());
        assert_eq!(message, format!("{OWN}:3: `Bad` is not used: {REASON}"), "{words:?}");
    }
    let checked = home.run(&["config", "check", "-o", "human"]);
    assert_eq!(checked.code, 2);
    let gone = "`mcpServers.gone.command` must be the program to start; for an HTTP server set `url` instead";
    assert_eq!(
        stable(&home, &checked.out),
        format!("{OWN}:3: `Bad` is not used: {REASON}\n{OWN}:4: `gone` is not used: {gone}\n")
    );
}

#[test]
fn invalid_entry_can_be_fixed_or_removed() {
    let home = one_bad();
    home.run(&["servers", "update", "bad", "--unset", "env", "--stdio", &format!("{TOOLWAY} sample")]).ok();
    home.run(&["ping", "bad"]).ok();
    home.run(&["servers", "remove", "gone"]).ok();
    home.run(&["config", "check"]).ok();
    home.run(&["servers", "remove", "gone"]).failed(2, "unknown_server");
}

#[test]
fn invalid_project_file_does_not_affect_user_servers() {
    let home = Home::with_sample();
    for text in ["{ \"autoConnect\": true }", "{ \"policy\": { \"mode\": \"full\" } }", "{ \"mcpServers\": [,"] {
        home.write("work/toolway.json", text);
        let said = run_in(&home, "work", &["call", "sample.echo", "text=hi", "-o", "raw"]);
        assert_eq!(said.ok(), "hi\n", "{text}");
        let talk = stable(&home, &said.talk);
        assert!(talk.starts_with("toolway: HOME/work/toolway.json:1: the project file is not used: "), "{talk}");
        assert_eq!(run_in(&home, "work", &["config", "check"]).code, 2, "{text}");
    }
    assert_eq!(home.run(&["call", "sample.echo", "text=hi"]).talk, "", "no warning outside the project");
}

#[test]
fn unused_entries_are_shown_with_their_reason() {
    let home = one_bad();
    home.write(
        "work/toolway.json",
        r#"{ "mcpServers": { "theirs": { "command": "x" }, "worse": { "url": "ftp://x" } } }"#,
    );
    for (command, code) in [("servers", 0), ("status", 0), ("doctor", 4)] {
        let ran = run_in(&home, "work", &[command]);
        assert_eq!(ran.code, code, "{ran:?}");
        let said: Value = serde_json::from_str(&ran.out).unwrap();
        let names = |key: &str| said[key].as_array().unwrap().iter().map(|it| it["name"].clone()).collect::<Vec<_>>();
        assert_eq!(
            (names("servers"), names("invalid")),
            (vec![json!("good"), json!("theirs")], ["bad", "worse", "gone"].map(Value::from).to_vec()),
            "{command}"
        );
        assert_eq!(said["servers"][1]["state"], "not accepted");
        let bad = &said["invalid"][0];
        assert_eq!(
            (&bad["state"], &bad["reason"], &bad["source"]["line"]),
            (&json!("set aside"), &json!(REASON), &json!(3))
        );

        let human = run_in(&home, "work", &[command, "-o", "human"]);
        let lines = stable(&home, &human.out);
        assert!(lines.contains("set aside") && lines.contains(REASON), "{command}: {lines}");
        assert!(!human.talk.contains(REASON), "printed only once: {}", human.talk);
        let rows = run_in(&home, "work", &[command, "-o", "ndjson"]).out.lines().count();
        assert_eq!(rows, 5, "{command}");
    }
    home.write("work/toolway.json", r#"{ "autoConnect": true }"#);
    for command in ["servers", "status", "doctor"] {
        let said: Value = serde_json::from_str(&run_in(&home, "work", &[command]).out).unwrap();
        let file = said["invalid"].as_array().unwrap().iter().find(|it| it.get("label").is_none()).unwrap();
        let reason = file["reason"].as_str().unwrap();
        assert!(reason.starts_with("`autoConnect` is not allowed: a project file may only"), "{command}: {reason}");
        assert!(file["source"]["file"].as_str().unwrap().ends_with("work/toolway.json"), "{command}");
    }
}
