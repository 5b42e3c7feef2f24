//! Lists of a stateful server that differ between callers: each caller sees, and is notified of, its own.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::{broadcast, mpsc};
use toolway_config::Secret;
use toolway_gateway::access::{Access, KeyFile};
use toolway_host::connection::{WantedServer, Way};
use toolway_testkit::test_host::{TestHost, name, within};
use toolway_wire::{
    down::{Caller, Profile, Service, ServiceSubscription},
    exchange::{Exchange, ExchangeTimeouts, LogLevel, Outcome, Request},
    json::Raw,
    message::RpcError,
    notice::{List, Notice, SubscriptionFilter},
    revision::Era,
    up::{EraChoice, Peer},
};

use crate::test_gateway::TestGateway;

/// A server with sessions: each session has its own tools, and one more if its client supports forms.
#[derive(Default)]
struct Personal {
    grown: Mutex<HashMap<Arc<str>, Vec<String>>>,
    for_all: Mutex<Vec<String>>,
    told: Mutex<Vec<(Arc<str>, broadcast::Sender<Notice>)>>,
    sessions: Mutex<Vec<Arc<str>>>,
}

impl Personal {
    fn tools(&self, caller: &Caller) -> Vec<String> {
        let mut tools = vec!["grow".to_owned()];
        tools.extend(self.for_all.lock().unwrap().iter().cloned());
        if caller.capabilities.lacks("elicitation/create", None).is_none() {
            tools.push("form".to_owned());
        }
        tools.extend(self.grown.lock().unwrap().get(&session(caller)).cloned().unwrap_or_default());
        tools
    }

    fn call(&self, request: &Request, caller: &Caller) -> Value {
        let [name, arguments] = ["name", "arguments"].map(|key| request.param(key).unwrap_or_else(Raw::empty_object));
        if name.as_str().unwrap() == "grow" {
            let new = arguments.get("name").unwrap().as_str().unwrap().into_owned();
            self.grown.lock().unwrap().entry(session(caller)).or_default().push(new);
            self.tell(|whose| *whose == session(caller));
        }
        json!({ "content": [{ "type": "text", "text": name.as_str() }] })
    }

    /// Adds a tool to all sessions.
    fn add(&self, tool: &str) {
        self.for_all.lock().unwrap().push(tool.to_owned());
        self.tell(|_| true);
    }

    fn tell(&self, whom: impl Fn(&Arc<str>) -> bool) {
        for (_, sender) in self.told.lock().unwrap().iter().filter(|(whose, _)| whom(whose)) {
            drop(sender.send(Notice::Changed(List::Tools)));
        }
    }

    /// Sends a log message outside of calls to the sessions that added a tool.
    fn log(&self, level: &str, data: &str) {
        let grown: Vec<_> = self.grown.lock().unwrap().keys().cloned().collect();
        for (_, sender) in self.told.lock().unwrap().iter().filter(|(whose, _)| grown.contains(whose)) {
            drop(sender.send(Notice::Log(Raw::of(&json!({ "level": level, "data": data })))));
        }
    }

    /// Number of sessions so far.
    fn sessions(&self) -> usize {
        self.sessions.lock().unwrap().len()
    }
}

fn session(caller: &Caller) -> Arc<str> {
    caller.session.clone().unwrap()
}

impl Service for Personal {
    fn profile(&self, caller: &Caller) -> Profile {
        self.sessions.lock().unwrap().push(session(caller));
        let info = Raw::of(&json!({ "name": "personal", "version": "1" }));
        Profile {
            info,
            capabilities: Raw::of(&json!({ "tools": { "listChanged": true }, "logging": {} })),
            instructions: None,
        }
    }

    fn open(&self, request: Request, caller: &Caller) -> Exchange {
        let tool = |name: String| json!({ "name": name, "description": "One", "inputSchema": { "type": "object" } });
        let result = match request.method() {
            "tools/list" => json!({ "tools": self.tools(caller).into_iter().map(tool).collect::<Vec<_>>() }),
            "tools/call" => self.call(&request, caller),
            _ => return Exchange::ended(Outcome::Refused(RpcError::new(RpcError::METHOD_NOT_FOUND, "unknown"))),
        };
        Exchange::ended(Outcome::Answered(Raw::of(&result)))
    }

    fn listen<'a>(&'a self, wanted: SubscriptionFilter, caller: &'a Caller) -> BoxFuture<'a, ServiceSubscription> {
        let (sender, notices) = mpsc::channel(64);
        let told = broadcast::Sender::new(64);
        let mut source = told.subscribe();
        self.told.lock().unwrap().push((session(caller), told));
        tokio::runtime::Handle::current().spawn(async move {
            while let Ok(notice) = source.recv().await {
                drop(sender.send(notice).await);
            }
        });
        Box::pin(std::future::ready(ServiceSubscription { accepted: wanted, notices }))
    }
}

struct PersonalGateway {
    gateway: TestGateway,
    server: Arc<Personal>,
    keys: [Secret; 2],
    _folder: tempfile::TempDir,
}

const PATHS: [(&str, &str); 2] = [("/mcp", "own__"), ("/servers/own/mcp", "")];

impl PersonalGateway {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("clients.json"));
        let keys = ["ada", "bob"].map(|name| file.add(name, None, None).unwrap());
        let (access, _) = Access::with_keys(Some(file)).unwrap();
        let server = Arc::new(Personal::default());
        let wanted = WantedServer::new(name("own"), Way::InProcess(server.clone()));
        let wanted = WantedServer { era: EraChoice::Legacy, ..wanted };
        let gateway = TestGateway::open_to(TestHost::new().wanted(wanted), access, None).await;
        gateway.host.ready("own").await;
        Self { gateway, server, keys, _folder: folder }
    }

    async fn ada(&self, path: &str, era: Era) -> Peer {
        self.gateway.client_with(path, era, Some(self.keys[0].expose())).await.unwrap()
    }

    async fn bob(&self, path: &str, era: Era) -> Peer {
        self.gateway.client_with(path, era, Some(self.keys[1].expose())).await.unwrap()
    }
}

