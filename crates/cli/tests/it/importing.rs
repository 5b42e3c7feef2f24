//! The files of sixteen other applications: found, started as the application would, and copied.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use serde_json::Value;

use crate::{
    configuring::{run_in, stable},
    home::{Home, Ran, TOOLWAY, root},
    project_servers::accept,
};

/// A server that records how it was started, then runs the sample server.
const RECORDER: &str = "#!/bin/sh
{ echo \"$0\"; for word in \"$@\"; do echo \"$word\"; done; } > \"$HOME/started\"
pwd > \"$HOME/folder\"
env > \"$HOME/variables\"
exec TOOLWAY sample
";

/// Programs in the files of the fixture.
const PROGRAMS: [&str; 12] = [
    "files",
    "files-kind",
    "off",
    "unset",
    "here",
    "inside",
    "local",
    "everywhere",
    "older",
    "all",
    "foreign",
    "banned",
];

/// An entry as one application starts it.
struct Started {
    host: &'static str,
    /// Command line with the file name of the program.
    words: &'static [&'static str],
    variables: &'static [&'static str],
    folder: &'static str,
}

const STARTED: [Started; 16] = [
    Started {
        host: "claude-code",
        words: &["files-kind", "--token", "t0k", "$TOKEN", "fallback"],
        variables: &["KEY=t0k"],
        folder: "HOME/project",
    },
    Started {
        host: "claude-desktop",
        words: &["files", "${TOKEN}", "$TOKEN"],
        variables: &["API_KEY=sk-abcdef0123456789"],
        folder: "HOME",
    },
    Started {
        host: "cursor",
        words: &["files", "t0k", "HOME", "a/b/c"],
        variables: &["KEY=t0k", "MORE=from the file"],
        folder: "HOME",
    },
    Started {
        host: "vscode",
        words: &["files", "HOME/project/data", "HOME"],
        variables: &["KEY=t0k", "OTHER=t0k"],
        folder: "HOME/project",
    },
    Started {
        host: "copilot",
        words: &["files", "t0k", "$TOKEN", "TOKEN"],
        variables: &["KEY=t0k"],
        folder: "HOME/work",
    },
    Started {
        host: "codex",
        words: &["files", "${TOKEN}", "$TOKEN"],
        variables: &["PLAIN=value", "TOKEN=t0k", "KIND=kind"],
        folder: "HOME/srv",
    },
    Started {
        host: "gemini",
        words: &["files", "t0k", "t0k", "fallback", "5$"],
        variables: &["KEY=t0k"],
        folder: "HOME/data",
    },
    Started {
        host: "opencode",
        words: &["files", "--token", "t0k", "{not:this}", "${TOKEN}"],
        variables: &["KEY=s3cret-of-the-file"],
        folder: "HOME",
    },
    Started { host: "opencode-v2", words: &["files", "t0k"], variables: &["KEY=t0k"], folder: "HOME/project/sub" },
    Started { host: "zed", words: &["files", "${TOKEN}"], variables: &["PLAIN=$TOKEN"], folder: "HOME" },
    Started { host: "windsurf", words: &["files", "t0k"], variables: &["KEY=s3cret-of-the-file"], folder: "HOME" },
    Started {
        host: "goose",
        words: &["files", "--all", "${TOKEN}"],
        variables: &["PLAIN=value", "TOKEN=t0k"],
        folder: "HOME",
    },
    Started { host: "kiro", words: &["files", "t0k", "$TOKEN"], variables: &["KEY=t0k"], folder: "HOME" },
    Started { host: "cline", words: &["files", "t0k"], variables: &["KEY=t0k"], folder: "HOME/project/sub" },
    Started { host: "inspector", words: &["files", "${TOKEN}"], variables: &["PLAIN=$TOKEN"], folder: "HOME" },
    Started {
        host: "mcporter",
        words: &["files", "--token", "t0k", "t0k", "fallback", "$TOKEN"],
        variables: &["KEY=t0k"],
        folder: "HOME",
    },
];

