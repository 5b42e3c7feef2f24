//! Every effective value with its origin, and all problems; secrets are masked.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    ArgumentValidation, FileAccess, Pattern,
    cluster::ClusterSettings,
    config::Config,
    error::ConfigError,
    interpolate::Template,
    keychain::Keychain,
    load::Loaded,
    mask,
    models::ModelConfig,
    paths::Environment,
    policy::PolicyMode,
    roots::{RootLocation, RootSetting},
    sampling::{SamplingPermission, SamplingSettings},
    server::{
        Era, Http, HttpKind, Need, Offered, PlainHttp, ServerConfig, Sharing, Start, Transport,
        auth::{Auth, TextKind},
    },
    settings::{Origin, Setting},
    tasks::TaskSettings,
    trust::{DriftEffect, TrustedFolder},
    warning::Warning,
};

pub use crate::warning::Strictness;

/// One effective value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownValue {
    /// Full path of the key.
    pub key: String,
    /// The value; masked if it is secret.
    pub value: Value,
    /// Where the value was set.
    pub origin: Origin,
}

/// Result of `config check`.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// Errors to fix.
    pub problems: Vec<ConfigError>,
    /// Remaining warnings.
    pub warnings: Vec<Warning>,
}

/// All effective values: settings first, then those of each server.
pub fn show(config: &Config) -> Vec<ShownValue> {
    let settings = &config.settings;
    let mut values = vec![
        shown("autoConnect", &settings.start, json!(settings.start.value == Start::AtOnce)),
        shown("requestTimeout", &settings.request_timeout, json!(settings.request_timeout.value.map(seconds))),
        shown("sessions", &settings.sessions, json!(settings.sessions.value.as_str())),
        shown("naming.prefix", &settings.prefix, json!(settings.prefix.value.as_str())),
        shown(
            "imports",
            &settings.imports,
            json!(settings.imports.value.iter().map(|format| format.as_str()).collect::<Vec<_>>()),
        ),
        shown("gateway.access", &settings.gateway.access, json!(settings.gateway.access.value.as_str())),
        shown("gateway.listen", &settings.gateway.listen, json!(settings.gateway.listen.value)),
        shown("gateway.hosts", &settings.gateway.hosts, json!(settings.gateway.hosts.value)),
        shown(
            "gateway.publicUrl",
            &settings.gateway.public_url,
            json!(settings.gateway.public_url.value.as_ref().map(ToString::to_string)),
        ),
        shown(
            "gateway.tls",
            &settings.gateway.tls,
            json!(settings.gateway.tls.value.as_ref().map(|tls| json!({ "cert": tls.cert, "key": tls.key }))),
        ),
        shown("gateway.sse", &settings.gateway.sse, json!(settings.gateway.sse.value)),
        shown(
            "gateway.callsPerClient",
            &settings.gateway.calls_per_client,
            json!(settings.gateway.calls_per_client.value),
        ),
        shown(
            "gateway.answerWithin",
            &settings.gateway.answer_within,
            json!(settings.gateway.answer_within.value.map(seconds)),
        ),
        shown("gateway.logLevel", &settings.gateway.log_level, json!(settings.gateway.log_level.value.as_str())),
        shown("gateway.pageSize", &settings.gateway.page_size, json!(settings.gateway.page_size.value)),
        shown("gateway.rootsWithin", &settings.gateway.roots_within, json!(settings.gateway.roots_within.value)),
        shown("limits.memory", &settings.limits.memory, json!(settings.limits.memory.value)),
        shown("limits.listing", &settings.limits.listing, json!(settings.limits.listing.value)),
        shown("limits.requestBody", &settings.limits.request_body, json!(settings.limits.request_body.value)),
        shown("limits.connections", &settings.limits.connections, json!(settings.limits.connections.value)),
        shown("signIn.vault", &settings.sign_in.vault, json!(settings.sign_in.vault.value.as_str())),
        shown(
            "signIn.clientMetadataUrl",
            &settings.sign_in.client_metadata_url,
            json!(settings.sign_in.client_metadata_url.value),
        ),
        shown("policy.mode", &settings.policy.mode, json!(settings.policy.mode.value.map(PolicyMode::as_str))),
        shown(
            "policy.changedTools",
            &settings.policy.changed_tools,
            json!(settings.policy.changed_tools.value.map(DriftEffect::as_str)),
        ),
        shown("policy.newTools", &settings.policy.new_tools, json!(settings.policy.new_tools.value.as_str())),
        shown(
            "policy.trustedFolders",
            &settings.policy.trusted_folders,
            folders(&settings.policy.trusted_folders.value),
        ),
        shown("policy.hosts", &settings.policy.hosts, json!(texts(&settings.policy.hosts.value))),
        shown("store.path", &settings.store.path, json!(settings.store.path.value)),
        shown("store.url", &settings.store.url, json!(settings.store.url.value.as_ref().map(mask::text))),
        shown("store.bodies", &settings.store.bodies, json!(settings.store.bodies.value.as_str())),
        shown("store.sync", &settings.store.sync, json!(settings.store.sync.value.as_str())),
        shown("store.required", &settings.store.required, json!(settings.store.required.value)),
        shown("store.maxAge", &settings.store.max_age, json!(settings.store.max_age().map(seconds))),
        shown("store.maxBytes", &settings.store.max_bytes, json!(settings.store.max_bytes())),
        shown(
            "store.conversations.maxAge",
            &settings.store.conversations_max_age,
            json!(settings.store.conversations_max_age.value.map(seconds)),
        ),
        shown(
            "store.audit.maxAge",
            &settings.store.audit_max_age,
            json!(settings.store.audit_max_age.value.map(seconds)),
        ),
        shown(
            "validation.arguments",
            &settings.validation.arguments,
            json!(settings.validation.arguments.value.map(ArgumentValidation::as_str)),
        ),
        shown("validation.results", &settings.validation.results, json!(settings.validation.results.value.as_str())),
        shown("defaultModel", &settings.default_model, json!(settings.default_model.value)),
        shown("tasks.background", &settings.tasks, json!(settings.tasks.value.terms().background)),
        shown("tasks.ttl", &settings.tasks, json!(settings.tasks.value.ttl.map(seconds))),
        shown("tasks.pollInterval", &settings.tasks, json!(seconds(settings.tasks.value.terms().poll_interval))),
        shown("sampling.allow", &settings.sampling, json!(settings.sampling.value.permission().as_str())),
        shown("sampling.model", &settings.sampling, json!(settings.sampling.value.model)),
        shown("sampling.maxTokens", &settings.sampling, json!(settings.sampling.value.max_tokens)),
        shown("sampling.requestsPerHour", &settings.sampling, json!(settings.sampling.value.requests_per_hour)),
        shown("sampling.tokensPerDay", &settings.sampling, json!(settings.sampling.value.tokens_per_day)),
        shown("sampling.review", &settings.sampling, json!(settings.sampling.value.review.unwrap_or(false))),
        shown("roots", &settings.roots, roots(&settings.roots.value)),
        shown("inbox.wait", &settings.inbox_wait, json!(settings.inbox_wait.value)),
        shown(
            "agent.exposeResources",
            &settings.agent.expose_resources,
            json!(settings.agent.expose_resources.value.unwrap_or(true)),
        ),
        shown(
            "agent.exposePrompts",
            &settings.agent.expose_prompts,
            json!(settings.agent.expose_prompts.value.unwrap_or(true)),
        ),
        shown("agent.compactAt", &settings.agent.compact_at, json!(settings.agent.compaction_share())),
        shown("agent.resourceCache", &settings.agent.resource_cache, json!(seconds(settings.agent.resource_cache()))),
        shown(
            "agent.autoContext",
            &settings.agent.auto_context,
            json!(settings.agent.auto_context.value.unwrap_or_default()),
        ),
    ];
    values.extend(of_cluster(&settings.cluster));
    for (name, client) in &settings.gateway.clients.value {
        let set = client.servers.value.as_deref().map(texts);
        values.push(shown(&format!("gateway.clients.{name}.servers"), &client.servers, json!(set)));
        let set = client.tools.value.as_deref().map(texts);
        values.push(shown(&format!("gateway.clients.{name}.tools"), &client.tools, json!(set)));
        let mode = client.mode.value.map(PolicyMode::as_str);
        values.push(shown(&format!("gateway.clients.{name}.mode"), &client.mode, json!(mode)));
        let approver = client.approver.value.as_str();
        values.push(shown(&format!("gateway.clients.{name}.approver"), &client.approver, json!(approver)));
        let set = sampling(&client.sampling.value);
        values.push(shown(&format!("gateway.clients.{name}.sampling"), &client.sampling, set));
        values.push(shown(&format!("gateway.clients.{name}.roots"), &client.roots, roots(&client.roots.value)));
        let wait = json!(client.inbox_wait.value);
        values.push(shown(&format!("gateway.clients.{name}.inbox.wait"), &client.inbox_wait, wait));
        let set = json!(client.limits.value.to_json());
        values.push(shown(&format!("gateway.clients.{name}.limits"), &client.limits, set));
    }
    values.extend(settings.policy.rules().enumerate().map(|(index, rule)| ShownValue {
        key: format!("policy.rules.{index}"),
        value: json!(rule.then.as_str()),
        origin: Origin::File(rule.place.clone()),
    }));
    for (name, model) in &settings.models.value {
        values.extend(of_model(name, model, &settings.models.origin));
    }
    for (name, assistant) in &settings.assistants.value {
        let origin = Origin::File(assistant.place.clone());
        let shown =
            |(key, value)| ShownValue { key: format!("assistants.{name}.{key}"), value, origin: origin.clone() };
        values.extend(assistant.values().into_iter().map(shown));
    }
    for server in config.servers.values() {
        ServerValues { server, config, values: &mut values }.all();
    }
    values
}

