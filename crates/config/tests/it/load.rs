//! Layers of settings and their precedence.

use std::time::Duration;

use toolway_config::{
    DefaultLogLevel, Loaded, Origin, Paths, Prefix, Sources,
    consent::Accepted,
    layers::Flags,
    load,
    server::{Format, Start},
    warning::{Strictness, WarningKind},
};

use crate::world::World;

const OWN: &str = "home/.config/toolway/toolway.json";

fn warnings(world: &World, loaded: &Loaded) -> Vec<String> {
    loaded.config.warnings.iter().map(|warning| world.stable(&warning.to_string())).collect()
}

#[test]
fn nearer_layer_takes_precedence_and_origin_is_kept() {
    let mut world = World::empty();
    let own =
        world.write(OWN, "{\n\"autoConnect\": false,\n\"requestTimeout\": 60,\n\"naming\": {\"prefix\": \"auto\"}}");
    world.environment.insert("TOOLWAY_REQUEST_TIMEOUT".into(), "90".into());
    world.environment.insert("TOOLWAY_NAMING_PREFIX".into(), "".into());
    let flags = Flags { prefix: Some(Prefix::Never), ..Flags::default() };
    let settings = world.load_with(&Accepted::default(), flags).unwrap().config.settings;

    assert_eq!(settings.start.value, Start::WhenNeeded);
    assert_eq!(settings.start.origin.to_string(), format!("{}:2", own.display()));
    assert_eq!(settings.request_timeout.value, Some(Duration::from_secs(90)));
    assert_eq!(settings.request_timeout.origin, Origin::Variable("TOOLWAY_REQUEST_TIMEOUT"));
    assert_eq!((settings.prefix.value, settings.prefix.origin), (Prefix::Never, Origin::Flag("--prefix")));
    assert_eq!(settings.imports.origin, Origin::Default);
}

#[test]
fn invalid_environment_variable_is_named() {
    let mut world = World::empty();
    world.environment.insert("TOOLWAY_REQUEST_TIMEOUT".into(), "soon".into());
    assert_eq!(
        world.problem(),
        "the environment: `TOOLWAY_REQUEST_TIMEOUT` must be a duration: seconds, or a string such as `5m`"
    );
}

#[test]
fn gateway_settings_are_read_and_validated() {
    let world = World::empty();
    world.write(
        OWN,
        r#"{ "gateway": { "callsPerClient": 7, "answerWithin": "2m", "logLevel": "off", "pageSize": 50 } }"#,
    );
    let gateway = world.load().unwrap().config.settings.gateway;
    assert_eq!((gateway.calls_per_client.value, gateway.page_size.value), (Some(7), Some(50)));
    assert_eq!(gateway.answer_within.value, Some(Duration::from_secs(120)));
    assert_eq!(gateway.log_level.value, DefaultLogLevel::Off);
    for (wrong, key) in [("\"logLevel\": \"loud\"", "logLevel"), ("\"pageSize\": 0", "pageSize")] {
        world.write(OWN, &format!("{{ \"gateway\": {{ {wrong} }} }}"));
        assert!(world.problem().contains(&format!("`gateway.{key}` must be")), "{}", world.problem());
    }
}

#[test]
fn empty_configuration_is_valid() {
    let world = World::empty();
    for text in [None, Some(""), Some("// nothing yet\n"), Some("{}"), Some("{\"$schema\": \"x\"}")] {
        if let Some(text) = text {
            world.write(OWN, text);
        }
        let loaded = world.load().unwrap();
        assert!(loaded.config.servers.is_empty() && loaded.config.warnings.is_empty(), "{text:?}");
        assert_eq!(loaded.config.settings.start.value, Start::AtOnce);
        assert_eq!(loaded.own_file.unwrap(), world.root().join(OWN));
    }
}

#[test]
fn document_can_be_yaml() {
    let world = World::empty();
    let text = "# mine\nautoConnect: false\nmcpServers:\n  My Files:\n    command: files\n    args: [a, \"1\"]\n    \
                timeouts: {total: 2m}\n    headers:\n  remote: {url: \"https://example.org/mcp\"}\n";
    world.write("home/.config/toolway/toolway.yaml", text);
    let loaded = world.load().unwrap();
    let files = loaded.config.find("my-files").unwrap();
    assert_eq!(world.line(files), "files a 1 | in HOME");
    assert_eq!(files.source.place.line, 5);
    assert_eq!(loaded.config.timeouts(files).total, Duration::from_secs(120));
    assert_eq!(loaded.config.start(files), Start::WhenNeeded);
    assert_eq!(world.line(loaded.config.find("remote").unwrap()), "auto https://example.org/mcp");

    world.write(OWN, "{}");
    let problem = world.problem();
    assert!(problem.ends_with("toolway.yaml` exists too; keep only one of them"), "{problem}");
}

