//! Client for the official conformance suite: one scenario per run, with a few calls of public API.
//!
//! The suite passes the server URL as the last argument and the rest in environment variables; it is started by
//! `tests/conformance/run`. This program contains no protocol code; missing functions belong into `toolway-wire`.

use std::{collections::HashMap, env, error::Error, future, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, try_join_all};
use http::HeaderMap;
use serde_json::{Map, Value, json};
use toolway_testkit::{conformance_sign_in, conformance_unattended};
use toolway_wire::{
    exchange::{Answer, Exchange, Outcome, ServerRequestDetails, ServerRequestHandler},
    json::Raw,
    limit::Limits,
    message::ClientCapabilities,
    revision::{Era, Revision},
    up::{
        ConnectOptions, EraChoice, Peer,
        client::HttpClient,
        connector::HttpOptions,
        credential::{Credentials, NoCredentials},
        http::HttpTransport,
    },
};
use url::Url;

/// The suite gives up after 30 s; this client reports a timeout itself.
const TIMEOUT: Duration = Duration::from_secs(25);

type Failure = Box<dyn Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let task = Task::read(env::args().next_back(), env::vars().collect())?;
    tokio::time::timeout(TIMEOUT, task.run()).await?
}

/// Task of one run.
struct Task {
    server: Url,
    scenario: String,
    revision: Revision,
    /// Context of the scenario; `{}` if it has none.
    context: Raw,
}

/// Accepts every form with the defaults of its schema.
struct AcceptDefaults;

// === impl Task ===

impl Task {
    fn read(server: Option<String>, mut environment: HashMap<String, String>) -> Result<Self, Failure> {
        let mut variable = |name: &str| environment.remove(name).ok_or_else(|| format!("{name} is not set"));
        Ok(Self {
            server: server.ok_or("the server URL is missing")?.parse()?,
            scenario: variable("MCP_CONFORMANCE_SCENARIO")?,
            revision: variable("MCP_CONFORMANCE_PROTOCOL_VERSION")?.parse()?,
            context: Raw::parse(variable("MCP_CONFORMANCE_CONTEXT").unwrap_or_else(|_| "{}".to_owned()))?,
        })
    }

    async fn run(&self) -> Result<(), Failure> {
        if !self.scenario.starts_with("auth/") {
            return self.run_with(Arc::new(NoCredentials)).await;
        }
        let context = self.context.read()?;
        if let Some(unattended) = conformance_unattended::unattended(&self.server, &self.scenario, &context).await? {
            let (needed, played) = (unattended.watch(), self.run_with(Arc::new(unattended)).await);
            return conformance_sign_in::check_result(&self.scenario, needed.borrow().clone(), played);
        }
        let session = conformance_sign_in::session(&self.server, &self.scenario, &context).await?;
        let played = self.run_with(Arc::new(session.clone())).await;
        conformance_sign_in::check_result(&self.scenario, session.required(), played)
    }

    async fn run_with(&self, credentials: Arc<dyn Credentials>) -> Result<(), Failure> {
        let peer = self.connect(credentials).await?;
        let played = self.play(&peer).await;
        peer.close().await;
        played
    }

    async fn connect(&self, credentials: Arc<dyn Credentials>) -> Result<Peer, Failure> {
        let limits = Limits::default();
        let client = HttpClient::new(HttpOptions::default(), &limits);
        let transport = HttpTransport::new(client, self.server.clone(), HeaderMap::new(), credentials, limits);
        let mut options =
            ConnectOptions { request_handler: Some(Arc::new(AcceptDefaults)), ..ConnectOptions::default() };
        match self.revision.era() {
            Era::Legacy => (options.era, options.legacy) = (EraChoice::Legacy, self.revision),
            Era::Modern => options.era = EraChoice::Modern,
        }
        Ok(Peer::connect(Arc::new(transport), options).await?)
    }

