//! A console on a port, a browser that speaks HTTP by hand, and what stands behind the console.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use toolway_agent::model::{Model, ScriptedModel};
use toolway_config::{AssistantConfig, ServerName};
use toolway_console::{
    Console, ConsoleOptions, ConsoleRecords, Lifetimes,
    backend::{
        ConsoleBackend, ConsoleSettings, DifferenceLine, EntryDraft, FoundKey, FoundServer, FoundServers,
        ImportedServer, ListedAssistant, ListedModel, ParsedServer, PlannedEdit, Problem, SavedServer, SignInPage,
        TestFailure, TestReport, WrittenEntry,
    },
};
use toolway_host::{
    connection::WantedServer,
    inbox::{ElicitationModes, InboxAnswerer},
    record::Requirement,
};
use toolway_store::{Store, StoreRecorder, StoreRecords};
use toolway_testkit::{
    fixture_server::FixtureServer,
    test_host::{TestHost, TestHostBuilder, within},
};
use toolway_wire::{json::Raw, message::ClientCapabilities};

/// A console and its surroundings. Dropping it ends everything.
pub(crate) struct Stage {
    pub(crate) host: TestHost,
    pub(crate) console: Arc<Console>,
    pub(crate) backend: Arc<TestBackend>,
    pub(crate) address: String,
    pub(crate) stop: CancellationToken,
    pub(crate) serving: Option<AbortOnDropHandle<std::io::Result<()>>>,
}

/// What the embedding program would do.
#[derive(Default)]
pub(crate) struct TestBackend {
    models: Mutex<HashMap<String, Arc<dyn Model>>>,
    /// Assistants as they are configured now.
    pub(crate) assistants: Mutex<HashMap<String, AssistantConfig>>,
    /// What was added, enabled and disabled.
    pub(crate) changes: Mutex<Vec<String>>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// A signed-in browser.
#[derive(Clone)]
pub(crate) struct Browser {
    pub(crate) address: String,
    pub(crate) cookie: String,
    pub(crate) csrf: String,
}

/// An open event stream.
pub(crate) struct Events {
    stream: TcpStream,
    text: String,
}

impl Stage {
    /// A console for these servers, which are ready.
    pub(crate) async fn new(servers: &[(&str, &FixtureServer)]) -> Self {
        Self::with(servers, ConsoleOptions::default(), |builder| builder).await
    }

    pub(crate) async fn with(
        servers: &[(&str, &FixtureServer)],
        options: ConsoleOptions,
        prepare: impl FnOnce(TestHostBuilder) -> TestHostBuilder,
    ) -> Self {
        let store = Store::in_memory().unwrap();
        let recorder = Arc::new(StoreRecorder::new(store.clone(), Requirement::Required, "gateway"));
        let mut builder = TestHost::new();
        builder.ports.answerer = Arc::new(InboxAnswerer { modes: ElicitationModes::FormsAndUrls });
        builder.ports.recorder = Some(recorder.clone());
        builder.ports.approvals = recorder;
        builder.options.declared = Some(ClientCapabilities(Raw::empty_object()));
        for (name, server) in servers {
            builder = builder.server(name, server);
        }
        let host = prepare(builder).start().await;
        for (name, _) in servers {
            host.ready(name).await;
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let backend = Arc::new(TestBackend::default());
        let conversations = StoreRecorder::new(store.clone(), Requirement::BestEffort, "console");
        let records = Arc::new(StoreRecords::of(store));
        let changes = Arc::<StoreRecords>::clone(&records);
        let records = ConsoleRecords { records, changes, conversations: Arc::new(conversations) };
        let options = ConsoleOptions { records: Some(records), ..options };
        let console = Console::new(host.host.clone(), backend.clone(), options, address).unwrap();
        let stop = CancellationToken::new();
        let serving = tokio::runtime::Handle::current().spawn(Arc::clone(&console).serve(listener, stop.clone()));
        let serving = Some(AbortOnDropHandle::new(serving));
        Self { host, console, backend, address: address.to_string(), stop, serving }
    }

    /// A console whose sign-ins last this long.
    pub(crate) async fn with_lifetimes(token: Duration, session: Duration) -> Self {
        let options = ConsoleOptions { lifetimes: Lifetimes { token, session }, ..ConsoleOptions::default() };
        Self::with(&[], options, |builder| builder).await
    }

    /// Adds a scripted model.
    pub(crate) fn script(&self, name: &str, turns: &Value) {
        let model = ScriptedModel::parse(name, &json!({ "turns": turns }).to_string()).unwrap();
        self.backend.models.lock().insert(name.to_owned(), Arc::new(model));
    }

    /// The path and query of a new link.
    pub(crate) fn link(&self) -> String {
        let link = self.console.link().unwrap();
        link.strip_prefix(&format!("http://{}", self.address)).unwrap().to_owned()
    }

    /// Sends a request without a cookie.
    pub(crate) async fn get(&self, path: &str) -> Reply {
        send(&self.address, &format!("GET {path} HTTP/1.1\r\nHost: {}\r\n", self.address), "").await
    }

    /// Signs a browser in.
    pub(crate) async fn browser(&self) -> Browser {
        let reply = self.get(&self.link()).await;
        assert_eq!(reply.status, 303, "{}", reply.head);
        let cookie = reply.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        let csrf = reply.header("location").unwrap().strip_prefix("/#key=").unwrap().to_owned();
        Browser { address: self.address.clone(), cookie, csrf }
    }
}

impl Browser {
    pub(crate) async fn get(&self, path: &str) -> Reply {
        let head = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\n", self.address, self.cookie);
        send(&self.address, &head, "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.post_text(path, &body.to_string()).await
    }

    pub(crate) async fn post_text(&self, path: &str, body: &str) -> Reply {
        let Self { address, cookie, csrf } = self;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nCookie: {cookie}\r\n\
             x-toolway-csrf: {csrf}\r\nContent-Length: {}\r\n",
            body.len()
        );
        send(address, &head, body).await
    }

