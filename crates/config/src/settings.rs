//! Settings that apply to all servers, each value with its origin.

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::{
    assistants::{ASSISTANTS, AssistantConfig},
    cluster::{CLUSTER, ClusterSettings},
    error::{ConfigError, Place},
    gateway::{GATEWAY, GatewaySettings},
    inbox::INBOX,
    limits::{LIMITS, LimitSettings},
    models::{AGENT, AgentSettings, DEFAULT_MODEL, MODELS, ModelConfig},
    policy::{POLICY, PolicySettings},
    roots::{ROOTS, RootSetting},
    sampling::{SAMPLING, SamplingSettings},
    server::{
        Format, SessionEnd, Start,
        keys::{SESSION_VALUES, SESSIONS},
    },
    shape::{Field, Key, Shape, put},
    sign_in::{SIGN_IN, SignInSettings},
    store::{STORE, StoreSettings},
    tasks::{TASKS, TaskSettings},
    validation::{VALIDATION, ValidationSettings},
};

/// Where a value was set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Not set anywhere; the built-in default.
    #[default]
    Default,
    /// A file and its line.
    File(Place),
    /// An environment variable.
    Variable(&'static str),
    /// A command-line option.
    Flag(&'static str),
}

/// A value and its origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setting<T> {
    /// Effective value.
    pub value: T,
    /// Where the value was set.
    pub origin: Origin,
}

/// When a public name is prefixed with the name of its server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefix {
    /// Always, so that a name does not change when another server is added.
    #[default]
    Always,
    /// Only if two servers offer the same name.
    Auto,
    /// Never; if two servers offer the same name, only the first is offered.
    Never,
}

/// Settings that apply to all servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// When servers are connected that do not set it themselves.
    pub start: Setting<Start>,
    /// Total timeout of a call for servers that do not set one.
    pub request_timeout: Setting<Option<Duration>>,
    /// What becomes of the sessions of servers that do not set it themselves.
    pub sessions: Setting<SessionEnd>,
    /// When a public name is prefixed with the name of its server.
    pub prefix: Setting<Prefix>,
    /// Other hosts whose configuration files are read too.
    pub imports: Setting<Vec<Format>>,
    /// Settings of the gateway.
    pub gateway: GatewaySettings,
    /// Limits of the gateway.
    pub limits: LimitSettings,
    /// This gateway as a member of a cluster; `None`: it is alone.
    pub cluster: Setting<Option<ClusterSettings>>,
    /// Settings for signing in to servers.
    pub sign_in: SignInSettings,
    /// Policy of all files.
    pub policy: PolicySettings,
    /// Settings of the store.
    pub store: StoreSettings,
    /// Settings of validation against schemas.
    pub validation: ValidationSettings,
    /// Models by name.
    pub models: Setting<BTreeMap<String, ModelConfig>>,
    /// Name of the model used without `--model`.
    pub default_model: Setting<Option<String>>,
    /// Settings of the agent.
    pub agent: AgentSettings,
    /// Assistants by name.
    pub assistants: Setting<BTreeMap<String, AssistantConfig>>,
    /// Whether servers may ask a model, for all servers.
    pub sampling: Setting<SamplingSettings>,
    /// How calls are treated that their server continues as tasks.
    pub tasks: Setting<TaskSettings>,
    /// Folders that servers are told to work in.
    pub roots: Setting<Vec<RootSetting>>,
    /// Whether forms and URLs in calls of clients that answer none wait in the inbox.
    pub inbox_wait: Setting<bool>,
}

/// Values of `naming.prefix`.
const PREFIXES: &[(&str, Prefix)] = &[("always", Prefix::Always), ("auto", Prefix::Auto), ("never", Prefix::Never)];
const PREFIX_VALUES: &[&str] = &["always", "auto", "never"];

/// Values of `imports`, in the order of [`Format::OTHERS`].
const FORMAT_VALUES: &[&str] = &[
    "claude-code",
    "claude-desktop",
    "cursor",
    "vscode",
    "copilot",
    "codex",
    "gemini",
    "opencode",
    "opencode-v2",
    "zed",
    "windsurf",
    "goose",
    "kiro",
    "cline",
    "inspector",
    "mcporter",
];

