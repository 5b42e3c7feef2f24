//! Models of vendors, by name, and what the agent does with them.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    address,
    error::ConfigError,
    interpolate::{Dialect, Template},
    server::PlainHttp,
    settings::{Setting, Settings},
    shape::{Field, Key, Shape, put},
};

/// The vendors, by their wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vendor {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    Openai,
    /// OpenAI Chat Completions and compatible servers.
    OpenaiChat,
    /// Gemini `generateContent`.
    Gemini,
    /// A script; `model` is its path.
    Scripted,
}

/// One model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelConfig {
    /// Vendor of the model.
    pub vendor: Vendor,
    /// The vendor's name of the model, or the path of a script; `None` means the newest model of the vendor's list, and
    /// never for a script.
    pub model: Option<String>,
    /// Base URL; `None` means the vendor's own.
    pub base_url: Option<Template>,
    /// Whether its base URL may be plain http on another machine.
    pub plain: PlainHttp,
    /// API key; `None` means the vendor's environment variable.
    pub api_key: Option<Template>,
    /// Additional header fields.
    pub headers: Vec<(String, Template)>,
    /// Limit of output tokens.
    pub max_tokens: Option<u32>,
    /// Tokens that a conversation may have.
    pub context_window: Option<u32>,
    /// Whether it takes images.
    pub images: bool,
    /// How well it serves what servers ask for, when they ask a model.
    pub priority: Option<ModelPriority>,
    /// What its tokens cost; `None` if that is not known.
    pub price: Option<ModelPrice>,
}

/// How well a model serves each priority of a sampling request, in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelPriority {
    /// 1000: the cheapest.
    pub cost: u16,
    /// 1000: the fastest.
    pub speed: u16,
    /// 1000: the most capable.
    pub intelligence: u16,
}

/// Settings of the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentSettings {
    /// Share of the context window, in thousandths, from which on older turns are summarised; `None` means 800.
    pub compact_at: Setting<Option<u16>>,
    /// How old a result of `resources/read` may be that is used again; `None` means 300 s, zero: none is.
    pub resource_cache: Setting<Option<Duration>>,
    /// Whether resources for the assistant of servers with `autoContext` are attached where they fit; `None` means no.
    pub auto_context: Setting<Option<bool>>,
    /// Whether the model gets a tool to read resources; `None` means yes.
    pub expose_resources: Setting<Option<bool>>,
    /// Whether the model gets a tool to get prompts; `None` means yes.
    pub expose_prompts: Setting<Option<bool>>,
}

/// What a million tokens cost, in millionths of the user's currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelPrice {
    /// Tokens of requests that the vendor does not have in its cache.
    pub input: u64,
    /// Tokens of answers.
    pub output: u64,
    /// Tokens of requests that are read from the vendor's cache.
    pub cached_input: u64,
    /// Tokens of requests that are written to the vendor's cache.
    pub cache_write: u64,
}

/// Highest price of a million tokens.
const MAX_PRICE: f64 = 1e9;

const VENDORS: &[(&str, Vendor)] = &[
    ("anthropic", Vendor::Anthropic),
    ("openai", Vendor::Openai),
    ("openai-chat", Vendor::OpenaiChat),
    ("gemini", Vendor::Gemini),
    ("scripted", Vendor::Scripted),
];
const VENDOR_VALUES: &[&str] = &["anthropic", "openai", "openai-chat", "gemini", "scripted"];

const MODEL: &[(&str, Shape)] = &[
    ("vendor", Shape::OneOf(VENDOR_VALUES)),
    ("model", Shape::Text),
    ("baseUrl", Shape::Text),
    ("allowInsecureHttp", Shape::Flag),
    ("apiKey", Shape::Text),
    ("headers", Shape::Pairs),
    ("maxTokens", Shape::Count),
    ("contextWindow", Shape::Count),
    ("images", Shape::Flag),
    ("priority", Shape::Members(PRIORITY)),
    ("price", Shape::Members(PRICE)),
];
const PRICE: &[(&str, Shape)] = &[
    ("input", Shape::Number),
    ("output", Shape::Number),
    ("cachedInput", Shape::Number),
    ("cacheWrite", Shape::Number),
];
const PRIORITY: &[(&str, Shape)] = &[("cost", Shape::Share), ("speed", Shape::Share), ("intelligence", Shape::Share)];
const AGENT_MEMBERS: &[(&str, Shape)] = &[
    ("exposeResources", Shape::Flag),
    ("exposePrompts", Shape::Flag),
    ("compactAt", Shape::Share),
    ("resourceCache", Shape::TimeOrZero),
    ("autoContext", Shape::Flag),
];
/// How old a result of `resources/read` may be that is used again, by default.
const RESOURCE_CACHE: Duration = Duration::from_secs(300);

