//! Files of three further shapes, given by the user: read directly, and imported.

use std::{path::Path, time::Duration};

use toolway_config::{
    ConfigError, Loaded, Paths, SamplingPermission, Sources,
    consent::Accepted,
    import::{SearchRoots, copy, read_named},
    layers::Flags,
    load,
    server::{
        Format, Offered, Start, Transport, Withheld,
        auth::{Auth, ClientProof, Grant},
    },
    show::{Strictness, check},
};

use crate::world::{Chain, World};

const MCP_SECTION: &str = r#"
provider: {name: ollama}
mcp:
  auto_connect: false
  request_timeout_seconds: 45
  expose_resources_tool: true
  servers:
    - id: files
      transport:
        type: stdio
        executable: npx
        args: [-y, files]
        env: {KEY: "${TOKEN}"}
        working_dir: /srv
        timeout_seconds: 5
    - id: remote_2
      enabled: false
      tools_enabled: false
      resources_enabled: true
      prompts_enabled: true
      sampling_enabled: true
      elicitation_enabled: false
      transport:
        type: http
        endpoint: https://example.org/mcp
        headers: {X-Key: "${TOKEN}"}
        oauth: {client_id: me, client_secret: "${TOKEN}", redirect_port: 8123, metadata_url: "https://example.org/as"}
"#;

const SERVER_MAP: &str = r#"{
  "servers": {
    "Files": {
      "transport": "stdio", "command": "npx -y 'my files'", "trust": true, "timeout": 2500,
      "includeTools": ["read_*"], "excludeTools": ["read_all"], "includePrompts": ["a"], "excludePrompts": ["b"]
    },
    "keyed": { "transport": "http", "url": "https://example.org/mcp", "auth": { "type": "api-key", "apiKey": "${TOKEN}" } },
    "google": { "transport": "sse", "url": "https://example.org/sse", "auth": { "type": "google-credentials" } },
    "signed": { "url": "https://example.org/mcp", "auth": { "type": "oauth", "clientId": "me", "scopes": ["a"] } },
    "off": { "command": "x", "disabled": true }
  },
  "globalSettings": { "defaultTimeout": 60000, "debugMode": true, "trustedFolders": ["/srv"] }
}"#;

const SERVER_LIST: &str = r#"[
  { "name": "plain", "transport": "stdio", "command": "files --all", "timeout": 1500, "retryAttempts": 3 },
  { "name": "none", "transport": "http", "url": "https://example.org/1", "authentication": { "type": "none" } },
  { "name": "bearer", "transport": "http", "url": "https://example.org/2",
    "authentication": { "type": "bearer", "token": "${TOKEN}" } },
  { "name": "keyed", "transport": "http", "url": "https://example.org/3",
    "authentication": { "type": "api-key", "key": "${TOKEN}", "header": "X-Team" } },
  { "name": "basic", "transport": "http", "url": "https://example.org/4",
    "authentication": { "type": "basic", "username": "ada", "password": "${TOKEN}" } },
  { "name": "oauth", "transport": "sse", "url": "https://example.org/5", "enabled": false,
    "authentication": { "type": "oauth2", "clientId": "me", "clientSecret": "${TOKEN}" } }
]"#;

const SAMPLING: &str = r#"
mcp_sampling_enabled: true
mcp_sampling_requires_approval: false
mcp:
  mcp_sampling_max_tokens: 500
  mcp_sampling_rate_limit: 30
  servers:
    - id: quiet
      transport: {type: stdio, executable: quiet}
    - id: asks
      sampling_enabled: true
      mcp_sampling_max_tokens: 100
      transport: {type: stdio, executable: asks}
    - id: free
      mcp_sampling_enabled: true
      mcp_sampling_requires_approval: false
      transport: {type: stdio, executable: free}
"#;