async fn tools(client: &Peer) -> Vec<String> {
    let listed = within("a list", client.list_tools()).await.unwrap();
    listed.items.into_iter().map(|tool| tool.name).collect()
}

async fn call(client: &Peer, tool: &str, arguments: Value) -> Outcome {
    let params = Raw::of(&json!({ "name": tool, "arguments": arguments }));
    let request = Request::new("tools/call", Some(params)).unwrap();
    within("a call", client.open(request, ExchangeTimeouts::call()).outcome()).await
}

fn named(prefix: &str, tools: &[&str]) -> Vec<String> {
    tools.iter().map(|tool| format!("{prefix}{tool}")).collect()
}

#[tokio::test]
async fn caller_gets_the_list_for_its_capabilities_and_can_call_the_tools() {
    for era in [Era::Legacy, Era::Modern] {
        for (path, prefix) in PATHS {
            let two = PersonalGateway::start().await;
            let without_forms = two.gateway.connect_without_user(path, era, two.keys[0].expose()).await;
            assert_eq!(tools(&without_forms).await, named(prefix, &["grow"]), "{path} {era:?}");
            let ada = two.ada(path, era).await;
            assert_eq!(tools(&ada).await, named(prefix, &["grow", "form"]), "{path} {era:?}");
            let called = call(&ada, &format!("{prefix}form"), json!({})).await;
            assert!(
                matches!(&called, Outcome::Answered(result) if !result.to_string().contains("isError")),
                "{called:?}"
            );
            // The list for these capabilities is known from the other caller, so no connection is needed.
            let before = two.server.sessions();
            let bob = two.bob(path, era).await;
            assert_eq!(tools(&bob).await, named(prefix, &["grow", "form"]), "{path} {era:?}");
            assert_eq!(two.server.sessions(), before, "{path} {era:?}");
        }
    }
}

#[tokio::test]
async fn tool_added_in_a_session_is_visible_to_its_caller_only() {
    for era in [Era::Legacy, Era::Modern] {
        for (path, prefix) in PATHS {
            let two = PersonalGateway::start().await;
            let (ada, bob) = (two.ada(path, era).await, two.bob(path, era).await);
            assert_eq!(tools(&ada).await, tools(&bob).await);
            let mut of_ada = within("a subscription", ada.listen(SubscriptionFilter::lists())).await.unwrap();
            let mut of_bob = within("a subscription", bob.listen(SubscriptionFilter::lists())).await.unwrap();
            call(&ada, &format!("{prefix}grow"), json!({ "name": "adas" })).await;
            let notice = within("a notice", of_ada.next()).await.unwrap();
            assert!(matches!(notice, Notice::Changed(List::Tools)), "{notice:?}");
            assert_eq!(tools(&ada).await, named(prefix, &["grow", "form", "adas"]), "{path} {era:?}");
            assert_eq!(tools(&bob).await, named(prefix, &["grow", "form"]), "{path} {era:?}");
            assert!(matches!(call(&ada, &format!("{prefix}adas"), json!({})).await, Outcome::Answered(_)));
            if !prefix.is_empty() {
                let refused = call(&bob, &format!("{prefix}adas"), json!({})).await;
                assert!(matches!(refused, Outcome::Refused(_)), "{refused:?}");
            }
            // A tool for all sessions is reported to both, once each; it is the first notification that Bob gets.
            two.server.add("new");
            for listening in [&mut of_ada, &mut of_bob] {
                within("a notice", listening.next()).await.unwrap();
                let more = tokio::time::timeout(Duration::from_millis(600), listening.next()).await;
                assert!(more.is_err(), "{path} {era:?}: {more:?}");
            }
            assert_eq!(tools(&ada).await, named(prefix, &["grow", "new", "form", "adas"]), "{path} {era:?}");
            assert_eq!(tools(&bob).await, named(prefix, &["grow", "new", "form"]), "{path} {era:?}");
        }
    }
}

#[tokio::test]
async fn log_outside_of_calls_reaches_the_caller_of_its_session_only() {
    for (path, prefix) in PATHS {
        let two = PersonalGateway::start().await;
        let (ada, bob) = (two.ada(path, Era::Legacy).await, two.bob(path, Era::Legacy).await);
        let (mut of_ada, mut of_bob) = (ada.notices(), bob.notices());
        call(&ada, &format!("{prefix}grow"), json!({ "name": "adas" })).await;
        call(&bob, &format!("{prefix}form"), json!({})).await;
        two.server.log("info", "first");
        assert_eq!(logged(&mut of_ada).await, "first", "{path}");
        within("a level", ada.set_log_level(LogLevel::Error)).await.unwrap();
        two.server.log("info", "not wanted");
        two.server.log("error", "second");
        assert_eq!(logged(&mut of_ada).await, "second", "{path}");
        // An earlier notification for Bob would arrive first.
        two.server.add("new");
        loop {
            match within("a notice", of_bob.recv()).await.unwrap() {
                Notice::Changed(_) => break,
                other => assert!(!matches!(other, Notice::Log(_)), "{path}: {other:?}"),
            }
        }
    }
}

/// The next log message outside of calls.
async fn logged(notices: &mut broadcast::Receiver<Notice>) -> String {
    loop {
        if let Notice::Log(params) = within("a log", notices.recv()).await.unwrap() {
            return params.get("data").unwrap().as_str().unwrap().into_owned();
        }
    }
}
