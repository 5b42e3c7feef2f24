//! The files of sixteen other hosts, each read by its own rules.

use std::{collections::BTreeMap, time::Duration};

use serde_json::json;
use toolway_config::{
    Config,
    document::Document,
    edit::{Change, Edit, edit_text},
    import::copy,
    server::{Behind, Era, Format, Need},
    warning::WarningKind,
};

use crate::world::World;

/// Every server of a format as it would be reached; one that is off says so and is not looked at further.
fn reached(world: &World, format: Format) -> Vec<String> {
    let imported = world.import(&[format]);
    let line = |server: &toolway_config::ServerConfig| match server.is_enabled() {
        true => format!("{}: {}", server.label, world.line(server)),
        false => format!("{}: off", server.label),
    };
    imported.servers.iter().map(line).collect()
}

#[test]
fn claude_code() {
    let world = World::of_all_hosts();
    assert_eq!(
        reached(&world, Format::ClaudeCode),
        [
            "Files: files-kind --token t0k $TOKEN fallback | KEY=t0k | in PROJECT",
            "Remote: http https://example.org/kind | X-Key: t0k",
            "Stream: sse https://example.org/sse",
            "Off: off",
            "Unset: refused: PROJECT/.mcp.json:15: `Unset.env.KEY` needs the variable NONE, which is not set",
            "Local: local | in PROJECT",
            "Everywhere: off",
        ]
    );
}

#[test]
fn claude_desktop() {
    let world = World::of_all_hosts();
    assert_eq!(
        reached(&world, Format::ClaudeDesktop),
        ["Files: files ${TOKEN} $TOKEN | API_KEY=sk-abcdef0123456789 | in HOME"]
    );
}

#[test]
fn cursor() {
    let world = World::of_all_hosts();
    assert_eq!(
        reached(&world, Format::Cursor),
        [
            "Here: here project | in PROJECT",
            "Inside: inside | in PROJECT/sub",
            "Files: HOME/bin/files t0k HOME a/b/c | MORE=from the file | KEY=t0k | in HOME",
            "Remote: auto https://example.org/mcp | Authorization: Bearer t0k",
            "Off: off",
            "Unset: refused: HOME/.cursor/mcp.json:14: `Unset.env.KEY` needs the variable NONE, which is not set",
            "Foreign: refused: HOME/.cursor/mcp.json:19: `Foreign.args` has `${TOKEN}`, which nothing here can fill in",
        ]
    );
}

#[test]
fn vscode() {
    let world = World::of_all_hosts();
    std::fs::remove_file(world.project().join(".mcp.json")).unwrap();
    assert_eq!(
        reached(&world, Format::VsCode),
        [
            "Files: files PROJECT/data HOME | KEY=typed | OTHER=t0k | in PROJECT",
            "Remote: http https://example.org/mcp | X-Key: t0k",
            "Stream: sse https://example.org/sse",
            "Unset: refused: PROJECT/.vscode/mcp.json:20: `Unset.env.KEY` needs the variable NONE, which is not set",
        ]
    );
    let imported = world.import(&[Format::VsCode]);
    let inputs: Vec<_> = imported.inputs_of(&imported.servers[0]).map(|input| input.id.as_str()).collect();
    assert_eq!(inputs, ["tok"]);
    assert_eq!(imported.inputs_of(&imported.servers[1]).count(), 0);
}

#[test]
fn an_input_nobody_gave_is_asked_for_by_its_name() {
    let world = World::of_all_hosts();
    let imported = world.import(&[Format::VsCode]);
    let files = imported.servers.iter().find(|server| server.label == "Files").unwrap();
    let refused = files.endpoint(&world.environment, &toolway_config::NoKeychain).unwrap_err().to_string();
    assert_eq!(
        world.stable(&refused),
        "PROJECT/.vscode/mcp.json:11: `Files.env.KEY` needs the input `tok`, which nobody has given yet"
    );
}

#[test]
fn copilot() {
    let world = World::of_all_hosts();
    std::fs::remove_file(world.project().join(".mcp.json")).unwrap();
    assert_eq!(
        reached(&world, Format::CopilotCli),
        [
            "Files: files t0k $TOKEN TOKEN | KEY=t0k | in HOME/work",
            "All: all | in HOME",
            "Remote: http https://example.org/mcp | X-Key: t0k",
            "Unset: refused: HOME/.copilot/mcp-config.json:16: `Unset.env.KEY` needs the variable NONE, \
             which is not set",
        ]
    );
}

