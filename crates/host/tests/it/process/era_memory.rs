//! The era of a server is detected once, cached, and corrected when the server has changed.

use std::{process::Command, sync::Arc};

use toolway_host::connection::{DiskEraMemory, Program, era_memory};
use toolway_wire::{
    revision::Era,
    up::{DetectedProtocol, EraMemory, transport::HttpMode},
};

use super::{LEGACY, MODERN, scripted, written};
use crate::{
    peers,
    stage::{Stage, within},
};

#[tokio::test]
async fn era_of_a_stateful_server_is_detected_once() {
    let stage = Stage::new();
    let server = scripted(&stage, "echo >> starts", LEGACY, "");
    assert_eq!(methods_received(&stage, &server).await, ["server/discover", "initialize", "notifications/initialized"]);
    assert_eq!(methods_received(&stage, &server).await, ["initialize", "notifications/initialized"]);
    assert_eq!(written(&stage, "starts").len(), 2);
}

#[tokio::test]
async fn server_that_exits_on_the_probe_is_started_twice_only_once() {
    let stage = Stage::new();
    let answers = format!("*'server/discover'*) exit 1 ;;\n{LEGACY}");
    let server = scripted(&stage, "echo >> starts", &answers, "");
    methods_received(&stage, &server).await;
    assert_eq!(written(&stage, "starts").len(), 2);
    methods_received(&stage, &server).await;
    assert_eq!(written(&stage, "starts").len(), 3);
}

#[tokio::test]
async fn cached_legacy_era_is_corrected() {
    let stage = Stage::new();
    let server = scripted(&stage, "", MODERN, "");
    let key = era_memory::process_key(&server);
    memory(&stage).remember(&key, SESSION);

    assert_eq!(methods_received(&stage, &server).await, ["initialize", "server/discover"]);
    assert_eq!(memory(&stage).recall(&key), Some(STATELESS));
    assert_eq!(methods_received(&stage, &server).await, ["server/discover"]);
}

#[tokio::test]
async fn cached_modern_era_is_corrected() {
    let stage = Stage::new();
    let server = scripted(&stage, "", LEGACY, "");
    let key = era_memory::process_key(&server);
    memory(&stage).remember(&key, STATELESS);
    methods_received(&stage, &server).await;
    assert_eq!(memory(&stage).recall(&key), Some(SESSION));
    assert_eq!(methods_received(&stage, &server).await, ["initialize", "notifications/initialized"]);
}

#[tokio::test]
async fn cached_era_of_a_url_is_corrected() {
    for (era, found) in [("legacy", SESSION), ("modern", STATELESS), ("both", STATELESS)] {
        let stage = Stage::new();
        let listener = stage.listen(peers::rmcp("http", era)).await;
        let key = era_memory::address_key(&listener.url.parse().unwrap());
        for remembered in [SESSION, STATELESS, EVENT_STREAM] {
            memory(&stage).remember(&key, remembered);
            let peer = stage.try_reach(&listener, Arc::new(memory(&stage))).await;
            let peer = peer.unwrap_or_else(|error| panic!("{era}, remembered as {remembered:?}: {error}"));
            // A server of both eras keeps the cached one.
            let expected = if era == "both" && remembered == SESSION { SESSION } else { found };
            assert_eq!(peer.protocol(), expected, "{era}, remembered as {remembered:?}");
            assert_eq!(memory(&stage).recall(&key), Some(expected), "{era}, remembered as {remembered:?}");
            within("the end", peer.close()).await;
        }
    }
}

#[test]
fn two_processes_do_not_lose_each_others_entries() {
    let stage = Stage::new();
    let writer = |name: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "--ignored", "process::era_memory::remembers_a_few_servers"]);
        command.env(FILE, stage.path("eras.json")).env(NAME, name).spawn().unwrap()
    };
    let writers = ["one", "other"].map(writer);
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    let known =
        |name: &&str| (0..SERVERS).filter(|number| memory(&stage).recall(&key(name, *number)).is_some()).count();
    assert_eq!(["one", "other"].iter().map(known).collect::<Vec<_>>(), [SERVERS, SERVERS]);
}

#[test]
#[ignore = "run by the test above in separate processes"]
fn remembers_a_few_servers() {
    let value = |name| std::env::var_os(name).expect("set by the test above");
    let (memory, name) = (DiskEraMemory::at(value(FILE)), value(NAME).into_string().unwrap());
    for number in 0..SERVERS {
        memory.remember(&key(&name, number), SESSION);
    }
}

const SESSION: DetectedProtocol = DetectedProtocol { era: Era::Legacy, http_mode: HttpMode::Session };
const STATELESS: DetectedProtocol = DetectedProtocol { era: Era::Modern, http_mode: HttpMode::Stateless };
const EVENT_STREAM: DetectedProtocol = DetectedProtocol { era: Era::Legacy, http_mode: HttpMode::EventStream };

const FILE: &str = "TOOLWAY_TEST_FILE";
const NAME: &str = "TOOLWAY_TEST_NAME";
const SERVERS: usize = 50;

fn key(name: &str, number: usize) -> String {
    format!("{name}/{number}")
}

fn memory(stage: &Stage) -> DiskEraMemory {
    DiskEraMemory::at(stage.path("eras.json"))
}

/// Connects to a server and closes the connection; returns the methods it received.
async fn methods_received(stage: &Stage, server: &Program) -> Vec<String> {
    let before = written(stage, "received").len();
    let (peer, stderr_tail) = stage.try_dial(server.clone(), Some(Arc::new(memory(stage)))).await;
    let peer = peer.unwrap_or_else(|error| panic!("{error}: {:#?}", stderr_tail.lines()));
    within("the end", peer.close()).await;
    let method = |line: &String| {
        let message: serde_json::Value = serde_json::from_str(line).unwrap();
        message["method"].as_str().unwrap().to_owned()
    };
    written(stage, "received")[before..].iter().map(method).collect()
}
