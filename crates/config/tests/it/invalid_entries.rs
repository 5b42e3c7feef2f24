//! One bad entry, or one bad file of a project: it is not used and that is said; everything else works.

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
fn one_bad_entry_of_the_user_leaves_the_others() {
    let world = World::empty();
    let program = "`mcpServers.a.command` must be the program to start, or `url` an address";
    for (entry, line, said) in [
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
            "`mcpServers.a.env` must be variables by name; `A=B` is none",
        ),
        (r#"{ "url": "ftp://example.org/" }"#, 2, "`mcpServers.a.url` must be an http or https address"),
        (
            r#"{ "url": "http://example.org/" }"#,
            2,
            "`mcpServers.a.url` must be an https address, since it leaves this machine; `\"allowInsecureHttp\": true` \
             sends it unprotected",
        ),
        (
            r#"{ "command": "x", "timeouts": { "idel": 5 } }"#,
            2,
            "`mcpServers.a.timeouts.idel` is unknown; did you mean `idle`?",
        ),
        (
            "{ \"url\": \"https://example.org/\", \"headers\": {\n\"X Y\": \"1\" } }",
            3,
            "`mcpServers.a.headers.X Y` must be a header whose name is letters, digits and `-`",
        ),
        (
            r#"{ "url": "https://example.org/", "headers": { "X": "a\nb" } }"#,
            2,
            "`mcpServers.a.headers.X` must be on one line, in plain ASCII letters",
        ),
        (r#"{ "command": "x", "retries": 1.5 }"#, 2, "`mcpServers.a.retries` must be a whole number"),
        (r#""x""#, 2, "`mcpServers.a` must be an object"),
        (r#"{ "enabled": false }"#, 2, program),
    ] {
        world.write(OWN, &format!("{{ \"mcpServers\": {{ \"good\": {{ \"command\": \"x\" }},\n\"a\": {entry} }} }}"));
        let whole = format!("HOME/.config/toolway/toolway.json:{line}: `a` is not used: {said}");
        assert_eq!(world.set_aside(), [whole.as_str()]);
        let loaded = world.load().unwrap();
        assert_eq!(names(&loaded), ["good"]);
        assert_eq!(problems(&world, &loaded), [whole], "whoever looks for what is wrong finds it");
    }
    world.write(OWN, r#"{ "mcpServers": { "a": { "url": "http://example.org/", "allowInsecureHttp": true } } }"#);
    assert_eq!(world.line(world.load().unwrap().config.find("a").unwrap()), "auto http://example.org/");
    assert_eq!(world.set_aside(), [] as [&str; 0]);
}

#[test]
fn a_header_that_cannot_be_sent_is_found_before_it_is() {
    let mut world = World::empty();
    world.environment.insert("TWO_LINES".into(), "one\ntwo".into());
    world.write(OWN, "{ \"mcpServers\": { \"a\": { \"url\": \"https://example.org/\", \"headers\": {\n\"X\": \"${TWO_LINES}\" } } } }");
    assert_eq!(
        problems(&world, &world.load().unwrap()),
        ["HOME/.config/toolway/toolway.json:2: `a.headers.X` must be on one line, in plain ASCII letters"]
    );
}

#[test]
fn of_two_labels_that_give_one_name_the_first_is_used() {
    let world = World::empty();
    world.write(OWN, r#"{ "mcpServers": { "a b": { "command": "x" }, "A-B": { "command": "y" } } }"#);
    let loaded = world.load().unwrap();
    assert_eq!(world.line(loaded.config.find("a b").unwrap()), "x | in HOME");
    assert_eq!(
        world.set_aside(),
        [
            "HOME/.config/toolway/toolway.json:1: `A-B` is not used: `A-B` and `a b` would both be called `a-b`; rename one"
        ]
    );
}

#[test]
fn what_a_broken_entry_may_have_switched_off_is_not_used_either() {
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
fn one_bad_entry_of_a_project_leaves_its_others() {
    let world = World::empty();
    world.write(OWN, r#"{ "mcpServers": { "mine": { "command": "x" } } }"#);
    world.write(
        PROJECT,
        "{ \"mcpServers\": { \"a\": { \"command\": \"\" },\n\"b\": { \"enabled\": false },\n\"c\": { \"command\": \"c\" } } }",
    );
    let loaded = world.load().unwrap();
    assert_eq!((names(&loaded), loaded.proposals.len()), (vec!["mine"], 1));
    let program =
        |label: &str| format!("`mcpServers.{label}.command` must be the program to start, or `url` an address");
    assert_eq!(
        world.set_aside(),
        [
            format!("PROJECT/toolway.json:1: `a` is not used: {}", program("a")),
            format!("PROJECT/toolway.json:2: `b` is not used: {}", program("b")),
        ]
    );
    assert_eq!(problems(&world, &loaded), world.set_aside());
}

#[test]
fn a_projects_file_that_is_broken_takes_nothing_away_from_the_user() {
    let world = World::empty();
    world.write(OWN, r#"{ "mcpServers": { "mine": { "command": "x" } } }"#);
    world.write(PROJECT, "{\n\"mcpServers\": {,} }");
    let loaded = world.load().unwrap();
    assert_eq!((names(&loaded), loaded.proposals.len()), (vec!["mine"], 0));
    let said = problems(&world, &loaded);
    assert!(said[0].starts_with("PROJECT/toolway.json:2: the project's file is not used: "), "{said:?}");

    world.write("project/toolway.yaml", "mcpServers: {}");
    let said = world.set_aside();
    assert!(said[0].ends_with("/toolway.yaml is there too; keep one of them"), "{said:?}");

    world.write(OWN, "{\n\"mcpServers\": {,} }");
    assert!(
        world.problem().starts_with("HOME/.config/toolway/toolway.json:2: "),
        "the user's own file is all there is"
    );
}

#[test]
fn an_entry_of_another_host_that_is_no_object_leaves_the_others_of_its_file() {
    let world = World::empty();
    world.write(OWN, r#"{ "imports": ["cursor"] }"#);
    world.write("home/.cursor/mcp.json", r#"{ "mcpServers": { "a": "x", "b": { "command": "b" } } }"#);
    let loaded = world.load().unwrap();
    assert_eq!(names(&loaded), ["b"]);
    assert_eq!(world.set_aside(), ["HOME/.cursor/mcp.json:1: `a` is not used: `mcpServers.a` must be an object"]);
    assert!(problems(&world, &loaded).is_empty(), "it is that host's file to put right");
}
