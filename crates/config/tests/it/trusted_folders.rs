//! `policy.trustedFolders`: which accepted servers of projects it raises, and what gets around it.

use std::{fs, os::unix::fs::symlink};

use toolway_config::{Trust, consent::Accepted, layers::Flags};

use crate::world::World;

const PROJECT: &str = "project/toolway.json";
const OWN: &str = "home/.config/toolway/toolway.json";
const SERVER: &str = r#"{ "mcpServers": { "tool": { "command": "./run.sh", "trustedTools": ["*"] } } }"#;

/// The trust of the project's server, once it is accepted, with these folders.
fn trust(world: &World, folders: &str) -> Trust {
    world.write(OWN, &format!(r#"{{ "policy": {{ "trustedFolders": {folders} }} }}"#));
    let mut accepted = Accepted::default();
    for proposal in &world.load().unwrap().proposals {
        let (entry, acceptance) = proposal.acceptance();
        accepted.insert(entry, acceptance);
    }
    let loaded = world.load_with(&accepted, Flags::default()).unwrap();
    let server = loaded.config.find("tool").unwrap();
    assert!(server.trust_lists.trusted_tools.is_empty(), "a project vouches for its own tool");
    server.trust()
}

fn at(world: &World, folder: &str, level: &str) -> String {
    format!(r#"{{ "{}/{folder}": "{level}" }}"#, world.root().display())
}

#[test]
fn a_folder_raises_the_trust_of_accepted_servers_inside_and_accepts_none() {
    let world = World::empty();
    world.write(PROJECT, SERVER);
    assert_eq!(trust(&world, "{}"), Trust::Untrusted);
    assert_eq!(trust(&world, &at(&world, "project", "read")), Trust::Read);
    assert_eq!(trust(&world, &at(&world, "", "full")), Trust::Full);
    assert_eq!(trust(&world, &at(&world, "home/../project/.", "read")), Trust::Read);
    assert_eq!(trust(&world, &at(&world, "project//", "read")), Trust::Read);
    assert_eq!(trust(&world, r#"{ "~/../project": "read" }"#), Trust::Read);
    // Without acceptance the server is not used, whatever the folder.
    assert!(world.load().unwrap().config.servers.is_empty());
    let root = world.root().display().to_string();
    let both = format!(r#"{{ "{root}": "full", "{root}/project": "read" }}"#);
    assert_eq!(trust(&world, &both), Trust::Read, "the inner folder counts");
    // Two spellings of one folder, in either order.
    for levels in [["full", "read"], ["read", "full"]] {
        let [one, other] = levels;
        let twice = format!(r#"{{ "{root}/project": "{one}", "{root}/project/../project": "{other}" }}"#);
        assert_eq!(trust(&world, &twice), Trust::Read, "{levels:?}");
    }
}

#[test]
fn no_name_that_looks_like_a_trusted_folder_is_inside() {
    let world = World::empty();
    world.write(PROJECT, SERVER);
    for outside in ["proj", "project-evil", "Project", "project ", "project/../other", "pro*", "home"] {
        fs::create_dir_all(world.root().join(outside)).unwrap();
        assert_eq!(trust(&world, &at(&world, outside, "full")), Trust::Untrusted, "{outside}");
    }
    // A lookalike letter, and a folder that does not exist.
    assert_eq!(trust(&world, &at(&world, "рroject", "full")), Trust::Untrusted);
    assert_eq!(trust(&world, &at(&world, "project/missing", "full")), Trust::Untrusted);
}

#[test]
fn a_folder_that_depends_on_where_a_command_runs_is_an_error() {
    let world = World::empty();
    for relative in ["project", "./project", "../project", "", ".", "~eve/project", "$HOME/project"] {
        world.write(OWN, &format!(r#"{{ "policy": {{ "trustedFolders": {{ "{relative}": "full" }} }} }}"#));
        let loaded = world.load();
        let is_refused = match &loaded {
            Err(error) => error.to_string().contains("absolute path"),
            Ok(loaded) => loaded.config.warnings.iter().any(|warning| warning.to_string().contains("absolute path")),
        };
        assert!(is_refused, "{relative}: {loaded:?}");
    }
}

#[test]
fn links_are_resolved_on_both_sides() {
    let world = World::empty();
    world.write(PROJECT, SERVER);
    // A trusted link counts as what it points to now, and no longer when it is swapped.
    symlink(world.project(), world.root().join("link")).unwrap();
    assert_eq!(trust(&world, &at(&world, "link", "full")), Trust::Full);
    fs::remove_file(world.root().join("link")).unwrap();
    symlink(world.home(), world.root().join("link")).unwrap();
    assert_eq!(trust(&world, &at(&world, "link", "full")), Trust::Untrusted);
    // A project that a link inside a trusted folder points to is outside.
    fs::create_dir(world.root().join("safe")).unwrap();
    symlink(world.project(), world.root().join("safe/project")).unwrap();
    assert_eq!(trust(&world, &at(&world, "safe", "full")), Trust::Untrusted);
}

#[test]
fn a_project_cannot_trust_folders_servers_or_tools() {
    let world = World::empty();
    world.write(PROJECT, r#"{ "policy": { "trustedFolders": { "/": "full" } } }"#);
    let warnings = world.load().unwrap().config.warnings;
    assert!(warnings[0].to_string().contains("`policy.trustedFolders` is not allowed"), "{}", warnings[0]);
    // Nor can it loosen a server of the user under the same name; it can make it stricter.
    world.write(OWN, r#"{ "mcpServers": { "files": { "command": "f", "allowFileAccess": false } } }"#);
    for key in [r#""trustedTools": ["*"]"#, r#""trust": "full""#, r#""allowFileAccess": true"#] {
        world.write(PROJECT, &format!(r#"{{ "mcpServers": {{ "files": {{ {key} }} }} }}"#));
        let loaded = world.load().unwrap();
        assert!(loaded.config.warnings[0].to_string().contains("`files` is not used"), "{key}");
        assert!(loaded.config.find("files").unwrap().trust_lists.trusted_tools.is_empty(), "{key}");
    }
    world.write(PROJECT, r#"{ "mcpServers": { "files": { "requireConfirmation": ["rm"] } } }"#);
    assert_eq!(world.load().unwrap().config.find("files").unwrap().trust_lists.require_confirmation.len(), 1);
}

#[test]
fn an_entry_of_the_user_by_name_does_not_trust_a_project_that_takes_the_name() {
    let world = World::empty();
    world.write(PROJECT, SERVER);
    world.write(OWN, r#"{ "mcpServers": { "tool": { "trust": "full", "trustedTools": ["*"] } } }"#);
    let loaded = world.load().unwrap();
    let server = &loaded.proposals[0].server;
    assert_eq!(server.trust(), Trust::Untrusted);
    assert!(server.trust_lists.trusted_tools.is_empty());
}
