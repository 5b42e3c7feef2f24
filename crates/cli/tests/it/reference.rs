//! The reference pages are generated from the command definitions.

use crate::home::{Home, root};

#[test]
fn reference_pages_are_up_to_date() {
    for page in ["cli", "exit-codes"] {
        let said = Home::new().run(&["reference", page]);
        let path = root().join("docs/reference").join(format!("{page}.md"));
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == said.ok(),
            "docs/reference/{page}.md is out of date: regenerate it with `cargo run -- reference {page} > docs/reference/{page}.md`"
        );
    }
}

#[test]
fn every_command_has_an_example() {
    let home = Home::new();
    let commands = ["tools", "call", "resources", "prompts", "complete", "ping", "rpc", "servers", "import", "config"];
    for command in commands.into_iter().chain(["status", "doctor", "completions", "man"]) {
        let help = home.run(&[command, "--help"]);
        assert!(help.ok().contains("Examples:\n  "), "{command}");
        let page = home.run(&["man", command]);
        assert!(page.ok().contains(&format!(".TH toolway-{command} 1")), "{page:?}");
    }
}
