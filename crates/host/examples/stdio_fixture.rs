//! The fixture server of testkit as a process. Name, era and behaviour are arguments.
//!
//! `stdio_fixture <name> [--era legacy|modern] [--asks] [--lingers] [--slow <milliseconds>] [--hang] [--crash]
//! [--say <text>]`: `--asks` adds a tool that sends a server request, `--lingers` one that reports before it answers,
//! `--slow` delays the start, `--hang` never answers, `--crash` prints an error and exits, and `--say` prints a text to
//! standard error first.

use std::io::{self, Write};

use tokio_util::sync::CancellationToken;
use toolway_testkit::fixture_server::{Behaviour, FixtureServer};
use toolway_wire::{
    down::{self, DownstreamOptions},
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
    let server = if words.iter().any(|word| word == "--lingers") {
        server.tool_that("linger", "Linger", Behaviour::Linger)
    } else {
        server
    };
    let options = DownstreamOptions { revisions, ..DownstreamOptions::default() };
    let serving = down::stdio::serve(
        tokio::io::stdin(),
        tokio::io::stdout(),
        server.service(),
        options,
        CancellationToken::new(),
    );
    runtime.block_on(serving).map_err(io::Error::other)
}

/// Reads its input to the end without answering.
async fn hang() -> io::Result<()> {
    tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await.map(drop)
}
