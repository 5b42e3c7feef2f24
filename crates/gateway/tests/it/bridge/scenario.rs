//! Where a story is told: a client of one era at a door of the gateway, a server of one era behind it.

use std::{fmt, path::PathBuf, sync::Arc};

use serde_json::{Value, json};
use toolway_host::connection::{Program, ServerAddress, WantedServer, Way};
use toolway_testkit::test_host::{TestHost, name, within};
use toolway_wire::{
    exchange::{Happening, Outcome, Request, Terms},
    json::Raw,
    revision::{Era, Revision},
    up::Peer,
};

use crate::{over_http::OverHttp, person::Person, stage::Stage};

/// Who speaks to whom, and how the server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) client: Era,
    pub(super) server: Era,
    pub(super) behind: Behind,
}

/// How a server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind {
    Stdio,
    Http,
}

/// Where a client comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    /// At the server's own address, under its own names.
    One,
    /// Where everything is, under public names.
    All,
}

/// A gateway with the server of a column behind it.
pub(super) struct House {
    column: Column,
    stage: Stage,
    _server: Option<OverHttp>,
}

/// A client at a door.
pub(super) struct Scene {
    pub(super) column: Column,
    pub(super) door: Door,
    pub(super) client: Peer,
    pub(super) person: Arc<Person>,
}

const SERVER: &str = "files";

// === impl Column ===

impl Column {
    /// All of them, in the order of the page.
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

/// What an era is called on the page.
pub(super) fn year(era: Era) -> &'static str {
    if era == Era::Legacy { "2025" } else { "2026" }
}

impl Door {
    pub(super) const BOTH: [Self; 2] = [Self::One, Self::All];

    fn path(self) -> &'static str {
        match self {
            Self::One => "/servers/files/mcp",
            Self::All => "/mcp",
        }
    }
}

// === impl House ===

impl House {
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
        let stage = Stage::with(TestHost::new().wanted(wanted)).await;
        stage.host.ready(SERVER).await;
        Self { column, stage, _server: server }
    }

    pub(super) async fn scene(&self, door: Door) -> Scene {
        let person = Arc::new(Person::default());
        let client = self.stage.client_of(door.path(), self.column.client, Arc::clone(&person) as _).await;
        Scene { column: self.column, door, client, person }
    }

    /// With a client that can be asked nothing.
    pub(super) async fn scene_of_nobody(&self, door: Door) -> Scene {
        let client = self.stage.client_nobody(door.path(), self.column.client).await;
        Scene { column: self.column, door, client, person: Arc::default() }
    }
}

fn process(revision: Revision) -> ServerAddress {
    let story = std::env::current_exe().unwrap();
    let path: PathBuf = story.ancestors().nth(2).unwrap().join("examples/conformance_process");
    assert!(path.exists(), "{} is missing: `cargo build --examples` builds it", path.display());
    let arguments = vec![revision.to_string()];
    ServerAddress::Process(Program { arguments, ..Program::new(path.to_str().unwrap()) })
}

// === impl Scene ===

impl Scene {
    /// What a tool or a prompt is called at this door.
    pub(super) fn name(&self, raw: &str) -> String {
        match self.door {
            Door::One => raw.to_owned(),
            Door::All => format!("{SERVER}__{raw}"),
        }
    }

    /// The call of a tool, not made yet.
    pub(super) fn call_of(&self, tool: &str, arguments: &Value) -> Request {
        let params = json!({ "name": self.name(tool), "arguments": arguments });
        Request::new("tools/call", Some(Raw::of(&params))).unwrap()
    }

    /// Makes a request; what is asked meanwhile is put to the person.
    pub(super) async fn outcome(&self, request: Request) -> Outcome {
        self.seen(request, |_| {}).await
    }

    /// Makes a request and looks at what happens.
    pub(super) async fn seen(&self, request: Request, see: impl FnMut(&Happening)) -> Outcome {
        let what = request.method().to_owned();
        let exchange = self.client.open(request, Terms::call());
        within(&what, exchange.outcome_with(Some(&*self.person), see)).await
    }

    /// What a request gives.
    pub(super) async fn answer(&self, request: Request) -> Value {
        answered(self.outcome(request).await)
    }

    /// What a method gives.
    pub(super) async fn ask(&self, method: &'static str, params: &Value) -> Value {
        self.answer(Request::new(method, Some(Raw::of(params))).unwrap()).await
    }

    /// What a tool gives.
    pub(super) async fn call(&self, tool: &str, arguments: &Value) -> Value {
        self.answer(self.call_of(tool, arguments)).await
    }

    /// The first thing that a tool says.
    pub(super) async fn said(&self, tool: &str, arguments: &Value) -> String {
        text(&self.call(tool, arguments).await)
    }

    /// A label that no other story uses.
    pub(super) fn label(&self, story: &str) -> String {
        format!("{story} of {} at {:?}", self.column, self.door)
    }
}

/// The result of what was answered.
pub(super) fn answered(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Answered(result) => result.read().unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The first text of a tool's result.
pub(super) fn text(result: &Value) -> String {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned()
}
