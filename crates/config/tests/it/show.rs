//! `config show` and `config check`: every value with its origin, and all problems.

use serde_json::{Value, json};
use toolway_config::{
    NoKeychain,
    schema::schema,
    show::{Strictness, check, show},
};

use crate::world::World;

const OWN: &str = "home/.config/toolway/toolway.json";

#[test]
fn every_value_has_its_origin_and_secrets_are_masked() {
    let mut world = World::of_all_hosts();
    world.environment.insert("TOOLWAY_REQUEST_TIMEOUT".into(), "90".into());
    world.write(
        OWN,
        "{\n\"imports\": [\"claude-desktop\"],\n\"mcpServers\": {\n\"Files\": {\n\"enabled\": false },\n\
         \"Remote\": {\n\"url\": \"https://example.org/\",\n\"headers\": {\n\"Authorization\": \"Bearer abc\",\n\
         \"X-Key\": \"${TOKEN}\" }, \"timeouts\": { \"connect\": \"500ms\" } } } }",
    );
    let shown = show(&world.load().unwrap().config);
    let lines: Vec<String> = shown
        .iter()
        .map(|value| world.stable(&format!("{} = {} ({})", value.key, value.value, value.origin)))
        .collect();
    let own = "HOME/.config/toolway/toolway.json";
    let theirs = "HOME/.config/Claude/claude_desktop_config.json";
    assert_eq!(
        lines,
        [
            "autoConnect = true (default)".to_owned(),
            "requestTimeout = 90 (TOOLWAY_REQUEST_TIMEOUT)".to_owned(),
            "sessions = \"end\" (default)".to_owned(),
            "naming.prefix = \"always\" (default)".to_owned(),
            format!("imports = [\"claude-desktop\"] ({own}:2)"),
            "gateway.access = \"keys\" (default)".to_owned(),
            "gateway.listen = null (default)".to_owned(),
            "gateway.hosts = [] (default)".to_owned(),
            "gateway.publicUrl = null (default)".to_owned(),
            "gateway.tls = null (default)".to_owned(),
            "gateway.sse = false (default)".to_owned(),
            "gateway.callsPerClient = null (default)".to_owned(),
            "gateway.answerWithin = null (default)".to_owned(),
            "gateway.logLevel = \"info\" (default)".to_owned(),
            "gateway.pageSize = null (default)".to_owned(),
            "gateway.rootsWithin = null (default)".to_owned(),
            "limits.memory = null (default)".to_owned(),
            "limits.listing = null (default)".to_owned(),
            "limits.requestBody = null (default)".to_owned(),
            "limits.connections = null (default)".to_owned(),
            "signIn.vault = \"auto\" (default)".to_owned(),
            "signIn.clientMetadataUrl = null (default)".to_owned(),
            "policy.mode = null (default)".to_owned(),
            "policy.changedTools = null (default)".to_owned(),
            "policy.newTools = \"allow\" (default)".to_owned(),
            "policy.trustedFolders = {} (default)".to_owned(),
            "policy.hosts = [] (default)".to_owned(),
            "store.path = null (default)".to_owned(),
            "store.url = null (default)".to_owned(),
            "store.bodies = \"redacted\" (default)".to_owned(),
            "store.sync = \"normal\" (default)".to_owned(),
            "store.required = null (default)".to_owned(),
            "store.maxAge = 7776000 (default)".to_owned(),
            "store.maxBytes = 2147483648 (default)".to_owned(),
            "store.conversations.maxAge = null (default)".to_owned(),
            "store.audit.maxAge = null (default)".to_owned(),
            "validation.arguments = null (default)".to_owned(),
            "validation.results = \"report\" (default)".to_owned(),
            "defaultModel = null (default)".to_owned(),
            "tasks.background = true (default)".to_owned(),
            "tasks.ttl = null (default)".to_owned(),
            "tasks.pollInterval = 5 (default)".to_owned(),
            "sampling.allow = \"never\" (default)".to_owned(),
            "sampling.model = null (default)".to_owned(),
            "sampling.maxTokens = null (default)".to_owned(),
            "sampling.requestsPerHour = null (default)".to_owned(),
            "sampling.tokensPerDay = null (default)".to_owned(),
            "sampling.review = false (default)".to_owned(),
            "roots = [] (default)".to_owned(),
            "inbox.wait = false (default)".to_owned(),
            "agent.exposeResources = true (default)".to_owned(),
            "agent.exposePrompts = true (default)".to_owned(),
            "agent.compactAt = 0.8 (default)".to_owned(),
            "agent.resourceCache = 300 (default)".to_owned(),
            "agent.autoContext = false (default)".to_owned(),
            "cluster.key = null (default)".to_owned(),
            "cluster.acceptedKey = null (default)".to_owned(),
            "cluster.address = null (default)".to_owned(),
            "cluster.listen = null (default)".to_owned(),
            "cluster.lease = null (default)".to_owned(),
            format!("mcpServers.Files.command = \"files\" ({theirs}:3)"),
            format!("mcpServers.Files.args = [\"${{TOKEN}}\",\"$TOKEN\"] ({theirs}:3)"),
            format!("mcpServers.Files.env.API_KEY = \"•••\" ({theirs}:3)"),
            "mcpServers.Files.cwd = \"HOME\" (default)".to_owned(),
            format!("mcpServers.Files.enabled = false ({own}:5)"),
            "mcpServers.Files.required = false (default)".to_owned(),
            "mcpServers.Files.era = \"auto\" (default)".to_owned(),
            "mcpServers.Files.timeouts.connect = 30 (default)".to_owned(),
            "mcpServers.Files.timeouts.idle = null (default)".to_owned(),
            "mcpServers.Files.timeouts.total = 90 (TOOLWAY_REQUEST_TIMEOUT)".to_owned(),
            "mcpServers.Files.tools = true (default)".to_owned(),
            "mcpServers.Files.resources = true (default)".to_owned(),
            "mcpServers.Files.prompts = true (default)".to_owned(),
            "mcpServers.Files.reconnect.initialDelay = 1 (default)".to_owned(),
            "mcpServers.Files.reconnect.maxDelay = 30 (default)".to_owned(),
            "mcpServers.Files.sampling = true (default)".to_owned(),
            "mcpServers.Files.elicitation = true (default)".to_owned(),
            "mcpServers.Files.roots = [] (default)".to_owned(),
            "mcpServers.Files.lazy = false (default)".to_owned(),
            "mcpServers.Files.sharing = \"caller\" (default)".to_owned(),
            "mcpServers.Files.trust = \"read\" (default)".to_owned(),
            format!("mcpServers.Remote.url = \"https://example.org/\" ({own}:7)"),
            format!("mcpServers.Remote.headers.Authorization = \"•••\" ({own}:9)"),
            format!("mcpServers.Remote.headers.X-Key = \"${{TOKEN}}\" ({own}:10)"),
            "mcpServers.Remote.type = \"auto\" (default)".to_owned(),
            "mcpServers.Remote.allowInsecureHttp = false (default)".to_owned(),
            "mcpServers.Remote.auth.kind = \"none\" (default)".to_owned(),
            "mcpServers.Remote.enabled = true (default)".to_owned(),
            "mcpServers.Remote.required = false (default)".to_owned(),
            "mcpServers.Remote.era = \"auto\" (default)".to_owned(),
            format!("mcpServers.Remote.timeouts.connect = 0.5 ({own}:10)"),
            "mcpServers.Remote.timeouts.idle = null (default)".to_owned(),
            "mcpServers.Remote.timeouts.total = 90 (TOOLWAY_REQUEST_TIMEOUT)".to_owned(),
            "mcpServers.Remote.tools = true (default)".to_owned(),
            "mcpServers.Remote.resources = true (default)".to_owned(),
            "mcpServers.Remote.prompts = true (default)".to_owned(),
            "mcpServers.Remote.reconnect.initialDelay = 1 (default)".to_owned(),
            "mcpServers.Remote.reconnect.maxDelay = 30 (default)".to_owned(),
            "mcpServers.Remote.sampling = true (default)".to_owned(),
            "mcpServers.Remote.elicitation = true (default)".to_owned(),
            "mcpServers.Remote.roots = [] (default)".to_owned(),
            "mcpServers.Remote.lazy = false (default)".to_owned(),
            "mcpServers.Remote.sharing = \"caller\" (default)".to_owned(),
            "mcpServers.Remote.trust = \"read\" (default)".to_owned(),
        ]
    );
}

