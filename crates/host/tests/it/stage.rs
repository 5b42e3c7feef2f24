//! Where a story is told: a home with nothing of this machine in it, a server dialled from there, and somebody who
//! answers when asked.
//!
//! A story that fails prints what its server said.

use std::{path::PathBuf, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{io::AsyncBufReadExt, sync::watch};
use tokio_util::task::AbortOnDropHandle;
use toolway_host::{
    connection::{DialOptions, LastWords, Program, ServerAddress, dial, environment::Environment, stdio::Launcher},
    keeper::{Custodian, Patience},
};
use toolway_wire::{
    error::WireError,
    exchange::{Answer, AskHandler, Exchange, Happening, Outcome, Question},
    json::Raw,
    message::ClientCapabilities,
    notice::{Notice, Wanted},
    revision::Revision,
    up::{
        ConnectOptions, EraChoice, EraMemory, Listening, Peer,
        stdio::{Keeper, OpenStreams, WriteStream},
    },
};

/// Nothing in a story takes longer, on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(20);

/// A temporary home, and who keeps the programs that are started from there.
pub(crate) struct Stage {
    folder: TempDir,
    custodian: Custodian,
}

/// A server that has shaken hands.
pub(crate) struct Server {
    pub(crate) peer: Peer,
    pub(crate) person: Arc<Person>,
    said: Said,
}

/// A server that listens on an address.
pub(crate) struct Listener {
    pub(crate) url: String,
    said: Said,
    _input: WriteStream,
    keeper: Box<dyn Keeper>,
    _hearing: AbortOnDropHandle<()>,
}

/// Answers every question, and remembers what was asked.
pub(crate) struct Person {
    roots: Vec<String>,
    asked: watch::Sender<Vec<Value>>,
}

/// How to speak to a server.
#[derive(Clone, Copy)]
pub(crate) struct Speech {
    era: EraChoice,
    legacy: Revision,
}

/// What came of a call.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) progress: Vec<Value>,
    pub(crate) logs: Vec<Value>,
    pub(crate) outcome: Outcome,
}

/// What a server said beside the protocol; shown when its story fails.
#[derive(Clone)]
struct Said {
    who: String,
    errors: LastWords,
    output: watch::Sender<Vec<String>>,
}

// === impl Stage ===

impl Stage {
    pub(crate) fn new() -> Self {
        Self::kept_by(Custodian::played_by(embedding()))
    }

    /// One with a keeper, and one without.
    pub(crate) fn either_way() -> [Self; 2] {
        [Self::new(), Self::kept_by(Custodian::nobody())]
    }

    fn kept_by(custodian: Custodian) -> Self {
        let stage = Self { folder: tempfile::tempdir().unwrap(), custodian };
        for name in ["home", "tmp"] {
            stage.make_folder(name);
        }
        stage
    }

    /// A folder of this stage's own, as its real path.
    pub(crate) fn make_folder(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path).unwrap();
        path.canonicalize().unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The user's environment, as far as a server sees it.
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

    /// The same program, with its own files in this home too.
    fn at_home(&self, mut program: Program) -> Program {
        for (name, folder) in [("CACHE", "cache"), ("CONFIG", "config"), ("DATA", "data"), ("STATE", "state")] {
            program.variables.insert(format!("XDG_{name}_HOME").into(), self.path(folder).into_os_string());
        }
        program
    }

    /// Shakes hands with a program.
    pub(crate) async fn start(&self, program: Program, speech: impl Into<Speech>) -> Server {
        self.start_before(program, speech, Person::new()).await
    }

    /// The same, with somebody in particular there to answer.
    pub(crate) async fn start_before(&self, program: Program, speech: impl Into<Speech>, person: Person) -> Server {
        let who = format!("{} {}", program.command, program.arguments.join(" "));
        self.dial(ServerAddress::Process(self.at_home(program)), who, speech.into(), person).await
    }

    /// Shakes hands with a server at an address.
    pub(crate) async fn reach(&self, listener: &Listener, speech: impl Into<Speech>) -> Server {
        let url = listener.url.parse().unwrap();
        self.dial(ServerAddress::http(url), listener.said.who.clone(), speech.into(), Person::new()).await
    }

    /// Dials an address without anybody to answer; what becomes of it is the story.
    pub(crate) async fn try_reach(&self, listener: &Listener, memory: Arc<dyn EraMemory>) -> Result<Peer, WireError> {
        let options = DialOptions { memory: Some(memory), ..DialOptions::default() };
        let address = ServerAddress::http(listener.url.parse().unwrap());
        within("the handshake", dial(&address, options)).await
    }

