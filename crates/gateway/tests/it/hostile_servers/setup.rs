//! A gateway with an odd server behind it and a good one, and two callers.

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
    exchange::Terms,
    limit::Limits,
    up::{EraChoice, Timeouts},
};

use crate::{
    knocking::{Knocker, request},
    stage::Stage,
};

/// All of it.
pub(super) struct Street {
    _stage: Stage,
    pub(super) ada: Knocker,
    pub(super) bob: Knocker,
    /// What the odd server heard.
    record: PathBuf,
    _folder: tempfile::TempDir,
}

/// A larger message of a server is refused.
const MESSAGE: usize = 1_000_000;
impl Street {
    pub(super) async fn with(what: &str, era: EraChoice) -> Self {
        Self::patient(what, era, PATIENCE).await
    }

    /// The odd server may say nothing for so long.
    pub(super) async fn patient(what: &str, era: EraChoice, silence: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let record = folder.path().join("heard");
        let files = FixtureServer::new("files").tool("echo", "Give it back");
        let mut program = Program::new(odd_server());
        program.arguments = vec![what.to_owned(), record.to_str().unwrap().to_owned()];
        let terms = Terms { idle: Some(silence), total: Some(PATIENCE) };
        let mut odd = WantedServer::new(name("odd"), Way::Address(ServerAddress::Process(program)));
        odd.era = era;
        odd.clocks = Timeouts { call: terms, ..odd.clocks };
        let mut builder = TestHost::with(&files, "files").wanted(odd);
        builder.options.limits = Limits { message_bytes: MESSAGE, ..Limits::default() };
        let file = KeyFile::at(folder.path().join("clients.json"));
        let keys = ["ada", "bob"].map(|name| file.add(name, None, None).unwrap());
        let (access, _) = Access::of_keys(Some(file)).unwrap();
        let stage = Stage::bounded(builder, access, Limits::default()).await;
        stage.host.ready("files").await;
        stage.host.ready("odd").await;
        let [ada, bob] = keys.map(|key| stage.knocker("/mcp", Some(key.expose())));
        Self { _stage: stage, ada, bob, record, _folder: folder }
    }

    /// Meanwhile another caller is served by another server, in good time.
    pub(super) async fn goes_on(&self) {
        for _ in 0..5 {
            let began = Instant::now();
            let served = called(&self.bob, "files__echo").await;
            assert_eq!(served["result"]["isError"], false, "{served}");
            assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        }
    }

    /// The odd server answers this caller again, at once or when it has been started anew.
    pub(super) async fn comes_back(&self, caller: &Knocker) {
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

    /// Waits until the odd server has heard this so often.
    pub(super) async fn until_heard(&self, method: &str, times: usize) {
        let hearing = async {
            while self.heard(method) < times {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        within(method, hearing).await;
    }

    /// How often the odd server has heard this.
    pub(super) fn heard(&self, method: &str) -> usize {
        std::fs::read_to_string(&self.record).unwrap().lines().filter(|line| *line == method).count()
    }
}

/// Calls a tool without arguments, in a session where the caller has one.
pub(super) async fn called(caller: &Knocker, tool: &str) -> Value {
    let params = json!({ "name": tool, "arguments": {} });
    let calling = async {
        match caller.has_session() {
            true => caller.post(&request(7, "tools/call", params)).await.answer().await,
            false => caller.asked("tools/call", params).await,
        }
    };
    within(tool, calling).await
}

/// What a result or an error says.
pub(super) fn words(said: &Value) -> &str {
    let text = said["result"]["content"][0]["text"].as_str();
    text.or(said["error"]["message"].as_str()).unwrap_or_default()
}

/// Tests are built into `deps`, programs beside it.
fn odd_server() -> String {
    let path = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("odd-server");
    assert!(path.exists(), "{} is missing: run ./test, which builds it", path.display());
    path.to_str().unwrap().to_owned()
}