#[test]
fn secrets_in_arguments_variables_and_urls_are_masked() {
    let world = World::empty();
    world.write(
        OWN,
        r#"{ "mcpServers": {
            "a": { "command": "x", "args": ["--token", "hunter2", "--password=hunter3", "postgres://u:hunter4@db/x",
                "--level", "debug", "--key=${KEY:-hunter5}", "http://u:hunter6${TAIL}@h", "--token", "${TOKEN}"],
                "env": { "MYPASS": "hunter7", "DATABASE_URL": "postgres://u:hunter8@db", "MODE": "fast" } },
            "b": { "url": "https://user:hunter9@example.org/mcp?api_key=hunter10&page=2" } } }"#,
    );
    let shown = show(&world.load().unwrap().config);
    let value = |key: &str| shown.iter().find(|value| value.key == format!("mcpServers.{key}")).unwrap().value.clone();
    let arguments = [
        "--token",
        "•••",
        "--password=•••",
        "postgres://u:•••@db/x",
        "--level",
        "debug",
        "•••",
        "•••",
        "--token",
        "${TOKEN}",
    ];
    assert_eq!(value("a.args"), serde_json::json!(arguments));
    assert_eq!(value("a.env.MYPASS"), "•••");
    assert_eq!(value("a.env.DATABASE_URL"), "postgres://u:•••@db");
    assert_eq!(value("a.env.MODE"), "fast");
    assert_eq!(value("b.url"), "https://user:•••@example.org/mcp?api_key=•••&page=2");
}

