//! `toolway demo` in an empty home directory, with and without a terminal.

use std::time::{Duration, Instant};

use crate::{home::Home, terminal::Terminal};

/// Longest duration of the demo.
const LONGEST: Duration = Duration::from_secs(40);

#[test]
fn demo_tells_its_story_without_a_terminal_and_shows_the_defaults() {
    let began = Instant::now();
    let home = Home::new();
    let ran = home.run(&["demo"]);
    let said = ran.ok();
    for expected in [
        "notes     ready   5 tools, protocol 2025-11-25",
        "cannot read the variable WEATHER_API_KEY",
        "archive   failed",
        "notes.write_note  Write a note and replace its text",
        "✓ notes.read_note → bread, tea",
        "may the model use the tool `write_note` of `notes`? (no terminal; the default is: no)",
        "⊘ notes.write_note → approval declined: no terminal to ask at",
        "✓ notes.order_lunch → ordered: 1 × soup",
        "✓ notes.weekly_report → The weekly report has 8 sections.",
        "notes__write_note       refused",
        "a client of 2025: protocol 2025-11-25, 5 tools, notes__read_note → bread, tea",
        "a client of 2026: protocol 2026-07-28, 5 tools, notes__read_note → bread, tea",
        "two of them fail on purpose",
        "So the note stays without milk, lunch is ordered and the report is written.",
        "toolway import",
    ] {
        assert!(said.contains(expected), "{expected}\n---\n{said}");
    }
    assert!(!said.contains("approved at"), "a declined call was not approved: {said}");
    assert!(began.elapsed() < LONGEST);
    // Nothing is written to the user's directories.
    assert!(!home.path("state").join("toolway/toolway.db").exists());
}

#[test]
fn demo_on_a_terminal_asks_and_follows_the_answers() {
    let home = Home::new();
    let mut terminal = Terminal::start(home.command(&["demo"]));
    terminal.answers("[y] once", "y").answers("Dish", "2\r").answers("Portions", "\r").answers("[y] send", "y");
    let (status, shown) = terminal.end(LONGEST);
    assert!(status.success(), "{shown}");
    for expected in [
        "the note `shopping` was written",
        "ordered: 1 × curry",
        "bread, tea, milk",
        "approved at the terminal",
        "So milk is on the note, lunch",
    ] {
        assert!(shown.contains(expected), "{expected}\n---\n{shown}");
    }
}