#[test]
fn codex() {
    let world = World::of_all_hosts();
    assert_eq!(
        reached(&world, Format::Codex),
        [
            "Files: files ${TOKEN} $TOKEN | PLAIN=value | TOKEN=t0k | KIND=kind | in /srv",
            "Remote: auto https://example.org/mcp | Authorization: Bearer t0k | X-Plain: plain | X-Kind: kind",
            "Off: off",
            "Unset: refused: HOME/.codex/config.toml:28: `Unset.headers.Authorization` needs the variable NONE, \
             which is not set",
        ]
    );
    assert_eq!(world.import(&[Format::Codex]).servers[0].need, Need::Required);
}

#[test]
fn gemini() {
    let world = World::of_all_hosts();
    assert_eq!(
        reached(&world, Format::GeminiCli),
        [
            "Files: files t0k t0k fallback 5$ | KEY=t0k | in HOME/data",
            "Remote: http https://example.org/mcp | X-Key: t0k",
            "Stream: sse https://example.org/sse",
            "Banned: off",
            "Unset: refused: HOME/.gemini/settings.json:21: `Unset.env.KEY` needs the variable NONE, which is not set",
        ]
    );
}

#[test]
fn opencode() {
    let world = World::of_all_hosts();
    assert_eq!(
        reached(&world, Format::Opencode),
        [
            "Files: files --token t0k {not:this} ${TOKEN} | KEY=s3cret-of-the-file | in HOME",
            "Remote: auto https://example.org/mcp | X-Key: t0k",
            "Off: off",
            "Unset: refused: HOME/.config/opencode/opencode.json:17: `Unset.env.KEY` needs the variable NONE, \
             which is not set",
        ]
    );
}

#[test]
fn opencode_in_its_second_form() {
    let world = World::of_all_hosts();
    assert_eq!(
        reached(&world, Format::OpencodeTwo),
        [
            "Files: files t0k | KEY=t0k | in PROJECT/sub",
            "Remote: auto https://example.org/mcp | X-Key: t0k",
            "Off: off",
            "Unset: refused: PROJECT/opencode.json:18: `Unset.env.KEY` needs the variable NONE, which is not set",
        ]
    );
}

#[test]
fn zed() {
    let world = World::of_all_hosts();
    assert_eq!(
        reached(&world, Format::Zed),
        [
            "Files: files ${TOKEN} | PLAIN=$TOKEN | in HOME",
            "Older: older a | X=1 | in HOME",
            "Remote: auto https://example.org/mcp | X-Key: ${TOKEN}",
            "Off: off",
        ]
    );
}

#[test]
fn windsurf() {
    let world = World::of_all_hosts();
    assert_eq!(
        reached(&world, Format::Windsurf),
        [
            "Files: files t0k | KEY=s3cret-of-the-file | in HOME",
            "Remote: auto https://example.org/kind | X-Key: t0k",
            "Off: off",
            "Unset: refused: HOME/.codeium/windsurf/mcp_config.json:14: `Unset.env.KEY` needs the variable NONE, \
             which is not set",
        ]
    );
}

#[test]
fn goose() {
    let world = World::of_all_hosts();
    assert_eq!(
        reached(&world, Format::Goose),
        [
            "Files: files --all ${TOKEN} | PLAIN=value | TOKEN=t0k | STORED=stored | in HOME",
            "Remote: http https://example.org/mcp | X-Plain: plain",
            "Stream: sse https://example.org/sse",
            "Off: off",
            "Unset: refused: HOME/.config/goose/config.yaml:30: `Unset.env.NONE` needs `NONE` of `goose` from the \
             keychain: there is no such entry",
        ]
    );
}

#[test]
fn kiro() {
    let world = World::of_all_hosts();
    assert_eq!(
        reached(&world, Format::Kiro),
        [
            "Files: files t0k $TOKEN | KEY=t0k | in HOME",
            "Remote: auto https://example.org/mcp | X-Key: t0k",
            "Off: off",
            "Unset: refused: HOME/.kiro/settings/mcp.json:15: `Unset.env.KEY` needs the variable NONE, \
             which is not set",
        ]
    );
}

