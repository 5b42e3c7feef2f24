//! Entries of other hosts copied into a Toolway file, without their secrets.

use serde_json::json;
use toolway_config::{
    Config,
    document::Document,
    edit::{Change, Edit, edit_text},
    import::copy,
    server::Format,
};

use crate::world::World;

#[test]
fn copy_is_equivalent_and_has_no_secrets() {
    let world = World::of_all_hosts();
    for format in Format::OTHERS {
        for server in world.import(&[format]).servers {
            let Ok(copied) = copy(&server, Some(&world.home())) else {
                // A placeholder that this host does not support: in a file that several hosts read, or invalid.
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
fn each_omitted_secret_is_reported() {
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
fn secrets_in_arguments_and_variables_are_not_copied() {
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
