//! A server with tools that a test defines: in this process, over HTTP, or (with `stdio_fixture`) as a process.
//!
//! It follows the specification; servers that do not are in [`crate::odd`]. Clones share the same state, so that a test
//! can change a connected server.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::{Notify, broadcast, mpsc},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use toolway_wire::{
    down::{
        self, Caller, DownstreamOptions, Profile, Service, ServiceSubscription,
        http::{HttpDownstream, HttpDownstreamOptions},
    },
    exchange::{
        self, Cause, Exchange, ExchangeTimeouts, Feed, Outcome, Request, ServerRequestDetails, ServerRequestId,
    },
    json::Raw,
    message::RpcError,
    notice::{List, Notice, SubscriptionFilter},
    revision::{Era, Revision},
};

/// The server. Clones share the same state.
#[derive(Clone, Debug)]
pub struct FixtureServer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    name: String,
    tools: Mutex<Vec<FixtureTool>>,
    /// Whose tools are listed to callers that declare elicitation, if not its own.
    to_users: Mutex<Option<FixtureServer>>,
    /// Items of its resource list besides the first, each with what reading it returns.
    resources: Mutex<Vec<FixtureResource>>,
    capabilities: Mutex<Value>,
    instructions: Mutex<String>,
    /// TTL in milliseconds and cache scope of its lists, if set.
    keeps: Mutex<Option<(u64, &'static str)>>,
    notices: broadcast::Sender<Notice>,
    seen: Mutex<Vec<Request>>,
    cancelled: AtomicUsize,
    moved: Notify,
}

#[derive(Clone, Debug)]
struct FixtureResource {
    listed: Value,
    /// `null`: reading it waits until it has other contents.
    contents: Value,
}

#[derive(Clone, Debug)]
struct FixtureTool {
    name: String,
    description: String,
    behaviour: Behaviour,
    annotations: Option<Value>,
    output_schema: Option<Value>,
    /// The whole definition, instead of one made of the members above.
    listed: Option<Value>,
}

