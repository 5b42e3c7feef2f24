//! Named assistants: a model, a prompt, servers, tools, approval and budgets under one name.
//!
//! Only the user's file defines them. A project's file that has the key is not used: a repository that was cloned would
//! choose which calls are asked about, and what the model is told.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

use serde_json::{Map, Value, json};

use crate::{
    document::Document,
    error::{ConfigError, Place},
    server::ServerName,
    settings::Settings,
    shape::{Field, Key, Shape, put},
    tasks::{self, TaskSettings},
    tool_pattern::ToolPattern,
};

/// One assistant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssistantConfig {
    /// File and line of the entry.
    pub place: Place,
    /// For the user.
    pub description: Option<String>,
    /// Name of its model; `None`: the one that is used without an assistant.
    pub model: Option<String>,
    /// Its system prompt.
    pub system: Option<String>,
    /// Servers that its model gets; `None`: all.
    pub servers: Option<BTreeSet<ServerName>>,
    /// Tools of these servers that its model gets; `None`: all.
    pub tools: Option<Vec<ToolPattern>>,
    /// Which of its calls are asked about.
    pub approval: Approval,
    /// Tools that `trusted-only` passes.
    pub trusted_tools: Vec<ToolPattern>,
    /// How calls are treated that a server continues as tasks; without `ttl`.
    pub tasks: TaskSettings,
    /// Limits of one answer.
    pub budgets: AssistantBudgets,
    /// Resources that are attached at the start of a conversation, as URI or `SERVER.URI`.
    pub resources: Vec<String>,
}

/// Which calls of an assistant are asked about. The order is that of strictness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Approval {
    /// None, as far as mode and rules allow that.
    Auto,
    /// All but trusted tools and those of fully trusted servers.
    TrustedOnly,
    /// Every call, whatever answers are saved.
    #[default]
    AlwaysAsk,
}

/// Limits of one answer of an assistant; `None` is not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AssistantBudgets {
    /// Requests to the model.
    pub max_turns: Option<u32>,
    /// Tokens of all requests.
    pub max_tokens: Option<u64>,
    /// Tool calls.
    pub max_tool_calls: Option<u32>,
    /// Time from the first request on.
    pub max_time: Option<Duration>,
}

const APPROVALS: &[(&str, Approval)] =
    &[("always-ask", Approval::AlwaysAsk), ("trusted-only", Approval::TrustedOnly), ("auto", Approval::Auto)];
const APPROVAL_VALUES: &[&str] = &["always-ask", "trusted-only", "auto"];
const TASK_MEMBERS: &[(&str, Shape)] = &[("background", Shape::Flag), ("pollInterval", Shape::Time)];
const BUDGET_MEMBERS: &[(&str, Shape)] = &[
    ("maxTurns", Shape::Count),
    ("maxTokens", Shape::Count),
    ("maxToolCalls", Shape::Count),
    ("maxTime", Shape::Time),
];
const MEMBERS: &[(&str, Shape)] = &[
    ("description", Shape::Text),
    ("model", Shape::Text),
    ("system", Shape::Text),
    ("servers", Shape::Texts),
    ("tools", Shape::Texts),
    ("approval", Shape::OneOf(APPROVAL_VALUES)),
    ("trustedTools", Shape::Texts),
    ("tasks", Shape::Members(TASK_MEMBERS)),
    ("budgets", Shape::Members(BUDGET_MEMBERS)),
    ("resources", Shape::Texts),
];

/// What the name of an assistant must be.
const NAME: &str = "under a name of 1 to 64 letters, digits, `.`, `_` or `-`";
/// Longest name.
const LONGEST: usize = 64;
/// What an element of `tools` and `trustedTools` must be.
const PATTERN: &str = "a list of SERVER.TOOL; both parts may contain `*`, e.g. `files.read_*`";

/// The top-level key `assistants`.
pub(crate) const ASSISTANTS: Key<Settings> = Key {
    name: "assistants",
    shape: Shape::NamedMembers(MEMBERS),
    doc: "Assistants by name, for `--assistant` of `chat` and `run`. Only your own file defines them. `description`: for you. \
          `model`, `system` (prompt). `servers`: the only servers that are connected and offered; default: all. `tools`: the only tools \
          of them, as `SERVER.TOOL` with `*`. `approval`: `always-ask` (default; asks about every call, whatever answers are saved), \
          `trusted-only` (passes `trustedTools` and servers of trust `full`, asks about all else) or `auto` (asks about nothing); it \
          replaces the default of the surface, and the stricter of it, `policy.mode` and the rules counts. `trustedTools`: `SERVER.TOOL` \
          with `*`, for servers of your own with trust `read` or more. `tasks`: `background` and `pollInterval`, as at the top. \
          `budgets`: `maxTurns`, `maxTokens`, `maxToolCalls`, `maxTime` of one answer. `resources`: URIs, or \
          `SERVER.URI`, of resources that are attached before the first message of a conversation.",
    example: r#"{"librarian": {"servers": ["files"], "approval": "trusted-only", "trustedTools": ["files.read_*"]}}"#,
    set: read_assistants,
};

