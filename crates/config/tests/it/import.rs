//! The files of sixteen other hosts, each read by its own rules.

use toolway_config::server::{Era, Format, Need};

use crate::world::World;

/// Every server of a format with its resolved endpoint, or `off` if it is disabled.
pub(crate) fn reached(world: &World, format: Format) -> Vec<String> {
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
            "Unset: refused: PROJECT/.mcp.json:15: `Unset.env.KEY` needs the environment variable `NONE`, which is not set",
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
            "Unset: refused: HOME/.cursor/mcp.json:14: `Unset.env.KEY` needs the environment variable `NONE`, which is not set",
            "Foreign: refused: HOME/.cursor/mcp.json:19: `Foreign.args` has the unknown placeholder `${TOKEN}`",
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
            "Unset: refused: PROJECT/.vscode/mcp.json:20: `Unset.env.KEY` needs the environment variable `NONE`, which is not set",
        ]
    );
    let imported = world.import(&[Format::VsCode]);
    let inputs: Vec<_> = imported.inputs_of(&imported.servers[0]).map(|input| input.id.as_str()).collect();
    assert_eq!(inputs, ["tok"]);
    assert_eq!(imported.inputs_of(&imported.servers[1]).count(), 0);
}

#[test]
fn error_about_a_missing_input_names_it() {
    let world = World::of_all_hosts();
    let imported = world.import(&[Format::VsCode]);
    let files = imported.servers.iter().find(|server| server.label == "Files").unwrap();
    let refused = files.endpoint(&world.environment, &toolway_config::NoKeychain).unwrap_err().to_string();
    let stable = world.stable(&refused);
    let start = "PROJECT/.vscode/mcp.json:11: `Files.env.KEY` needs the input `tok`; store its value with \
                 `toolway secret set files-tok-";
    assert!(stable.starts_with(start), "{stable}");
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
            "Unset: refused: HOME/.copilot/mcp-config.json:16: `Unset.env.KEY` needs the environment variable `NONE`, \
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
            "Unset: refused: HOME/.codex/config.toml:28: `Unset.headers.Authorization` needs the environment variable `NONE`, \
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
            "Unset: refused: HOME/.gemini/settings.json:21: `Unset.env.KEY` needs the environment variable `NONE`, which is not set",
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
            "Unset: refused: HOME/.config/opencode/opencode.json:17: `Unset.env.KEY` needs the environment variable `NONE`, \
             which is not set",
        ]
    );
}

#[test]
fn opencode_version_two() {
    let world = World::of_all_hosts();
    assert_eq!(
        reached(&world, Format::OpencodeTwo),
        [
            "Files: files t0k | KEY=t0k | in PROJECT/sub",
            "Remote: auto https://example.org/mcp | X-Key: t0k",
            "Off: off",
            "Unset: refused: PROJECT/opencode.json:18: `Unset.env.KEY` needs the environment variable `NONE`, which is not set",
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
            "Unset: refused: HOME/.codeium/windsurf/mcp_config.json:14: `Unset.env.KEY` needs the environment variable `NONE`, \
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
            "Unset: refused: HOME/.config/goose/config.yaml:30: `Unset.env.NONE` needs the keychain entry \
             `goose/NONE`: no such entry",
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
            "Unset: refused: HOME/.kiro/settings/mcp.json:15: `Unset.env.KEY` needs the environment variable `NONE`, \
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
            "Unset: refused: PROJECT/.roo/mcp.json:18: `Unset.env.KEY` needs the environment variable `NONE`, which is not set",
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
            "Unset: refused: HOME/.mcporter/mcporter.json:16: `Unset.env.KEY` needs the environment variable `NONE`, \
             which is not set",
        ]
    );
    assert_eq!(world.import(&[Format::Mcporter]).servers[0].era, Era::Legacy);
}