    async fn dial(&self, address: ServerAddress, who: String, speech: Speech, person: Person) -> Server {
        let said = Said::new(who);
        let person = Arc::new(person);
        let asks: Arc<dyn AskHandler> = person.clone();
        let Speech { era, legacy } = speech;
        let options = DialOptions {
            connect: ConnectOptions { asks: Some(asks), era, legacy, ..ConnectOptions::default() },
            environment: self.environment(),
            last_words: said.errors.clone(),
            custodian: self.custodian.clone(),
            ..DialOptions::default()
        };
        let dialled = within("the handshake", dial(&address, options)).await;
        let peer = dialled.unwrap_or_else(|error| panic!("cannot dial {}: {error}; it said {said:?}", said.who));
        Server { peer, person, said }
    }

    /// Dials a program without anybody to answer; what becomes of it is the story.
    pub(crate) async fn try_dial(
        &self,
        program: Program,
        memory: Option<Arc<dyn EraMemory>>,
    ) -> (Result<Peer, WireError>, LastWords) {
        let last_words = LastWords::default();
        let options = DialOptions {
            environment: self.environment(),
            last_words: last_words.clone(),
            custodian: self.custodian.clone(),
            memory,
            ..DialOptions::default()
        };
        let address = ServerAddress::Process(program);
        (within("the handshake", dial(&address, options)).await, last_words)
    }

    /// Starts a program that listens on an address and says which on its standard output.
    pub(crate) async fn listen(&self, program: Program) -> Listener {
        let address = |line: &str| line.split_once("listening on ").map(|(_, url)| url.to_owned());
        let mut listener = self.run(program).await;
        listener.url = listener.hears(address).await;
        listener
    }

    /// Starts a program that listens at `url`; `ready` is what it says when it does, and `taken` when it cannot.
    pub(crate) async fn listen_at(&self, program: Program, url: &str, ready: &str, taken: &str) -> Option<Listener> {
        let mut listener = self.run(program).await;
        let verdict = |line: &str| line.contains(ready).then_some(true).or(line.contains(taken).then_some(false));
        url.clone_into(&mut listener.url);
        listener.hears(verdict).await.then_some(listener)
    }

    /// Starts a program, as often as it is asked to.
    pub(crate) fn launcher(&self, program: Program, last_words: LastWords) -> Launcher {
        let launcher = Launcher::new(program, &self.environment(), last_words);
        launcher.kept_by(self.custodian.clone(), Patience::default())
    }

    async fn run(&self, program: Program) -> Listener {
        let said = Said::new(format!("{} {}", program.command, program.arguments.join(" ")));
        let launcher = self.launcher(self.at_home(program), said.errors.clone());
        let streams = launcher.open().await.unwrap();
        let output = said.output.clone();
        let mut lines = tokio::io::BufReader::new(streams.read).lines();
        let hearing = tokio::runtime::Handle::current().spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                output.send_modify(|lines| lines.push(line));
            }
        });
        Listener {
            url: String::new(),
            said,
            _input: streams.write,
            keeper: streams.keeper.unwrap(),
            _hearing: AbortOnDropHandle::new(hearing),
        }
    }
}

/// The program that embeds the host, built beside these stories.
pub(crate) fn embedding() -> PathBuf {
    let story = std::env::current_exe().unwrap();
    let path = story.ancestors().nth(2).unwrap().join("examples/embedding");
    assert!(path.exists(), "{} is missing: `cargo build --examples` builds it", path.display());
    path
}

// === impl Listener ===

impl Listener {
    /// Resolves when it says this, on either of its streams.
    pub(crate) async fn says(&self, words: &str) {
        self.hears(|line| line.contains(words).then_some(())).await;
    }

    /// Ends it.
    pub(crate) async fn stop(&self) {
        self.keeper.close().await;
    }