/// The top-level key `models`.
pub(crate) const MODELS: Key<Settings> = Key {
    name: "models",
    shape: Shape::NamedMembers(MODEL),
    doc: "Models by name, for `chat` and `run`. `vendor`: `anthropic`, `openai` (Responses), `openai-chat` (Chat \
          Completions: Ollama, vLLM, llama.cpp, LM Studio, OpenRouter …), `gemini` or `scripted`. `model`: the vendor's \
          name of the model, or the path of a script; without it, the newest one of the vendor's list. `baseUrl`: as in the vendor's own SDK; an http URL of another machine \
          needs `allowInsecureHttp`. `apiKey`: a reference such \
          as `env:OPENAI_API_KEY`; default: the vendor's usual variable. `headers`, `maxTokens`, `contextWindow` (tokens). `images`: whether it takes \
          images; default: yes. `priority`: \
          `cost`, `speed` and `intelligence` from 0 to 1 (best), by which a model is chosen for servers that ask one. `price`: what a \
          million tokens cost, `input`, `output`, `cachedInput` and `cacheWrite` (default of both: `input`), in any currency.",
    example: r#"{"local": {"vendor": "openai-chat", "model": "qwen3", "baseUrl": "http://127.0.0.1:11434/v1"}}"#,
    set: read_models,
};

/// The top-level key `defaultModel`.
pub(crate) const DEFAULT_MODEL: Key<Settings> = Key {
    name: "defaultModel",
    shape: Shape::Text,
    doc: "Name of the model that `chat` and `run` use without `--model`.",
    example: r#""local""#,
    set: |settings, field| put(&mut settings.default_model, field.setting(Some(field.text()?.to_owned()))),
};

/// The top-level key `agent`.
pub(crate) const AGENT: Key<Settings> = Key {
    name: "agent",
    shape: Shape::Members(AGENT_MEMBERS),
    doc: "Settings of `chat` and `run`. `exposeResources`, `exposePrompts`: give the model a tool to read resources and \
          to get prompts, where a server has them; default `true`. `compactAt`: share of the model's context window from which on older \
          turns are summarised; default 0.8. `resourceCache`: how long what a resource contained is used again, in seconds or as a duration, \
          unless its server announces a change; default 300, `0` turns it off. `autoContext`: attach resources that servers annotate for \
          the assistant where they fit the message, at most five, of servers whose entry has `autoContext`; default `false`.",
    example: r#"{"exposeResources": false}"#,
    set: read_agent,
};

fn read_models(settings: &mut Settings, field: &Field<'_>) -> Result<(), ConfigError> {
    let mut models = BTreeMap::new();
    for (name, field) in field.members()? {
        models.insert(name.to_owned(), read_model(&field)?);
    }
    put(&mut settings.models, field.setting(models))
}

fn read_model(field: &Field<'_>) -> Result<ModelConfig, ConfigError> {
    let (mut vendor, mut model) = (None, None);
    let (mut base_url, mut api_key, mut headers) = (None, None, Vec::new());
    let (mut max_tokens, mut context_window) = (None, None);
    let mut images = true;
    let mut priority = None;
    let mut price = None;
    let mut plain = PlainHttp::default();
    let positive = |field: &Field<'_>| match field.count()? {
        0 => Err(field.expected("a whole number greater than zero")),
        count => Ok(Some(count)),
    };
    for (key, field) in field.members()? {
        match key {
            "vendor" => vendor = Some(field.choice(VENDORS, Shape::OneOf(VENDOR_VALUES))?),
            "model" => model = Some(field.text()?.to_owned()),
            "baseUrl" => base_url = Some(field.template(Dialect::Toolway)?),
            "allowInsecureHttp" => plain = if field.flag()? { PlainHttp::Anywhere } else { PlainHttp::Loopback },
            "apiKey" => api_key = Some(api_key_template(&field)?),
            "headers" => headers = field.pairs(Dialect::ToolwayValue)?,
            "maxTokens" => max_tokens = positive(&field)?,
            "contextWindow" => context_window = positive(&field)?,
            "images" => images = field.flag()?,
            "priority" => priority = Some(read_priority(&field)?),
            "price" => price = Some(read_price(&field)?),
            _ => return Err(field.unknown(MODEL.iter().map(|(key, _)| *key))),
        }
    }
    let vendor = vendor.ok_or_else(|| field.below("vendor").wrong(Shape::OneOf(VENDOR_VALUES)))?;
    if vendor == Vendor::Scripted && model.is_none() {
        return Err(field.below("model").wrong(Shape::Text));
    }
    Ok(ModelConfig {
        vendor,
        model,
        base_url,
        plain,
        api_key,
        headers,
        max_tokens,
        context_window,
        images,
        priority,
        price,
    })
}