#[test]
fn cline_and_its_relatives() {
    let world = World::of_all_hosts();
    assert_eq!(
        reached(&world, Format::Cline),
        [
            "Files: files t0k | KEY=t0k | in PROJECT/sub",
            "Remote: http https://example.org/mcp | X-Key: t0k",
            "Stream: sse https://example.org/sse",
            "Off: off",
            "Unset: refused: PROJECT/.roo/mcp.json:18: `Unset.env.KEY` needs the variable NONE, which is not set",
            "Stored: http https://example.org/mcp",
        ]
    );
}

#[test]
fn inspector() {
    let world = World::of_all_hosts();
    assert_eq!(
        reached(&world, Format::Inspector),
        [
            "Files: files ${TOKEN} | PLAIN=$TOKEN | in HOME",
            "Remote: http https://example.org/mcp | X-Key: ${TOKEN}",
            "Stream: sse https://example.org/sse",
        ]
    );
    assert_eq!(world.import(&[Format::Inspector]).servers[0].era, Era::Modern);
}

#[test]
fn mcporter() {
    let world = World::of_all_hosts();
    assert_eq!(
        reached(&world, Format::Mcporter),
        [
            "Files: files --token t0k t0k fallback $TOKEN | KEY=t0k | in HOME",
            "Remote: auto https://example.org/mcp | Authorization: Bearer t0k",
            "Unset: refused: HOME/.mcporter/mcporter.json:16: `Unset.env.KEY` needs the variable NONE, \
             which is not set",
        ]
    );
    assert_eq!(world.import(&[Format::Mcporter]).servers[0].era, Era::Legacy);
}

#[test]
fn each_host_has_its_own_unit_of_time() {
    let world = World::of_all_hosts();
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    let mut times = BTreeMap::new();
    for format in Format::OTHERS {
        for server in world.import(&[format]).servers {
            let (connect, total) = (seconds(server.timeouts.connect), seconds(server.timeouts.total));
            if server.label == "Files" || connect.is_some() {
                times.entry(format!("{format} {}", server.label)).or_insert((connect, total));
            }
        }
    }
    times.retain(|_, times| *times != (None, None));
    let expected = [
        // The others of one file: claude-code's is milliseconds, and five of them say nothing.
        ("claude-code Files", (None, Some(120.0))),
        ("cline Files", (None, Some(120.0))),
        ("codex Files", (Some(20.0), Some(90.0))),
        ("codex Remote", (Some(2.5), None)),
        ("gemini Files", (None, Some(90.0))),
        ("goose Files", (None, Some(300.0))),
        ("inspector Files", (Some(8.0), Some(60.0))),
        ("opencode Files", (Some(7.0), None)),
        ("opencode-v2 Files", (Some(9.0), Some(4.0))),
        ("opencode-v2 Off", (Some(9.0), None)),
        ("opencode-v2 Remote", (Some(9.0), None)),
        ("opencode-v2 Unset", (Some(9.0), None)),
        ("zed Files", (None, Some(45.0))),
    ];
    assert_eq!(times, expected.map(|(name, times)| (name.to_owned(), times)).into());
}

#[test]
fn filters_are_kept() {
    let world = World::of_all_hosts();
    for (format, label, passes) in [
        (Format::CopilotCli, "Files", [true, false]),
        (Format::CopilotCli, "All", [true, true]),
        (Format::Codex, "Files", [true, false]),
        (Format::GeminiCli, "Files", [true, false]),
        (Format::Opencode, "Files", [true, false]),
        (Format::Opencode, "Remote", [false, false]),
        (Format::Windsurf, "Files", [true, false]),
        (Format::Goose, "Files", [true, false]),
        (Format::Goose, "Remote", [true, true]),
        (Format::Kiro, "Files", [true, false]),
        (Format::Cline, "Files", [true, false]),
        (Format::Mcporter, "Files", [true, false]),
        (Format::ClaudeCode, "Remote", [true, true]),
    ] {
        let imported = world.import(&[format]);
        let last = imported.servers.iter().rfind(|server| server.label == label).unwrap();
        let got = ["read", "write"].map(|tool| last.filters.passes_tool(tool));
        assert_eq!(got, passes, "{format} {label}");
    }
}

