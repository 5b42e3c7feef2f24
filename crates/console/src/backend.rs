//! The port to the embedding program: models, and the user's configuration of servers.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use toolway_agent::{
    ContextOptions, ResourceOptions,
    model::{Model, Usage},
};
use toolway_config::{AssistantConfig, PolicyMode, ServerName};
use toolway_host::{Host, connection::ServerStatus};

use crate::view::tested;

/// What the console needs from the embedding program. Methods that return no future may read and write files; the
/// console calls them on a thread for blocking work.
pub trait ConsoleBackend: Send + Sync {
    /// Models that a chat can use.
    fn models(&self) -> Vec<ListedModel>;

    /// What the configuration says now.
    fn settings(&self) -> ConsoleSettings;

    /// A model by name; `None`: the default one.
    fn model(&self, name: Option<&str>) -> Result<Arc<dyn Model>, Problem>;

    /// What tokens of a model cost, in the currency of the configured prices; `None` if its price is not configured.
    fn cost(&self, _model: &str, _usage: &Usage) -> Option<f64> {
        None
    }

    /// Assistants that a conversation can have.
    fn assistants(&self) -> Vec<ListedAssistant> {
        Vec::new()
    }

    /// What the configuration has under the name of an assistant now.
    fn assistant(&self, name: &str) -> Result<AssistantConfig, Problem> {
        Err(Problem::new(format!("unknown assistant `{name}`")))
    }

    /// The entry of a configured assistant, for a form.
    fn assistant_entry(&self, name: &str) -> Result<WrittenEntry, Problem>;

    /// What saving a draft of an assistant would write. Writes nothing.
    fn plan_assistant(&self, draft: &EntryDraft) -> Result<PlannedEdit, Problem>;

    /// Writes a draft of an assistant to the user's file, and returns its name.
    fn save_assistant(&self, draft: &EntryDraft) -> Result<String, Problem>;

    /// What removing an assistant would write.
    fn plan_assistant_removal(&self, name: &str) -> Result<PlannedEdit, Problem>;

    /// Removes an assistant from the user's file. `version` is that of the entry that the user saw.
    fn remove_assistant(&self, name: &str, version: &str) -> Result<(), Problem>;

    /// Reads a pasted snippet, a command or a URL. Starts and writes nothing.
    fn parse(&self, text: &str, name: Option<&str>) -> Result<ParsedServer, Problem>;

    /// The entry of a configured server, for a form.
    fn entry(&self, server: &ServerName) -> Result<WrittenEntry, Problem>;

    /// What saving a draft would write. Writes and starts nothing.
    fn plan(&self, draft: &EntryDraft) -> Result<PlannedEdit, Problem>;

    /// Connects to a server as a draft says, lists it and disconnects. The user has consented.
    fn test<'a>(&'a self, draft: &'a EntryDraft) -> BoxFuture<'a, Result<TestReport, Problem>>;

    /// Writes a draft to the file that defines the server, or to the user's own, and applies it; its secrets go to the
    /// vault. The user has consented.
    fn save(&self, draft: &EntryDraft) -> Result<SavedServer, Problem>;

    /// What removing a server would write.
    fn plan_removal(&self, server: &ServerName) -> Result<PlannedEdit, Problem>;

    /// Removes a server from the file that defines it, and applies that. `version` is that of the entry that the user saw.
    fn remove(&self, server: &ServerName, version: &str) -> Result<(), Problem>;

    /// Servers in the files of other applications.
    fn importable(&self) -> Result<FoundServers, Problem>;

    /// Copies servers of other applications to the user's file and applies it; their secrets go to the vault.
    fn import(&self, chosen: &[FoundKey]) -> Result<Vec<ImportedServer>, Problem>;

    /// The command with its arguments, or the whole URL, of a configured server, without secrets.
    fn command(&self, server: &ServerName) -> Option<String>;

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

/// An assistant that a conversation can have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedAssistant {
    /// Name in the configuration.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// `always-ask`, `trusted-only` or `auto`.
    pub approval: &'static str,
    /// Name of its model; `None`: the default one.
    pub model: Option<String>,
    /// Its servers; `None`: all.
    pub servers: Option<Vec<String>>,
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
    /// How it uses resources of servers.
    pub reading: ResourceOptions,
}

/// A server as read from pasted text.
#[derive(Clone, Debug, Serialize)]
pub struct ParsedServer {
    /// Name for the entry.
    pub name: String,
    /// The entry in Toolway's own format, with references in place of its secrets.
    pub entry: Value,
    /// What was not understood or has no effect.
    pub warnings: Vec<String>,
}

/// The entry of a server or an assistant as it is written in its file, with references in place of secrets of a server.
#[derive(Clone, Debug, Serialize)]
pub struct WrittenEntry {
    /// Its key in the file.
    pub label: String,
    /// The entry.
    pub entry: Value,
    /// File and line.
    pub place: String,
    /// Changes with the entry, so that an edit of an older one is noticed.
    pub version: String,
    /// What the user should know before editing it, one sentence each.
    pub notices: Vec<String>,
}

/// An entry as a user fills it in.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryDraft {
    /// Name of a new server or assistant; of an edited one its key in the file.
    pub name: String,
    /// The whole entry.
    pub entry: Value,
    /// Version of the entry that is edited; `None` for a new one.
    #[serde(default)]
    pub version: Option<String>,
    /// The text that filled in the form. Its secrets stand in the entry as references.
    #[serde(default)]
    pub pasted: Option<PastedText>,
}

