//! The reference pages are what the commands say of themselves.

use crate::home::{Home, root};

#[test]
fn the_reference_is_what_the_commands_say_of_themselves() {
    for page in ["cli", "exit-codes"] {
        let said = Home::new().run(&["reference", page]);
        let path = root().join("docs/reference").join(format!("{page}.md"));
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == said.ok(),
            "docs/reference/{page}.md is old: write it with `cargo run -- reference {page} > docs/reference/{page}.md`"
        );
    }
}

#[test]
fn every_command_teaches_with_an_example() {
    let home = Home::new();
    let commands = ["tools", "call", "resources", "prompts", "complete", "ping", "rpc", "servers", "import", "config"];
    for command in commands.into_iter().chain(["status", "doctor", "completions", "man"]) {
        let help = home.run(&[command, "--help"]);
        assert!(help.ok().contains("Examples:\n  "), "{command}");
        let page = home.run(&["man", command]);
        assert!(page.ok().contains(&format!(".TH toolway-{command} 1")), "{page:?}");
    }
}