    async fn hears<T>(&self, find: impl Fn(&str) -> Option<T>) -> T {
        let found = async {
            loop {
                let lines = [self.said.output.borrow().clone(), self.said.errors.lines()].concat();
                if let Some(found) = lines.iter().find_map(|line| find(line)) {
                    return found;
                }
                // Standard error is kept, not watched.
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        within(&format!("a sign of life of {}", self.said.who), found).await
    }
}

// === impl Server ===

impl Server {
    /// Calls a tool and goes through to the end of it.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Heard {
        let exchange = self.peer.call_tool(tool, Some(Raw::of(&arguments))).unwrap();
        self.hear(&format!("a call of `{tool}`"), exchange).await
    }

    pub(crate) async fn read(&self, uri: &str) -> Value {
        self.hear(&format!("`{uri}`"), self.peer.read_resource(uri)).await.result()["contents"][0].take()
    }

    pub(crate) async fn prompt(&self, name: &str, arguments: Value) -> Value {
        let exchange = self.peer.get_prompt(name, Some(Raw::of(&arguments))).unwrap();
        self.hear(&format!("the prompt `{name}`"), exchange).await.result()
    }

    pub(crate) async fn hear(&self, what: &str, exchange: Exchange) -> Heard {
        let (mut progress, mut logs) = (Vec::new(), Vec::new());
        let see = |happening: &Happening| match happening {
            Happening::Progress(params) => progress.push(params.read().unwrap()),
            Happening::Log(params) => logs.push(params.read().unwrap()),
            Happening::Ask(_) | Happening::Withdrawn(_) | Happening::Ended(_) => {}
        };
        let outcome = within(what, exchange.outcome_with(Some(&*self.person), see)).await;
        Heard { progress, logs, outcome }
    }

    pub(crate) async fn listen(&self, wanted: Wanted) -> Listening {
        within("a subscription", self.peer.listen(wanted)).await.unwrap()
    }

    pub(crate) async fn tool_names(&self) -> Vec<String> {
        let listing = within("the tools", self.peer.list_tools()).await.unwrap();
        assert!(listing.malformed.is_empty(), "{:?}", listing.malformed);
        listing.items.into_iter().map(|tool| tool.name).collect()
    }

    /// The revision agreed on.
    pub(crate) fn revision(&self) -> &'static str {
        self.peer.profile().revision.as_str()
    }
}

/// The next notice of a subscription.
pub(crate) async fn next(listening: &mut Listening) -> Notice {
    within("a notice", listening.next()).await.expect("the subscription goes on")
}

/// Waits for something, but not for ever.
pub(crate) async fn within<T>(what: &str, wait: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, wait).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not come within {PATIENCE:?}"),
    }
}

// === impl Person ===

impl Person {
    pub(crate) fn new() -> Self {
        Self::with_roots(vec!["file:///srv/demo".to_owned()])
    }

    pub(crate) fn with_roots(roots: Vec<String>) -> Self {
        Self { roots, asked: watch::Sender::default() }
    }

    /// Every question so far: `method` and `params`.
    pub(crate) fn asked(&self) -> Vec<Value> {
        self.asked.borrow().clone()
    }

    /// Resolves when this was asked.
    pub(crate) async fn is_asked(&self, method: &str) {
        let mut asked = self.asked.subscribe();
        let came = asked.wait_for(|asked| asked.iter().any(|question| question["method"] == method));
        within(&format!("the question `{method}`"), came).await.unwrap();
    }

    fn say(&self, method: &str) -> Value {
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

impl AskHandler for Person {
    fn capabilities(&self) -> ClientCapabilities {
        let all = json!({ "elicitation": { "form": {}, "url": {} }, "sampling": {}, "roots": {} });
        ClientCapabilities(Raw::of(&all))
    }

    fn answer(&self, question: Question) -> BoxFuture<'_, Answer> {
        let params: Value = question.params.map(|params| params.read().unwrap()).unwrap_or_default();
        let answer = self.say(&question.method);
        self.asked.send_modify(|asked| asked.push(json!({ "method": question.method, "params": params })));
        Box::pin(async move { Answer::Given(Raw::of(&answer)) })
    }
}

// === impl Speech ===

impl From<EraChoice> for Speech {
    fn from(era: EraChoice) -> Self {
        Self { era, legacy: Revision::NEWEST_LEGACY }
    }
}

/// With a session, and this revision offered.
impl From<Revision> for Speech {
    fn from(legacy: Revision) -> Self {
        Self { era: EraChoice::Legacy, legacy }
    }
}

// === impl Heard ===

impl Heard {
    /// The result; any other end fails the story.
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

// === impl Said ===

impl Said {
    fn new(who: String) -> Self {
        Self { who, errors: LastWords::default(), output: watch::Sender::default() }
    }
}

impl std::fmt::Debug for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#?}", [self.output.borrow().clone(), self.errors.lines()])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        show(&self.said);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        show(&self.said);
    }
}

#[expect(clippy::print_stderr, reason = "a failed story shows what its server said")]
fn show(said: &Said) {
    if std::thread::panicking() {
        eprintln!("{} said {said:?}", said.who);
    }
}