#[test]
fn check_finds_unresolvable_references_and_unknown_keys() {
    let world = World::empty();
    world.write(
        OWN,
        "{ \"colour\": 1, \"mcpServers\": {\n\"a\": { \"command\": \"x\", \"args\": [\"${UNSET}\"] },\n\
         \"off\": { \"command\": \"${UNSET}\", \"enabled\": false } } }",
    );
    let loaded = world.load().unwrap();
    let problems = |strictness| {
        let checked = check(&loaded, &world.environment, &NoKeychain, strictness);
        let problems: Vec<String> = checked.problems.iter().map(|problem| world.stable(&problem.to_string())).collect();
        (problems, checked.warnings.len())
    };
    let unset =
        "HOME/.config/toolway/toolway.json:2: `a.args` needs the environment variable `UNSET`, which is not set";
    assert_eq!(problems(Strictness::Usual), (vec![unset.to_owned()], 1));
    let unknown = "HOME/.config/toolway/toolway.json:1: unknown key `colour` is ignored; did you mean `cluster`?";
    assert_eq!(problems(Strictness::Strict), (vec![unset.to_owned(), unknown.to_owned()], 0));
}

/// The paths of the values in a schema, with `a` for the names of a map.
fn leaves(schema: &Value, path: &str, found: &mut Vec<String>) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    if let Some(members) = schema["properties"].as_object() {
        members.iter().for_each(|(key, member)| leaves(member, &below(key), found));
    } else if schema["additionalProperties"].is_object() {
        leaves(&schema["additionalProperties"], &below("a"), found);
    } else {
        found.push(path.to_owned());
    }
}

#[test]
fn every_setting_of_the_schema_is_shown() {
    let world = World::empty();
    let model = json!({
        "vendor": "openai", "model": "m", "baseUrl": "https://example.org/", "allowInsecureHttp": true,
        "apiKey": "env:TOKEN", "headers": { "a": "secret" }, "maxTokens": 1, "contextWindow": 2, "images": false, "priority": { "cost": 0.5 }, "price": { "input": 3, "output": 15 },
    });
    let rule = json!({ "match": { "tool": "x" }, "then": "deny" });
    let assistant = json!({
        "description": "d", "model": "m", "system": "s", "servers": ["x"], "tools": ["x.*"], "approval": "auto",
        "trustedTools": ["x.y"], "tasks": { "background": true, "pollInterval": 1 }, "resources": ["notes://a"],
        "budgets": { "maxTurns": 1, "maxTokens": 2, "maxToolCalls": 3, "maxTime": 4 },
    });
    let file = json!({
        "assistants": { "a": assistant }, "models": { "a": model }, "policy": { "rules": [rule] }, "gateway": { "clients": { "a": { "mode": "ask", "limits": { "callsPerDay": 1 } } } },
    });
    world.write(OWN, &file.to_string());
    let shown: Vec<String> = show(&world.load().unwrap().config).into_iter().map(|value| value.key).collect();
    let mut keys = Vec::new();
    let mut settings = schema();
    let members = settings["properties"].as_object_mut().unwrap();
    members.retain(|key, _| !["$schema", "mcpServers"].contains(&key.as_str()));
    leaves(&settings, "", &mut keys);
    let is_shown = |key: &String| {
        shown.iter().any(|shown| {
            shown == key
                || shown.starts_with(&format!("{key}."))
                || (shown.ends_with(".limits") && key.starts_with(&format!("{shown}.")))
                || *key == format!("{shown}.cert")
                || *key == format!("{shown}.key")
        })
    };
    let missing: Vec<&String> = keys.iter().filter(|key| !is_shown(key)).collect();
    assert!(20 < keys.len() && missing.is_empty(), "{missing:?}");
}

#[test]
fn every_key_of_a_server_is_shown_if_it_is_set() {
    let world = World::empty();
    let schema = schema();
    let members = schema["$defs"]["server"]["properties"].as_object().unwrap();
    let mut missing = Vec::new();
    for (key, member) in members.iter().filter(|(_, member)| member["deprecated"] != true) {
        // Other names of the same values.
        let expected = match key.as_str() {
            "disabled" => "enabled",
            "retries" => "reconnect.attempts",
            other => other,
        };
        let is_shown = |base: Value| {
            let mut entry = base;
            entry[key] = member["examples"][0].clone();
            world.write(OWN, &json!({ "mcpServers": { "a": entry } }).to_string());
            let shown = world.load().map(|loaded| show(&loaded.config)).unwrap_or_default();
            let own = format!("mcpServers.a.{expected}");
            shown.iter().any(|value| value.key == own || value.key.starts_with(&format!("{own}.")))
        };
        if !is_shown(json!({ "command": "x" })) && !is_shown(json!({ "url": "https://example.org/" })) {
            missing.push(key);
        }
    }
    assert!(20 < members.len() && missing.is_empty(), "{missing:?}");
}