#[test]
fn yaml_alias_is_refused() {
    let world = World::empty();
    world.write("home/.config/toolway/toolway.yml", "a: &a [x]\nb: *a\n");
    assert_eq!(
        world.problem(),
        "HOME/.config/toolway/toolway.yml:2: YAML aliases are not supported; write the value out"
    );
}

#[test]
fn unknown_key_of_a_settings_object_is_an_error() {
    let world = World::empty();
    for (text, expected) in [
        ("{\"naming\": {\"prefx\": \"auto\"}}", "1: unknown key `naming.prefx`; did you mean `prefix`?"),
        ("{\"naming\": {\"prefix\": \"maybe\"}}", "1: `naming.prefix` must be `always`, `auto` or `never`"),
        ("{\"mcpServers\": []}", "1: `mcpServers` must be an object"),
    ] {
        world.write(OWN, text);
        assert_eq!(world.problem(), format!("HOME/.config/toolway/toolway.json:{expected}"));
    }
}

#[test]
fn unknown_key_of_an_entry_is_an_error_only_in_strict_mode() {
    let world = World::empty();
    world.write(OWN, "{\"mcpServers\": {\"a\": {\"command\": \"x\",\n\"retrys\": 3,\n\"alwaysAllow\": []}}}");
    let loaded = world.load().unwrap();
    let kinds: Vec<_> = loaded.config.warnings.iter().map(|warning| warning.kind).collect();
    assert_eq!(kinds, [WarningKind::UnknownKey, WarningKind::IgnoredKey]);
    assert_eq!(
        world.stable(&loaded.config.warnings[0].as_error(Strictness::Strict).unwrap().to_string()),
        "HOME/.config/toolway/toolway.json:2: unknown key `mcpServers.a.retrys` is ignored; did you mean `retries`?"
    );
    assert!(loaded.config.warnings[0].as_error(Strictness::Usual).is_none());
    assert!(loaded.config.warnings[1].as_error(Strictness::Strict).is_none());
}

#[test]
fn imported_server_is_changed_by_the_user_file() {
    let world = World::of_all_hosts();
    world.write(
        OWN,
        r#"{ "imports": ["kiro"], "mcpServers": {
            "Files": { "env": { "KEY": "mine", "MORE": "1" }, "excludeTools": ["read"], "timeouts": { "total": 7 } },
            "Off": { "enabled": true },
            "Remote": { "command": "another" },
            "Gone": { "enabled": false }
        } }"#,
    );
    let loaded = world.load().unwrap();
    let files = loaded.config.find("files").unwrap();
    assert_eq!(world.line(files), "files t0k $TOKEN | KEY=mine | MORE=1 | in HOME");
    assert_eq!((files.source.format, files.filters.passes_tool("read")), (Format::Kiro, false));
    assert_eq!(loaded.config.timeouts(files).total, Duration::from_secs(7));
    assert!(loaded.config.find("off").unwrap().is_enabled());
    assert_eq!(world.line(loaded.config.find("remote").unwrap()), "another | in HOME");
    let warnings = warnings(&world, &loaded);
    assert!(
        warnings
            .iter()
            .any(|warning| warning.ends_with("set `url` instead; no imported file defines a server of this name")),
        "{warnings:#?}"
    );
}

#[test]
fn files_of_other_hosts_are_not_used_without_imports() {
    let world = World::of_all_hosts();
    let loaded = world.load().unwrap();
    assert!(loaded.config.servers.is_empty() && loaded.proposals.is_empty());
}

#[test]
fn file_given_by_the_user_is_the_only_one() {
    let world = World::empty();
    world.write(OWN, "{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}");
    world.write("project/toolway.json", "{\"mcpServers\": {\"b\": {\"command\": \"x\"}}}");
    let named = world.write("named.json", "{\"mcpServers\": {\"c\": {\"command\": \"x\"}}}");
    let directory = world.project();
    let sources = Sources {
        environment: &world.environment,
        paths: &Paths::of(&world.environment),
        named: Some(&named),
        project: Some(toolway_config::load::ProjectStart { directory: &directory, user: 0 }),
        flags: Flags::default(),
        accepted: &Accepted::default(),
    };
    let loaded = load(&sources).unwrap();
    let names: Vec<_> = loaded.config.servers.keys().map(|name| name.as_str()).collect();
    assert_eq!((names, loaded.proposals.len()), (vec!["c"], 0));
    assert_eq!(loaded.config.find("c").unwrap().source.folder, Some(world.home()));
}