fn read_assistants(settings: &mut Settings, field: &Field<'_>) -> Result<(), ConfigError> {
    let mut assistants = BTreeMap::new();
    for (name, field) in field.members()? {
        if !AssistantConfig::is_name(name) {
            return Err(field.expected(NAME));
        }
        assistants.insert(name.to_owned(), read(&field)?);
    }
    put(&mut settings.assistants, field.setting(assistants))
}

fn read(field: &Field<'_>) -> Result<AssistantConfig, ConfigError> {
    let mut assistant = AssistantConfig::new(field.document.place(field.node.line));
    for (key, field) in field.members()? {
        match key {
            "description" => assistant.description = Some(field.text()?.to_owned()),
            "model" => assistant.model = Some(field.text()?.to_owned()),
            "system" => assistant.system = Some(field.text()?.to_owned()),
            "servers" => {
                let named =
                    |label: &String| ServerName::from_label(label).map_err(|_| field.expected("names of servers"));
                assistant.servers = Some(field.texts()?.iter().map(named).collect::<Result<_, _>>()?);
            }
            "tools" => assistant.tools = Some(patterns(&field)?),
            "approval" => assistant.approval = field.choice(APPROVALS, Shape::OneOf(APPROVAL_VALUES))?,
            "trustedTools" => assistant.trusted_tools = patterns(&field)?,
            "tasks" => assistant.tasks = read_tasks(&field)?,
            "budgets" => assistant.budgets = read_budgets(&field)?,
            "resources" => assistant.resources = field.texts()?,
            _ => return Err(field.unknown(MEMBERS.iter().map(|(key, _)| *key))),
        }
    }
    Ok(assistant)
}

fn patterns(field: &Field<'_>) -> Result<Vec<ToolPattern>, ConfigError> {
    let pattern = |text: String| text.parse().map_err(|_| field.expected(PATTERN));
    field.texts()?.into_iter().map(pattern).collect()
}

/// `ttl` is between us and a server, and no matter of a conversation.
fn read_tasks(field: &Field<'_>) -> Result<TaskSettings, ConfigError> {
    for (key, field) in field.members()? {
        if !TASK_MEMBERS.iter().any(|(known, _)| *known == key) {
            return Err(field.unknown(TASK_MEMBERS.iter().map(|(known, _)| *known)));
        }
    }
    tasks::read(field)
}

fn read_budgets(field: &Field<'_>) -> Result<AssistantBudgets, ConfigError> {
    let mut budgets = AssistantBudgets::default();
    let positive = |field: &Field<'_>| match field.count()? {
        0 => Err(field.expected("a whole number greater than zero")),
        count => Ok(Some(count)),
    };
    for (key, field) in field.members()? {
        match key {
            "maxTurns" => budgets.max_turns = positive(&field)?,
            "maxTokens" => budgets.max_tokens = positive(&field)?.map(u64::from),
            "maxToolCalls" => budgets.max_tool_calls = positive(&field)?,
            "maxTime" => budgets.max_time = Some(field.time()?),
            _ => return Err(field.unknown(BUDGET_MEMBERS.iter().map(|(key, _)| *key))),
        }
    }
    Ok(budgets)
}

// === impl AssistantConfig ===

impl AssistantConfig {
    /// Whether a text can be the name of an assistant: 1 to 64 letters, digits, `.`, `_` or `-`.
    pub fn is_name(text: &str) -> bool {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        (1..=LONGEST).contains(&text.len()) && text.bytes().all(plain)
    }

    /// An assistant of which nothing is set.
    pub fn new(place: Place) -> Self {
        Self {
            place,
            description: None,
            model: None,
            system: None,
            servers: None,
            tools: None,
            approval: Approval::default(),
            trusted_tools: Vec::new(),
            tasks: TaskSettings::default(),
            budgets: AssistantBudgets::default(),
            resources: Vec::new(),
        }
    }

    /// Reads an assistant from the JSON that [`Self::json`] made.
    pub fn of_json(text: &str) -> Result<Self, ConfigError> {
        let document = Document::of(Path::new("assistant.json"), text)?;
        read(&document.root_field("assistant"))
    }

    /// What is set, as it is written in configuration; `approval` always.
    pub fn json(&self) -> Value {
        let mut object = Map::new();
        for (key, value) in self.values() {
            match key.split_once('.') {
                None => drop(object.insert(key.to_owned(), value)),
                Some((outer, inner)) => {
                    let inside = object.entry(outer).or_insert_with(|| json!({}));
                    inside[inner] = value;
                }
            }
        }
        Value::Object(object)
    }