    /// Maps scenarios to calls.
    async fn play(&self, peer: &Peer) -> Result<(), Failure> {
        match self.scenario.as_str() {
            "initialize" | "request-metadata" | "json-schema-ref-no-deref" => list_tools(peer).await,
            "tools_call" => list_and_call(peer, "add_numbers", json!({ "a": 5, "b": 3 })).await,
            "elicitation-sep1034-client-defaults" => {
                list_and_call(peer, "test_client_elicitation_defaults", json!({})).await
            }
            "sse-retry" => list_and_call(peer, "test_reconnection", json!({})).await,
            "sep-2322-client-request-state" => call_all_at_once(peer).await,
            "http-standard-headers" => use_everything(peer).await,
            "http-custom-headers" => call_as_listed(peer, &self.context).await,
            "http-invalid-tool-headers" => call_all_at_once(peer).await,
            "json-schema-2020-12-preservation" => echo_schema(peer).await,
            scenario if scenario.starts_with("auth/") => list_and_call(peer, "test-tool", json!({})).await,
            other => Err(format!("unknown scenario `{other}`").into()),
        }
    }
}

async fn list_tools(peer: &Peer) -> Result<(), Failure> {
    peer.list_tools().await?;
    Ok(())
}

async fn list_and_call(peer: &Peer, tool: &str, arguments: Value) -> Result<(), Failure> {
    list_tools(peer).await?;
    call(peer, tool, Some(Raw::of(&arguments))).await
}

/// Concurrently, so that mixed-up state would be noticed.
async fn call_all_at_once(peer: &Peer) -> Result<(), Failure> {
    let tools = peer.list_tools().await?.items;
    try_join_all(tools.iter().map(|tool| call(peer, &tool.name, Some(some_arguments(&tool.input_schema))))).await?;
    Ok(())
}

async fn use_everything(peer: &Peer) -> Result<(), Failure> {
    call_all_at_once(peer).await?;
    for resource in peer.list_resources().await?.items {
        await_answer(peer.read_resource(&resource.uri)).await?;
    }
    for prompt in peer.list_prompts().await?.items {
        await_answer(peer.get_prompt(&prompt.name, None)?).await?;
    }
    Ok(())
}

/// Makes exactly the calls that the context lists.
async fn call_as_listed(peer: &Peer, context: &Raw) -> Result<(), Failure> {
    list_tools(peer).await?;
    for call_spec in context.get("toolCalls").ok_or("the context lists no calls")?.elements() {
        let name = call_spec.get("name").ok_or("a call without a name")?.read::<String>()?;
        call(peer, &name, call_spec.get("arguments")).await?;
    }
    Ok(())
}

/// Sends a schema back unchanged.
async fn echo_schema(peer: &Peer) -> Result<(), Failure> {
    let tools = peer.list_tools().await?.items;
    let focal = tools.iter().find(|tool| tool.name == "json_schema_2020_12_tool").ok_or("the tool is missing")?;
    let arguments = Raw::parse(format!(r#"{{"schema":{}}}"#, focal.input_schema))?;
    call(peer, "json_schema_echo", Some(arguments)).await
}

async fn call(peer: &Peer, tool: &str, arguments: Option<Raw>) -> Result<(), Failure> {
    await_answer(peer.call_tool(tool, arguments)?).await
}

async fn await_answer(exchange: Exchange) -> Result<(), Failure> {
    match exchange.outcome_with(Some(&AcceptDefaults), |_| {}).await {
        Outcome::Answered(_) => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

/// A text for every required argument of a schema.
fn some_arguments(schema: &Raw) -> Raw {
    let required = schema.get("required").map(|list| list.elements()).unwrap_or_default();
    let arguments = required.iter().filter_map(|key| Some((key.as_str()?.into_owned(), json!("some text"))));
    Raw::of(&arguments.collect::<Map<_, _>>())
}

// === impl AcceptDefaults ===

impl ServerRequestHandler for AcceptDefaults {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities(Raw::of(&json!({ "elicitation": {} })))
    }

    fn answer(&self, question: ServerRequestDetails) -> BoxFuture<'_, Answer> {
        let schema = question.params.and_then(|params| params.get("requestedSchema"));
        let properties = schema.and_then(|schema| schema.get("properties")).map(|all| all.members());
        let defaults = properties
            .into_iter()
            .flatten()
            .filter_map(|property| Some((property.key, property.value.get("default")?.read::<Value>().ok()?)));
        let content = defaults.collect::<Map<_, _>>();
        Box::pin(future::ready(Answer::Given(Raw::of(&json!({ "action": "accept", "content": content })))))
    }
}
