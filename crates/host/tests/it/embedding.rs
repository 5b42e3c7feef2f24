//! Runs the example of the embedding guide.

use std::process::Command;

use crate::fixtures;

#[test]
fn example_of_the_embedding_guide_works() {
    let folder = tempfile::tempdir().unwrap();
    let embed = fixtures::path().with_file_name("embed");
    assert!(embed.exists(), "{} is missing: `cargo build --examples` builds it", embed.display());
    let ran = Command::new(embed).arg(folder.path()).arg(fixtures::path()).output().unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success(), "{said}\n{}", String::from_utf8_lossy(&ran.stderr));
    let (events, lines): (Vec<&str>, Vec<&str>) = said.lines().partition(|line| line.starts_with("event: "));
    assert_eq!(
        lines,
        [
            "missing: 0",
            "here: ready (in process)",
            "notes: ready (stdio)",
            "tunnel: ready (custom)",
            "tools: 6",
            "notes__echo: succeeded",
            "here__read: succeeded",
            "tunnel__read: succeeded",
            "plan:",
            "+ tasks",
            "~ notes (filters): keeps its connection",
            "here: kept",
            "notes: updated without reconnecting: filters changed",
            "tasks: starts on first use",
            "tunnel: kept",
            "not applied: toolway.json:1: `mcpServers.notes.command` must be a string",
            "servers: 4",
        ]
    );
    for event in [
        "event: here is connecting",
        "event: here is ready",
        "event: notes__echo started",
        "event: sent to notes",
        "event: notes__echo succeeded",
        "event: applied to 4 servers",
        "event: notes is stopped",
    ] {
        assert!(events.contains(&event), "{event} is not among {events:#?}");
    }
}
