//! Setup of one bridge test: a client of one era at an endpoint of the gateway, and a server of one era.

use std::{fmt, path::PathBuf, sync::Arc};

use serde_json::{Value, json};
use toolway_host::connection::{Program, ServerAddress, WantedServer, Way};
use toolway_testkit::test_host::{TestHost, name, within};
use toolway_wire::{
    exchange::{ExchangeEvent, ExchangeTimeouts, Outcome, Request},
    json::Raw,
    revision::{Era, Revision},
    up::Peer,
};

use crate::{over_http::OverHttp, scripted_user::ScriptedUser, test_gateway::TestGateway};

/// Eras of client and server, and the transport of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) client: Era,
    pub(super) server: Era,
    pub(super) behind: Behind,
}

/// Transport of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind {
    Stdio,
    Http,
}

/// Endpoint that the client uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// `/servers/<id>/mcp`, with the names of the server.
    One,
    /// `/mcp`, with public names.
    All,
}

/// A gateway with the server of one column.
pub(super) struct BridgeGateway {
    column: Column,
    gateway: TestGateway,
    _server: Option<OverHttp>,
}

/// A client at one endpoint.
pub(super) struct Scenario {
    pub(super) column: Column,
    pub(super) endpoint: Endpoint,
    pub(super) client: Peer,
    pub(super) user: Arc<ScriptedUser>,
}

const SERVER: &str = "files";

// === impl Column ===

impl Column {
    /// All columns, in the order of the page.
    pub(super) const ALL: [Self; 8] = [
        Self::new(Era::Legacy, Era::Legacy, Behind::Stdio),
        Self::new(Era::Legacy, Era::Legacy, Behind::Http),
        Self::new(Era::Legacy, Era::Modern, Behind::Stdio),
        Self::new(Era::Legacy, Era::Modern, Behind::Http),
        Self::new(Era::Modern, Era::Legacy, Behind::Stdio),
        Self::new(Era::Modern, Era::Legacy, Behind::Http),
        Self::new(Era::Modern, Era::Modern, Behind::Stdio),
        Self::new(Era::Modern, Era::Modern, Behind::Http),
    ];

    const fn new(client: Era, server: Era, behind: Behind) -> Self {
        Self { client, server, behind }
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let behind = if self.behind == Behind::Stdio { "stdio" } else { "HTTP" };
        write!(f, "{} → {}, {behind}", year(self.client), year(self.server))
    }
}

/// Name of an era on the page.
pub(super) fn year(era: Era) -> &'static str {
    if era == Era::Legacy { "2025" } else { "2026" }
}

impl Endpoint {
    pub(super) const BOTH: [Self; 2] = [Self::One, Self::All];

    fn path(self) -> &'static str {
        match self {
            Self::One => "/servers/files/mcp",
            Self::All => "/mcp",
        }
    }
}

// === impl BridgeGateway ===

impl BridgeGateway {
    pub(super) async fn of(column: Column) -> Self {
        let revision = if column.server == Era::Legacy { Revision::V2025_11_25 } else { Revision::V2026_07_28 };
        let (address, server) = match column.behind {
            Behind::Stdio => (process(revision), None),
            Behind::Http => {
                let server = OverHttp::serve(revision).await;
                let url = format!("http://{}/mcp", server.address).parse().unwrap();
                (ServerAddress::http(url), Some(server))
            }
        };
        let wanted = WantedServer::new(name(SERVER), Way::Address(address));
        // On the heap: a test starts all columns at once, and the stack of its thread is small.
        let gateway = Box::pin(TestGateway::with(TestHost::new().wanted(wanted))).await;
        gateway.host.ready(SERVER).await;
        Self { column, gateway, _server: server }
    }

    pub(super) async fn scenario(&self, endpoint: Endpoint) -> Scenario {
        let user = Arc::new(ScriptedUser::default());
        let client = self.gateway.client_of(endpoint.path(), self.column.client, Arc::clone(&user) as _).await;
        Scenario { column: self.column, endpoint, client, user }
    }

    /// With a client that declares no capabilities.
    pub(super) async fn scenario_without_user(&self, endpoint: Endpoint) -> Scenario {
        let client = self.gateway.client_without_user(endpoint.path(), self.column.client).await;
        Scenario { column: self.column, endpoint, client, user: Arc::default() }
    }
}

fn process(revision: Revision) -> ServerAddress {
    let story = std::env::current_exe().unwrap();
    let path: PathBuf = story.ancestors().nth(2).unwrap().join("examples/conformance_process");
    assert!(path.exists(), "{} is missing: `cargo build --examples` builds it", path.display());
    let arguments = vec![revision.to_string()];
    ServerAddress::Process(Program { arguments, ..Program::new(path.to_str().unwrap()) })
}

// === impl Scenario ===

impl Scenario {
    /// Name of a tool or prompt at this endpoint.
    pub(super) fn name(&self, raw: &str) -> String {
        match self.endpoint {
            Endpoint::One => raw.to_owned(),
            Endpoint::All => format!("{SERVER}__{raw}"),
        }
    }

    /// A `tools/call` request.
    pub(super) fn call_of(&self, tool: &str, arguments: &Value) -> Request {
        let params = json!({ "name": self.name(tool), "arguments": arguments });
        Request::new("tools/call", Some(Raw::of(&params))).unwrap()
    }

    /// Sends a request; the scripted user answers server requests.
    pub(super) async fn outcome(&self, request: Request) -> Outcome {
        self.seen(request, |_| {}).await
    }

    /// Sends a request and passes each event to `see`.
    pub(super) async fn seen(&self, request: Request, see: impl FnMut(&ExchangeEvent)) -> Outcome {
        let what = request.method().to_owned();
        let exchange = self.client.open(request, ExchangeTimeouts::call());
        within(&what, exchange.outcome_with(Some(&*self.user), see)).await
    }

    /// Sends a request and returns its result.
    pub(super) async fn answer(&self, request: Request) -> Value {
        answered(self.outcome(request).await)
    }

    /// Calls a method and returns its result.
    pub(super) async fn fetch(&self, method: &'static str, params: &Value) -> Value {
        self.answer(Request::new(method, Some(Raw::of(params))).unwrap()).await
    }

    /// Calls a tool and returns its result.
    pub(super) async fn call(&self, tool: &str, arguments: &Value) -> Value {
        self.answer(self.call_of(tool, arguments)).await
    }

    /// Calls a tool and returns its first text.
    pub(super) async fn said(&self, tool: &str, arguments: &Value) -> String {
        text(&self.call(tool, arguments).await)
    }

    /// A label that is unique to this test.
    pub(super) fn label(&self, story: &str) -> String {
        format!("{story} of {} at {:?}", self.column, self.endpoint)
    }
}

/// The result of an answered exchange.
pub(super) fn answered(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Answered(result) => result.read().unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The first text of a tool result.
pub(super) fn text(result: &Value) -> String {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned()
}