#[test]
fn names_of_others_for_sampling_mean_the_same() {
    let world = World::empty();
    let file = world.write("config.yaml", SAMPLING);
    let config = load_named(&world, &file).unwrap().config;
    let top = &config.settings.sampling.value;
    assert_eq!(
        (top.allow, top.max_tokens, top.requests_per_hour),
        (Some(SamplingPermission::Always), Some(500), Some(30))
    );
    let of = |name: &str| &config.servers[&name.parse().unwrap()].sampling;
    assert_eq!(of("quiet").allow, Some(SamplingPermission::Never));
    assert_eq!((of("asks").allow, of("asks").max_tokens), (Some(SamplingPermission::Ask), Some(100)));
    assert_eq!(of("free").allow, Some(SamplingPermission::Always));
    let pasted = r#"{
      "servers": { "a": { "command": "a", "allowSampling": true }, "b": { "command": "b", "allowSampling": false } },
      "globalSettings": { "defaultTimeout": 60000 }
    }"#;
    let file = world.write("servers.json", pasted);
    let config = load_named(&world, &file).unwrap().config;
    let allow = |name: &str| config.servers[&name.parse().unwrap()].sampling.allow;
    assert_eq!((allow("a"), allow("b")), (Some(SamplingPermission::Ask), Some(SamplingPermission::Never)));
}

fn load_named(world: &World, file: &Path) -> Result<Loaded, ConfigError> {
    load(&Sources {
        environment: &world.environment,
        paths: &Paths::of(&world.environment),
        named: Some(file),
        project: None,
        flags: Flags::default(),
        accepted: &Accepted::default(),
    })
}

/// Each server with its endpoint and its total timeout.
fn lines(world: &World, loaded: &Loaded) -> Vec<String> {
    let config = &loaded.config;
    let line = |server: &toolway_config::ServerConfig| {
        let off = if server.is_enabled() { "" } else { " (off)" };
        format!("{}: {} {:?}{off}", server.label, world.line(server), config.timeouts(server).total)
    };
    config.servers.values().map(line).collect()
}

fn warnings(world: &World, loaded: &Loaded) -> Vec<String> {
    loaded.config.warnings.iter().map(|warning| world.stable(&warning.to_string())).collect()
}

fn auth_of<'a>(loaded: &'a Loaded, name: &str) -> &'a Auth<toolway_config::interpolate::Template> {
    let Transport::Http(http) = &loaded.config.find(name).unwrap().transport else { panic!("a URL") };
    http.auth.as_deref().unwrap()
}

#[test]
fn mcp_section_with_a_list_is_read_directly() {
    let world = World::empty();
    let loaded = load_named(&world, &world.write("home/agent.yaml", MCP_SECTION)).unwrap();
    assert_eq!(
        lines(&world, &loaded),
        ["files: npx -y files | KEY=t0k | in /srv 5s", "remote_2: http https://example.org/mcp | X-Key: t0k 45s (off)"]
    );
    assert_eq!(warnings(&world, &loaded), Vec::<String>::new());
    let settings = &loaded.config.settings;
    assert_eq!(settings.start.value, Start::WhenNeeded);
    assert_eq!(settings.agent.expose_resources.value, Some(true));

    let (files, remote) = (loaded.config.find("files").unwrap(), loaded.config.find("remote_2").unwrap());
    let offered = |server: &toolway_config::ServerConfig| {
        let filters = &server.filters;
        [filters.tools, filters.resources, filters.prompts].map(|offered| offered == Offered::Yes)
    };
    assert_eq!(offered(files), [true, false, false], "defaults");
    assert_eq!(files.withheld, Withheld { sampling: true, elicitation: false }, "defaults");
    assert_eq!(offered(remote), [false, true, true]);
    assert_eq!(remote.withheld, Withheld { sampling: false, elicitation: true });
    let Transport::Http(http) = &remote.transport else { panic!("a URL") };
    assert_eq!(http.oauth.callback_port, Some(8123));
    assert!(http.oauth.client_id.is_some() && http.oauth.client_secret.is_some() && http.oauth.metadata_url.is_some());
}

#[test]
fn timeout_of_an_mcp_section_is_30_seconds_by_default() {
    let world = World::empty();
    let text = "mcp:\n  servers:\n    - id: a\n      transport: {executable: x}\n";
    let loaded = load_named(&world, &world.write("home/agent.yaml", text)).unwrap();
    assert_eq!(loaded.config.timeouts(loaded.config.find("a").unwrap()).total, Duration::from_secs(30));
}