#[test]
fn what_cannot_be_used_is_set_aside_with_its_reason() {
    let world = World::of_all_hosts();
    let imported = world.import(&Format::OTHERS);
    let aside = imported.warnings.iter().filter(|warning| warning.kind == WarningKind::SetAside);
    let aside: Vec<String> = aside.map(|warning| world.stable(&warning.to_string())).collect();
    assert_eq!(
        aside,
        [
            "PROJECT/.mcp.json:18: `Untyped` is not used: it has a `url` but no `type`, which that host takes for a \
             program",
            "PROJECT/.vscode/mcp.json:16: `Socket` is not used: `Socket.url` must be an http or https address",
            "HOME/.config/zed/settings.json:9: `Extension` is not used: it belongs to an extension of that editor, \
             which knows how to start it",
            "HOME/.config/goose/config.yaml:31: `Socket` is not used: it is reached through a socket, which is not \
             supported",
        ]
    );
    let ignored = imported.warnings.iter().filter(|warning| warning.kind == WarningKind::IgnoredKey);
    let ignored: Vec<String> = ignored.map(|warning| world.stable(&warning.to_string())).collect();
    assert!(
        ignored.contains(
            &"PROJECT/.vscode/mcp.json:12: `servers.Files.sandboxEnabled` is known from other hosts and changes \
              nothing here: programs are not confined here"
                .to_owned()
        ),
        "{ignored:#?}"
    );
}

#[test]
fn a_project_stands_behind_its_own_files_only() {
    let world = World::of_all_hosts();
    for server in world.import(&Format::OTHERS).servers {
        let of_project = server.source.place.file.starts_with(world.project());
        assert_eq!(server.source.behind == Behind::Project, of_project, "{}", server.source.place);
    }
}

#[test]
fn a_host_can_be_told_where_its_file_is() {
    let mut world = World::of_all_hosts();
    let elsewhere = world.root().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("config.toml"), "[mcp_servers.There]\ncommand = \"there\"\n").unwrap();
    world.environment.insert("CODEX_HOME".into(), elsewhere.into());
    assert_eq!(reached(&world, Format::Codex), ["There: there | in HOME"]);
}

#[test]
fn a_file_that_cannot_be_read_does_not_hide_the_others() {
    let world = World::of_all_hosts();
    std::fs::write(world.project().join(".cursor/mcp.json"), "{ not json").unwrap();
    let imported = world.import(&[Format::Cursor]);
    assert!(imported.servers.iter().any(|server| server.label == "Files"));
    let said = world.stable(&imported.warnings[0].to_string());
    assert!(said.starts_with("PROJECT/.cursor/mcp.json: the file is not used: PROJECT/.cursor/mcp.json:1: "), "{said}");
}

#[test]
fn a_copy_says_the_same_without_the_secrets() {
    let world = World::of_all_hosts();
    for format in Format::OTHERS {
        for server in world.import(&[format]).servers {
            let Ok(copied) = copy(&server, Some(&world.home())) else {
                // A placeholder nobody knows there: in a file that several hosts read, or just wrong.
                let shared = server.source.place.file.ends_with(".mcp.json") && format != Format::ClaudeCode;
                assert!(shared || server.label == "Foreign", "{}", server.source.place);
                continue;
            };
            let entry = copied.entry.json();
            assert!(!entry.to_string().contains("sk-abcdef"), "{entry}");
            let file = world.home().join("toolway.json");
            let add = Edit::Add { label: copied.label.clone(), entry: copied.entry.clone() };
            let Change::Text { text, .. } = edit_text(&add, None, &file, "").unwrap() else { panic!("JSON") };
            let texts = server.transport.texts();
            let mut again = world.environment.clone();
            for left_out in &copied.left_out {
                let (_, written) = texts.iter().find(|(key, _)| *key == left_out.key).unwrap();
                let token = written.written().expose().rsplit(' ').next().unwrap();
                again.insert(left_out.variable.clone().into(), token.into());
            }
            let config = Config::of(&Document::of(&file, &text).unwrap(), Some(&world.home())).unwrap();
            let ours = config.servers.values().next().unwrap();
            let (mine, theirs) = (world.line_in(ours, &again), world.line(&server));
            match theirs.starts_with("refused") {
                true => assert!(mine.starts_with("refused"), "{format} {mine}"),
                false => assert_eq!(mine, theirs, "{format} {text}"),
            }
            assert_eq!(ours.filters.tool_names, server.filters.tool_names, "{format}");
            assert_eq!((ours.timeouts, ours.standing), (server.timeouts, server.standing), "{format}");
        }
    }
}

