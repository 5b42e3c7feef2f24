//! Any file content is read or refused without a panic.

use std::path::Path;

use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_assert, prop_oneof, proptest};
use toolway_config::{
    Config, Environment, NoKeychain, ServerName,
    consent::ConsentSummary,
    document::Document,
    edit::{Change, Edit, NewValue, edit_text},
    import::copy,
    interpolate::{Dialect, Template},
    server::Format,
    show::show,
};

use crate::world::World;

/// Known keys and values, so that random documents reach deeper checks.
fn name() -> impl Strategy<Value = String> {
    let known = [
        "mcpServers",
        "servers",
        "command",
        "args",
        "env",
        "url",
        "headers",
        "type",
        "stdio",
        "http",
        "${TOKEN}",
        "${A:-${B}}",
        "{env:X}",
        "$X",
        "https://example.org/",
        "timeouts",
        "total",
        "enabled",
        "tools",
        "naming",
        "prefix",
        "imports",
        "a",
        "A",
        "mcp",
        "extensions",
        "context_servers",
        "mcp_servers",
        "projects",
        "inputs",
        "cmd",
        "timeout",
    ];
    prop_oneof![prop::sample::select(known.to_vec()).prop_map(str::to_owned), any::<String>()]
}

fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<f64>().prop_map(serde_json::Value::from),
        name().prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::vec((name(), inner), 0..6)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

/// A document whose servers are random.
fn document() -> impl Strategy<Value = serde_json::Value> {
    prop_oneof![value(), value().prop_map(|servers| serde_json::json!({ "mcpServers": { "a": servers } }))]
}

/// Runs all operations on a document.
fn exercise(file: &str, text: &str) {
    let Ok(document) = Document::of(Path::new(file), text) else { return };
    let Ok(config) = Config::of(&document, None) else { return };
    let environment: Environment = [("TOKEN".into(), "t".into())].into();
    assert!(!show(&config).is_empty());
    for server in config.servers.values() {
        let _endpoint = server.endpoint(&environment, &NoKeychain);
        let _copied = copy(server, None);
        assert!(!ConsentSummary::of(server).lines.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn random_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let text = String::from_utf8_lossy(&bytes);
        for file in ["x.json", "x.yaml", "x.toml"] {
            exercise(file, &text);
        }
    }

    #[test]
    fn random_punctuation_is_read_or_refused(text in "[-\\[\\]{}:,\"'#&*!|>%@?\\\\/ \n\ta0.=$~]{0,80}") {
        for file in ["x.json", "x.yaml", "x.toml"] {
            exercise(file, &text);
        }
    }

    #[test]
    fn random_documents_are_read_or_refused(document in document()) {
        exercise("x.json", &document.to_string());
        exercise("x.yaml", &document.to_string());
    }

    #[test]
    fn edit_gives_a_valid_file_or_an_error(document in document(), key in name(), text in name()) {
        let file = Path::new("x.json");
        let before = document.to_string();
        let name = ServerName::from_label("a").unwrap();
        for edit in [
            Edit::Add { label: key.clone(), entry: NewValue::pairs([("command", text.as_str())]) },
            Edit::Update { name: name.clone(), changes: vec![(key, Some(NewValue::Text(text)))] },
            Edit::Disable { name: name.clone() },
            Edit::Enable { name: name.clone() },
            Edit::Remove { name },
        ] {
            if let Ok(Change::Text { text, .. }) = edit_text(&edit, None, file, &before) {
                prop_assert!(Document::of(file, &text).is_ok(), "{text}");
            }
        }
    }

    #[test]
    fn random_addresses_are_shown_and_copied(text in "(a|--key=|)(://|https://)[:/@?#&=;,a7 \u{e9}\u{fffc}$\\{\\}\"-]{0,40}") {
        let entry = serde_json::json!({ "command": "x", "args": ["--token", text, text], "env": { "A": text } });
        exercise("x.json", &serde_json::json!({ "mcpServers": { "a": entry } }).to_string());
    }

    #[test]
    fn random_texts_are_split_at_references(text in "[$\\{\\}:a-cA-C/~ \u{e9}-]{0,40}") {
        for dialect in [
            Dialect::Literal, Dialect::Toolway, Dialect::ToolwayValue, Dialect::Shell, Dialect::Gemini, Dialect::VsCode,
            Dialect::Windsurf, Dialect::Opencode, Dialect::Mcporter,
        ] {
            let template = Template::new(text.clone(), dialect, 1);
            prop_assert!(!text.is_empty() || template.pieces().is_empty());
            prop_assert!(template.references().len() <= text.len());
        }
    }
}

proptest! {
    // Each case writes a file for every host.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn random_files_of_other_hosts_are_read_or_refused(document in value()) {
        let world = World::of_all_hosts();
        let text = document.to_string();
        for file in [
            "project/.mcp.json", "home/.claude.json", "home/.cursor/mcp.json", "project/.vscode/mcp.json",
            "home/.gemini/settings.json", "project/opencode.json", "home/.config/zed/settings.json",
            "home/.config/goose/config.yaml", "home/.mcporter/mcporter.json",
        ] {
            world.write(file, &text);
        }
        for server in world.import(&Format::OTHERS).servers {
            let _copied = copy(&server, None);
        }
    }
}
