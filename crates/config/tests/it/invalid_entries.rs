//! Invalid entries and project files are not used, with a warning; everything else works.

use toolway_config::{
    Loaded, NoKeychain,
    show::{Strictness, check},
};

use crate::world::World;

const OWN: &str = "home/.config/toolway/toolway.json";
const PROJECT: &str = "project/toolway.json";

fn problems(world: &World, loaded: &Loaded) -> Vec<String> {
    let checked = check(loaded, &world.environment, &NoKeychain, Strictness::Usual);
    checked.problems.iter().map(|problem| world.stable(&problem.to_string())).collect()
}

fn names(loaded: &Loaded) -> Vec<&str> {
    loaded.config.servers.keys().map(|name| name.as_str()).collect()
}

#[test]
fn invalid_entry_of_the_user_does_not_affect_the_others() {
    let world = World::empty();
    let program = "`mcpServers.a.command` must be the program to start; for an HTTP server set `url` instead";
    for (entry, line, expected) in [
        (r#"{ "command": " " }"#, 2, program),
        (
            r#"{ "command": "x", "env": {
            "A": 5 } }"#,
            3,
            "`mcpServers.a.env.A` must be a string",
        ),
        (
            r#"{ "command": "x", "env": { "A=B": "" } }"#,
            2,
            "`mcpServers.a.env` must be an object of variables; `A=B` is not a valid name",
        ),
        (r#"{ "url": "ftp://example.org/" }"#, 2, "`mcpServers.a.url` must be an http or https URL"),
        (
            r#"{ "url": "http://example.org/" }"#,
            2,
            "`mcpServers.a.url` must be an https URL, because http to another machine is not encrypted; set \
             `allowInsecureHttp` to allow it",
        ),
        (
            r#"{ "command": "x", "url": "https://example.org/" }"#,
            2,
            "`mcpServers.a.command`: set either `command` or `url`, not both",
        ),
        (
            r#"{ "command": "x", "timeouts": { "idel": 5 } }"#,
            2,
            "unknown key `mcpServers.a.timeouts.idel`; did you mean `idle`?",
        ),
        (
            "{ \"url\": \"https://example.org/\", \"headers\": {\n\"X Y\": \"1\" } }",
            3,
            "`mcpServers.a.headers.X Y` must be a valid header name (letters, digits and `-`)",
        ),
        (
            r#"{ "url": "https://example.org/", "headers": { "X": "a\nb" } }"#,
            2,
            "`mcpServers.a.headers.X` must be a single line of printable ASCII characters",
        ),
        (r#"{ "command": "x", "retries": 1.5 }"#, 2, "`mcpServers.a.retries` must be a whole number"),
        (r#""x""#, 2, "`mcpServers.a` must be an object"),
        (r#"{ "enabled": false }"#, 2, program),
    ] {
        world.write(OWN, &format!("{{ \"mcpServers\": {{ \"good\": {{ \"command\": \"x\" }},\n\"a\": {entry} }} }}"));
        let whole = format!("HOME/.config/toolway/toolway.json:{line}: `a` is not used: {expected}");
        assert_eq!(world.excluded(), [whole.as_str()]);
        let loaded = world.load().unwrap();
        assert_eq!(names(&loaded), ["good"]);
        assert_eq!(problems(&world, &loaded), [whole], "`config check` reports it");
    }
    world.write(OWN, r#"{ "mcpServers": { "a": { "url": "http://example.org/", "allowInsecureHttp": true } } }"#);
    assert_eq!(world.line(world.load().unwrap().config.find("a").unwrap()), "auto http://example.org/");
    assert_eq!(world.excluded(), [] as [&str; 0]);
}

#[test]
fn header_with_an_invalid_resolved_value_is_refused() {
    let mut world = World::empty();
    world.environment.insert("TWO_LINES".into(), "one\ntwo".into());
    world.write(OWN, "{ \"mcpServers\": { \"a\": { \"url\": \"https://example.org/\", \"headers\": {\n\"X\": \"${TWO_LINES}\" } } } }");
    assert_eq!(
        problems(&world, &world.load().unwrap()),
        ["HOME/.config/toolway/toolway.json:2: `a.headers.X` must be a single line of printable ASCII characters"]
    );
}

#[test]
fn first_of_two_labels_with_the_same_name_is_used() {
    let world = World::empty();
    world.write(OWN, r#"{ "mcpServers": { "a b": { "command": "x" }, "A-B": { "command": "y" } } }"#);
    let loaded = world.load().unwrap();
    assert_eq!(world.line(loaded.config.find("a b").unwrap()), "x | in HOME");
    assert_eq!(
        world.excluded(),
        ["HOME/.config/toolway/toolway.json:1: `A-B` is not used: `A-B` and `a b` both give the server name `a-b`; \
             rename one of them"]
    );
}

#[test]
fn server_that_an_invalid_entry_may_have_disabled_is_not_used() {
    let world = World::of_all_hosts();
    world.write(OWN, r#"{ "imports": ["kiro"], "mcpServers": { "Files": { "enabled": false, "env": { "A": 5 } } } }"#);
    let loaded = world.load().unwrap();
    assert!(loaded.config.find("files").is_none());
    assert!(loaded.config.find("remote").is_some());

    world.write(PROJECT, r#"{ "mcpServers": { "files": { "command": "theirs" }, "more": { "command": "m" } } }"#);
    let proposed: Vec<String> = world.load().unwrap().proposals.iter().map(|it| it.server.name.to_string()).collect();
    assert_eq!(proposed, ["more"]);
}

#[test]
fn invalid_entry_of_a_project_does_not_affect_the_others() {
    let world = World::empty();
    world.write(OWN, r#"{ "mcpServers": { "mine": { "command": "x" } } }"#);
    world.write(
        PROJECT,
        "{ \"mcpServers\": { \"a\": { \"command\": \"\" },\n\"b\": { \"enabled\": false },\n\"c\": { \"command\": \"c\" } } }",
    );
    let loaded = world.load().unwrap();
    assert_eq!((names(&loaded), loaded.proposals.len()), (vec!["mine"], 1));
    let program = |label: &str| {
        format!("`mcpServers.{label}.command` must be the program to start; for an HTTP server set `url` instead")
    };
    assert_eq!(
        world.excluded(),
        [
            format!("PROJECT/toolway.json:1: `a` is not used: {}", program("a")),
            format!("PROJECT/toolway.json:2: `b` is not used: {}", program("b")),
        ]
    );
    assert_eq!(problems(&world, &loaded), world.excluded());
}

#[test]
fn invalid_project_file_does_not_affect_the_user_file() {
    let world = World::empty();
    world.write(OWN, r#"{ "mcpServers": { "mine": { "command": "x" } } }"#);
    world.write(PROJECT, "{\n\"mcpServers\": {,} }");
    let loaded = world.load().unwrap();
    assert_eq!((names(&loaded), loaded.proposals.len()), (vec!["mine"], 0));
    let messages = problems(&world, &loaded);
    assert!(messages[0].starts_with("PROJECT/toolway.json:2: the project file is not used: "), "{messages:?}");

    world.write("project/toolway.yaml", "mcpServers: {}");
    let messages = world.excluded();
    assert!(messages[0].ends_with("/toolway.yaml` exists too; keep only one of them"), "{messages:?}");

    world.write(OWN, "{\n\"mcpServers\": {,} }");
    assert!(world.problem().starts_with("HOME/.config/toolway/toolway.json:2: "), "an invalid user file is an error");
}

#[test]
fn invalid_entry_of_another_host_does_not_affect_the_others() {
    let world = World::empty();
    world.write(OWN, r#"{ "imports": ["cursor"] }"#);
    world.write("home/.cursor/mcp.json", r#"{ "mcpServers": { "a": "x", "b": { "command": "b" } } }"#);
    let loaded = world.load().unwrap();
    assert_eq!(names(&loaded), ["b"]);
    assert_eq!(world.excluded(), ["HOME/.cursor/mcp.json:1: `a` is not used: `mcpServers.a` must be an object"]);
    assert!(problems(&world, &loaded).is_empty(), "`config check` ignores files of other hosts");
}