/// A home with the files of all applications and with their programs.
fn with_all_hosts() -> Home {
    let home = Home::new();
    let fixture = root().join("crates/config/tests/hosts");
    copy(&home, &fixture.join("home"), "");
    copy(&home, &fixture.join("project"), "project");
    for folder in ["work", "data", "srv", "project/sub", "project/.git"] {
        fs::create_dir_all(home.path(folder)).unwrap();
    }
    for program in PROGRAMS {
        let file = home.write(&format!("bin/{program}"), &RECORDER.replace("TOOLWAY", TOOLWAY));
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    // Replaces keychain values by variables, and the one directory outside the home.
    swap(&home, "project/.vscode/mcp.json", "${input:tok}", "${env:TOKEN}");
    swap(&home, ".config/goose/config.yaml", "[TOKEN, STORED]", "[TOKEN]");
    swap(&home, ".codex/config.toml", "/srv", home.path("srv").to_str().unwrap());
    home
}

fn copy(home: &Home, from: &Path, to: &str) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = format!("{to}/{}", entry.file_name().to_str().unwrap());
        let target = target.trim_start_matches('/');
        if entry.file_type().unwrap().is_dir() {
            copy(home, &entry.path(), target);
            continue;
        }
        let text = fs::read_to_string(entry.path()).unwrap();
        let text = text.replace("@PROJECT@", home.path("project").to_str().unwrap());
        let folder = home.path("");
        home.write(target, &text.replace("/@HOME@", folder.to_str().unwrap().trim_end_matches('/')));
    }
}

fn swap(home: &Home, file: &str, old: &str, new: &str) {
    let text = fs::read_to_string(home.path(file)).unwrap();
    assert!(text.contains(old), "{file} has no {old}");
    home.write(file, &text.replace(old, new));
}

/// Runs the program in the project, with the variables of the fixture and one that must not leak.
fn run(home: &Home, words: &[&str]) -> Ran {
    let path = format!("{}:/usr/bin:/bin", home.path("bin").display());
    let mut command = home.command(words);
    command.current_dir(home.path("project"));
    command.envs([("PATH", path.as_str()), ("TOKEN", "t0k"), ("KIND", "kind"), ("PRIVATE_MARKER", "private")]);
    Ran::of(&command.output().unwrap())
}

