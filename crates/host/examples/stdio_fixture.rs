//! testkit's fixture server as a real process: what it is called, which era it speaks and what it does are arguments.
//!
//! `stdio_fixture <name> [--era legacy|modern] [--asks] [--slow <milliseconds>] [--hang] [--crash] [--say <text>]`. With
//! `--asks` it has a tool that asks something, with `--slow` it takes its time to start, with `--hang` it never answers,
//! with `--crash` it says why and ends; `--say` is what it says on its standard error first.

use std::io::{self, Write};

use tokio_util::sync::CancellationToken;
use toolway_testkit::fixture_server::{Behaviour, FixtureServer};
use toolway_wire::{
    down::{self, FaceOptions},
    revision::{Era, Revision},
};

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let after = |flag: &str| words.iter().position(|word| word == flag).and_then(|at| words.get(at + 1));
    if let Some(text) = after("--say") {
        writeln!(io::stderr(), "{text}")?;
    }
    if let Some(pause) = after("--slow").and_then(|pause| pause.parse().ok()) {
        std::thread::sleep(std::time::Duration::from_millis(pause));
    }
    if words.iter().any(|word| word == "--crash") {
        return Err(io::Error::other("cannot go on"));
    }
    let revisions = match after("--era").map(String::as_str) {
        Some("legacy") => Revision::of(Era::Legacy).collect(),
        Some("modern") => Revision::of(Era::Modern).collect(),
        _ => Revision::ALL.to_vec(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if words.iter().any(|word| word == "--hang") {
        return runtime.block_on(hang());
    }
    let name = words.first().map_or("fixture", String::as_str);
    let server = FixtureServer::new(name)
        .tool("echo", "Say something back")
        .tool_that("wait", "Wait", Behaviour::Wait)
        .tool_that("grow", "Grow", Behaviour::Grow)
        .tool_that("crash", "Crash", Behaviour::Crash);
    let server = if words.iter().any(|word| word == "--asks") {
        server.tool_that("greet", "Greet", Behaviour::Greet)
    } else {
        server
    };
    let options = FaceOptions { revisions, ..FaceOptions::default() };
    let serving = down::stdio::serve(
        tokio::io::stdin(),
        tokio::io::stdout(),
        server.service(),
        options,
        CancellationToken::new(),
    );
    runtime.block_on(serving).map_err(io::Error::other)
}

/// Reads until its input ends, and says nothing.
async fn hang() -> io::Result<()> {
    tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await.map(drop)
}
