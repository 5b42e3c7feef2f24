//! The port to the embedding program: models, and the user's configuration of servers.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Serialize, Serializer};
use serde_json::Value;
use toolway_agent::{ContextOptions, model::Model};
use toolway_config::{PolicyMode, ServerName};

/// What the console needs from the embedding program. Methods that return no future may read and write files; the
/// console calls them on a thread for blocking work.
pub trait ConsoleBackend: Send + Sync {
    /// Models that a chat can use.
    fn models(&self) -> Vec<ListedModel>;

    /// What the configuration says now.
    fn settings(&self) -> ConsoleSettings;

    /// A model by name; `None`: the default one.
    fn model(&self, name: Option<&str>) -> Result<Arc<dyn Model>, Problem>;

    /// Reads a pasted snippet, a command or a URL. Starts and writes nothing.
    fn parse(&self, text: &str, name: Option<&str>) -> Result<ParsedServer, Problem>;

    /// Connects to a server that is not configured yet, lists it and disconnects. The user has consented.
    fn test<'a>(&'a self, text: &'a str, name: Option<&'a str>) -> BoxFuture<'a, Result<TestReport, Problem>>;

    /// Adds a server to the user's configuration file and applies it; its secrets go to the vault. The user has consented.
    fn add(&self, text: &str, name: Option<&str>) -> Result<AddedServer, Problem>;

    /// Begins a sign-in to a server and returns the page to open. The sign-in ends in the background; the server is then
    /// connected again. Beginning another one ends the one before.
    fn sign_in<'a>(&'a self, server: &'a ServerName) -> BoxFuture<'a, Result<SignInPage, Problem>>;

    /// Why the last sign-in that was begun here failed; `None` if it did not, or has not ended.
    fn sign_in_failure(&self, server: &ServerName) -> Option<String>;

    /// Enables or disables a server in the user's configuration file and applies it. `Ok(false)` if the server is not
    /// configured there.
    fn set_enabled(&self, server: &ServerName, enabled: bool) -> Result<bool, Problem>;
}

/// A model that can be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedModel {
    /// Name in the configuration.
    pub name: String,
    /// `anthropic`, `openai` …
    pub vendor: String,
    /// The vendor's name of the model.
    pub model: String,
}

/// What the console needs of the configuration.
#[derive(Clone, Debug, Default)]
pub struct ConsoleSettings {
    /// Name of the model that is used unless another one is chosen.
    pub default_model: Option<String>,
    /// The configured mode of policy; `None`: the default of the surface.
    pub mode: Option<PolicyMode>,
    /// Options of the agent.
    pub agent: AgentSettings,
    /// Why the configuration file as it is now is not used, and the last valid one is; `None` if it is used.
    pub problem: Option<String>,
}

/// Options of the agent that come from the configuration.
#[derive(Clone, Debug, Default)]
pub struct AgentSettings {
    /// The user's system prompt.
    pub system: String,
    /// Whether the model gets a tool to read resources.
    pub resources: bool,
    /// Whether the model gets a tool to get prompts.
    pub prompts: bool,
    /// How its context is kept within the window.
    pub context: ContextOptions,
}

/// A server as read from pasted text.
#[derive(Clone, Debug, Serialize)]
pub struct ParsedServer {
    /// Name for the entry.
    pub name: String,
    /// The entry as it would be written, with references in place of its secrets.
    pub entry: Value,
    /// `stdio` or `http`.
    pub kind: &'static str,
    /// The command line that would run, for `stdio`.
    pub runs: Option<String>,
    /// The URL that would be connected to, for `http`.
    pub url: Option<String>,
    /// Names of environment variables that the entry sets or reads.
    pub environment: Vec<String>,
    /// What the user should know before consenting.
    pub warnings: Vec<String>,
}

/// A server that was added.
#[derive(Clone, Debug, Serialize)]
pub struct AddedServer {
    /// Its name.
    #[serde(serialize_with = "as_text")]
    pub name: ServerName,
    /// What the user should know, one sentence each: where its secrets are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

fn as_text<S: Serializer>(name: &ServerName, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(name.as_str())
}

/// The result of testing a server.
#[derive(Clone, Debug, Serialize)]
pub struct TestReport {
    /// Whether it could be connected and listed.
    pub ok: bool,
    /// Whether it answers, and requires a sign-in.
    #[serde(rename = "signIn")]
    pub sign_in_required: bool,
    /// Title or name that the server gives itself.
    pub title: Option<String>,
    /// Negotiated protocol revision.
    pub revision: Option<String>,
    /// Names of its tools.
    pub tools: Vec<String>,
    /// Why it failed.
    pub error: Option<TestFailure>,
}

/// The page at which a user signs in to a server.
#[derive(Clone, Debug, Serialize)]
pub struct SignInPage {
    /// Address to open: https, or on this machine.
    pub url: String,
    /// What the user should know before opening it, one sentence each.
    pub notices: Vec<String>,
}

/// Why a test failed.
#[derive(Clone, Debug, Serialize)]
pub struct TestFailure {
    /// What failed and why.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
    /// Last lines that its process wrote to stderr.
    pub stderr: Vec<String>,
}

/// Why the embedding program refuses.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Whether the request conflicts with what is there, such as a name that is taken.
    pub conflict: bool,
    /// What failed and why.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
}

impl Problem {
    /// A problem of the request itself.
    pub fn new(message: impl Into<String>) -> Self {
        Self { conflict: false, message: message.into(), hint: None }
    }
}