/// Checks the configuration, including unresolvable references. Starts and connects nothing.
pub fn check(
    loaded: &Loaded,
    environment: &Environment,
    keychain: &dyn Keychain,
    strictness: Strictness,
) -> CheckReport {
    let mut checked = CheckReport::default();
    let enabled = loaded.config.servers.values().filter(|server| server.is_enabled());
    checked.problems.extend(enabled.filter_map(|server| server.endpoint(environment, keychain).err()));
    for warning in &loaded.config.warnings {
        match warning.as_error(strictness) {
            Some(problem) => checked.problems.push(problem),
            None => checked.warnings.push(warning.clone()),
        }
    }
    checked
}

/// The values of a model; those that are not set are left to the vendor.
fn of_model(name: &str, model: &ModelConfig, origin: &Origin) -> Vec<ShownValue> {
    let text = |kind, key: &str, text: &Option<Template>| text.as_ref().map(|text| json!(masked(kind, key, text)));
    let members = [
        ("vendor", Some(json!(model.vendor.as_str()))),
        ("model", Some(json!(model.model.as_deref().unwrap_or("(newest)")))),
        ("baseUrl", text(TextKind::Plain, "baseUrl", &model.base_url)),
        ("allowInsecureHttp", Some(json!(model.plain == PlainHttp::Anywhere))),
        ("apiKey", text(TextKind::Secret, "apiKey", &model.api_key)),
        ("maxTokens", model.max_tokens.map(|count| json!(count))),
        ("contextWindow", model.context_window.map(|count| json!(count))),
        ("images", (!model.images).then_some(json!(false))),
        ("priority.cost", model.priority.map(|priority| share(priority.cost))),
        ("priority.speed", model.priority.map(|priority| share(priority.speed))),
        ("priority.intelligence", model.priority.map(|priority| share(priority.intelligence))),
        ("price.input", model.price.map(|price| money(price.input))),
        ("price.output", model.price.map(|price| money(price.output))),
        ("price.cachedInput", model.price.map(|price| money(price.cached_input))),
        ("price.cacheWrite", model.price.map(|price| money(price.cache_write))),
    ];
    let members = members.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    let headers = model.headers.iter().map(|(key, value)| (format!("headers.{key}"), json!(mask::header(key, value))));
    let shown = |(key, value)| ShownValue { key: format!("models.{name}.{key}"), value, origin: origin.clone() };
    members.chain(headers).map(shown).collect()
}

