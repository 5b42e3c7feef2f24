//! Typical documents, and invalid ones.

use std::path::{Path, PathBuf};

use super::{Config, Document};
use crate::{
    ConfigError, Endpoint, Environment, NoKeychain, Secret,
    server::{
        HttpKind, Standing,
        auth::{Auth, SignIn},
    },
};

fn read(text: &str) -> Result<Config, ConfigError> {
    let home = PathBuf::from("/home/ada");
    Config::of(&Document::of(Path::new("/etc/toolway.json"), text)?, Some(&home))
}

fn problem(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

#[test]
fn common_snippet_from_a_readme_is_read() {
    let config = read(
        r#"{
            // from a README
            "mcpServers": {
                "My Files": { "command": "npx", "args": ["-y", "files"], "env": { "KEY": "${KEY}" }, "cwd": "x" },
                "remote": { "url": "https://example.org/mcp", "headers": { "Authorization": "Bearer ${KEY}" } },
            },
        }"#,
    )
    .unwrap();
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    let environment: Environment = [("KEY".into(), "k3y".into())].into();
    let files = config.find("My Files").unwrap().endpoint(&environment, &NoKeychain).unwrap();
    let secret = Secret::new;
    assert_eq!(
        files,
        Endpoint::Process {
            command: "npx".to_owned(),
            arguments: vec![secret("-y"), secret("files")],
            variables: vec![("KEY".to_owned(), secret("k3y"))],
            directory: Some(PathBuf::from("/etc/x")),
        }
    );
    let remote = config.find("remote").unwrap().endpoint(&environment, &NoKeychain).unwrap();
    let headers = vec![("Authorization".to_owned(), secret("Bearer k3y"))];
    let sign_in = Box::new(SignIn { auth: Auth::None, ..SignIn::default() });
    assert_eq!(
        remote,
        Endpoint::Http { url: secret("https://example.org/mcp"), headers, kind: HttpKind::Auto, sign_in }
    );
    assert!(!format!("{config:?} {remote:?}").contains("k3y"));
}

#[test]
fn program_runs_in_the_home_directory_by_default() {
    let config = read(r#"{"mcpServers":{"a":{"command":"x"}}}"#).unwrap();
    let Endpoint::Process { directory, .. } =
        config.find("a").unwrap().endpoint(&Environment::new(), &NoKeychain).unwrap()
    else {
        panic!("a program");
    };
    assert_eq!(directory, Some(PathBuf::from("/home/ada")));
}

#[test]
fn error_names_file_line_and_key() {
    for (text, expected) in [
        ("{\n\"mcpServers\": []\n}", "/etc/toolway.json:2: `mcpServers` must be an object"),
        (
            "{\"mcpServers\":\n{\"a\":\n{\"args\":[]}}}",
            "/etc/toolway.json:3: `mcpServers.a.command` must be the program to start; for an HTTP server set `url` instead",
        ),
        (r#"{"mcpServers":{"a":{"command":7}}}"#, "/etc/toolway.json:1: `mcpServers.a.command` must be a string"),
        (
            r#"{"mcpServers":{"a":{"command":"x","args":"y"}}}"#,
            "/etc/toolway.json:1: `mcpServers.a.args` must be a list of strings",
        ),
        (
            r#"{"mcpServers":{"a":{"command":"x","env":{"N":1}}}}"#,
            "/etc/toolway.json:1: `mcpServers.a.env.N` must be a string",
        ),
        (
            r#"{"mcpServers":{"a":{"type":"carrier-pigeon","url":"x"}}}"#,
            "/etc/toolway.json:1: `mcpServers.a.type` must be `stdio`, `http`, `sse` or `auto`",
        ),
        (
            r#"{"mcpServers":{"a b":{"command":"x"},"A-B":{"command":"y"}}}"#,
            "/etc/toolway.json:1: `A-B` and `a b` both give the server name `a-b`; rename one of them",
        ),
        (r#"{"mcpServers":{},"mcpServers":{}}"#, "/etc/toolway.json:1: duplicate key `mcpServers`"),
    ] {
        assert_eq!(problem(text), expected);
    }
    assert!(problem("{\n\n  \"mcpServers\": {,}").starts_with("/etc/toolway.json:3: "));
}

#[test]
fn url_must_be_http_and_variables_must_be_set() {
    assert_eq!(
        problem(r#"{"mcpServers":{"a":{"url":"file:///etc/passwd"}}}"#),
        "/etc/toolway.json:1: `mcpServers.a.url` must be an http or https URL"
    );
    let config =
        read("{\"mcpServers\":{\n\"a\":{\n\"url\":\"${WHERE}\"},\n\"b\":{\n\"args\":[],\n\"command\":\"${NONE}\"}}}");
    let config = config.unwrap();
    let environment: Environment = [("WHERE".into(), "ftp://example.org".into())].into();
    let problem = |name| config.find(name).unwrap().endpoint(&environment, &NoKeychain).unwrap_err().to_string();
    assert_eq!(problem("a"), "/etc/toolway.json:3: `a.url` must be an http or https URL");
    assert_eq!(
        problem("b"),
        "/etc/toolway.json:6: `b.command` needs the environment variable `NONE`, which is not set"
    );
}

#[test]
fn ignored_keys_give_warnings_and_disabled_server_is_kept() {
    let config =
        read(r#"{"mcpServers":{"a":{"command":"x","disabled":true,"timeout":5,"comand":"y"}},"servers":{}}"#).unwrap();
    assert_eq!(config.find("a").unwrap().standing, Standing::Disabled);
    assert_eq!(
        config.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "/etc/toolway.json:1: `mcpServers.a.timeout` is a key of other MCP hosts and has no effect here: \
             its unit differs between hosts; use `timeouts`",
            "/etc/toolway.json:1: unknown key `mcpServers.a.comand` is ignored; did you mean `command`?",
            "/etc/toolway.json:1: unknown key `servers` is ignored; did you mean `mcpServers`?",
        ]
    );
}

#[test]
fn key_without_effect_gives_a_warning() {
    let text = r#"{"mcpServers":{
        "a":{"command":"x","headers":{}},
        "b":{"url":"https://example.org/","env":{},"cwd":"x"},
        "c":{"type":"stdio","command":"x","url":"https://example.org/"}}}"#;
    let warnings: Vec<String> = read(text).unwrap().warnings.iter().map(ToString::to_string).collect();
    let expected = |line: usize, key: &str| {
        format!(
            "/etc/toolway.json:{line}: `mcpServers.{key}` has no effect with the transport or `auth` of this server"
        )
    };
    assert_eq!(warnings, [expected(2, "a.headers"), expected(3, "b.cwd"), expected(3, "b.env"), expected(4, "c.url")]);
}