    /// The JSON of a page that must be there.
    pub(crate) async fn json(&self, path: &str) -> Value {
        let reply = self.get(path).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        reply.json()
    }

    /// Asks again until the answer is as wanted.
    pub(crate) async fn until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let asking = async {
            loop {
                let answer = self.json(path).await;
                if wanted(&answer) {
                    return answer;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        within(path, asking).await
    }

    /// Opens the event stream.
    pub(crate) async fn events(&self, last: Option<&str>) -> Events {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        let last = last.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        let Self { address, cookie, .. } = self;
        let head = format!(
            "GET /api/v1/events HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\n{last}Connection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut events = Events { stream, text: String::new() };
        events.read_until("retry: 1000\n\n").await;
        events
    }
}

impl Events {
    /// The next event of a kind: its id and its data.
    pub(crate) async fn next(&mut self, kind: &str) -> (String, Value) {
        loop {
            let event = self.read_until("\n\n").await;
            let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
            if field("event: ").as_deref() == Some(kind) {
                return (field("id: ").unwrap(), serde_json::from_str(&field("data: ").unwrap()).unwrap());
            }
        }
    }

    /// The next chat event of a type.
    pub(crate) async fn chat(&mut self, kind: &str) -> Value {
        loop {
            let (_, event) = self.next("chat").await;
            assert!(event["type"] != "error" || kind == "error", "{event}");
            if event["type"] == kind {
                return event;
            }
        }
    }

    /// Reads up to and including a text. The lengths of chunks stand on lines of their own and do no harm.
    pub(crate) async fn read_until(&mut self, end: &str) -> String {
        let reading = async {
            loop {
                let text = self.text.replace("\r\n", "\n");
                if let Some(at) = text.find(end) {
                    let (read, rest) = text.split_at(at + end.len());
                    let (read, rest) = (read.to_owned(), rest.to_owned());
                    self.text = rest;
                    return read;
                }
                let mut bytes = vec![0; 64 * 1024];
                let count = self.stream.read(&mut bytes).await.unwrap();
                assert_ne!(count, 0, "the stream ended: {}", self.text);
                self.text.push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        };
        within("an event", reading).await
    }

    /// Waits until the console ends the stream.
    pub(crate) async fn ended(mut self) {
        let mut rest = Vec::new();
        drop(within("the end of the stream", self.stream.read_to_end(&mut rest)).await);
    }
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let named = |line: &str| line.split_once(": ").is_some_and(|(key, _)| key.eq_ignore_ascii_case(name));
        self.head.lines().find(|line| named(line)).and_then(|line| line.split_once(": ")).map(|(_, value)| value)
    }

    pub(crate) fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// Sends a request on a connection of its own. `head` has no empty line at its end.
pub(crate) async fn send(address: &str, head: &str, body: &str) -> Reply {
    let sending = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("{head}Connection: close\r\n\r\n{body}");
        // The console may answer and close before it has read everything.
        drop(stream.write_all(request.as_bytes()).await);
        let mut bytes = Vec::new();
        drop(stream.read_to_end(&mut bytes).await);
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let text = within("a response", sending).await;
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Reply { status, head: head.to_owned(), body: body.to_owned() }
}

impl ConsoleBackend for TestBackend {
    fn models(&self) -> Vec<ListedModel> {
        let listed = |name: &String| ListedModel { name: name.clone(), vendor: "scripted".into(), model: "x".into() };
        self.models.lock().keys().map(listed).collect()
    }

    fn settings(&self) -> ConsoleSettings {
        ConsoleSettings::default()
    }

    fn model(&self, name: Option<&str>) -> Result<Arc<dyn Model>, Problem> {
        let models = self.models.lock();
        let found = name.map_or_else(|| models.values().next(), |name| models.get(name));
        found.cloned().ok_or_else(|| Problem::new("unknown model"))
    }

    fn assistants(&self) -> Vec<ListedAssistant> {
        let listed = |(name, config): (&String, &AssistantConfig)| ListedAssistant {
            name: name.clone(),
            description: config.description.clone(),
            approval: config.approval.as_str(),
            model: config.model.clone(),
            servers: config.servers.as_ref().map(|servers| servers.iter().map(ToString::to_string).collect()),
        };
        self.assistants.lock().iter().map(listed).collect()
    }

    fn assistant(&self, name: &str) -> Result<AssistantConfig, Problem> {
        self.assistants.lock().get(name).cloned().ok_or_else(|| Problem::new(format!("unknown assistant `{name}`")))
    }

    fn assistant_entry(&self, name: &str) -> Result<WrittenEntry, Problem> {
        Ok(WrittenEntry {
            label: name.to_owned(),
            entry: self.assistant(name)?.json(),
            place: "toolway.json:9".to_owned(),
            version: "1".to_owned(),
            notices: Vec::new(),
        })
    }

    fn plan_assistant(&self, draft: &EntryDraft) -> Result<PlannedEdit, Problem> {
        let read = AssistantConfig::of_json(&draft.entry.to_string());
        read.map_err(|error| Problem::of_field("approval", error.to_string()))?;
        let planned = self.plan(&EntryDraft { version: Some("1".to_owned()), ..draft.clone() })?;
        Ok(PlannedEdit { version: draft.version.clone(), ..planned })
    }

    fn save_assistant(&self, draft: &EntryDraft) -> Result<String, Problem> {
        self.plan_assistant(draft)?;
        let config = AssistantConfig::of_json(&draft.entry.to_string()).unwrap();
        self.assistants.lock().insert(draft.name.clone(), config);
        Ok(draft.name.clone())
    }

    fn plan_assistant_removal(&self, name: &str) -> Result<PlannedEdit, Problem> {
        self.plan_removal(&name.parse().unwrap())
    }

    fn remove_assistant(&self, name: &str, version: &str) -> Result<(), Problem> {
        if version != "1" {
            return Err(Problem { conflict: true, ..Problem::new("the entry was changed") });
        }
        self.assistants.lock().remove(name);
        Ok(())
    }

    fn parse(&self, text: &str, name: Option<&str>) -> Result<ParsedServer, Problem> {
        if text.is_empty() {
            return Err(Problem { hint: Some("paste something".into()), ..Problem::new("nothing was pasted") });
        }
        let name = name.unwrap_or("pasted").to_owned();
        Ok(ParsedServer { name, entry: json!({ "command": text }), warnings: Vec::new() })
    }

    fn entry(&self, server: &ServerName) -> Result<WrittenEntry, Problem> {
        Ok(WrittenEntry {
            label: server.to_string(),
            entry: json!({ "command": "run-me" }),
            place: "toolway.json:3".to_owned(),
            version: "1".to_owned(),
            notices: vec!["It is yours.".to_owned()],
        })
    }

    fn plan(&self, draft: &EntryDraft) -> Result<PlannedEdit, Problem> {
        if draft.name == "taken" {
            let problem = Problem::of_field("name", "server `taken` already exists");
            return Err(Problem { conflict: true, ..problem });
        }
        if draft.entry["command"] == "" {
            return Err(Problem::of_field("command", "the program is missing"));
        }
        Ok(PlannedEdit {
            file: "toolway.json".to_owned(),
            difference: vec![DifferenceLine { kind: "added", text: draft.entry.to_string() }],
            by_hand: None,
            runs: draft.entry["command"].as_str().map(str::to_owned),
            url: None,
            needs_consent: draft.version.is_none(),
            warnings: vec!["it is new".to_owned()],
            version: draft.version.clone(),
        })
    }

    fn test<'a>(&'a self, draft: &'a EntryDraft) -> BoxFuture<'a, Result<TestReport, Problem>> {
        let message = format!("cannot start {}", draft.entry["command"]);
        let error = Some(TestFailure { message, hint: None, stderr: vec!["boo".into()] });
        Box::pin(async { Ok(TestReport { error, ..TestReport::default() }) })
    }

    fn save(&self, draft: &EntryDraft) -> Result<SavedServer, Problem> {
        self.changes.lock().push(format!("save {}", draft.entry["command"].as_str().unwrap_or_default()));
        let has_secret = draft.entry["env"]["TOKEN"].is_string();
        let notices = if has_secret { vec!["the secret is stored".to_owned()] } else { Vec::new() };
        Ok(SavedServer { name: draft.name.parse().unwrap(), notices })
    }

    fn plan_removal(&self, server: &ServerName) -> Result<PlannedEdit, Problem> {
        let planned = self.plan(&EntryDraft {
            name: server.to_string(),
            entry: json!({ "command": "run-me" }),
            version: Some("1".to_owned()),
            pasted: None,
        })?;
        let difference = vec![DifferenceLine { kind: "removed", text: server.to_string() }];
        Ok(PlannedEdit { difference, ..planned })
    }

    fn remove(&self, server: &ServerName, version: &str) -> Result<(), Problem> {
        if version != "1" {
            return Err(Problem { conflict: true, ..Problem::new("the entry was changed") });
        }
        self.changes.lock().push(format!("remove {server}"));
        Ok(())
    }

    fn importable(&self) -> Result<FoundServers, Problem> {
        let key = FoundKey { host: "cursor".into(), label: "files".into(), place: "mcp.json:2".into() };
        let name = "files".to_owned();
        let command = "npx files".to_owned();
        let server = FoundServer { key, name, command, skipped: None, secrets: 1, inputs: Vec::new() };
        Ok(FoundServers { servers: vec![server], warnings: vec!["file ignored: it is empty".to_owned()] })
    }

    fn import(&self, chosen: &[FoundKey]) -> Result<Vec<ImportedServer>, Problem> {
        let one = |key: &FoundKey| ImportedServer { name: key.label.clone(), copied: true, notices: Vec::new() };
        Ok(chosen.iter().map(one).collect())
    }

    fn command(&self, server: &ServerName) -> Option<String> {
        Some(format!("run-{server} --all"))
    }

    fn sign_in<'a>(&'a self, server: &'a ServerName) -> BoxFuture<'a, Result<SignInPage, Problem>> {
        let page = SignInPage { url: format!("https://login.example/{server}"), notices: vec!["Sign in.".into()] };
        Box::pin(async move {
            if server.as_str() == "sample" {
                Err(Problem::new("server `sample` does not use a sign-in"))
            } else {
                Ok(page)
            }
        })
    }

    fn sign_in_failure(&self, server: &ServerName) -> Option<String> {
        (server.as_str() == "sample").then(|| "access denied".to_owned())
    }

    fn set_enabled(&self, server: &ServerName, enabled: bool) -> Result<bool, Problem> {
        self.changes.lock().push(format!("{server} {enabled}"));
        Ok(false)
    }
}

/// A server over HTTP.
pub(crate) fn over_http(name: &str, url: &str) -> WantedServer {
    let text = json!({ "mcpServers": { name: { "url": url } } }).to_string();
    let document = toolway_config::document::Document::of("toolway.json".as_ref(), &text).unwrap();
    let config = toolway_config::Config::of(&document, None).unwrap();
    WantedServer::configured(&config, config.find(name).unwrap())
}
