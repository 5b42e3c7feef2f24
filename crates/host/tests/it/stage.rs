//! Test environment: a temporary home, a server dialled from there, and a scripted user that answers server requests.
//!
//! A failed test prints the output of its server.

use std::{path::PathBuf, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{io::AsyncBufReadExt, sync::watch};
use tokio_util::task::AbortOnDropHandle;
use toolway_host::{
    connection::{Program, ServerAddress, StderrTail, environment::Environment, stdio::Launcher},
    keeper::{KeeperHandle, ShutdownTimeouts},
};
use toolway_testkit::direct_peer::{self, DirectOptions};
use toolway_wire::{
    error::WireError,
    exchange::{Answer, Exchange, ExchangeEvent, Outcome, ServerRequestDetails, ServerRequestHandler},
    json::Raw,
    message::ClientCapabilities,
    notice::{Notice, SubscriptionFilter},
    revision::Revision,
    up::{
        ConnectOptions, EraChoice, EraMemory, Peer, UpstreamSubscription,
        stdio::{ProcessHandle, StreamOpener, WriteStream},
    },
};

/// Timeout of each step, long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A temporary home, and the keeper of the programs started from there.
pub(crate) struct Stage {
    folder: TempDir,
    keeper: KeeperHandle,
}

/// A connected server.
pub(crate) struct Server {
    pub(crate) peer: Peer,
    pub(crate) user: Arc<ScriptedUser>,
    output: ServerOutput,
}

/// A server that listens on a URL.
pub(crate) struct Listener {
    pub(crate) url: String,
    output: ServerOutput,
    _input: WriteStream,
    process: Box<dyn ProcessHandle>,
    _reader: AbortOnDropHandle<()>,
}

/// Answers every server request, and records it.
pub(crate) struct ScriptedUser {
    roots: Vec<String>,
    requests: watch::Sender<Vec<Value>>,
}

/// The protocol era and revision to use.
#[derive(Clone, Copy)]
pub(crate) struct ProtocolChoice {
    era: EraChoice,
    legacy: Revision,
}

/// Everything received during a call.
#[derive(Debug)]
pub(crate) struct CallTranscript {
    pub(crate) progress: Vec<Value>,
    pub(crate) logs: Vec<Value>,
    pub(crate) outcome: Outcome,
}

/// Output of a server outside the protocol; printed when its test fails.
#[derive(Clone)]
struct ServerOutput {
    who: String,
    stderr: StderrTail,
    stdout: watch::Sender<Vec<String>>,
}

// === impl Stage ===

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with_keeper(KeeperHandle::with_executable(embedding()))
    }

    /// One stage with a keeper, and one without.
    pub(crate) fn either_way() -> [Self; 2] {
        [Self::new(), Self::with_keeper(KeeperHandle::disabled())]
    }

    fn with_keeper(keeper: KeeperHandle) -> Self {
        let stage = Self { folder: tempfile::tempdir().unwrap(), keeper };
        for name in ["home", "tmp"] {
            stage.make_folder(name);
        }
        stage
    }

    /// Creates a folder in this stage; returns its canonical path.
    pub(crate) fn make_folder(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path).unwrap();
        path.canonicalize().unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The user's environment.
    pub(crate) fn environment(&self) -> Environment {
        let text = |name| self.path(name).into_os_string();
        [
            ("HOME", text("home")),
            ("LANG", "C.UTF-8".into()),
            ("PATH", crate::peers::search_path()),
            ("TMPDIR", text("tmp")),
            ("UNSEEN", "not for servers".into()),
        ]
        .map(|(name, value)| (name.into(), value))
        .into()
    }

    /// The program with its XDG folders in this home.
    fn at_home(&self, mut program: Program) -> Program {
        for (name, folder) in [("CACHE", "cache"), ("CONFIG", "config"), ("DATA", "data"), ("STATE", "state")] {
            program.variables.insert(format!("XDG_{name}_HOME").into(), self.path(folder).into_os_string());
        }
        program
    }

    /// Starts and connects a program.
    pub(crate) async fn start(&self, program: Program, speech: impl Into<ProtocolChoice>) -> Server {
        self.start_with_user(program, speech, ScriptedUser::new()).await
    }

    /// Starts and connects a program, with this user.
    pub(crate) async fn start_with_user(
        &self,
        program: Program,
        speech: impl Into<ProtocolChoice>,
        user: ScriptedUser,
    ) -> Server {
        let who = format!("{} {}", program.command, program.arguments.join(" "));
        self.dial(ServerAddress::Process(self.at_home(program)), who, speech.into(), user).await
    }

    /// Connects a server at a URL.
    pub(crate) async fn reach(&self, listener: &Listener, speech: impl Into<ProtocolChoice>) -> Server {
        let url = listener.url.parse().unwrap();
        self.dial(ServerAddress::http(url), listener.output.who.clone(), speech.into(), ScriptedUser::new()).await
    }

    /// Dials a URL, without a user.
    pub(crate) async fn try_reach(&self, listener: &Listener, memory: Arc<dyn EraMemory>) -> Result<Peer, WireError> {
        let options = DirectOptions { memory: Some(memory), ..DirectOptions::default() };
        let address = ServerAddress::http(listener.url.parse().unwrap());
        within("the handshake", direct_peer::connect(&address, options)).await
    }

    async fn dial(&self, address: ServerAddress, who: String, speech: ProtocolChoice, user: ScriptedUser) -> Server {
        let output = ServerOutput::new(who);
        let user = Arc::new(user);
        let asks: Arc<dyn ServerRequestHandler> = user.clone();
        let ProtocolChoice { era, legacy } = speech;
        let options = DirectOptions {
            connect: ConnectOptions { request_handler: Some(asks), era, legacy, ..ConnectOptions::default() },
            environment: self.environment(),
            stderr_tail: output.stderr.clone(),
            keeper: self.keeper.clone(),
            ..DirectOptions::default()
        };
        let dialled = within("the handshake", direct_peer::connect(&address, options)).await;
        let peer = dialled.unwrap_or_else(|error| panic!("cannot dial {}: {error}; output: {output:?}", output.who));
        Server { peer, user, output }
    }

    /// Dials a program, without a user.
    pub(crate) async fn try_dial(
        &self,
        program: Program,
        memory: Option<Arc<dyn EraMemory>>,
    ) -> (Result<Peer, WireError>, StderrTail) {
        let stderr_tail = StderrTail::default();
        let options = DirectOptions {
            environment: self.environment(),
            stderr_tail: stderr_tail.clone(),
            keeper: self.keeper.clone(),
            memory,
            ..DirectOptions::default()
        };
        let address = ServerAddress::Process(program);
        (within("the handshake", direct_peer::connect(&address, options)).await, stderr_tail)
    }

    /// Starts a program that listens on a URL and prints it on stdout.
    pub(crate) async fn listen(&self, program: Program) -> Listener {
        let address = |line: &str| line.split_once("listening on ").map(|(_, url)| url.to_owned());
        let mut listener = self.run(program).await;
        listener.url = listener.find_output(address).await;
        listener
    }

    /// Starts a program that listens at `url`; it prints `ready` when it does, and `taken` when it cannot.
    pub(crate) async fn listen_at(&self, program: Program, url: &str, ready: &str, taken: &str) -> Option<Listener> {
        let mut listener = self.run(program).await;
        let verdict = |line: &str| line.contains(ready).then_some(true).or(line.contains(taken).then_some(false));
        url.clone_into(&mut listener.url);
        listener.find_output(verdict).await.then_some(listener)
    }

    /// A launcher for this program.
    pub(crate) fn launcher(&self, program: Program, stderr_tail: StderrTail) -> Launcher {
        let launcher = Launcher::new(program, &self.environment(), stderr_tail);
        launcher.with_keeper(self.keeper.clone(), ShutdownTimeouts::default())
    }

    async fn run(&self, program: Program) -> Listener {
        let output = ServerOutput::new(format!("{} {}", program.command, program.arguments.join(" ")));
        let launcher = self.launcher(self.at_home(program), output.stderr.clone());
        let streams = launcher.open().await.unwrap();
        let stdout = output.stdout.clone();
        let mut lines = tokio::io::BufReader::new(streams.read).lines();
        let reader = tokio::runtime::Handle::current().spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                stdout.send_modify(|lines| lines.push(line));
            }
        });
        Listener {
            url: String::new(),
            output,
            _input: streams.write,
            process: streams.process.unwrap(),
            _reader: AbortOnDropHandle::new(reader),
        }
    }
}