/// A home that imports the files of one application, with all project servers accepted.
fn using(host: &str) -> Home {
    let home = with_all_hosts();
    if matches!(host, "vscode" | "copilot") {
        fs::remove_file(home.path("project/.mcp.json")).unwrap();
    }
    home.configure(&format!(r#"{{ "imports": ["{host}"] }}"#));
    let listed = run(&home, &["servers"]).json();
    for server in listed["servers"].as_array().unwrap() {
        if server["state"] == "not accepted" {
            assert_eq!(server["source"]["project"], true, "{server}");
            accept(&home, "project", server["name"].as_str().unwrap()).ok();
        }
    }
    home
}

/// The lines that a server recorded, with the home replaced.
fn lines(home: &Home, file: &str) -> Vec<String> {
    let text = fs::read_to_string(home.path(file)).unwrap_or_else(|_| panic!("no server wrote {file}"));
    stable(home, &text).lines().map(str::to_owned).collect()
}

#[test]
fn server_is_started_as_its_application_would() {
    for Started { host, words, variables, folder } in STARTED {
        let home = using(host);
        run(&home, &["ping", "files"]).ok();
        let started = lines(&home, "started");
        let program = Path::new(&started[0]).file_name().unwrap().to_str().unwrap();
        assert_eq!(program, words[0], "{host}");
        assert_eq!(started[1..], words[1..], "{host}");
        assert_eq!(lines(&home, "folder"), [folder], "{host}");
        let seen = lines(&home, "variables");
        for variable in variables {
            assert!(seen.iter().any(|line| line == variable), "{host}: {variable}\n{seen:#?}");
        }
        // No variable of ours except the default ones and those of the entry.
        let ours = ["PRIVATE_MARKER=", "TOKEN=", "KIND="];
        let allowed = |line: &str| variables.contains(&line);
        let leaked = seen.iter().find(|line| ours.iter().any(|name| line.starts_with(name)) && !allowed(line));
        assert_eq!(leaked, None, "{host}");
    }
}

#[test]
fn disabled_server_is_not_started() {
    for (host, off) in [
        ("claude-code", "off"),
        ("claude-code", "everywhere"),
        ("cursor", "off"),
        ("codex", "off"),
        ("gemini", "banned"),
        ("opencode", "off"),
        ("opencode-v2", "off"),
        ("zed", "off"),
        ("windsurf", "off"),
        ("goose", "off"),
        ("kiro", "off"),
        ("cline", "off"),
    ] {
        let home = using(host);
        let error = run(&home, &["ping", off]).failed(2, "disabled");
        assert!(
            error["message"].as_str().unwrap().starts_with(&format!("server `{off}` is disabled in ")),
            "{host}: {error}"
        );
        assert!(!home.path("started").exists(), "{host}");
    }
}

#[test]
fn unset_variable_is_reported_with_field_file_and_line() {
    for (host, place, field) in [
        ("claude-code", "project/.mcp.json:15", "env.KEY"),
        ("cursor", ".cursor/mcp.json:14", "env.KEY"),
        ("vscode", "project/.vscode/mcp.json:20", "env.KEY"),
        ("copilot", ".copilot/mcp-config.json:16", "env.KEY"),
        ("codex", ".codex/config.toml:28", "headers.Authorization"),
        ("gemini", ".gemini/settings.json:21", "env.KEY"),
        ("opencode", ".config/opencode/opencode.json:17", "env.KEY"),
        ("opencode-v2", "project/opencode.json:18", "env.KEY"),
        ("windsurf", ".codeium/windsurf/mcp_config.json:14", "env.KEY"),
        ("kiro", ".kiro/settings/mcp.json:15", "env.KEY"),
        ("cline", "project/.roo/mcp.json:18", "env.KEY"),
        ("mcporter", ".mcporter/mcporter.json:16", "env.KEY"),
    ] {
        let home = using(host);
        let error = run(&home, &["ping", "unset"]).failed(2, "config");
        let message = stable(&home, error["message"].as_str().unwrap());
        assert_eq!(
            message,
            format!("HOME/{place}: `Unset.{field}` needs the environment variable `NONE`, which is not set"),
            "{host}"
        );
        assert!(!home.path("started").exists(), "{host}");
    }
    let home = using("goose");
    let error = run(&home, &["ping", "unset"]).failed(2, "config");
    let message = stable(&home, error["message"].as_str().unwrap());
    let expected = "HOME/.config/goose/config.yaml:30: `Unset.env.NONE` needs the keychain entry `goose/NONE`: ";
    assert!(message.starts_with(expected), "{message}");
}

/// The view of one server of an application.
fn entry(found: &Value, host: &str, label: &str) -> Value {
    let files = found["files"].as_array().unwrap().iter().filter(|file| file["host"] == host);
    let mut servers =
        files.flat_map(|file| file["servers"].as_array().unwrap()).filter(|server| server["label"] == label);
    servers.next().unwrap_or_else(|| panic!("{host} has no {label}")).clone()
}

#[test]
fn all_files_are_found_and_nothing_is_changed() {
    let home = with_all_hosts();
    let before = snapshot(&home);
    let found = run(&home, &["import"]).json();
    for started in STARTED {
        let server = entry(&found, started.host, "Files");
        assert_eq!((&server["name"], &server["transport"]), (&"files".into(), &"stdio".into()), "{}", started.host);
        assert!(server["values"]["command"].is_string(), "{server}");
    }
    // Transport, time units, filters and secrets.
    for (host, label, transport) in [
        ("claude-code", "Stream", "sse"),
        ("gemini", "Remote", "http"),
        ("gemini", "Stream", "sse"),
        ("goose", "Stream", "sse"),
        ("windsurf", "Remote", "http"),
    ] {
        assert_eq!(entry(&found, host, label)["transport"], transport, "{host} {label}");
    }
    for (host, total) in [("claude-code", 120), ("gemini", 90), ("goose", 300), ("zed", 45), ("cline", 120)] {
        assert_eq!(entry(&found, host, "Files")["values"]["timeouts.total"], total, "{host}");
    }
    assert_eq!(entry(&found, "codex", "Files")["values"]["timeouts.connect"], 20);
    assert_eq!(entry(&found, "goose", "Files")["values"]["includeTools"], serde_json::json!(["read"]));
    assert_eq!(entry(&found, "claude-desktop", "Files")["values"]["env.API_KEY"], "•••");
    assert_eq!(entry(&found, "kiro", "Off")["enabled"], false);
    assert_eq!(entry(&found, "vscode", "Files").get("problem"), None);
    let problem = entry(&found, "cursor", "Unset")["problem"].as_str().unwrap().to_owned();
    assert!(
        problem
            .ends_with(".cursor/mcp.json:14: `Unset.env.KEY` needs the environment variable `NONE`, which is not set"),
        "{problem}"
    );
    let warnings: Vec<String> =
        found["files"].as_array().unwrap().iter().map(|file| file["warnings"].to_string()).collect();
    assert!(warnings.iter().any(|all| all.contains("it belongs to a Zed extension")), "{warnings:#?}");
    assert_eq!(snapshot(&home), before);
    assert!(!home.path("started").exists());
}

/// Every file of the home with its text.
fn snapshot(home: &Home) -> Vec<(String, String)> {
    fn walk(folder: &Path, files: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, files);
            } else {
                files.push((path.display().to_string(), fs::read_to_string(&path).unwrap_or_default()));
            }
        }
    }
    let mut files = Vec::new();
    walk(&home.path(""), &mut files);
    files.sort();
    files
}