fn read_price(field: &Field<'_>) -> Result<ModelPrice, ConfigError> {
    let mut input = None;
    let mut output = None;
    let mut cached_input = None;
    let mut cache_write = None;
    let millionths = |field: &Field<'_>| match field.number().map_err(|_| field.wrong(Shape::Number))? {
        number if (0.0..=MAX_PRICE).contains(&number) => Ok(Some((number * 1e6).round() as u64)),
        _ => Err(field.wrong(Shape::Number)),
    };
    for (key, field) in field.members()? {
        match key {
            "input" => input = millionths(&field)?,
            "output" => output = millionths(&field)?,
            "cachedInput" => cached_input = millionths(&field)?,
            "cacheWrite" => cache_write = millionths(&field)?,
            _ => return Err(field.unknown(PRICE.iter().map(|(key, _)| *key))),
        }
    }
    let input = input.ok_or_else(|| field.below("input").wrong(Shape::Number))?;
    let output = output.ok_or_else(|| field.below("output").wrong(Shape::Number))?;
    let cached_input = cached_input.unwrap_or(input);
    Ok(ModelPrice { input, output, cached_input, cache_write: cache_write.unwrap_or(input) })
}

/// A share of more than nothing, in thousandths.
fn read_share(field: &Field<'_>) -> Result<u16, ConfigError> {
    match field.number().map_err(|_| field.wrong(Shape::Share))? {
        number if (0.001..=1.0).contains(&number) => Ok((number * 1000.0).round() as u16),
        _ => Err(field.expected("a number greater than 0 and at most 1")),
    }
}

fn read_priority(field: &Field<'_>) -> Result<ModelPriority, ConfigError> {
    let mut priority = ModelPriority::default();
    let thousandths = |field: &Field<'_>| match field.number().map_err(|_| field.wrong(Shape::Share))? {
        number if (0.0..=1.0).contains(&number) => Ok((number * 1000.0).round() as u16),
        _ => Err(field.wrong(Shape::Share)),
    };
    for (key, field) in field.members()? {
        match key {
            "cost" => priority.cost = thousandths(&field)?,
            "speed" => priority.speed = thousandths(&field)?,
            "intelligence" => priority.intelligence = thousandths(&field)?,
            _ => return Err(field.unknown(PRIORITY.iter().map(|(key, _)| *key))),
        }
    }
    Ok(priority)
}

/// `env:NAME` is another spelling of `${NAME}`.
pub(crate) fn api_key_template(field: &Field<'_>) -> Result<Template, ConfigError> {
    match field.text()?.strip_prefix("env:") {
        Some(name) => Ok(Template::new(format!("${{{name}}}"), Dialect::ToolwayValue, field.node.line)),
        None => field.template(Dialect::ToolwayValue),
    }
}

fn read_agent(settings: &mut Settings, field: &Field<'_>) -> Result<(), ConfigError> {
    for (key, field) in field.members()? {
        match key {
            "exposeResources" => put(&mut settings.agent.expose_resources, field.setting(Some(field.flag()?)))?,
            "exposePrompts" => put(&mut settings.agent.expose_prompts, field.setting(Some(field.flag()?)))?,
            "compactAt" => put(&mut settings.agent.compact_at, field.setting(Some(read_share(&field)?)))?,
            "resourceCache" => {
                put(&mut settings.agent.resource_cache, field.setting(Some(field.time_or_zero()?)))?;
            }
            "autoContext" => put(&mut settings.agent.auto_context, field.setting(Some(field.flag()?)))?,
            _ => return Err(field.unknown(AGENT_MEMBERS.iter().map(|(key, _)| *key))),
        }
    }
    Ok(())
}

impl ModelConfig {
    /// Checks that a request may be sent to this base URL; the error says what it must be.
    pub fn check_base_url(&self, url: &str) -> Result<(), &'static str> {
        address::check(url, self.plain).map_err(address::UrlProblem::expected)
    }
}

impl AgentSettings {
    /// Share of the context window from which on older turns are summarised.
    pub fn compaction_share(&self) -> f64 {
        f64::from(self.compact_at.value.unwrap_or(800)) / 1000.0
    }

    /// How old a result of `resources/read` may be that is used again; zero: none is.
    pub fn resource_cache(&self) -> Duration {
        self.resource_cache.value.unwrap_or(RESOURCE_CACHE)
    }

    /// These settings, overridden by those that the nearer layer sets.
    #[must_use]
    pub(crate) fn overridden_by(self, nearer: Self) -> Self {
        Self {
            resource_cache: self.resource_cache.overridden_by(nearer.resource_cache),
            auto_context: self.auto_context.overridden_by(nearer.auto_context),
            expose_resources: self.expose_resources.overridden_by(nearer.expose_resources),
            expose_prompts: self.expose_prompts.overridden_by(nearer.expose_prompts),
            compact_at: self.compact_at.overridden_by(nearer.compact_at),
        }
    }
}

impl Vendor {
    /// The value as written in configuration.
    pub fn as_str(self) -> &'static str {
        VENDORS.iter().find(|(_, vendor)| *vendor == self).map_or("scripted", |(word, _)| word)
    }

    /// The vendor of a word in the configuration.
    pub fn from_word(word: &str) -> Option<Self> {
        VENDORS.iter().find(|(known, _)| *known == word).map(|(_, vendor)| *vendor)
    }
}