/// `null` without a cluster. Keys are shown as they are written: they are references.
fn of_cluster(setting: &Setting<Option<ClusterSettings>>) -> [ShownValue; 5] {
    let cluster = setting.value.as_ref();
    let key = |key: &Template| masked(TextKind::Secret, "key", key);
    let accepted = cluster.and_then(|cluster| cluster.accepted_key.as_ref());
    [
        shown("cluster.key", setting, json!(cluster.map(|cluster| key(&cluster.key)))),
        shown("cluster.acceptedKey", setting, json!(accepted.map(key))),
        shown("cluster.address", setting, json!(cluster.map(|cluster| cluster.address.to_string()))),
        shown("cluster.listen", setting, json!(cluster.and_then(|cluster| cluster.listen).map(|at| at.to_string()))),
        shown("cluster.lease", setting, json!(cluster.map(|cluster| seconds(cluster.lease)))),
    ]
}

fn money(millionths: u64) -> Value {
    json!(millionths as f64 / 1e6)
}

fn share(thousandths: u16) -> Value {
    json!(f64::from(thousandths) / 1000.0)
}

fn shown<T>(key: &str, setting: &Setting<T>, value: Value) -> ShownValue {
    ShownValue { key: key.to_owned(), value, origin: setting.origin.clone() }
}