#[test]
fn invalid_and_duplicate_ids_of_an_mcp_section_are_errors() {
    let world = World::empty();
    let problem = |ids: [&str; 2]| {
        let server = |id: &str| format!("    - id: {id}\n      transport: {{executable: x}}\n");
        let text = format!("mcp:\n  servers:\n{}{}", server(ids[0]), server(ids[1]));
        let file = world.write("home/agent.yaml", &text);
        load_named(&world, &file).map(drop).map_err(|error| world.stable(&error.to_string()))
    };
    let expected = "must be 1 to 64 of a-z, 0-9, `_` and `-`";
    assert_eq!(problem(["a", &"x".repeat(64)]), Ok(()));
    assert_eq!(problem(["a", "a"]).unwrap_err(), "HOME/agent.yaml:5: two servers have the id `a`; rename one of them");
    for wrong in ["A", "a.b", "\"\"", "7.5", &"x".repeat(65)] {
        let problem = problem(["a", wrong]).unwrap_err();
        assert_eq!(problem, format!("HOME/agent.yaml:5: `mcp.servers.id` {expected}"), "{wrong}");
    }
}

#[test]
fn servers_with_global_settings_are_read_directly() {
    let world = World::empty();
    let loaded = load_named(&world, &world.write("home/servers.json", SERVER_MAP)).unwrap();
    assert_eq!(
        lines(&world, &loaded),
        [
            "Files: npx -y my files | in HOME 2.5s",
            "google: sse https://example.org/sse 60s",
            "keyed: http https://example.org/mcp 60s",
            "off: x | in HOME 60s (off)",
            "signed: auto https://example.org/mcp 60s",
        ]
    );
    assert_eq!(
        warnings(&world, &loaded),
        [
            "HOME/servers.json:12: `globalSettings.debugMode` is a key of other MCP hosts and has no effect here: use \
             `--verbose`",
            "HOME/servers.json:12: `globalSettings.trustedFolders` is a key of other MCP hosts and has no effect here: \
             use `policy.trustedFolders`",
            "HOME/servers.json:4: `servers.Files.trust` is a key of other MCP hosts and has no effect here: use \
             `untrusted`, `read` or `full`",
        ]
    );
    let filters = &loaded.config.find("files").unwrap().filters;
    assert!(filters.passes_tool("read_one") && !filters.passes_tool("read_all") && !filters.passes_tool("write"));
    assert!(filters.passes_prompt("a") && !filters.passes_prompt("b"));
    assert!(matches!(auth_of(&loaded, "keyed"), Auth::ApiKey { header, .. } if header == "x-api-key"));
    assert_eq!(["google", "signed"].map(|name| auth_of(&loaded, name).kind()), ["google", "oauth"]);
}

#[test]
fn servers_without_global_settings_are_those_of_vs_code() {
    let world = World::empty();
    let text = r#"{"servers": {"a": {"command": "x", "env": {"KEY": "${env:TOKEN}", "ID": "${input:tok}"}}},
                   "inputs": [{"id": "tok", "type": "promptString"}]}"#;
    let loaded = load_named(&world, &world.write("home/mcp.json", text)).unwrap();
    let server = loaded.config.find("a").unwrap();
    assert_eq!((server.source.format, loaded.inputs.len()), (Format::VsCode, 1));
    assert!(world.line(server).contains("needs the input `tok`"), "{}", world.line(server));
}

#[test]
fn list_of_servers_is_read_directly() {
    let world = World::empty();
    let loaded = load_named(&world, &world.write("home/list.json", SERVER_LIST)).unwrap();
    assert_eq!(warnings(&world, &loaded), Vec::<String>::new());
    let kinds = ["none", "bearer", "keyed", "basic", "oauth"].map(|name| auth_of(&loaded, name).kind());
    assert_eq!(kinds, ["none", "bearer", "apiKey", "basic", "oauth"]);
    let plain = loaded.config.find("plain").unwrap();
    assert_eq!(world.line(plain), "files --all | in HOME");
    assert_eq!(plain.timeouts.total, Some(Duration::from_millis(1500)));
    assert_eq!(plain.reconnect.attempts, Some(3));
    assert!(!loaded.config.find("oauth").unwrap().is_enabled());
    assert!(matches!(auth_of(&loaded, "keyed"), Auth::ApiKey { header, .. } if header == "X-Team"));
}

