//! A host for stories: servers are fixtures, the person who is asked is scripted, and what was recorded can be looked
//! at.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use toolway_config::{Config, ServerName};
use toolway_host::{
    Host, HostOptions, HostPorts,
    call::{CallOutcome, CallRequest, Caller},
    connection::{Phase, ServerStatus, WantedServer, Way},
    keeper::Custodian,
    policy::{Answer, Approver, Question, Stance},
    record::{CallRecord, MemoryCallLog},
};
use toolway_wire::json::Raw;

use crate::fixture_server::FixtureServer;

/// A host and everything about it that a story looks at.
#[derive(Debug)]
pub struct TestHost {
    /// The host itself.
    pub host: Host,
    /// What was recorded.
    pub log: Arc<MemoryCallLog>,
    person: Arc<Person>,
}

/// A host that is being put together.
#[derive(Debug)]
pub struct TestHostBuilder {
    config: Config,
    /// What it is started with; a story may change it.
    pub options: HostOptions,
    /// Likewise.
    pub ports: HostPorts,
    log: Arc<MemoryCallLog>,
    person: Arc<Person>,
}

/// Says what the story says.
#[derive(Debug)]
struct Person {
    answer: Mutex<Answer>,
    asked: Mutex<Vec<String>>,
}

/// Nothing in a story takes longer, on a machine that has other things to do.
pub const PATIENCE: Duration = Duration::from_secs(20);

impl TestHost {
    /// A host with this server in its own process.
    pub fn with(server: &FixtureServer, name: &str) -> TestHostBuilder {
        Self::new().server(name, server)
    }

    /// A host without servers.
    #[expect(clippy::new_ret_no_self, reason = "a host is put together first")]
    pub fn new() -> TestHostBuilder {
        let log = Arc::new(MemoryCallLog::default());
        let person = Arc::new(Person { answer: Mutex::new(Answer::Nobody), asked: Mutex::default() });
        let ports = HostPorts { calls: log.clone(), approver: person.clone(), ..HostPorts::default() };
        let options = HostOptions { custodian: Custodian::nobody(), seed: Some(7), ..HostOptions::default() };
        TestHostBuilder { config: Config::default(), options, ports, log, person }
    }

    /// Calls a tool without arguments.
    pub async fn call(&self, tool: &str) -> CallOutcome {
        self.call_with(tool, None).await
    }

    /// Calls a tool.
    pub async fn call_with(&self, tool: &str, arguments: Option<serde_json::Value>) -> CallOutcome {
        self.call_of(self.request(tool, arguments)).await
    }

    /// Makes a call, within the patience of a story.
    pub async fn call_of(&self, request: CallRequest) -> CallOutcome {
        within("a call", self.host.call(request)).await
    }

    /// The request that calls a tool.
    pub fn request(&self, tool: &str, arguments: Option<serde_json::Value>) -> CallRequest {
        let name = tool.parse().unwrap_or_else(|error| panic!("{error}"));
        CallRequest::tool(Caller::Terminal, name, arguments.map(|arguments| Raw::of(&arguments)))
    }

    /// From now on the person says this.
    pub fn answering(&self, answer: Answer) {
        *self.person.answer.lock() = answer;
    }

    /// What the person was asked, in order.
    pub fn asked(&self) -> Vec<String> {
        self.person.asked.lock().clone()
    }

    /// What was recorded, oldest first.
    pub fn records(&self) -> Vec<Arc<CallRecord>> {
        self.log.records()
    }

    /// The state of one server.
    pub fn status(&self, server: &str) -> ServerStatus {
        self.host.status(&name(server)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Waits until a server's state is one of those that are meant.
    pub async fn until(&self, server: &str, meant: impl Fn(&Phase) -> bool) -> ServerStatus {
        let mut events = self.host.events();
        let waiting = async {
            loop {
                let status = self.status(server);
                if meant(&status.phase) {
                    return status;
                }
                // Whatever happens, the state is looked at again; a state that is there already wakes nobody.
                let _woken = tokio::time::timeout(Duration::from_millis(50), events.next()).await;
            }
        };
        within(&format!("a state of `{server}`"), waiting).await
    }

    /// Waits until a server is ready and has been listed.
    pub async fn ready(&self, server: &str) -> ServerStatus {
        self.until(server, |phase| *phase == Phase::Ready).await;
        let missing = within("the listing", self.host.gather(PATIENCE)).await;
        assert!(missing.iter().all(|status| status.server.as_str() != server), "{missing:?}");
        self.status(server)
    }

    /// The public names of all tools, once they are these.
    pub async fn offers(&self, tools: &[&str]) {
        let mut catalogs = self.host.watch_catalog();
        let offered = |catalog: &Arc<toolway_host::catalog::Catalog>| {
            catalog.tools().iter().map(|entry| entry.public.as_str()).eq(tools.iter().copied())
        };
        let waited = tokio::time::timeout(PATIENCE, catalogs.wait_for(offered)).await.is_ok();
        let names: Vec<String> = self.host.catalog().tools().iter().map(|entry| entry.public.to_string()).collect();
        assert!(waited, "offered are {names:?}");
    }
}

impl TestHostBuilder {
    /// With one more server, in this process.
    #[must_use]
    pub fn server(self, server_name: &str, server: &FixtureServer) -> Self {
        self.wanted(WantedServer::new(name(server_name), Way::InProcess(server.service())))
    }

    /// With one more server, as it is wanted.
    #[must_use]
    pub fn wanted(mut self, server: WantedServer) -> Self {
        self.options.servers.push(server);
        self
    }

    /// With this configuration.
    #[must_use]
    pub fn config(self, config: Config) -> Self {
        Self { config, ..self }
    }

    /// With this stance, and a person who says this.
    #[must_use]
    pub fn asking(mut self, answer: Answer) -> Self {
        self.options.stance = Stance::Ask;
        *self.person.answer.lock() = answer;
        self
    }

    /// Starts it.
    pub async fn start(self) -> TestHost {
        let host = Host::start(&self.config, self.ports, self.options).await;
        TestHost { host: host.unwrap_or_else(|error| panic!("{error}")), log: self.log, person: self.person }
    }
}

impl Approver for Person {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Answer> {
        self.asked.lock().push(question.to_string());
        let answer = self.answer.lock().clone();
        Box::pin(async { answer })
    }
}

/// A server's name.
pub fn name(server: &str) -> ServerName {
    server.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// What comes of this, if it comes in time.
pub async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| panic!("{what} takes longer than {PATIENCE:?}"))
}
