//! A gateway with a misbehaving server, a good server and two clients.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use toolway_gateway::access::{Access, KeyFile};
use toolway_host::connection::{Program, ServerAddress, WantedServer, Way};
use toolway_testkit::{
    fixture_server::FixtureServer,
    test_host::{PATIENCE, TestHost, name, within},
};
use toolway_wire::{
    exchange::ExchangeTimeouts,
    limit::Limits,
    up::{EraChoice, Timeouts},
};

use crate::{
    raw_client::{RawClient, request},
    test_gateway::TestGateway,
};

/// The gateway and its clients.
pub(super) struct HostileSetup {
    _stage: TestGateway,
    pub(super) ada: RawClient,
    pub(super) bob: RawClient,
    /// Log of the messages that the odd server received.
    record: PathBuf,
    _folder: tempfile::TempDir,
}

/// Maximum size of a server message.
const MESSAGE: usize = 1_000_000;
impl HostileSetup {
    pub(super) async fn with(what: &str, era: EraChoice) -> Self {
        Self::patient(what, era, PATIENCE).await
    }

    /// With this timeout for a silent server.
    pub(super) async fn patient(what: &str, era: EraChoice, silence: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let record = folder.path().join("heard");
        let files = FixtureServer::new("files").tool("echo", "Give it back");
        let mut program = Program::new(odd_server());
        program.arguments = vec![what.to_owned(), record.to_str().unwrap().to_owned()];
        let terms = ExchangeTimeouts { idle: Some(silence), total: Some(PATIENCE) };
        let mut odd = WantedServer::new(name("odd"), Way::Address(ServerAddress::Process(program)));
        odd.era = era;
        odd.clocks = Timeouts { call: terms, ..odd.clocks };
        let mut builder = TestHost::with(&files, "files").wanted(odd);
        builder.options.limits = Limits { message_bytes: MESSAGE, ..Limits::default() };
        let file = KeyFile::at(folder.path().join("clients.json"));
        let keys = ["ada", "bob"].map(|name| file.add(name, None, None).unwrap());
        let (access, _) = Access::with_keys(Some(file)).unwrap();
        let gateway = TestGateway::bounded(builder, access, Limits::default()).await;
        gateway.host.ready("files").await;
        gateway.host.ready("odd").await;
        let [ada, bob] = keys.map(|key| gateway.raw_client("/mcp", Some(key.expose())));
        Self { _stage: gateway, ada, bob, record, _folder: folder }
    }

    /// Asserts that another client is served by the other server in time.
    pub(super) async fn assert_others_are_served(&self) {
        for _ in 0..5 {
            let began = Instant::now();
            let served = called(&self.bob, "files__echo").await;
            assert_eq!(served["result"]["isError"], false, "{served}");
            assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        }
    }

    /// Waits until the odd server answers this client again, if necessary after a restart.
    pub(super) async fn wait_until_recovered(&self, caller: &RawClient) {
        let began = Instant::now();
        loop {
            let said = called(caller, "odd__hello").await;
            if words(&said) == "hello" {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{said}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the odd server has received `method` at least `times` times.
    pub(super) async fn wait_until_received(&self, method: &str, times: usize) {
        let hearing = async {
            while self.received_count(method) < times {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        within(method, hearing).await;
    }

    /// How often the odd server has received `method`.
    pub(super) fn received_count(&self, method: &str) -> usize {
        std::fs::read_to_string(&self.record).unwrap().lines().filter(|line| *line == method).count()
    }
}

/// Calls a tool without arguments, in the session of the client if it has one.
pub(super) async fn called(caller: &RawClient, tool: &str) -> Value {
    let params = json!({ "name": tool, "arguments": {} });
    let calling = async {
        match caller.has_session() {
            true => caller.post(&request(7, "tools/call", params)).await.answer().await,
            false => caller.ask("tools/call", params).await,
        }
    };
    within(tool, calling).await
}

/// Text of a result, or message of an error.
pub(super) fn words(said: &Value) -> &str {
    let text = said["result"]["content"][0]["text"].as_str();
    text.or(said["error"]["message"].as_str()).unwrap_or_default()
}

/// Tests are in `deps`, programs in its parent directory.
fn odd_server() -> String {
    let path = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("odd-server");
    assert!(path.exists(), "{} is missing: run ./test, which builds it", path.display());
    path.to_str().unwrap().to_owned()
}