/// Text that was pasted, and the name that was read from it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PastedText {
    /// The text.
    pub text: String,
    /// The name.
    pub name: String,
}

/// What an edit would write.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedEdit {
    /// The file.
    pub file: String,
    /// The lines of the file around the changes, without secrets; empty if nothing changes.
    pub difference: Vec<DifferenceLine>,
    /// What the user has to do because the file is not edited by Toolway, with the lines to add.
    pub by_hand: Option<String>,
    /// The command line that would run.
    pub runs: Option<String>,
    /// The URL that would be connected to.
    pub url: Option<String>,
    /// Whether the user has to agree before it is saved: another program or address than now.
    pub needs_consent: bool,
    /// What the user should know, lower-case phrases.
    pub warnings: Vec<String>,
    /// Version of the entry that would be changed.
    pub version: Option<String>,
}

/// A line of a difference.
#[derive(Clone, Debug, Serialize)]
pub struct DifferenceLine {
    /// `same`, `added`, `removed` or `skipped`, which stands for lines that are not shown.
    pub kind: &'static str,
    /// The line without its end.
    pub text: String,
}

/// A server that was added or changed.
#[derive(Clone, Debug, Serialize)]
pub struct SavedServer {
    /// Its name.
    #[serde(serialize_with = "as_text")]
    pub name: ServerName,
    /// What the user should know, one sentence each: where its secrets are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

/// Which entry of another application's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundKey {
    /// The application.
    pub host: String,
    /// Key of the entry.
    pub label: String,
    /// File and line.
    pub place: String,
}

/// Servers of other applications.
#[derive(Clone, Debug, Serialize)]
pub struct FoundServers {
    /// What can be chosen from.
    pub servers: Vec<FoundServer>,
    /// Which files and entries cannot be read, and why.
    pub warnings: Vec<String>,
}

/// A server of another application.
#[derive(Clone, Debug, Serialize)]
pub struct FoundServer {
    /// Where it is.
    #[serde(flatten)]
    pub key: FoundKey,
    /// Name that it would have here.
    pub name: String,
    /// The command with its arguments, or the URL, without secrets.
    pub command: String,
    /// Why it would not be copied; `None` if it would.
    pub skipped: Option<String>,
    /// Number of secrets that would go to the vault.
    pub secrets: usize,
    /// Inputs without a value, which its application asks for.
    pub inputs: Vec<String>,
}

/// What became of a server that was to be copied.
#[derive(Clone, Debug, Serialize)]
pub struct ImportedServer {
    /// Name of the server.
    pub name: String,
    /// Whether it was copied.
    pub copied: bool,
    /// Why it was not, or what is to be done, one sentence each.
    pub notices: Vec<String>,
}

fn as_text<S: Serializer>(name: &ServerName, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(name.as_str())
}

/// The result of testing a server.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TestReport {
    /// Whether it could be connected and listed.
    pub ok: bool,
    /// Whether it answers, and requires a sign-in.
    #[serde(rename = "signIn")]
    pub sign_in_required: bool,
    /// Title or name that the server gives itself.
    pub title: Option<String>,
    /// Version that the server gives itself.
    pub version: Option<String>,
    /// Its icon, if it is a plain picture in a data URL.
    pub icon: Option<String>,
    /// `legacy`: with a session; `modern`: without.
    pub era: Option<String>,
    /// Negotiated protocol revision.
    pub revision: Option<String>,
    /// Session id that the server issued. The session has ended with the test.
    pub session_id: Option<String>,
    /// What it declared.
    pub capabilities: Vec<String>,
    /// Its instructions.
    pub instructions: Option<String>,
    /// Its tools.
    pub tools: Vec<TestedTool>,
    /// What it lists and is not offered.
    pub set_aside: Vec<SetAside>,
    /// Number of its prompts.
    pub prompts: usize,
    /// Number of its resources and templates.
    pub resources: usize,
    /// Time to connect and list, in milliseconds.
    pub duration_ms: u64,
    /// Why it failed.
    pub error: Option<TestFailure>,
}

/// An item that a server lists and that is not offered, or a whole list.
#[derive(Clone, Debug, Serialize)]
pub struct SetAside {
    /// Kind of the item.
    pub kind: &'static str,
    /// Its name; `None` for a list, and for an item without a name.
    pub name: Option<String>,
    /// Why it is not offered.
    pub reason: String,
}

/// A tool of a server that is tested.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TestedTool {
    /// Its name.
    pub name: String,
    /// Its title.
    pub title: Option<String>,
    /// Its description.
    pub description: Option<String>,
    /// Its icon, if it is a plain picture in a data URL.
    pub icon: Option<String>,
    /// Whether it says that it only reads.
    pub read_only: bool,
    /// Whether it may destroy something.
    pub destructive: bool,
}

impl TestReport {
    /// The report of a server that was connected in a host of its own. The failure is added by the caller.
    pub fn of(host: &Host, status: &ServerStatus, took: Duration) -> Self {
        tested::report(host, status, took)
    }
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
    /// Key of the entry that has a wrong value, such as `timeouts.connect`; `name` for the name.
    pub field: Option<String>,
}

impl Problem {
    /// A problem of the request itself.
    pub fn new(message: impl Into<String>) -> Self {
        Self { conflict: false, message: message.into(), hint: None, field: None }
    }

    /// A wrong value of this key.
    pub fn of_field(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: Some(field.into()), ..Self::new(message) }
    }
}