fn seconds(time: Duration) -> Value {
    if time.subsec_nanos() == 0 { json!(time.as_secs()) } else { json!(time.as_secs_f64()) }
}

/// A string of `auth` or `oauth`, masked if needed.
fn masked(kind: TextKind, key: &str, text: &Template) -> String {
    if kind == TextKind::Secret { mask::variable(key, text) } else { mask::text(text) }
}

/// Collects the values of one server.
struct ServerValues<'a> {
    server: &'a ServerConfig,
    config: &'a Config,
    values: &'a mut Vec<ShownValue>,
}

impl ServerValues<'_> {
    fn all(&mut self) {
        let server = self.server;
        self.transport();
        self.add("enabled", "enabled", json!(server.is_enabled()));
        self.add("required", "required", json!(server.need == Need::Required));
        let era = match server.era {
            Era::Auto => "auto",
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        };
        self.add("era", "era", json!(era));
        self.timeouts();
        self.filters();
        self.reconnect();
        self.add("sampling", "sampling", sampling(&server.sampling));
        self.add("elicitation", "elicitation", json!(!server.withheld.elicitation));
        self.add("roots", "roots", roots(&server.roots));
        self.start();
        self.add_if_set("idleStop", json!(server.idle_stop.map(seconds)));
        let sharing = match server.sharing {
            Sharing::Caller => "caller",
            Sharing::Shared => "shared",
            Sharing::Session => "session",
        };
        self.add("sharing", "sharing", json!(sharing));
        if let Some(replicas) = server.replicas {
            self.add("replicas", "replicas", json!(replicas.as_str()));
        }
        if let Some(sessions) = server.sessions {
            self.add("sessions", "sessions", json!(sessions.as_str()));
        }
        if server.tasks != TaskSettings::default() {
            self.add("tasks", "tasks", tasks(server.tasks));
        }
        if !server.extra_methods.is_empty() {
            self.add("extraMethods", "extraMethods", json!(server.extra_methods));
        }
        self.add("trust", "trust", json!(server.trust().as_str()));
        let patterns = |patterns: &[Pattern]| json!(patterns.iter().map(Pattern::as_str).collect::<Vec<_>>());
        self.add_if_any("trustedTools", patterns(&server.trust_lists.trusted_tools));
        self.add_if_any("requireConfirmation", patterns(&server.trust_lists.require_confirmation));
        if server.trust_lists.file_access == FileAccess::RootsOnly {
            self.add("allowFileAccess", "allowFileAccess", json!(false));
        }
        self.add_if_set("limits", json!(server.limits.to_json()));
        if server.auto_context {
            self.add("autoContext", "autoContext", json!(true));
        }
        self.add_if_set("description", json!(server.description));
    }

    fn transport(&mut self) {
        match &self.server.transport {
            Transport::Process(process) => {
                self.text("command", "command", &process.command, &mask::text(&process.command));
                self.add("args", "args", json!(mask::arguments(&process.arguments)));
                for (name, value) in &process.variables {
                    self.text(&format!("env.{name}"), "env", value, &mask::variable(name, value));
                }
                if let Some(file) = &process.variables_file {
                    self.text("envFile", "envFile", &file.path, &mask::text(&file.path));
                }
                match &process.directory {
                    Some(directory) => self.text("cwd", "cwd", directory, &mask::text(directory)),
                    None => self.add("cwd", "cwd", json!(self.server.source.folder)),
                }
            }
            Transport::Http(http) => {
                self.text("url", "url", &http.url, &mask::text(&http.url));
                for (name, value) in &http.headers {
                    self.text(&format!("headers.{name}"), "headers", value, &mask::header(name, value));
                }
                let kind = match http.kind {
                    HttpKind::Auto => "auto",
                    HttpKind::Http => "http",
                    HttpKind::Sse => "sse",
                };
                self.add("type", "type", json!(kind));
                self.add("allowInsecureHttp", "allowInsecureHttp", json!(http.plain == PlainHttp::Anywhere));
                self.sign_in(http);
            }
        }
    }

    fn sign_in(&mut self, http: &Http) {
        let default = if http.has_authorization() { Auth::None } else { Auth::default() };
        let auth = http.auth.as_deref().unwrap_or(&default);
        for (key, value) in auth.facts() {
            self.add(key, "auth", value);
        }
        for (key, value) in http.oauth.facts() {
            self.add(key, "oauth", value);
        }
        for (key, kind, text) in http.sign_in_texts() {
            let set_by = if key.starts_with("auth.") { "auth" } else { "oauth" };
            self.text(key, set_by, text, &masked(kind, key, text));
        }
    }

    /// Adds the effective timeouts; the origin of a default total timeout is that of `requestTimeout`.
    fn timeouts(&mut self) {
        let (own, timeouts) = (self.server.timeouts, self.config.timeouts(self.server));
        self.add("timeouts.connect", own.connect.map_or("", |_| "timeouts"), seconds(timeouts.connect));
        self.add("timeouts.idle", own.idle.map_or("", |_| "timeouts"), json!(timeouts.idle.map(seconds)));
        match own.total {
            Some(_) => self.add("timeouts.total", "timeouts", seconds(timeouts.total)),
            None => {
                let origin = self.config.settings.request_timeout.origin.clone();
                self.push("timeouts.total", seconds(timeouts.total), origin);
            }
        }
    }

    fn filters(&mut self) {
        let filters = &self.server.filters;
        for (key, names) in [
            ("includeTools", filters.tool_names.include.as_ref()),
            ("excludeTools", Some(&filters.tool_names.exclude).filter(|names| !names.is_empty())),
            ("includePrompts", filters.prompt_names.include.as_ref()),
            ("excludePrompts", Some(&filters.prompt_names.exclude).filter(|names| !names.is_empty())),
        ] {
            if let Some(names) = names {
                self.add(key, key, json!(names));
            }
        }
        for (key, offered) in [("tools", filters.tools), ("resources", filters.resources), ("prompts", filters.prompts)]
        {
            self.add(key, key, json!(offered == Offered::Yes));
        }
    }

    /// Adds the delays that are set or the defaults, and the number of attempts if it is limited.
    fn reconnect(&mut self) {
        let reconnect = &self.server.reconnect;
        let is_set = |set: bool| if set { "reconnect" } else { "" };
        if let Some(attempts) = reconnect.attempts {
            let set_by = if self.server.origins.contains_key("reconnect") { "reconnect" } else { "retries" };
            self.add("reconnect.attempts", set_by, json!(attempts));
        }
        let (initial, max) = reconnect.delays();
        self.add("reconnect.initialDelay", is_set(reconnect.initial_delay.is_some()), seconds(initial));
        self.add("reconnect.maxDelay", is_set(reconnect.max_delay.is_some()), seconds(max));
    }

    fn start(&mut self) {
        let lazy = json!(self.config.start(self.server) == Start::WhenNeeded);
        match self.server.start {
            Some(_) => self.add("lazy", "lazy", lazy),
            None => self.push("lazy", lazy, self.config.settings.start.origin.clone()),
        }
    }

    /// Adds a string, which has its own line.
    fn text(&mut self, key: &str, set_by: &'static str, template: &Template, masked: &str) {
        let place = self.server.origins.get(set_by).map(|place| place.at(template.line()));
        self.push(key, json!(masked), place.map_or(Origin::Default, Origin::File));
    }

    fn add_if_set(&mut self, key: &'static str, value: Value) {
        if value != Value::Null {
            self.add(key, key, value);
        }
    }

    /// Adds a list that is not empty.
    fn add_if_any(&mut self, key: &'static str, list: Value) {
        if list.as_array().is_some_and(|list| !list.is_empty()) {
            self.add(key, key, list);
        }
    }

    fn add(&mut self, key: &str, set_by: &str, value: Value) {
        let place = self.server.origins.get(set_by).cloned();
        self.push(key, value, place.map_or(Origin::Default, Origin::File));
    }

    fn push(&mut self, key: &str, value: Value, origin: Origin) {
        self.values.push(ShownValue { key: format!("mcpServers.{}.{key}", self.server.label), value, origin });
    }
}