/// The example program that embeds the host.
pub(crate) fn embedding() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("examples/embedding");
    assert!(path.exists(), "{} is missing: `cargo build --examples` builds it", path.display());
    path
}

// === impl Listener ===

impl Listener {
    /// Waits until it prints this on stdout or stderr.
    pub(crate) async fn wait_for_output(&self, text: &str) {
        self.find_output(|line| line.contains(text).then_some(())).await;
    }

    /// Ends the process.
    pub(crate) async fn stop(&self) {
        self.process.close().await;
    }

    async fn find_output<T>(&self, find: impl Fn(&str) -> Option<T>) -> T {
        let found = async {
            loop {
                let lines = [self.output.stdout.borrow().clone(), self.output.stderr.lines()].concat();
                if let Some(found) = lines.iter().find_map(|line| find(line)) {
                    return found;
                }
                // Stderr is recorded without notification.
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        within(&format!("output of {}", self.output.who), found).await
    }
}

// === impl Server ===

impl Server {
    /// Calls a tool and waits for its end.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> CallTranscript {
        let exchange = self.peer.call_tool(tool, Some(Raw::of(&arguments))).unwrap();
        self.run_exchange(&format!("a call of `{tool}`"), exchange).await
    }

    pub(crate) async fn read(&self, uri: &str) -> Value {
        self.run_exchange(&format!("`{uri}`"), self.peer.read_resource(uri)).await.result()["contents"][0].take()
    }

    pub(crate) async fn prompt(&self, name: &str, arguments: Value) -> Value {
        let exchange = self.peer.get_prompt(name, Some(Raw::of(&arguments))).unwrap();
        self.run_exchange(&format!("the prompt `{name}`"), exchange).await.result()
    }

    pub(crate) async fn run_exchange(&self, what: &str, exchange: Exchange) -> CallTranscript {
        let (mut progress, mut logs) = (Vec::new(), Vec::new());
        let record = |event: &ExchangeEvent| match event {
            ExchangeEvent::Progress(params) => progress.push(params.read().unwrap()),
            ExchangeEvent::Log(params) => logs.push(params.read().unwrap()),
            ExchangeEvent::ServerRequest(_) | ExchangeEvent::Withdrawn(_) | ExchangeEvent::Ended(_) => {}
        };
        let outcome = within(what, exchange.outcome_with(Some(&*self.user), record)).await;
        CallTranscript { progress, logs, outcome }
    }

    pub(crate) async fn listen(&self, wanted: SubscriptionFilter) -> UpstreamSubscription {
        within("a subscription", self.peer.listen(wanted)).await.unwrap()
    }

    pub(crate) async fn tool_names(&self) -> Vec<String> {
        let listing = within("the tools", self.peer.list_tools()).await.unwrap();
        assert!(listing.malformed.is_empty(), "{:?}", listing.malformed);
        listing.items.into_iter().map(|tool| tool.name).collect()
    }

    /// The negotiated revision.
    pub(crate) fn revision(&self) -> &'static str {
        self.peer.profile().revision.as_str()
    }
}