#[test]
fn a_private_key_makes_client_credentials_and_nested_configuration_is_read() {
    let world = World::empty();
    let list = r#"[{"name": "keyed", "url": "https://example.org/", "authentication": {"type": "oauth2",
        "clientId": "me", "privateKey": "${TOKEN}", "algorithm": "ES256", "scopes": ["read"]}}]"#;
    let loaded = load_named(&world, &world.write("home/list.json", list)).unwrap();
    assert_eq!(warnings(&world, &loaded), Vec::<String>::new());
    let Auth::Grant { grant: Grant::ClientCredentials { proof, .. }, scopes, .. } = auth_of(&loaded, "keyed") else {
        panic!("{:?}", auth_of(&loaded, "keyed"));
    };
    assert!(matches!(proof, ClientProof::Key { algorithm: Some("ES256"), .. }), "{proof:?}");
    assert_eq!(scopes, &["read"]);
    let map = r#"{"servers": {"a": {"url": "https://example.org/", "trust": "full",
        "auth": {"type": "api-key", "config": {"apiKey": "${TOKEN}", "header": "X-Team"}}}}, "globalSettings": {}}"#;
    let loaded = load_named(&world, &world.write("home/map.json", map)).unwrap();
    assert_eq!(warnings(&world, &loaded), Vec::<String>::new());
    assert!(matches!(auth_of(&loaded, "a"), Auth::ApiKey { header, .. } if header == "X-Team"));
    assert_eq!(loaded.config.find("a").unwrap().trust().as_str(), "full");
}

#[test]
fn invalid_entry_is_set_aside_and_fails_the_check() {
    let world = World::empty();
    let text = r#"[{"name": "a", "url": "https://example.org/", "authentication": {"type": "magic"}},
                   {"name": "b", "command": "x"}]"#;
    let loaded = load_named(&world, &world.write("home/list.json", text)).unwrap();
    assert!(loaded.config.find("b").is_some() && loaded.config.find("a").is_none());
    let checked = check(&loaded, &world.environment, &Chain, Strictness::Usual);
    let problems: Vec<String> = checked.problems.iter().map(|error| world.stable(&error.to_string())).collect();
    assert_eq!(
        problems,
        [
            "HOME/list.json:1: `a` is not used: `servers.a.authentication.type` must be `none`, `bearer`, `api-key`, `basic` \
          or `oauth2`"
        ]
    );
}

