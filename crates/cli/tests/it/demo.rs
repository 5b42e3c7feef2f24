//! `toolway demo` in an empty home directory.

use std::process::{Command, Stdio};

#[test]
fn the_demo_shows_the_main_job_with_nothing_configured() {
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_toolway"))
        .arg("demo")
        .env_clear()
        .env("HOME", home.path())
        .env("XDG_CONFIG_HOME", home.path().join("config"))
        .env("XDG_STATE_HOME", home.path().join("state"))
        .env("XDG_CACHE_HOME", home.path().join("cache"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let talk = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}\n{talk}");
    assert_eq!(said.matches("speaks 2025-11-25").count(), 2, "{said}");
    assert_eq!(said.matches("speaks 2026-07-28").count(), 2, "{said}");
    assert_eq!(said.matches("progress: 1 of 3, 2 of 3, 3 of 3").count(), 4, "{said}");
    assert_eq!(said.matches("structured: {\"height\":8,\"width\":8}").count(), 4, "{said}");
    assert_eq!(said.matches("a picture, image/png").count(), 4, "{said}");
    assert_eq!(said.matches("Hello, stranger.").count(), 4, "{said}");
    assert_eq!(said.matches("the form's default was the answer").count(), 4, "{said}");
}