#[test]
fn one_application_is_shown_as_text() {
    let home = with_all_hosts();
    let said = run(&home, &["import", "zed", "-o", "human"]);
    assert_eq!(
        stable(&home, said.ok()),
        "zed  HOME/.config/zed/settings.json\n\
         \x20 Files: stdio files ${TOKEN}\n\
         \x20 Older: stdio older a\n\
         \x20 Remote: http https://example.org/mcp\n\
         \x20 Off: stdio off  (disabled)\n\
         \x20 warning: HOME/.config/zed/settings.json:9: `Extension` is not used: it belongs to a Zed extension, \
         which only Zed can start\n"
    );
    let nothing = Home::new().run(&["import", "zed", "-o", "human"]);
    assert_eq!((nothing.ok(), nothing.talk.as_str()), ("", "no MCP configuration of `zed` found\n"));
    let nothing = Home::new().run(&["import", "-o", "human"]);
    assert_eq!(nothing.talk, "no MCP configuration of other applications found (16 checked)\n");
    home.run(&["import", "zebra"]).failed(2, "usage");
}

#[test]
fn copy_works_without_the_application_and_has_no_secrets() {
    let home = with_all_hosts();
    let said = run(&home, &["import", "claude-desktop", "--copy", "-o", "human"]);
    assert_eq!(
        stable(&home, said.ok()),
        "Copied `Files` of claude-desktop (HOME/.config/Claude/claude_desktop_config.json:3) to \
         HOME/.config/toolway/toolway.json\n  the secret in `env.API_KEY` of `files` is stored as `files-API_KEY` in \
         HOME/.local/state/toolway/vault/credentials, and the file refers to it\n"
    );
    let text = fs::read_to_string(home.path(".config/toolway/toolway.json")).unwrap();
    assert!(!text.contains("sk-abcdef") && text.contains("\"API_KEY\": \"${secret:files-API_KEY}\""), "{text}");
    fs::remove_file(home.path(".config/Claude/claude_desktop_config.json")).unwrap();
    run(&home, &["ping", "files"]).ok();
    let again = run(&home, &["import", "cursor", "--copy"]).json();
    let files = again["entries"].as_array().unwrap().iter().find(|entry| entry["label"] == "Files").unwrap();
    assert_eq!((&files["copied"], &files["because"]), (&false.into(), &"server `files` already exists".into()));
}

#[test]
fn copied_servers_start_the_same() {
    for Started { host, words, variables, folder } in STARTED {
        if matches!(host, "claude-code" | "vscode" | "opencode-v2" | "cline" | "claude-desktop") {
            continue;
        }
        let home = with_all_hosts();
        let copied = run(&home, &["import", host, "--copy"]).json();
        let files =
            copied["entries"].as_array().unwrap().iter().find(|it| it["label"] == "Files" && it["copied"] == true);
        assert!(files.is_some(), "{host}: {copied}");
        run(&home, &["ping", "files"]).ok();
        assert_eq!(lines(&home, "started")[1..], words[1..], "{host}");
        assert_eq!(lines(&home, "folder"), [folder], "{host}");
        let seen = lines(&home, "variables");
        assert!(variables.iter().all(|variable| seen.iter().any(|line| line == variable)), "{host}: {seen:#?}");
        let text = fs::read_to_string(home.path(".config/toolway/toolway.json")).unwrap();
        assert!(!text.contains("t0k") && !text.contains("s3cret"), "{host}: {text}");
    }
}

#[test]
fn project_servers_are_not_copied_to_the_user_file() {
    let home = with_all_hosts();
    let said = run(&home, &["import", "cline", "--copy"]).json();
    let files = said["entries"].as_array().unwrap().iter().find(|entry| entry["label"] == "Files").unwrap();
    let because = "it comes from a project file; use --project to copy it to the project's toolway.json";
    assert_eq!((&files["copied"], &files["because"]), (&false.into(), &because.into()));
    // In the project file it still has to be accepted.
    run(&home, &["import", "cline", "--copy", "--project"]).ok();
    assert!(home.path("project/toolway.json").exists());
    run(&home, &["ping", "files"]).failed(7, "not_accepted");
    accept(&home, "project", "files").ok();
    run(&home, &["ping", "files"]).ok();
    assert_eq!(lines(&home, "folder"), ["HOME/project/sub"]);
    assert!(run_in(&home, "project", &["servers", "-o", "raw"]).ok().lines().any(|name| name == "files"));
}
