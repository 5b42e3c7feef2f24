//! Where a project file is searched for, and which files are refused as one.

use std::{fs, os::unix::fs::PermissionsExt};

use toolway_config::{Loaded, Paths, Sources, consent::Accepted, layers::Flags, load, load::ProjectStart};

use crate::world::World;

const PROJECT: &str = "project/toolway.json";
const OWN: &str = "home/.config/toolway/toolway.json";

/// Loads the configuration from a folder and as a user.
fn load_from(world: &World, directory: &str, user: u32) -> Loaded {
    let directory = world.root().join(directory);
    load(&Sources {
        environment: &world.environment,
        paths: &Paths::of(&world.environment),
        named: None,
        project: Some(ProjectStart { directory: &directory, user }),
        flags: Flags::default(),
        accepted: &Accepted::default(),
    })
    .unwrap()
}

fn me(world: &World) -> u32 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(world.project()).unwrap().uid()
}

#[test]
fn search_stops_at_the_repository_and_before_the_home_directory() {
    let world = World::empty();
    let server = r#"{ "mcpServers": { "a": { "command": "x" } } }"#;
    world.write(PROJECT, server);
    fs::create_dir_all(world.project().join("deep/er")).unwrap();
    assert_eq!(load_from(&world, "project/deep/er", me(&world)).proposals.len(), 1);
    assert_eq!(
        load_from(&world, "project/deep/er", me(&world)).proposals[0].server.source.folder,
        Some(world.project())
    );

    fs::create_dir_all(world.project().join("deep/.git")).unwrap();
    assert!(load_from(&world, "project/deep/er", me(&world)).proposals.is_empty());

    world.write("home/toolway.json", server);
    fs::create_dir_all(world.home().join("work")).unwrap();
    assert!(load_from(&world, "home/work", me(&world)).proposals.is_empty());
    assert!(load_from(&world, "home", me(&world)).proposals.is_empty());
}

#[test]
fn the_users_own_file_is_not_a_projects_file_in_its_own_folder() {
    let world = World::empty();
    world.write(OWN, r#"{ "policy": { "mode": "allow", "rules": [{ "then": "allow" }] } }"#);
    let loaded = load_from(&world, "home/.config/toolway", me(&world));
    assert_eq!(loaded.config.warnings, []);
    assert_eq!((loaded.config.settings.policy.user.len(), loaded.files.len()), (1, 1));
}

#[test]
fn file_of_another_user_is_refused_with_a_warning() {
    let world = World::of_all_hosts();
    world.write(OWN, r#"{ "imports": ["claude-code"] }"#);
    world.write(PROJECT, r#"{ "mcpServers": { "a": { "command": "x" } } }"#);
    let loaded = load_from(&world, "project", me(&world) + 1);
    assert!(loaded.proposals.is_empty());
    let warnings: Vec<String> =
        loaded.config.warnings.iter().map(|warning| world.stable(&warning.to_string())).collect();
    let owner = me(&world);
    for file in ["toolway.json", ".mcp.json"] {
        let line = format!(
            "PROJECT/{file}: the project file is not used: `PROJECT/{file}` belongs to another user (uid {owner})"
        );
        assert!(warnings.contains(&line), "{warnings:#?}");
    }
}

#[test]
fn world_writable_file_or_link_out_of_the_folder_is_refused() {
    let world = World::empty();
    let file = world.write(PROJECT, r#"{ "mcpServers": { "a": { "command": "x" } } }"#);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let first_warning = |world: &World| world.stable(&world.load().unwrap().config.warnings[0].to_string());
    assert_eq!(
        first_warning(&world),
        "PROJECT/toolway.json: the project file is not used: `PROJECT/toolway.json` is writable by all users"
    );
    fs::remove_file(&file).unwrap();
    let outside = world.write("outside.json", r#"{ "mcpServers": { "a": { "command": "x" } } }"#);
    std::os::unix::fs::symlink(&outside, &file).unwrap();
    assert!(first_warning(&world).ends_with("outside.json`, outside of its folder"), "{}", first_warning(&world));
    assert!(world.load().unwrap().proposals.is_empty());
}

#[test]
fn search_from_a_link_continues_in_the_parents_of_its_target() {
    let world = World::empty();
    world.write(PROJECT, r#"{ "mcpServers": { "near": { "command": "x" } } }"#);
    world.write("elsewhere/toolway.json", r#"{ "mcpServers": { "far": { "command": "x" } } }"#);
    fs::create_dir_all(world.root().join("elsewhere/inner")).unwrap();
    std::os::unix::fs::symlink(world.root().join("elsewhere/inner"), world.project().join("link")).unwrap();
    let loaded = load_from(&world, "project/link", me(&world));
    assert_eq!(loaded.proposals[0].server.label, "far");
    assert_eq!(loaded.proposals[0].server.source.folder, Some(world.root().join("elsewhere")));
}

#[test]
fn size_of_a_project_file_is_bounded() {
    let world = World::empty();
    let server =
        |argument: &str| format!("{{\"mcpServers\": {{\"a\": {{\"command\": \"x\", \"args\": [\"{argument}\"]}}}}}}");
    world.write(PROJECT, &server(&"${".repeat(400 * 1024)));
    assert_eq!(world.load().unwrap().proposals.len(), 1);
    world.write(PROJECT, &server(&"x".repeat(1024 * 1024)));
    assert_eq!(
        world.excluded(),
        ["PROJECT/toolway.json: the project file is not used: cannot read `PROJECT/toolway.json`: it is larger than \
          1048576 bytes"]
    );
}
