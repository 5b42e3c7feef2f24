//! `toolway servers`: the list, and edits of one entry.

use std::os::unix::fs::PermissionsExt;

use crate::{
    configuring::{run_in, stable},
    home::{Home, Running, TOOLWAY},
    project_servers::accept,
};

const KEPT: &str = r#"// mine
{
    "autoConnect": true, // always
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

fn own(home: &Home) -> String {
    std::fs::read_to_string(home.path(".config/toolway/toolway.json")).unwrap()
}

#[test]
fn servers_are_listed_with_their_file_and_line() {
    let home = Home::with_sample();
    home.write(
        ".cursor/mcp.json",
        r#"{ "mcpServers": { "Far": { "url": "https://example.org/sse", "disabled": true } } }"#,
    );
    let text = std::fs::read_to_string(home.path(".config/toolway/toolway.json")).unwrap();
    home.configure(&text.replacen('{', "{ \"imports\": [\"cursor\"],", 1));
    home.write("work/toolway.json", r#"{ "mcpServers": { "theirs": { "command": "x" } } }"#);
    home.run(&["tools", "sample"]).ok();

    let said = run_in(&home, "work", &["servers", "-o", "human"]);
    let own = "HOME/.config/toolway/toolway.json";
    let expected = [
        "NAME        LABEL       TRANSPORT  STATE         TOOLS  DEFINED IN".to_owned(),
        "far         Far         http       disabled      -      HOME/.cursor/mcp.json:1".to_owned(),
        format!("old-sample  Old Sample  stdio      enabled       -      {own}:5"),
        format!("sample      sample      stdio      enabled       7      {own}:4"),
        "theirs      theirs      stdio      not accepted  -      HOME/work/toolway.json:1".to_owned(),
    ];
    assert_eq!(stable(&home, said.ok()).lines().collect::<Vec<_>>(), expected);

    let json = run_in(&home, "work", &["servers", "list"]).json();
    assert_eq!(json["servers"][0]["source"]["host"], "cursor");
    assert_eq!(json["servers"][0]["enabled"], false);
    assert_eq!(json["servers"][2]["tools"], 7);
    assert_eq!(
        (&json["servers"][3]["state"], &json["servers"][3]["source"]["project"]),
        (&"not accepted".into(), &true.into())
    );
    assert_eq!(home.run(&["servers", "-o", "raw"]).ok(), "far\nold-sample\nsample\n");
    assert!(Home::new().run(&["servers", "-o", "human"]).talk.starts_with("No server is configured."));
}

#[test]
fn added_server_can_be_called() {
    let home = Home::new();
    let stdio = format!("{TOOLWAY} sample");
    let said = home.run(&["servers", "add", "My Sample", "--stdio", &stdio, "--env", "LANG", "-o", "human"]);
    let own_file = "HOME/.config/toolway/toolway.json";
    assert_eq!(
        stable(&home, said.ok()),
        format!(
            "Added `my-sample` in {own_file}\n  command = \"{TOOLWAY}\"\n  args = [\"sample\"]\n  env.LANG = \"${{LANG}}\"\n"
        )
    );
    assert_eq!(home.run(&["call", "my-sample.echo", "text=hi", "-o", "raw"]).ok(), "hi\n");
    let mode = std::fs::metadata(home.path(".config/toolway/toolway.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    // A command after `--`, and a URL with a header that stays a reference.
    home.run(&["servers", "add", "words", "--", TOOLWAY, "sample", "--era", "legacy"]).ok();
    assert_eq!(home.run(&["ping", "words", "-o", "raw"]).ok(), "2025-11-25\n");
    let header = "Authorization: Bearer ${TOKEN}";
    let said = home.run(&["servers", "add", "far", "--url", "https://example.org/mcp", "--header", header]);
    assert_eq!(
        said.json()["values"][1],
        serde_json::json!({ "key": "headers.Authorization", "value": "Bearer ${TOKEN}" })
    );
    assert!(own(&home).contains("\"Authorization\": \"Bearer ${TOKEN}\""));

    // A secret in clear goes to the vault.
    let said = home.run(&["servers", "add", "keyed", "--stdio", "x", "--env", "API_KEY=hunter2hunter2", "-o", "human"]);
    assert!(
        said.ok().contains("env.API_KEY = \"${secret:keyed-API_KEY}\"") && !said.out.contains("hunter2"),
        "{said:?}"
    );
    assert!(said.talk.contains("is stored as `keyed-API_KEY`") && !own(&home).contains("hunter2"), "{said:?}");
}

#[test]
fn invalid_edit_changes_nothing() {
    let home = Home::new();
    home.configure(KEPT);
    let error = home.run(&["servers", "add", "my files", "--stdio", "x"]).failed(2, "exists");
    assert_eq!(error["hint"], "change it with `toolway servers update my-files …`");
    for words in [
        &["servers", "add", "new"][..],
        &["servers", "add", "日本", "--stdio", "x"],
        &["servers", "add", "new", "--stdio", "x", "--url", "https://example.org/"],
        &["servers", "add", "new", "--stdio", "x", "--", "y"],
        &["servers", "add", "new", "--url", "https://example.org/", "--header", "nonsense"],
        &["servers", "add", "new", "--stdio", "x", "--set", "zebra=1"],
    ] {
        home.run(words).failed(2, "arguments");
    }
    let error = home.run(&["servers", "add", "new", "--url", "ftp://example.org/"]).failed(2, "config");
    assert_eq!(error["message"], "server `new` was not added: --url must be an http or https URL");
    home.run(&["servers", "add", "new", "--stdio", "x", "--set", "retries=often"]).failed(2, "config");
    home.run(&["servers", "add", "new", "--stdio", "x", "--project"]).failed(2, "config");
    home.run(&["servers", "disable", "my-fils"]).failed(2, "unknown_server");
    assert_eq!(own(&home), KEPT);
}

#[test]
fn edit_changes_only_the_entry() {
    let home = Home::new();
    home.configure(KEPT);
    let file = home.path(".config/toolway/toolway.json");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();

    home.run(&["servers", "disable", "my-files"]).ok();
    assert_eq!(own(&home), KEPT.replace(r#""args": ["a"] }"#, r#""args": ["a"], "enabled": false }"#));
    home.run(&["tools", "my-files"]).failed(2, "disabled");
    let again = home.run(&["servers", "disable", "my-files"]).json();
    assert_eq!(again["changed"], false);
    home.run(&["servers", "enable", "My Files"]).ok();
    assert_eq!(own(&home), KEPT);

    let said = home.run(&["servers", "update", "b", "--env", "X=2", "--set", "description=Second", "-o", "human"]);
    assert!(said.ok().contains("  env.X = \"2\"\n") && said.out.contains("  description = \"Second\"\n"), "{said:?}");
    let expected = KEPT.replace(r#"{ "X": "1" }"#, "{ \"X\": \"2\" },\n            \"description\": \"Second\"");
    assert_eq!(own(&home), expected);
    home.run(&["servers", "update", "b", "--unset", "description", "--env", "X=1"]).ok();
    assert_eq!(own(&home), KEPT);

    home.run(&["servers", "update", "b", "--url", "https://example.org/mcp", "--set", "timeouts.total=2m"]).ok();
    let shown = home.run(&["config", "show", "mcpServers.b", "-o", "raw"]);
    assert!(shown.ok().contains("mcpServers.b.url=\"https://example.org/mcp\"\n"), "{shown:?}");
    assert!(shown.ok().contains("timeouts.total=120\n") && !shown.ok().contains(".command"), "{shown:?}");

    home.run(&["servers", "remove", "b"]).ok();
    home.run(&["servers", "remove", "b"]).failed(2, "unknown_server");
    assert!(own(&home).contains("\"My Files\": { \"command\": \"files\", \"args\": [\"a\"] }, // on one line"));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn files_of_other_applications_are_never_changed() {
    let home = Home::new();
    let theirs = format!(
        "{{ \"mcpServers\": {{ \"Sample\": {{ \"command\": \"{TOOLWAY}\", \"args\": [\"sample\"],\n \"disabled\": true }} }} }}"
    );
    let file = home.write(".cursor/mcp.json", &theirs);
    home.configure("{ \"imports\": [\"cursor\"] }\n");
    home.run(&["ping", "sample"]).failed(2, "disabled");
    home.run(&["servers", "enable", "sample"]).ok();
    home.run(&["ping", "sample"]).ok();
    home.run(&["servers", "update", "sample", "--env", "MORE=1"]).ok();
    let said = home.run(&["config", "show", "mcpServers.Sample.env.MORE", "-o", "human"]);
    assert!(stable(&home, said.ok()).contains("\"1\"    HOME/.config/toolway/toolway.json:"), "{said:?}");
    home.run(&["servers", "disable", "sample"]).ok();
    home.run(&["ping", "sample"]).failed(2, "disabled");
    let error = home.run(&["servers", "remove", "sample"]).failed(2, "config");
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .ends_with("`Sample` is defined in a file of cursor, which is never changed; disable the server instead"),
        "{error}"
    );
    assert_eq!(std::fs::read_to_string(file).unwrap(), theirs);
}

#[test]
fn project_server_of_another_application_can_only_be_enabled_or_disabled() {
    let home = Home::new();
    home.configure("{ \"imports\": [\"claude-code\"] }\n");
    let theirs = format!(r#"{{ "mcpServers": {{ "Sample": {{ "command": "{TOOLWAY}", "args": ["sample"] }} }} }}"#);
    let file = home.write("clone/.mcp.json", &theirs);
    accept(&home, "clone", "sample").ok();
    run_in(&home, "clone", &["servers", "disable", "sample"]).ok();
    run_in(&home, "clone", &["ping", "sample"]).failed(2, "disabled");
    run_in(&home, "clone", &["servers", "enable", "sample"]).ok();
    let ran = run_in(&home, "clone", &["ping", "sample"]);
    ran.ok();
    assert_eq!(ran.talk, "");
    run_in(&home, "clone", &["servers", "update", "sample", "--env", "TOKEN"]).failed(2, "not_ours");
    run_in(&home, "clone", &["servers", "remove", "sample"]).failed(2, "not_ours");
    assert_eq!(std::fs::read_to_string(file).unwrap(), theirs);
}

#[test]
fn yaml_edit_is_printed_instead_of_applied() {
    let home = Home::new();
    let yaml = "# mine\nmcpServers:\n  a:\n    command: x\n";
    let file = home.write(".config/toolway/toolway.yaml", yaml);
    let said = home.run(&["servers", "add", "new", "--stdio", "npx -y thing", "-o", "human"]);
    assert_eq!(said.ok(), "new:\n  command: \"npx\"\n  args: [\"-y\",\"thing\"]\n");
    assert_eq!(
        stable(&home, &said.talk),
        "YAML files are not edited. Add these lines under `mcpServers` in HOME/.config/toolway/toolway.yaml.\n"
    );
    let said = home.run(&["servers", "disable", "a"]).json();
    assert_eq!((&said["changed"], &said["lines"]), (&false.into(), &"enabled: false\n".into()));
    assert_eq!(std::fs::read_to_string(file).unwrap(), yaml);
}

#[test]
fn concurrent_edits_are_not_lost() {
    let home = Home::new();
    let names: Vec<String> = (0..8).map(|number| format!("server-{number}")).collect();
    let running: Vec<_> = names
        .iter()
        .map(|name| {
            Running::start(home.command(&["servers", "add", name, "--stdio", "x"]).stdout(std::process::Stdio::piped()))
        })
        .collect();
    for child in running {
        child.output().ok();
    }
    assert_eq!(home.run(&["servers", "-o", "raw"]).ok().lines().collect::<Vec<_>>(), names);
}

#[test]
fn names_are_completed() {
    let home = Home::with_sample();
    home.write("work/toolway.json", r#"{ "mcpServers": { "theirs": { "command": "x" } } }"#);
    let complete = |line: &str| {
        let words: Vec<&str> = ["__complete", "--"].into_iter().chain(line.split(' ')).collect();
        let ran = run_in(&home, "work", &words);
        ran.ok().lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(complete("servers disable "), ["old-sample", "sample"]);
    assert_eq!(complete("servers accept "), ["theirs"]);
    assert_eq!(complete("import cl"), ["claude-code", "claude-desktop", "cline"]);
    assert_eq!(complete("config s"), ["show", "schema"]);
    assert_eq!(complete("servers add x --pro"), ["--project", "--profile"]);
}

#[test]
fn current_folder_is_stored_for_a_relative_path() {
    let home = Home::new();
    let folder = home.folder("work").canonicalize().unwrap();
    let add = |name: &str, words: &[&str]| {
        let ran = run_in(&home, "work", &[&["servers", "add", name, "-o", "human", "--"], words].concat());
        ran.ok();
        ran
    };
    let ran = add("here", &["sh", "-c", "echo \"runs in $(pwd)\" >&2; exit 3", "."]);
    assert!(ran.out.contains(&format!("  cwd = {:?}\n", folder.display().to_string())), "{ran:?}");
    assert!(
        ran.talk.starts_with("toolway: `.` is relative to the current folder, so the server will run in "),
        "{ran:?}"
    );
    let error = home.run(&["ping", "here"]).failed(4, "ended")["message"].to_string();
    assert!(error.contains(&format!("runs in {}", folder.display())), "{error}");
    let ran = add("memory", &["npx", "-y", "server-memory"]);
    assert!(!ran.out.contains("cwd") && ran.talk.is_empty(), "{ran:?}");
    let ran = run_in(&home, "work", &["servers", "add", "notes", "-o", "human", "--cwd", "/tmp", "--", "server", "."]);
    assert!(ran.ok().contains("  cwd = \"/tmp\"\n") && ran.talk.is_empty(), "{ran:?}");
}