#[test]
fn file_that_is_not_understood_is_an_error() {
    let world = World::empty();
    for (text, key, near) in [
        (r#"{"mcpServer": {"a": {"command": "x"}}}"#, "mcpServer", "mcpServers"),
        (r#"{"gatway": {"listen": "127.0.0.1:1"}}"#, "gatway", "gateway"),
    ] {
        let problem = load_named(&world, &world.write("home/x.json", text)).unwrap_err().to_string();
        assert!(problem.ends_with(&format!("unknown key `{key}`; did you mean `{near}`?")), "{problem}");
    }
    for (text, key) in [
        (r#"{"name": "x", "version": 1}"#, "name"),
        (r#"{"autoConnect": true, "servers": {"a": {"command": "x"}}}"#, "servers"),
        (r#"{"mcp": {"theme": {"dark": true}}}"#, "mcp"),
        (r#"{"extensions": {"memory": {"type": "builtin"}}}"#, "extensions"),
    ] {
        let problem = load_named(&world, &world.write("home/x.json", text)).unwrap_err().to_string();
        assert_eq!(
            world.stable(&problem),
            format!(
                "HOME/x.json:1: the file is not understood: unknown key `{key}`; servers are expected under `mcpServers`"
            )
        );
    }
    for text in [r#""text""#, "7"] {
        assert!(load_named(&world, &world.write("home/x.json", text)).is_err(), "{text}");
    }
    for text in ["", "{}", r#"{"$schema": "x"}"#, r#"{"autoConnect": true}"#, "[]"] {
        let loaded = load_named(&world, &world.write("home/x.json", text));
        assert!(loaded.is_ok_and(|loaded| loaded.config.servers.is_empty()), "{text}");
    }
}

#[test]
fn snippets_of_other_applications_are_files_too() {
    let world = World::empty();
    for (text, format) in [
        (r#"{"mcp": {"a": {"type": "local", "command": ["x", "y"]}}}"#, Format::Opencode),
        (r#"{"mcp": {"servers": {"a": {"type": "local", "command": ["x", "y"]}}}}"#, Format::OpencodeTwo),
        (r#"{"mcp": {"servers": {"a": {"command": "x", "args": ["y"]}}, "inputs": []}}"#, Format::VsCode),
        (r#"{"inputs": [], "mcpServers": {"a": {"command": "x", "args": ["y"]}}}"#, Format::VsCode),
        (r#"{"mcp": {"a": {"command": "x", "args": ["y"]}}}"#, Format::Snippet),
        (r#"{"context_servers": {"a": {"command": "x", "args": ["y"]}}}"#, Format::Zed),
        (r#"{"context_servers": {"a": {"command": {"path": "x", "args": ["y"]}}}}"#, Format::Zed),
        (r#"{"extensions": {"a": {"type": "stdio", "cmd": "x", "args": ["y"]}}}"#, Format::Goose),
        (r#"{"mcp_servers": {"a": {"command": "x", "args": ["y"], "env": {}}}}"#, Format::Snippet),
        (r#"{"a": {"command": "x", "args": ["y"]}}"#, Format::Snippet),
        (r#"{"mcpServers": {"a": {"command": ["x", "y"]}}}"#, Format::Toolway),
        (r#"{"mcpServers": {"a": {"cmd": "x", "args": ["y"]}}}"#, Format::Toolway),
    ] {
        let loaded = load_named(&world, &world.write("home/x.json", text)).unwrap();
        let server = loaded.config.find("a").unwrap_or_else(|| panic!("{text}"));
        assert_eq!(server.source.format, format, "{text}");
        let Transport::Process(process) = &server.transport else { panic!("{text}") };
        let words: Vec<&str> = process.arguments.iter().map(|word| word.written().expose()).collect();
        assert_eq!((process.command.written().expose(), words.as_slice()), ("x", &["y"][..]), "{text}");
        assert_eq!(server.source.folder.as_deref(), Some(world.home().as_path()), "{text}");
    }
}

#[test]
fn another_spelling_of_a_key_gives_way_to_ours() {
    let world = World::empty();
    let text = r#"{"mcpServers": {"a": {"url": "https://a.example/", "serverUrl": "https://b.example/"}}}"#;
    let loaded = load_named(&world, &world.write("home/x.json", text)).unwrap();
    let Transport::Http(http) = &loaded.config.find("a").unwrap().transport else { panic!() };
    assert_eq!(http.url.written().expose(), "https://a.example/");
    assert!(loaded.config.warnings[0].message.contains("`url` is set as well"), "{:?}", loaded.config.warnings);
}

#[test]
fn imported_file_applies_its_settings_to_its_servers_and_can_be_copied() {
    let world = World::empty();
    let file = world.write("home/agent.yaml", MCP_SECTION);
    let home = world.home();
    let search = SearchRoots { home: Some(&home), config: None, project: None, environment: &world.environment };
    let (found, imported) = read_named(&file, &search).unwrap();
    assert_eq!(found.format, Format::McpSection);
    let text = imported.servers.iter().map(|server| copy(server, Some(&home)).unwrap().entry.yaml());
    assert_eq!(
        text.collect::<Vec<_>>().join("---\n"),
        "command: \"npx\"\n\
         args: [\"-y\",\"files\"]\n\
         env:\n  KEY: \"${TOKEN}\"\n\
         cwd: \"/srv\"\n\
         timeouts:\n  total: 5\n\
         resources: false\nprompts: false\nsampling: false\nlazy: true\n\
         ---\n\
         url: \"https://example.org/mcp\"\n\
         headers:\n  X-Key: \"${TOKEN}\"\n\
         type: \"http\"\n\
         oauth:\n  callbackPort: 8123\n  clientId: \"me\"\n  clientSecret: \"${TOKEN}\"\n  \
         metadataUrl: \"https://example.org/as\"\n\
         enabled: false\n\
         timeouts:\n  total: 45\n\
         tools: false\nelicitation: false\nsampling:\n  allow: \"ask\"\nlazy: true\n"
    );
    let file = world.write("home/other.json", r#"{"mcpServer": {}}"#);
    let problem = read_named(&file, &search).unwrap_err().to_string();
    assert!(problem.contains("the file is not understood"), "{problem}");
}