/// The next notification of a subscription.
pub(crate) async fn next(listening: &mut UpstreamSubscription) -> Notice {
    within("a notice", listening.next()).await.expect("the subscription goes on")
}

/// Waits for a future; panics after [`TIMEOUT`].
pub(crate) async fn within<T>(what: &str, wait: impl Future<Output = T>) -> T {
    match tokio::time::timeout(TIMEOUT, wait).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not come within {TIMEOUT:?}"),
    }
}

// === impl Person ===

impl ScriptedUser {
    pub(crate) fn new() -> Self {
        Self::with_roots(vec!["file:///srv/demo".to_owned()])
    }

    pub(crate) fn with_roots(roots: Vec<String>) -> Self {
        Self { roots, requests: watch::Sender::default() }
    }

    /// All server requests so far: `method` and `params`.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.requests.borrow().clone()
    }

    /// Waits for a server request of this method.
    pub(crate) async fn wait_for_request(&self, method: &str) {
        let mut requests = self.requests.subscribe();
        let received = requests.wait_for(|requests| requests.iter().any(|request| request["method"] == method));
        within(&format!("the request `{method}`"), received).await.unwrap();
    }

    fn response(&self, method: &str) -> Value {
        match method {
            "elicitation/create" => json!({ "action": "accept", "content": { "name": "Ada", "dish": "soup" } }),
            "sampling/createMessage" => json!({
                "role": "assistant", "model": "a-model", "stopReason": "endTurn",
                "content": { "type": "text", "text": "a heron stands still" },
            }),
            _ => {
                let roots = self.roots.iter().map(|uri| json!({ "uri": uri, "name": "a root" }));
                json!({ "roots": roots.collect::<Vec<_>>() })
            }
        }
    }
}

