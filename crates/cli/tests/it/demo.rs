//! `toolway demo` in an empty home directory, with and without a terminal.

use std::time::{Duration, Instant};

use crate::home::Home;

/// What the program promises.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn the_demo_shows_the_main_job_with_nothing_configured() {
    let began = Instant::now();
    let ran = Home::new().run(&["demo"]);
    let said = ran.ok();
    assert_eq!(said.matches("speaks 2025-11-25").count(), 2, "{said}");
    assert_eq!(said.matches("speaks 2026-07-28").count(), 2, "{said}");
    assert_eq!(said.matches("Nothing it starts outlives this command.").count(), 2, "{said}");
    assert_eq!(said.matches("progress: 1 of 3, 2 of 3, 3 of 3").count(), 4, "{said}");
    assert_eq!(said.matches("structured: {\"height\":8,\"width\":8}").count(), 4, "{said}");
    assert_eq!(said.matches("a picture, image/png").count(), 4, "{said}");
    assert_eq!(said.matches("Hello, stranger.").count(), 4, "{said}");
    assert_eq!(said.matches("the form's default was the answer").count(), 4, "{said}");
    assert!(began.elapsed() < PATIENCE);
}

#[test]
fn at_a_terminal_the_demo_asks_who_you_are() {
    let home = Home::new();
    let (status, shown) = home.run_at_terminal(home.command(&["demo"]), "Ada\nGrace\n\nEdsger\n");
    assert!(status.success(), "{shown}");
    for greeting in ["Hello, Ada.", "Hello, Grace.", "Hello, stranger.", "Hello, Edsger."] {
        assert_eq!(shown.matches(greeting).count(), 1, "{shown}");
    }
    assert_eq!(shown.matches("Your name [stranger]: ").count(), 4, "{shown}");
    assert!(!shown.contains("no terminal"), "{shown}");
}