/// What a tool does when it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Returns its arguments as text.
    Echo,
    /// Returns this text.
    Say(&'static str),
    /// Returns this result, which is JSON.
    Answer(&'static str),
    /// Sends three progress notifications, then answers.
    Count,
    /// Sends a progress notification, then answers after 50 milliseconds.
    Linger,
    /// Never answers.
    Wait,
    /// Requests a name by elicitation, then greets.
    Greet,
    /// Requests a name by elicitation, then never answers.
    Ponder,
    /// Returns an error result.
    Fail,
    /// Answers with a JSON-RPC error that repeats its arguments.
    Refuse,
    /// Adds a tool with the name in its argument `name`.
    Grow,
    /// Requires that a URL is opened before the first call; later calls succeed.
    Connect,
    /// Ends the process.
    Crash,
}

/// A fixture on a port. Dropping it closes everything.
#[derive(Debug)]
pub struct HttpFixture {
    server: FixtureServer,
    revisions: Vec<Revision>,
    address: SocketAddr,
    stop: CancellationToken,
    serving: Option<AbortOnDropHandle<()>>,
}

const UNREAD: usize = 64;

impl FixtureServer {
    /// A server without tools.
    pub fn new(name: &str) -> Self {
        let capabilities = json!({
            "tools": { "listChanged": true },
            "resources": { "subscribe": true, "listChanged": true },
            "prompts": {},
            "completions": {},
            "logging": {},
        });
        let shared = Shared {
            name: name.to_owned(),
            tools: Mutex::default(),
            to_users: Mutex::default(),
            resources: Mutex::default(),
            capabilities: Mutex::new(capabilities),
            instructions: Mutex::new(format!("This is {name}.")),
            keeps: Mutex::default(),
            notices: broadcast::Sender::new(UNREAD),
            seen: Mutex::default(),
            cancelled: AtomicUsize::new(0),
            moved: Notify::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Adds a tool that returns its arguments.
    #[must_use]
    pub fn tool(self, name: &str, description: &str) -> Self {
        self.tool_that(name, description, Behaviour::Echo)
    }

    /// Adds a tool with this behaviour.
    #[must_use]
    pub fn tool_that(self, name: &str, description: &str, behaviour: Behaviour) -> Self {
        self.push(name, description, behaviour);
        self
    }

    /// Adds a tool with these annotations.
    #[must_use]
    pub fn annotated(self, name: &str, annotations: &Value, behaviour: Behaviour) -> Self {
        self.push(name, name, behaviour);
        self.shared.tools.lock().iter_mut().for_each(|tool| {
            if tool.name == name {
                tool.annotations = Some(annotations.clone());
            }
        });
        self
    }

    /// Adds a tool that returns its arguments and is listed with exactly this definition.
    #[must_use]
    pub fn defined(self, definition: Value) -> Self {
        let name = definition["name"].as_str().unwrap_or_default();
        self.push(name, "", Behaviour::Echo);
        if let Some(tool) = self.shared.tools.lock().last_mut() {
            tool.listed = Some(definition);
        }
        self
    }

    /// Adds a resource: its item in the list, and the `contents` of reading it; `null`: reading it waits for
    /// [`Self::rewrite`].
    #[must_use]
    pub fn resource(self, listed: Value, contents: Value) -> Self {
        self.shared.resources.lock().push(FixtureResource { listed, contents });
        self
    }

    /// Replaces what reading a resource returns, and announces nothing.
    pub fn rewrite(&self, uri: &str, contents: &Value) {
        for resource in self.shared.resources.lock().iter_mut().filter(|resource| resource.listed["uri"] == uri) {
            resource.contents = contents.clone();
        }
        self.shared.moved.notify_waiters();
    }

    /// Notifies that the list of resources has changed.
    pub fn announce_resources(&self) {
        drop(self.shared.notices.send(Notice::Changed(List::Resources)));
    }

    /// Gives a tool an output schema.
    #[must_use]
    pub fn structured(self, name: &str, schema: &Value) -> Self {
        for tool in self.shared.tools.lock().iter_mut().filter(|tool| tool.name == name) {
            tool.output_schema = Some(schema.clone());
        }
        self
    }

    /// Lists the tools of `other` to callers that declare elicitation, and calls them for those.
    #[must_use]
    pub fn listing_to_users(self, other: Self) -> Self {
        *self.shared.to_users.lock() = Some(other);
        self
    }

    /// Replaces the declared capabilities.
    #[must_use]
    pub fn declaring(self, capabilities: Value) -> Self {
        *self.shared.capabilities.lock() = capabilities;
        self
    }

    /// Replaces its instructions.
    #[must_use]
    pub fn instructing(self, instructions: &str) -> Self {
        instructions.clone_into(&mut self.shared.instructions.lock());
        self
    }

    /// Sets the TTL in milliseconds and the cache scope of `tools/list` and `resources/read`.
    #[must_use]
    pub fn keeping(self, milliseconds: u64, scope: &'static str) -> Self {
        *self.shared.keeps.lock() = Some((milliseconds, scope));
        self
    }

    /// Adds a tool and sends a notification.
    pub fn add_tool(&self, name: &str, description: &str) {
        self.push(name, description, Behaviour::Echo);
        self.announce();
    }

    /// Changes the description of a tool and sends a notification.
    pub fn describe(&self, tool: &str, description: &str) {
        for known in self.shared.tools.lock().iter_mut().filter(|known| known.name == tool) {
            description.clone_into(&mut known.description);
        }
        self.announce();
    }

    /// Notifies that a resource has changed.
    pub fn touch(&self, uri: &str) {
        let params = Raw::of(&json!({ "uri": uri }));
        // There may be no subscriber.
        drop(self.shared.notices.send(Notice::Updated { uri: uri.to_owned(), params }));
    }

    /// All requests with this method.
    pub fn seen(&self, method: &str) -> Vec<Request> {
        self.shared.seen.lock().iter().filter(|request| request.method() == method).cloned().collect()
    }

    /// Number of callers that cancelled.
    pub fn cancelled(&self) -> usize {
        self.shared.cancelled.load(Ordering::Relaxed)
    }

    /// Waits until this many requests with this method have arrived.
    pub async fn until_received(&self, method: &str, times: usize) {
        self.until(|server| times <= server.seen(method).len()).await;
    }

    /// Waits until this many callers have cancelled.
    pub async fn left(&self, times: usize) {
        self.until(|server| times <= server.cancelled()).await;
    }

    /// The server as a [`Service`].
    pub fn service(&self) -> Arc<dyn Service> {
        Arc::new(self.clone())
    }

    /// Serves on a port of this machine, in the revisions of one era or of both.
    pub async fn over_http(&self, era: Option<Era>) -> io::Result<HttpFixture> {
        let revisions = era.map_or_else(|| Revision::ALL.to_vec(), |era| Revision::of(era).collect());
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let mut fixture = HttpFixture {
            server: self.clone(),
            revisions,
            address: listener.local_addr()?,
            stop: CancellationToken::new(),
            serving: None,
        };
        fixture.serve(listener)?;
        Ok(fixture)
    }

    async fn until(&self, done: impl Fn(&Self) -> bool) {
        loop {
            let moved = self.shared.moved.notified();
            if done(self) {
                return;
            }
            moved.await;
        }
    }

    fn push(&self, name: &str, description: &str, behaviour: Behaviour) {
        let tool = FixtureTool {
            name: name.to_owned(),
            description: description.to_owned(),
            behaviour,
            annotations: None,
            output_schema: None,
            listed: None,
        };
        self.shared.tools.lock().push(tool);
    }

    fn announce(&self) {
        drop(self.shared.notices.send(Notice::Changed(List::Tools)));
    }

    async fn answer(self, request: Request, feed: Feed) {
        let outcome = tokio::select! {
            answer = self.result(&request, &feed) => match answer {
                Ok(result) => Outcome::Answered(result),
                Err(error) => Outcome::Refused(error),
            },
            () = feed.cancelled() => {
                self.shared.cancelled.fetch_add(1, Ordering::Relaxed);
                self.shared.moved.notify_waiters();
                Outcome::Cancelled
            }
        };
        feed.end(outcome);
    }

    async fn result(&self, request: &Request, feed: &Feed) -> Result<Raw, RpcError> {
        let text = |key: &str| request.param(key).and_then(|value| value.as_str().map(|text| text.into_owned()));
        Ok(match request.method() {
            "tools/list" => self.tool_list(),
            "tools/call" => return self.call(&text("name").unwrap_or_default(), request, feed).await,
            "resources/list" => self.resource_list(),
            "resources/templates/list" => Raw::of(&json!({ "resourceTemplates": [] })),
            "resources/read" => match self.read_resource(&text("uri").unwrap_or_default()) {
                Some(result) => result,
                None => self.until_written(&text("uri").unwrap_or_default()).await,
            },
            "prompts/list" => Raw::of(&json!({ "prompts": [{ "name": "hello", "arguments": [{ "name": "who" }] }] })),
            "prompts/get" => {
                Raw::of(&json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": "hello" } }] }))
            }
            "completion/complete" => Raw::of(&json!({ "completion": { "values": ["Ada", "Grace"] } })),
            other => return Err(RpcError::new(RpcError::METHOD_NOT_FOUND, &format!("unknown method `{other}`"))),
        })
    }

    fn resource_list(&self) -> Raw {
        let first = json!({ "uri": format!("{}://one", self.shared.name), "name": "one" });
        let resources = self.shared.resources.lock();
        let others = resources.iter().map(|resource| resource.listed.clone());
        Raw::of(&json!({ "resources": std::iter::once(first).chain(others).collect::<Vec<_>>() }))
    }

    /// `None`: it is not answered.
    fn read_resource(&self, uri: &str) -> Option<Raw> {
        let resources = self.shared.resources.lock();
        let found = resources.iter().find(|resource| resource.listed["uri"] == uri);
        let contents = found
            .map_or_else(|| json!([{ "uri": uri, "text": self.shared.name }]), |resource| resource.contents.clone());
        let mut result = json!({ "contents": contents });
        if let Some((milliseconds, scope)) = *self.shared.keeps.lock() {
            (result["ttlMs"], result["cacheScope"]) = (milliseconds.into(), scope.into());
        }
        (!result["contents"].is_null()).then(|| Raw::of(&result))
    }

    async fn until_written(&self, uri: &str) -> Raw {
        loop {
            let moved = self.shared.moved.notified();
            if let Some(result) = self.read_resource(uri) {
                return result;
            }
            moved.await;
        }
    }

    fn tool_list(&self) -> Raw {
        let tools = self.shared.tools.lock();
        let tool = |tool: &FixtureTool| {
            if let Some(listed) = &tool.listed {
                return listed.clone();
            }
            let mut listed = json!({
                "name": tool.name, "description": tool.description, "inputSchema": { "type": "object" },
            });
            if let Some(annotations) = &tool.annotations {
                listed["annotations"] = annotations.clone();
            }
            if let Some(schema) = &tool.output_schema {
                listed["outputSchema"] = schema.clone();
            }
            listed
        };
        let mut listed = json!({ "tools": tools.iter().map(tool).collect::<Vec<_>>() });
        if let Some((milliseconds, scope)) = *self.shared.keeps.lock() {
            (listed["ttlMs"], listed["cacheScope"]) = (milliseconds.into(), scope.into());
        }
        Raw::of(&listed)
    }

    async fn call(&self, name: &str, request: &Request, feed: &Feed) -> Result<Raw, RpcError> {
        let known = self.shared.tools.lock().iter().find(|tool| tool.name == name).cloned();
        let tool = known.ok_or_else(|| RpcError::new(RpcError::INVALID_PARAMS, &format!("unknown tool `{name}`")))?;
        let arguments = request.param("arguments").unwrap_or_else(Raw::empty_object);
        match tool.behaviour {
            Behaviour::Echo => Ok(text_result(&arguments.to_string(), false)),
            Behaviour::Say(text) => Ok(text_result(text, false)),
            Behaviour::Answer(result) => {
                Raw::parse(result).map_err(|error| RpcError::new(RpcError::INTERNAL, &error.to_string()))
            }
            Behaviour::Fail => Ok(text_result("it failed", true)),
            Behaviour::Refuse => Err(RpcError::new(RpcError::INVALID_PARAMS, &format!("cannot take {arguments}"))),
            Behaviour::Wait => std::future::pending().await,
            Behaviour::Count => {
                for step in 1..=3 {
                    feed.progress(Raw::of(&json!({ "progress": step, "total": 3 })));
                }
                feed.log(Raw::of(&json!({ "level": "info", "data": "counted" })));
                Ok(text_result("three", false))
            }
            Behaviour::Linger => {
                feed.progress(Raw::of(&json!({ "progress": 1 })));
                tokio::time::sleep(Duration::from_millis(50)).await;
                Ok(text_result("done", false))
            }
            Behaviour::Greet => Ok(greet(feed).await),
            Behaviour::Ponder => {
                greet(feed).await;
                std::future::pending().await
            }
            Behaviour::Grow => {
                let new = arguments.get("name").and_then(|name| name.as_str().map(|name| name.into_owned()));
                self.add_tool(&new.unwrap_or_default(), "Grown");
                // Gives the notification time to arrive during the call.
                tokio::time::sleep(Duration::from_millis(50)).await;
                Ok(text_result("grown", false))
            }
            Behaviour::Connect => {
                let url = json!({ "mode": "url", "elicitationId": "1", "url": "https://a.example/", "message": "Go" });
                let data = json!({ "elicitations": [url] });
                match self.seen("tools/call").len() {
                    0 | 1 => Err(RpcError::with_data(RpcError::URL_ELICITATION_REQUIRED, "connect first", data)),
                    _ => Ok(text_result("connected", false)),
                }
            }
            Behaviour::Crash => std::process::exit(70),
        }
    }
}

async fn greet(feed: &Feed) -> Raw {
    let question = ServerRequestDetails {
        id: ServerRequestId(1),
        key: Some("name".to_owned()),
        method: "elicitation/create".to_owned(),
        params: Some(Raw::of(&json!({
            "message": "Who are you?",
            "requestedSchema": { "type": "object", "properties": { "name": { "type": "string" } } },
        }))),
        cause: Cause::Request,
    };
    match feed.ask(question).await.into_result() {
        Ok(answer) => text_result(&format!("hello {answer}"), false),
        Err(error) => text_result(&format!("no answer: {}", error.message()), true),
    }
}

fn text_result(text: &str, is_error: bool) -> Raw {
    Raw::of(&json!({ "content": [{ "type": "text", "text": text }], "isError": is_error }))
}

impl Service for FixtureServer {
    fn profile(&self, _caller: &Caller) -> Profile {
        Profile {
            info: Raw::of(&json!({ "name": self.shared.name, "version": "1" })),
            capabilities: Raw::of(&*self.shared.capabilities.lock()),
            instructions: Some(self.shared.instructions.lock().clone()),
        }
    }

    fn open(&self, request: Request, caller: &Caller) -> Exchange {
        let to_users =
            self.shared.to_users.lock().clone().filter(|_| caller.capabilities.0.get("elicitation").is_some());
        if let Some(other) = to_users.filter(|_| request.method().starts_with("tools/")) {
            return other.open(request, caller);
        }
        self.shared.seen.lock().push(request.clone());
        self.shared.moved.notify_waiters();
        let (exchange, feed) = exchange::pair(ExchangeTimeouts::unbounded(), UNREAD);
        // The task ends with its exchange when the caller disconnects.
        tokio::runtime::Handle::current().spawn(self.clone().answer(request, feed));
        exchange
    }

    fn listen<'a>(&'a self, wanted: SubscriptionFilter, _caller: &'a Caller) -> BoxFuture<'a, ServiceSubscription> {
        let (sender, notices) = mpsc::channel(UNREAD);
        let (mut source, filter) = (self.shared.notices.subscribe(), wanted.clone());
        tokio::runtime::Handle::current().spawn(async move {
            loop {
                let notice = tokio::select! {
                    () = sender.closed() => return,
                    notice = source.recv() => notice,
                };
                match notice {
                    Ok(notice) if filter.covers(&notice) => drop(sender.send(notice).await),
                    Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return,
                }
            }
        });
        Box::pin(std::future::ready(ServiceSubscription { accepted: wanted, notices }))
    }
}

// === impl HttpFixture ===

impl HttpFixture {
    /// URL of the server.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Closes all connections and stops listening.
    pub async fn stop(&mut self) {
        self.stop.cancel();
        if let Some(serving) = self.serving.take() {
            // The task ends because of the cancellation.
            drop(serving.await);
        }
    }

    /// Listens again at the same address, without earlier sessions.
    pub async fn start(&mut self) -> io::Result<()> {
        let listener = TcpListener::bind(self.address).await?;
        self.serve(listener)
    }

    /// Stops and starts, as in a deployment.
    pub async fn restart(&mut self) -> io::Result<()> {
        self.stop().await;
        self.start().await
    }

    fn serve(&mut self, listener: TcpListener) -> io::Result<()> {
        // Without drain time, as if the process were killed.
        let drain = Duration::ZERO;
        let downstream = DownstreamOptions { revisions: self.revisions.clone(), drain, ..DownstreamOptions::default() };
        let options = HttpDownstreamOptions { downstream, ..HttpDownstreamOptions::default() };
        let downstream = HttpDownstream::new(self.server.service(), options).map_err(io::Error::other)?;
        self.stop = CancellationToken::new();
        let serving = down::http::serve(listener, downstream, self.stop.clone());
        let task = tokio::runtime::Handle::current().spawn(async move {
            // Clients notice a failed listener.
            drop(serving.await);
        });
        self.serving = Some(AbortOnDropHandle::new(task));
        Ok(())
    }
}
