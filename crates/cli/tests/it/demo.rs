//! `toolway demo` in an empty home directory, with and without a terminal.

use std::time::{Duration, Instant};

use crate::home::Home;

/// Longest duration of the demo.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn demo_runs_without_configuration() {
    let began = Instant::now();
    let ran = Home::new().run(&["demo"]);
    let said = ran.ok();
    assert_eq!(said.matches("protocol 2025-11-25").count(), 2, "{said}");
    assert_eq!(said.matches("protocol 2026-07-28").count(), 2, "{said}");
    assert_eq!(said.matches("All processes it starts end with this command.").count(), 2, "{said}");
    assert_eq!(said.matches("progress: 1 of 3, 2 of 3, 3 of 3").count(), 4, "{said}");
    assert_eq!(said.matches("structured: {\"height\":8,\"width\":8}").count(), 4, "{said}");
    assert_eq!(said.matches("an image, image/png").count(), 4, "{said}");
    assert_eq!(said.matches("Hello, guest.").count(), 4, "{said}");
    assert_eq!(said.matches("the form's default was sent").count(), 4, "{said}");
    assert!(began.elapsed() < PATIENCE);
}

#[test]
fn demo_on_a_terminal_asks_for_the_name() {
    let home = Home::new();
    let (status, shown) = home.run_at_terminal(home.command(&["demo"]), "Ada\nGrace\n\nEdsger\n");
    assert!(status.success(), "{shown}");
    for greeting in ["Hello, Ada.", "Hello, Grace.", "Hello, guest.", "Hello, Edsger."] {
        assert_eq!(shown.matches(greeting).count(), 1, "{shown}");
    }
    assert_eq!(shown.matches("Your name [guest]: ").count(), 4, "{shown}");
    assert!(!shown.contains("no interactive terminal"), "{shown}");
}
