//! Rules of other hosts: units of time, filters, unusable entries, file ownership.

use std::{collections::BTreeMap, time::Duration};

use toolway_config::{
    server::{DefinedBy, Format},
    warning::WarningKind,
};

use crate::{import::reached, world::World};

#[test]
fn timeouts_are_converted_from_the_unit_of_each_host() {
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
        // The other servers of this file: milliseconds, and five milliseconds are ignored.
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
fn unusable_entry_is_skipped_with_its_reason() {
    let world = World::of_all_hosts();
    let imported = world.import(&Format::OTHERS);
    let aside = imported.warnings.iter().filter(|warning| warning.kind == WarningKind::SetAside);
    let aside: Vec<String> = aside.map(|warning| world.stable(&warning.to_string())).collect();
    assert_eq!(
        aside,
        [
            "PROJECT/.mcp.json:18: `Untyped` is not used: it has a `url` but no `type`, so Claude Code reads it as a \
             program",
            "PROJECT/.vscode/mcp.json:16: `Socket` is not used: `Socket.url` must be an http or https URL",
            "HOME/.config/zed/settings.json:9: `Extension` is not used: it belongs to a Zed extension, which only \
             Zed can start",
            "HOME/.config/goose/config.yaml:31: `Socket` is not used: servers with a `socket` are not supported",
        ]
    );
    let ignored = imported.warnings.iter().filter(|warning| warning.kind == WarningKind::IgnoredKey);
    let ignored: Vec<String> = ignored.map(|warning| world.stable(&warning.to_string())).collect();
    assert!(
        ignored.contains(
            &"PROJECT/.vscode/mcp.json:12: `servers.Files.sandboxEnabled` is a key of other MCP hosts and has \
              no effect here: sandboxing is not supported"
                .to_owned()
        ),
        "{ignored:#?}"
    );
}

#[test]
fn servers_of_project_files_are_defined_by_the_project() {
    let world = World::of_all_hosts();
    for server in world.import(&Format::OTHERS).servers {
        let of_project = server.source.place.file.starts_with(world.project());
        assert_eq!(server.source.defined_by == DefinedBy::Project, of_project, "{}", server.source.place);
    }
}

#[test]
fn environment_variable_sets_the_path_of_a_file() {
    let mut world = World::of_all_hosts();
    let elsewhere = world.root().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("config.toml"), "[mcp_servers.There]\ncommand = \"there\"\n").unwrap();
    world.environment.insert("CODEX_HOME".into(), elsewhere.into());
    assert_eq!(reached(&world, Format::Codex), ["There: there | in HOME"]);
}

#[test]
fn unreadable_file_does_not_affect_the_others() {
    let world = World::of_all_hosts();
    std::fs::write(world.project().join(".cursor/mcp.json"), "{ not json").unwrap();
    let imported = world.import(&[Format::Cursor]);
    assert!(imported.servers.iter().any(|server| server.label == "Files"));
    let warning = world.stable(&imported.warnings[0].to_string());
    assert!(
        warning.starts_with("PROJECT/.cursor/mcp.json: the file is not used: PROJECT/.cursor/mcp.json:1: "),
        "{warning}"
    );
}