impl ServerRequestHandler for ScriptedUser {
    fn capabilities(&self) -> ClientCapabilities {
        let all = json!({ "elicitation": { "form": {}, "url": {} }, "sampling": {}, "roots": {} });
        ClientCapabilities(Raw::of(&all))
    }

    fn answer(&self, request: ServerRequestDetails) -> BoxFuture<'_, Answer> {
        let params: Value = request.params.map(|params| params.read().unwrap()).unwrap_or_default();
        let answer = self.response(&request.method);
        self.requests.send_modify(|requests| requests.push(json!({ "method": request.method, "params": params })));
        Box::pin(async move { Answer::Given(Raw::of(&answer)) })
    }
}

// === impl ProtocolChoice ===

impl From<EraChoice> for ProtocolChoice {
    fn from(era: EraChoice) -> Self {
        Self { era, legacy: Revision::NEWEST_LEGACY }
    }
}

/// The legacy era with this revision.
impl From<Revision> for ProtocolChoice {
    fn from(legacy: Revision) -> Self {
        Self { era: EraChoice::Legacy, legacy }
    }
}

// === impl CallTranscript ===

impl CallTranscript {
    /// The result; panics on any other outcome.
    pub(crate) fn result(&self) -> Value {
        match &self.outcome {
            Outcome::Answered(result) => result.read().unwrap(),
            other => panic!("no result but {other:?}"),
        }
    }

    /// The text of the first content block.
    pub(crate) fn text(&self) -> String {
        let result = self.result();
        assert_ne!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {result}")).to_owned()
    }
}

// === impl ServerOutput ===

impl ServerOutput {
    fn new(who: String) -> Self {
        Self { who, stderr: StderrTail::default(), stdout: watch::Sender::default() }
    }
}

impl std::fmt::Debug for ServerOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#?}", [self.stdout.borrow().clone(), self.stderr.lines()])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        print_on_failure(&self.output);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        print_on_failure(&self.output);
    }
}

#[expect(clippy::print_stderr, reason = "a failed test prints the output of its server")]
fn print_on_failure(output: &ServerOutput) {
    if std::thread::panicking() {
        eprintln!("output of {}: {output:?}", output.who);
    }
}
