//! The client of the official Rust SDK: lists, calls, answers server requests, listens. See `tests/interop/README.md`
//! for its output.
//!
//! `rmcp-client <plan>`. The SDK's own transport over a Unix socket is taken, with a relay from that
//! socket to the port of the address, because its other one would bring a whole HTTP stack into the build.

#![expect(deprecated, reason = "sampling and subscribing are what the older revision has")]

use std::{
    error::Error,
    io::{self, Write},
    path::Path,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use rmcp::{
    ClientHandler, ErrorData, ServiceExt,
    model::{
        CallToolRequestParams, ClientCapabilities, ClientInfo, CreateMessageRequestParams, CreateMessageResult,
        ElicitRequestParams, ElicitResult, ElicitationAction, Implementation, ProtocolVersion, SamplingMessage,
        SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
    },
    service::{ClientLifecycleMode, ClientServiceExt, NotificationContext, RequestContext, RoleClient, RunningService},
    transport::{
        StreamableHttpClientTransport, UnixSocketHttpClient,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::{Value, json};
use tokio::{
    net::{TcpStream, UnixListener},
    sync::Notify,
    task::JoinSet,
};

const PATIENCE: Duration = Duration::from_secs(10);

type Client = RunningService<RoleClient, Person>;

/// Handler of server requests and notifications.
#[derive(Clone, Default)]
struct Person {
    answer: Value,
    asked: Arc<Mutex<Option<String>>>,
    changed: Arc<Notify>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let plan = std::env::args().nth(1).ok_or("usage: rmcp-client <plan>")?;
    let plan: Value = serde_json::from_str(&plan)?;
    let socket = std::env::temp_dir().join(format!("rmcp-client-{}.sock", std::process::id()));
    let url = plan["url"].as_str().ok_or("the plan has no address")?;
    let listener = UnixListener::bind(&socket)?;
    let did = tokio::select! {
        did = tell(&socket, url, &plan) => did,
        end = relay(listener, url) => Err(end),
    };
    std::fs::remove_file(&socket)?;
    writeln!(io::stdout(), "{}", did?)?;
    Ok(())
}

async fn tell(socket: &Path, url: &str, plan: &Value) -> Result<Value, Box<dyn Error>> {
    let mut config = StreamableHttpClientTransportConfig::with_uri(url);
    if let Some(key) = plan["key"].as_str() {
        config = config.auth_header(key);
    }
    let http = UnixSocketHttpClient::new(&socket.to_string_lossy(), url);
    let transport = StreamableHttpClientTransport::with_client(http, config);
    let person = Person { answer: plan["answer"].clone(), ..Person::default() };
    let client = match plan["mode"].as_str() {
        Some("legacy") => person.clone().serve(transport).await?,
        _ => person.clone().serve_with_lifecycle(transport, modern()).await?,
    };
    let revision = client.peer_info().map(|info| info.protocol_version.to_string()).unwrap_or_default();
    let tools = client.list_all_tools().await?.len();
    let called = call(&client, &plan["call"]).await?;
    let elicited = call(&client, &plan["elicit"]).await?;
    let sampled = call(&client, &plan["sample"]).await?;
    let subscribed = hear_of_a_change(&client, &person, &revision, plan).await?;
    client.cancel().await?;
    let mut did = json!({
        "client": "rmcp", "version": "3.8.0", "revision": revision, "tools": tools, "called": called,
        "asked": *person.asked.lock(), "elicited": elicited, "sampled": sampled, "subscribed": subscribed,
    });
    if !plan["change"].is_null() {
        did["changed"] = json!(true);
    }
    Ok(did)
}

/// Subscribes in the form of the revision, triggers a list change if the plan says how, and waits for the notification.
async fn hear_of_a_change(
    client: &Client,
    person: &Person,
    revision: &str,
    plan: &Value,
) -> Result<&'static str, Box<dyn Error>> {
    let watched = plan["watch"].as_str().unwrap_or_default();
    let change = Some(&plan["change"]).filter(|change| !change.is_null());
    if revision < "2026" {
        client.subscribe(SubscribeRequestParams::new(watched)).await?;
        if let Some(change) = change {
            call(client, change).await?;
            tokio::time::timeout(PATIENCE, person.changed.notified()).await?;
        }
        client.unsubscribe(UnsubscribeRequestParams::new(watched)).await?;
        return Ok("resources/subscribe");
    }
    let filter = SubscriptionFilter::builder().tools_list_changed().resource_subscriptions([watched]).build();
    let mut heard = client.listen(filter).await?;
    if let Some(change) = change {
        call(client, change).await?;
        tokio::time::timeout(PATIENCE, heard.next()).await??.ok_or("the subscription ended")?;
    }
    heard.cancel().await?;
    Ok("subscriptions/listen")
}

/// Calls a tool, given as its name and its arguments.
async fn call(client: &Client, tool: &Value) -> Result<String, Box<dyn Error>> {
    let name = tool[0].as_str().unwrap_or_default().to_owned();
    let arguments = tool[1].as_object().cloned().unwrap_or_default();
    let result = client.call_tool(CallToolRequestParams::new(name.clone()).with_arguments(arguments)).await?;
    let text = result.content.first().and_then(|block| block.as_text()).map(|text| text.text.clone());
    text.ok_or_else(|| format!("{name} said nothing").into())
}

fn modern() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto { preferred_versions: vec![ProtocolVersion::V_2026_07_28], legacy_version: None }
}

/// Forwards every connection on the socket to the port of the URL, until one fails.
async fn relay(listener: UnixListener, url: &str) -> Box<dyn Error> {
    let authority = url.trim_start_matches("http://").split('/').next().unwrap_or_default();
    let mut connections = JoinSet::new();
    loop {
        let mut here = match listener.accept().await {
            Ok((here, _)) => here,
            Err(error) => return error.into(),
        };
        let authority = authority.to_owned();
        connections.spawn(async move {
            let mut there = TcpStream::connect(authority).await?;
            tokio::io::copy_bidirectional(&mut here, &mut there).await
        });
    }
}

impl ClientHandler for Person {
    fn get_info(&self) -> ClientInfo {
        let capabilities = ClientCapabilities::builder().enable_elicitation().enable_sampling().build();
        ClientInfo::new(capabilities, Implementation::new("rmcp-client", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        if let ElicitRequestParams::FormElicitationParams { message, .. } = request {
            *self.asked.lock() = Some(message);
        }
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(self.answer.clone()))
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let content = params.messages.first().and_then(|message| message.content.first());
        let text = content.and_then(|content| content.as_text()).map(|text| text.text.as_str()).unwrap_or_default();
        Ok(CreateMessageResult::new(SamplingMessage::assistant_text(format!("heard {text}")), "none".to_owned()))
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}