fn texts(values: &[impl ToString]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}

fn folders(folders: &[TrustedFolder]) -> Value {
    folders.iter().map(|folder| (folder.path.clone(), json!(folder.trust.as_str()))).collect()
}

fn roots(roots: &[RootSetting]) -> Value {
    roots.iter().map(root).collect()
}

fn root(root: &RootSetting) -> Value {
    let (key, text) = match &root.location {
        RootLocation::Path(path) => ("path", path),
        RootLocation::Uri(uri) => ("uri", uri),
    };
    json!({ key: text, "name": root.name, "enabled": root.enabled })
}

/// What an entry says of tasks.
fn tasks(set: TaskSettings) -> Value {
    let members = [
        ("background", set.background.map(Value::from)),
        ("ttl", set.ttl.map(|time| json!(seconds(time)))),
        ("pollInterval", set.poll_interval.map(|time| json!(seconds(time)))),
    ];
    members
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// What an entry says of sampling: an object, or `true` if it says nothing.
fn sampling(set: &SamplingSettings) -> Value {
    if *set == SamplingSettings::default() {
        return json!(true);
    }
    json!({
        "allow": set.allow.map(SamplingPermission::as_str),
        "model": set.model,
        "maxTokens": set.max_tokens,
        "requestsPerHour": set.requests_per_hour,
        "tokensPerDay": set.tokens_per_day,
        "review": set.review,
    })
}