    /// The keys that are set, with their values; `approval` always.
    pub fn values(&self) -> Vec<(&'static str, Value)> {
        let texts = |patterns: &[ToolPattern]| json!(patterns.iter().map(ToString::to_string).collect::<Vec<_>>());
        let servers =
            |servers: &BTreeSet<ServerName>| json!(servers.iter().map(ServerName::as_str).collect::<Vec<_>>());
        let time = |time: Duration| match time.subsec_nanos() {
            0 => json!(time.as_secs()),
            _ => json!(time.as_secs_f64()),
        };
        let values = [
            ("description", self.description.as_ref().map(|text| json!(text))),
            ("model", self.model.as_ref().map(|text| json!(text))),
            ("system", self.system.as_ref().map(|text| json!(text))),
            ("servers", self.servers.as_ref().map(servers)),
            ("tools", self.tools.as_deref().map(texts)),
            ("approval", Some(json!(self.approval.as_str()))),
            ("trustedTools", Some(texts(&self.trusted_tools)).filter(|_| !self.trusted_tools.is_empty())),
            ("tasks.background", self.tasks.background.map(|background| json!(background))),
            ("tasks.pollInterval", self.tasks.poll_interval.map(time)),
            ("budgets.maxTurns", self.budgets.max_turns.map(|count| json!(count))),
            ("budgets.maxTokens", self.budgets.max_tokens.map(|count| json!(count))),
            ("budgets.maxToolCalls", self.budgets.max_tool_calls.map(|count| json!(count))),
            ("budgets.maxTime", self.budgets.max_time.map(time)),
            ("resources", Some(json!(self.resources)).filter(|_| !self.resources.is_empty())),
        ];
        values.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }
}

// === impl Approval ===

impl Approval {
    /// The value as written in configuration.
    pub fn as_str(self) -> &'static str {
        APPROVALS.iter().find(|(_, approval)| *approval == self).map_or("always-ask", |(word, _)| word)
    }

    /// Parses the value as written in configuration.
    pub fn parse(text: &str) -> Option<Self> {
        APPROVALS.iter().find(|(word, _)| *word == text).map(|(_, approval)| *approval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn assistants(text: &str) -> Result<BTreeMap<String, AssistantConfig>, String> {
        let text = format!("{{\"assistants\":\n{text}}}");
        let document = Document::of("/x/toolway.json".as_ref(), &text).map_err(|error| error.to_string())?;
        Ok(Config::of(&document, None).map_err(|error| error.to_string())?.settings.assistants.value)
    }

    #[test]
    fn an_assistant_keeps_what_is_set_and_asks_by_default() {
        let all = assistants(
            r#"{"a": {}, "b": {"description": "d", "model": "m", "system": "s", "servers": ["My Files"], "tools": ["my-files.*"],
                "approval": "auto", "trustedTools": ["my-files.read_*"], "tasks": {"background": false, "pollInterval": "2s"},
                "budgets": {"maxTurns": 1, "maxTokens": 2, "maxToolCalls": 3, "maxTime": "4m"}, "resources": ["notes://a"]}}"#,
        )
        .unwrap();
        assert_eq!((all["a"].approval, &all["a"].servers), (Approval::AlwaysAsk, &None));
        let b = &all["b"];
        assert!(b.servers.as_ref().unwrap().contains(&"my-files".parse::<ServerName>().unwrap()));
        assert_eq!(b.budgets.max_time, Some(Duration::from_secs(240)));
        let again = AssistantConfig::of_json(&b.json().to_string()).unwrap();
        assert_eq!(AssistantConfig { place: b.place.clone(), ..again }, *b, "{}", b.json());
    }

    #[test]
    fn a_wrong_key_or_value_is_an_error_that_says_what_is_expected() {
        for (text, expected) in [
            (r#"{"a": {"aproval": "auto"}}"#, "did you mean `approval`"),
            (r#"{"a": {"approval": "allow"}}"#, "`always-ask`, `trusted-only` or `auto`"),
            (r#"{"a": {"trustedTools": ["read"]}}"#, "SERVER.TOOL"),
            (r#"{"a": {"tools": "files.read"}}"#, "a list of strings"),
            (r#"{"a": {"servers": ["  "]}}"#, "names of servers"),
            (r#"{"a": {"tasks": {"ttl": "1h"}}}"#, "`assistants.a.tasks.ttl`"),
            (r#"{"a": {"tasks": {"pollInterval": "1h"}}}"#, "from `1s` to `60s`"),
            (r#"{"a": {"budgets": {"maxTurns": 0}}}"#, "greater than zero"),
            (r#"{"a": {"budgets": {"turns": 1}}}"#, "`assistants.a.budgets.turns`"),
            (r#"{"a b": {}}"#, "letters, digits"),
            (r#"{"": {}}"#, "letters, digits"),
            (r#"{"a": "auto"}"#, "`assistants.a` must be an object"),
        ] {
            let error = assistants(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
