//! A file with an `mcp` section whose `servers` is a list, usually YAML. Times are in seconds, 30 by default.

use std::time::Duration;

use super::{
    Host,
    entry::{Entries, FileReader, usable},
    rules::{Clock, KeyRule, SECONDS, SamplingKey, Switch},
};
use crate::{
    document::{Section, Value},
    error::ConfigError,
    interpolate::Dialect,
    sampling::SamplingSettings,
    server::{Draft, Format, Offered, Start},
    settings::{Origin, Setting},
    shape::Field,
};

pub(super) const HOST: Host = Host { format: Format::McpSection, locations: &[], read };

/// Timeout of a request if neither the file nor the server sets one.
const REQUEST: Duration = Duration::from_secs(30);

/// Maximum length of an id.
const LONGEST_ID: usize = 64;

const TRANSPORT: &[(&str, KeyRule)] = &[
    ("type", KeyRule::Kind),
    ("executable", KeyRule::Command),
    ("endpoint", KeyRule::Url),
    ("args", KeyRule::Arguments),
    ("env", KeyRule::Environment),
    ("working_dir", KeyRule::Directory),
    ("headers", KeyRule::Headers),
    ("timeout_seconds", KeyRule::Time(Clock::Total, SECONDS)),
    ("oauth", KeyRule::OAuth),
];

const ENTRIES: Entries = Entries {
    dialect: Dialect::Toolway,
    rules: &[&[
        ("id", KeyRule::Nothing),
        ("enabled", KeyRule::Enabled),
        ("tools_enabled", KeyRule::Switch(Switch::Tools)),
        ("resources_enabled", KeyRule::Switch(Switch::Resources)),
        ("prompts_enabled", KeyRule::Switch(Switch::Prompts)),
        ("sampling_enabled", KeyRule::Sampling(SamplingKey::Enabled)),
        ("mcp_sampling_enabled", KeyRule::Sampling(SamplingKey::Enabled)),
        ("mcp_sampling_requires_approval", KeyRule::Sampling(SamplingKey::Approval)),
        ("mcp_sampling_max_tokens", KeyRule::Sampling(SamplingKey::MaxTokens)),
        ("mcp_sampling_rate_limit", KeyRule::Sampling(SamplingKey::RateLimit)),
        ("elicitation_enabled", KeyRule::Switch(Switch::Elicitation)),
        ("timeout_seconds", KeyRule::Time(Clock::Total, SECONDS)),
        ("transport", KeyRule::Inside(TRANSPORT)),
    ]],
    unusable: usable,
};

const KEYS: [&str; 5] =
    ["auto_connect", "request_timeout_seconds", "expose_resources_tool", "expose_prompts_tool", "servers"];

/// Keys of sampling for all servers, in the order in which they are applied.
const SAMPLING: [(&str, SamplingKey); 4] = [
    ("mcp_sampling_enabled", SamplingKey::Enabled),
    ("mcp_sampling_requires_approval", SamplingKey::Approval),
    ("mcp_sampling_max_tokens", SamplingKey::MaxTokens),
    ("mcp_sampling_rate_limit", SamplingKey::RateLimit),
];

fn read(reader: &mut FileReader<'_>) -> Result<(), ConfigError> {
    let document = reader.document;
    let mut root = document.root()?;
    let Some(mut mcp) = root.take_section("mcp")? else { return Ok(()) };
    read_settings(reader, &mut mcp)?;
    read_sampling(reader, &mut root)?;
    read_sampling(reader, &mut mcp)?;
    let mut ids: Vec<String> = Vec::new();
    let servers = mcp.take("servers").map(|node| Field::new(document, "mcp.servers".to_owned(), node));
    let servers = servers.map(|field| field.fields().map_err(|_| field.expected("a list of servers"))).transpose()?;
    for field in servers.into_iter().flatten() {
        let id = id(&field)?;
        if ids.contains(&id) {
            let problem = format!("two servers have the id `{id}`; rename one of them");
            return Err(ConfigError::Refused { place: document.place(field.node.line), problem });
        }
        let entry = Section::of(document, format!("mcp.servers.{id}"), field.node)?;
        reader.entry_with(&id, entry, &ENTRIES, defaults());
        ids.push(id);
    }
    reader.warn_about_unknown(&mcp, &KEYS.into_iter());
    reader.warn_about_own_settings(&root);
    Ok(())
}

/// Tools and elicitation are on by default; resources, prompts and sampling are off.
fn defaults() -> Draft {
    let mut draft = Draft { sampling: Some(SamplingSettings::never()), ..Draft::default() };
    (draft.filters.resources, draft.filters.prompts) = (Offered::No, Offered::No);
    draft
}

fn read_settings(reader: &mut FileReader<'_>, mcp: &mut Section<'_>) -> Result<(), ConfigError> {
    let (document, place) = (reader.document, mcp.place());
    let mut take = |key: &str| mcp.take(key).map(|node| Field::new(document, format!("mcp.{key}"), node));
    let settings = reader.settings_mut();
    settings.request_timeout = Setting::new(Some(REQUEST), Origin::File(place));
    if let Some(field) = take("auto_connect") {
        settings.start = field.setting(Start::from_auto_connect(field.flag()?));
    }
    if let Some(field) = take("request_timeout_seconds") {
        settings.request_timeout = field.setting(Some(field.time_in(SECONDS)?));
    }
    if let Some(field) = take("expose_resources_tool") {
        settings.agent.expose_resources = field.setting(Some(field.flag()?));
    }
    if let Some(field) = take("expose_prompts_tool") {
        settings.agent.expose_prompts = field.setting(Some(field.flag()?));
    }
    Ok(())
}

/// What the file says of sampling for all servers, at its top or in its section.
fn read_sampling(reader: &mut FileReader<'_>, section: &mut Section<'_>) -> Result<(), ConfigError> {
    let document = reader.document;
    for (name, key) in SAMPLING {
        let Some(node) = section.take(name) else { continue };
        let field = Field::new(document, name.to_owned(), node);
        let mut sampling = reader.settings_mut().sampling.value.clone();
        key.set(&mut sampling, &field)?;
        reader.settings_mut().sampling = field.setting(sampling);
    }
    Ok(())
}

/// The id of a server, which is required.
fn id(server: &Field<'_>) -> Result<String, ConfigError> {
    let members = server.members().map_err(|_| server.expected("a list of objects"))?;
    let missing = server.below("id");
    let field = members.iter().find(|(key, _)| *key == "id").map_or(&missing, |(_, field)| field);
    let valid = |id: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
        (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(plain)
    };
    match &field.node.value {
        Value::Text(id) if valid(id) => Ok(id.clone()),
        _ => Err(field.expected("1 to 64 of a-z, 0-9, `_` and `-`")),
    }
}