/// Top-level keys of the document, without `mcpServers`.
pub(crate) const SETTINGS: &[Key<Settings>] = &[
    Key {
        name: "autoConnect",
        shape: Shape::Flag,
        doc: "Connects all servers at start-up; if `false`, each server is connected on first use. Default: `true`.",
        example: "false",
        set: |settings, field| {
            let start = Start::from_auto_connect(field.flag()?);
            put(&mut settings.start, field.setting(start))
        },
    },
    Key {
        name: "requestTimeout",
        shape: Shape::Time,
        doc: "Total timeout of a call, for servers that do not set `timeouts.total`. Default: 30 minutes.",
        example: r#""10m""#,
        set: |settings, field| put(&mut settings.request_timeout, field.setting(Some(field.time()?))),
    },
    Key {
        name: "sessions",
        shape: SESSION_VALUES,
        doc: "What becomes of the sessions that HTTP servers issued when Toolway shuts down, for servers that do not set it \
              themselves: `end` (default) deletes them, `keep` leaves them for the next start.",
        example: r#""keep""#,
        set: |settings, field| put(&mut settings.sessions, field.setting(field.choice(SESSIONS, SESSION_VALUES)?)),
    },
    Key {
        name: "naming",
        shape: Shape::Choices(&[("prefix", PREFIX_VALUES)]),
        doc: "`prefix` decides when the public name of a tool or prompt is prefixed with the name of its server: \
              `always` (default), `auto` (only if two servers offer the same name) or `never` (of two items with the same \
              name only the first is offered).",
        example: r#"{"prefix": "auto"}"#,
        set: naming,
    },
    Key {
        name: "imports",
        shape: Shape::ListOf(FORMAT_VALUES),
        doc: "Other MCP hosts whose configuration files are read too. Default: none.",
        example: r#"["cursor", "claude-code"]"#,
        set: |settings, field| put(&mut settings.imports, field.setting(imports(field)?)),
    },
    GATEWAY,
    CLUSTER,
    SIGN_IN,
    POLICY,
    STORE,
    VALIDATION,
    LIMITS,
    MODELS,
    DEFAULT_MODEL,
    AGENT,
    ASSISTANTS,
    SAMPLING,
    TASKS,
    ROOTS,
    INBOX,
];

fn naming(settings: &mut Settings, field: &Field<'_>) -> Result<(), ConfigError> {
    for (key, field) in field.members()? {
        if key != "prefix" {
            return Err(field.unknown(["prefix"].into_iter()));
        }
        settings.prefix = field.setting(field.choice(PREFIXES, Shape::OneOf(PREFIX_VALUES))?);
    }
    Ok(())
}

fn imports(field: &Field<'_>) -> Result<Vec<Format>, ConfigError> {
    let format = |field: &Field<'_>| {
        let format = field.text().ok().and_then(Format::from_name);
        format.ok_or_else(|| field.wrong(Shape::OneOf(FORMAT_VALUES)))
    };
    field.fields()?.iter().map(format).collect()
}

// === impl Setting ===

impl<T> Setting<T> {
    /// A value that was set at `origin`.
    pub fn new(value: T, origin: Origin) -> Self {
        Self { value, origin }
    }

    /// The value of the nearer layer if it sets one, else this one.
    #[must_use]
    pub(crate) fn overridden_by(self, nearer: Self) -> Self {
        if nearer.origin == Origin::Default { self } else { nearer }
    }
}

impl Field<'_> {
    pub(crate) fn setting<T>(&self, value: T) -> Setting<T> {
        Setting::new(value, Origin::File(self.document.place(self.node.line)))
    }
}

// === impl Settings ===

impl Settings {
    /// These settings, overridden by those that the nearer layer sets.
    #[must_use]
    pub(crate) fn overridden_by(self, nearer: Self) -> Self {
        Self {
            start: self.start.overridden_by(nearer.start),
            request_timeout: self.request_timeout.overridden_by(nearer.request_timeout),
            sessions: self.sessions.overridden_by(nearer.sessions),
            prefix: self.prefix.overridden_by(nearer.prefix),
            imports: self.imports.overridden_by(nearer.imports),
            gateway: self.gateway.overridden_by(nearer.gateway),
            cluster: self.cluster.overridden_by(nearer.cluster),
            sign_in: self.sign_in.overridden_by(nearer.sign_in),
            policy: self.policy.overridden_by(nearer.policy),
            store: self.store.overridden_by(nearer.store),
            validation: self.validation.overridden_by(nearer.validation),
            limits: self.limits.overridden_by(nearer.limits),
            models: self.models.overridden_by(nearer.models),
            default_model: self.default_model.overridden_by(nearer.default_model),
            agent: self.agent.overridden_by(nearer.agent),
            assistants: self.assistants.overridden_by(nearer.assistants),
            sampling: self.sampling.overridden_by(nearer.sampling),
            tasks: self.tasks.overridden_by(nearer.tasks),
            roots: self.roots.overridden_by(nearer.roots),
            inbox_wait: self.inbox_wait.overridden_by(nearer.inbox_wait),
        }
    }
}

// === impl Prefix ===

impl Prefix {
    /// The value as written in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Auto => "auto",
            Self::Never => "never",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(place) => place.fmt(f),
            Self::Variable(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FORMAT_VALUES;
    use crate::server::Format;

    #[test]
    fn every_format_has_a_value_of_imports() {
        assert_eq!(FORMAT_VALUES, Format::OTHERS.map(Format::as_str));
        assert!(FORMAT_VALUES.iter().all(|name| Format::from_name(name).is_some()));
    }
}
