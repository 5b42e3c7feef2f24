//! `toolway resources watch`, with servers of both eras.

use std::{
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use toolway_testkit::fixture_server::{FixtureServer, HttpFixture};
use toolway_wire::revision::Era;

use crate::home::{Home, wait};

const URI: &str = "docs://one";

struct Watch {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Watch {
    fn start(home: &Home, url: &str, words: &[&str]) -> Self {
        let watch = ["resources", "watch", URI, "--url", url, "-o", "ndjson"];
        let mut command = home.command(&[&watch[..], words].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        // It watches when it says so.
        let mut said = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
        assert!(said.contains("Watching docs://one"), "{said}");
        Self { child, lines }
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn interrupt(mut self) -> Option<i32> {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
        wait(&mut self.child, Duration::from_secs(10)).code()
    }
}

fn serve(runtime: &Runtime, server: &FixtureServer, era: Era) -> HttpFixture {
    runtime.block_on(server.over_http(Some(era))).unwrap()
}

#[test]
fn updates_are_printed_until_ctrl_c_in_both_eras() {
    let runtime = Runtime::new().unwrap();
    for era in [Era::Legacy, Era::Modern] {
        let home = Home::new();
        let server = FixtureServer::new("docs");
        let http = serve(&runtime, &server, era);
        let mut watch = Watch::start(&home, &http.url(), &[]);
        server.touch("docs://other");
        server.touch(URI);
        let line = watch.line();
        assert_eq!((&line["type"], &line["uri"]), (&json!("updated"), &json!(URI)), "{era:?}");
        assert!(line["at"].as_str().unwrap().ends_with('Z'), "{line}");
        server.touch("docs://one\u{1b}[2J");
        assert_eq!(watch.line()["uri"], "docs://one\u{1b}[2J", "JSON has the URI as it is, escaped");
        assert_eq!(watch.interrupt(), Some(130), "{era:?}");
    }
}

#[test]
fn after_the_server_was_restarted_the_watch_goes_on() {
    let runtime = Runtime::new().unwrap();
    for era in [Era::Legacy, Era::Modern] {
        let home = Home::new();
        let server = FixtureServer::new("docs");
        let mut http = serve(&runtime, &server, era);
        let mut watch = Watch::start(&home, &http.url(), &[]);
        runtime.block_on(http.restart()).unwrap();
        // It subscribes again by itself; until then an update has no receiver.
        let stopped = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stopped.load(Ordering::Relaxed) {
                    server.touch(URI);
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            while watch.line()["type"] != "updated" {}
            stopped.store(true, Ordering::Relaxed);
        });
        assert_eq!(watch.interrupt(), Some(130));
    }
}

#[test]
fn with_once_the_first_change_ends_it() {
    let runtime = Runtime::new().unwrap();
    let home = Home::new();
    let server = FixtureServer::new("docs");
    let http = serve(&runtime, &server, Era::Modern);
    let mut watch = Watch::start(&home, &http.url(), &["--once"]);
    server.touch(URI);
    assert_eq!(watch.line()["type"], "updated");
    assert_eq!(wait(&mut watch.child, Duration::from_secs(10)).code(), Some(0));
}

#[test]
fn a_server_without_subscriptions_is_an_error_that_says_so() {
    let runtime = Runtime::new().unwrap();
    for era in [Era::Legacy, Era::Modern] {
        let home = Home::new();
        let server = FixtureServer::new("docs").declaring(json!({ "resources": {} }));
        let http = serve(&runtime, &server, era);
        let error = home.run(&["resources", "watch", URI, "--url", &http.url()]).failed(2, "malformed");
        assert!(error["message"].as_str().unwrap().contains("does not support resource subscriptions"), "{error}");
    }
}