#[test]
fn each_secret_that_was_left_out_is_named() {
    let world = World::empty();
    let text = r#"{ "mcpServers": {
        "Git Hub": {
            "command": "x",
            "args": ["--api-key", "hunter2", "--level=debug", "--token=ghp_0123456789abcdef", "plain"],
            "env": { "GITHUB_TOKEN": "ghp_0123456789abcdef", "LOG_LEVEL": "debug", "WORD": "${literal}" } },
        "Remote": { "type": "http", "url": "https://ada:s3cret@example.org/?q=1",
            "headers": { "Authorization": "Bearer abc", "Accept": "text/plain" } },
        "Keyed": { "type": "http", "url": "https://example.org/mcp?api_key=hunter2" }
    } }"#;
    std::fs::create_dir_all(world.home().join(".mcp-inspector")).unwrap();
    std::fs::write(world.home().join(".mcp-inspector/mcp.json"), text).unwrap();
    let copied = world
        .import(&[Format::Inspector])
        .servers
        .iter()
        .map(|server| copy(server, Some(&world.home())).unwrap())
        .collect::<Vec<_>>();
    let left_out = |index: usize| {
        let all = copied[index].left_out.iter();
        all.map(|left| format!("{} {}", left.key, left.variable)).collect::<Vec<_>>()
    };
    assert_eq!(
        copied[0].entry.json(),
        json!({
            "command": "x",
            "args": ["--api-key", "${GIT_HUB_API_KEY}", "--level=debug", "--token=${GIT_HUB_TOKEN}", "plain"],
            "env": { "GITHUB_TOKEN": "${GITHUB_TOKEN}", "LOG_LEVEL": "debug", "WORD": "$${literal}" },
        })
    );
    assert_eq!(left_out(0), ["args GIT_HUB_API_KEY", "args GIT_HUB_TOKEN", "env.GITHUB_TOKEN GITHUB_TOKEN"]);
    assert_eq!(
        copied[1].entry.json(),
        json!({
            "url": "https://ada:${REMOTE_PASSWORD}@example.org/?q=1",
            "headers": { "Authorization": "Bearer ${REMOTE_AUTHORIZATION}", "Accept": "text/plain" },
            "type": "http",
        })
    );
    assert_eq!(copied[2].entry.json()["url"], "${KEYED_URL}");
}

#[test]
fn no_secret_inside_an_argument_or_a_variable_is_copied() {
    let world = World::empty();
    let text = r#"{ "mcpServers": { "Db": {
        "command": "x",
        "args": ["postgres://u:hunter1@db/x", "--url=http://a:hunter2@h/?token=hunter3&page=2", "--password=hunter4=5",
            "-e", "MYPASS=hunter6", "--header", "Authorization: Bearer hunter7", "redis://:${PW}@cache", "plain"],
        "env": { "DATABASE_URL": "postgres://u:hunter8@db/x", "MYPASS": "hunter9", "MODE": "${MODE:-fast}",
            "API_KEY": "${API_KEY:-hunter10}" } } } }"#;
    world.write("home/.claude.json", text);
    let servers = world.import(&[Format::ClaudeCode]).servers;
    let copied = copy(&servers[0], Some(&world.home())).unwrap();
    let left_out: Vec<_> = copied.left_out.iter().map(|left| format!("{} {}", left.key, left.variable)).collect();
    assert_eq!(
        copied.entry.json(),
        json!({
            "command": "x",
            "args": ["postgres://u:${DB_PASSWORD}@db/x",
                "--url=http://a:${DB_PASSWORD_2}@h/?token=${DB_TOKEN}&page=2", "--password=${DB_PASSWORD_3}",
                "-e", "MYPASS=${DB_MYPASS}", "--header", "Authorization: Bearer ${DB_HEADER}",
                "redis://:${PW}@cache", "plain"],
            "env": { "DATABASE_URL": "${DATABASE_URL}", "MYPASS": "${MYPASS}", "MODE": "${MODE:-fast}",
                "API_KEY": "${API_KEY}" },
        })
    );
    assert_eq!(
        left_out,
        [
            "args DB_PASSWORD",
            "args DB_PASSWORD_2",
            "args DB_TOKEN",
            "args DB_PASSWORD_3",
            "args DB_MYPASS",
            "args DB_HEADER",
            "env.DATABASE_URL DATABASE_URL",
            "env.MYPASS MYPASS",
            "env.API_KEY API_KEY",
        ]
    );
}
