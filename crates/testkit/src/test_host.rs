//! A host for tests: servers are fixtures, the approver is scripted, and records can be inspected.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use toolway_config::{Config, ServerName};
use toolway_host::{
    Host, HostOptions, HostPorts,
    call::{CallOutcome, CallRequest, Caller},
    connection::{Phase, ServerStatus, WantedServer, Way},
    inbox::{Answerer, ElicitationModes, InboxAnswer, InboxContent, InboxItem},
    keeper::KeeperHandle,
    policy::{ApprovalAnswer, Stance},
    record::{CallRecord, MemoryCallLog},
};
use toolway_wire::{json::Raw, up::EraChoice};

use crate::fixture_server::FixtureServer;

/// A host and its observable state.
#[derive(Debug)]
pub struct TestHost {
    /// The host under test.
    pub host: Host,
    /// Recorded calls.
    pub log: Arc<MemoryCallLog>,
    scripted_approver: Arc<ScriptedApprover>,
}

/// Builder of a test host.
#[derive(Debug)]
pub struct TestHostBuilder {
    config: Config,
    /// Options of the host; a test may change them.
    pub options: HostOptions,
    /// Ports of the host; a test may change them.
    pub ports: HostPorts,
    log: Arc<MemoryCallLog>,
    scripted_approver: Arc<ScriptedApprover>,
}

/// Gives the answer that the test sets.
#[derive(Debug)]
struct ScriptedApprover {
    answer: Mutex<ApprovalAnswer>,
    asked: Mutex<Vec<String>>,
    reasons: Mutex<Vec<String>>,
}

/// Time limit of one step on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

impl TestHost {
    /// A host with this server in its own process.
    pub fn with(server: &FixtureServer, name: &str) -> TestHostBuilder {
        Self::new().server(name, server)
    }

    /// A host without servers.
    #[expect(clippy::new_ret_no_self, reason = "returns a builder")]
    pub fn new() -> TestHostBuilder {
        let log = Arc::new(MemoryCallLog::default());
        let scripted_approver = Arc::new(ScriptedApprover {
            answer: Mutex::new(ApprovalAnswer::Unavailable),
            asked: Mutex::default(),
            reasons: Mutex::default(),
        });
        let ports = HostPorts { calls: log.clone(), answerer: scripted_approver.clone(), ..HostPorts::default() };
        let options = HostOptions { keeper: KeeperHandle::disabled(), seed: Some(7), ..HostOptions::default() };
        TestHostBuilder { config: Config::default(), options, ports, log, scripted_approver }
    }

    /// Calls a tool without arguments.
    pub async fn call(&self, tool: &str) -> CallOutcome {
        self.call_with(tool, None).await
    }

    /// Calls a tool.
    pub async fn call_with(&self, tool: &str, arguments: Option<serde_json::Value>) -> CallOutcome {
        self.call_of(self.request(tool, arguments)).await
    }

    /// Makes a call, within [`PATIENCE`].
    pub async fn call_of(&self, request: CallRequest) -> CallOutcome {
        within("a call", self.host.call(request)).await
    }

    /// Request that calls a tool.
    pub fn request(&self, tool: &str, arguments: Option<serde_json::Value>) -> CallRequest {
        let name = tool.parse().unwrap_or_else(|error| panic!("{error}"));
        CallRequest::tool(Caller::Terminal, name, arguments.map(|arguments| Raw::of(&arguments)))
    }

    /// Sets the answer of the approver.
    pub fn answering(&self, answer: ApprovalAnswer) {
        *self.scripted_approver.answer.lock() = answer;
    }

    /// Approval requests so far, in order.
    pub fn asked(&self) -> Vec<String> {
        self.scripted_approver.asked.lock().clone()
    }

    /// Reasons of the approval requests so far, as far as they have one.
    pub fn reasons(&self) -> Vec<String> {
        self.scripted_approver.reasons.lock().clone()
    }

    /// Recorded calls, oldest first.
    pub fn records(&self) -> Vec<Arc<CallRecord>> {
        self.log.records()
    }

    /// Status of one server.
    pub fn status(&self, server: &str) -> ServerStatus {
        self.host.status(&name(server)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Waits until a server is in one of the expected phases.
    pub async fn until(&self, server: &str, meant: impl Fn(&Phase) -> bool) -> ServerStatus {
        let mut events = self.host.listen_states();
        let waiting = async {
            loop {
                let status = self.status(server);
                if meant(&status.phase) {
                    return status;
                }
                // Checks the phase again after each event, and regularly, because a phase that is already reached
                // causes no event.
                let _woken = tokio::time::timeout(Duration::from_millis(50), events.next()).await;
            }
        };
        within(&format!("a state of `{server}`"), waiting).await
    }

    /// Waits until a server is ready and listed.
    pub async fn ready(&self, server: &str) -> ServerStatus {
        self.until(server, |phase| *phase == Phase::Ready).await;
        // It ends before the limit of the step where another server never lists anything.
        let missing = within("the listing", self.host.wait_until_listed(PATIENCE / 2)).await;
        assert!(missing.iter().all(|status| status.server.as_str() != server), "{missing:?}");
        self.status(server)
    }

    /// Waits until the catalog has exactly these public tool names.
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
    /// Adds a server in this process.
    #[must_use]
    pub fn server(self, server_name: &str, server: &FixtureServer) -> Self {
        self.wanted(WantedServer::new(name(server_name), Way::InProcess(server.service())))
    }

    /// Adds this server.
    #[must_use]
    pub fn wanted(mut self, server: WantedServer) -> Self {
        self.options.servers.push(server);
        self
    }

    /// Sets the configuration.
    #[must_use]
    pub fn config(self, config: Config) -> Self {
        Self { config, ..self }
    }

    /// Requires approval, and sets the answer of the approver.
    #[must_use]
    pub fn asking(mut self, answer: ApprovalAnswer) -> Self {
        self.options.stance = Stance::Ask;
        *self.scripted_approver.answer.lock() = answer;
        self
    }

    /// Connects to the servers added so far in the era with sessions.
    #[must_use]
    pub fn with_sessions(mut self) -> Self {
        self.options.servers.iter_mut().for_each(|server| server.era = EraChoice::Legacy);
        self
    }

    /// Starts the host.
    pub async fn start(self) -> TestHost {
        let host = Host::start(&self.config, self.ports, self.options).await;
        TestHost {
            host: host.unwrap_or_else(|error| panic!("{error}")),
            log: self.log,
            scripted_approver: self.scripted_approver,
        }
    }
}

impl Answerer for ScriptedApprover {
    fn modes(&self) -> ElicitationModes {
        ElicitationModes::Nothing
    }

    fn answer<'a>(&'a self, item: &'a InboxItem) -> BoxFuture<'a, InboxAnswer> {
        self.asked.lock().push(item.summary());
        if let InboxContent::Approval(details) = &item.content {
            self.reasons.lock().extend(details.reason.clone());
        }
        let answer = self.answer.lock().clone();
        Box::pin(async { InboxAnswer::Approval(answer) })
    }
}

/// Parses a server name.
pub fn name(server: &str) -> ServerName {
    server.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// Awaits `work` within [`PATIENCE`].
pub async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| panic!("{what} takes longer than {PATIENCE:?}"))
}
