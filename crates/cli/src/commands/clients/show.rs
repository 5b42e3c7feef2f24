//! `toolway clients show`: what is in effect for one client, where it comes from, and what is used of its limits.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use toolway_config::{ClientSettings, Config, Origin, Setting, show::show as show_config};
use toolway_gateway::{
    access::{ANONYMOUS, KeyError, KeyFile, KnownClient},
    control::ControlRequest,
};
use toolway_host::{
    call::Caller,
    policy::{LimitOwner, LimitScope, Policy, Stance},
};
use toolway_wire::json::Raw;

use super::{GatewayKeys, list};
use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Format, Output},
    report::Report,
};

#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// The client
    name: String,
}

/// What the key file says, as an origin.
const KEY: &str = "key file";
/// Settings of the configuration that are shown as they are.
const AS_SET: &[&str] = &["sampling", "roots", "inbox.wait"];

/// A value in effect.
struct Effective {
    key: String,
    value: Value,
    /// Where it comes from; several if all of them bound the client.
    origins: Vec<String>,
}

/// One limit, and what is used of it.
struct ShownLimit {
    /// Pattern of the tools; `None`: all calls.
    tools: Option<String>,
    key: &'static str,
    most: Value,
    /// `None` if it does not count calls, or if that is known only in a running gateway.
    used: Option<u64>,
}

pub(super) async fn run(args: &ShowArgs, file: &KeyFile, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    // A running gateway writes when keys were used before it replies.
    drop(GatewayKeys::ask(app, file, "").await);
    let known = file.list()?.into_iter().find(|client| client.name == args.name);
    let config = app.load()?.config;
    let settings = config.settings.gateway.clients.value.get(&args.name);
    if known.is_none() && args.name != ANONYMOUS {
        if settings.is_none() {
            return Err(KeyError::Unknown(args.name.clone()).into());
        }
        let name = &args.name;
        output.notice(&format!("toolway: client `{name}` has no key; add one with `toolway clients add {name}`"));
    }
    let values = effective(&args.name, known.as_ref(), &config);
    let limits = match settings {
        Some(settings) => limits(&args.name, settings, app).await?,
        None => Vec::new(),
    };
    let origin = settings.map(|settings| settings.limits.origin.to_string());
    if output.format == Format::Human {
        print(&args.name, known.as_ref(), &values, &limits, output);
        return Ok(ExitCode::Ok);
    }
    let mut view = key_view(&args.name, known.as_ref(), file);
    for Effective { key, value, origins } in values {
        view.insert(key, json!({ "value": value, "origin": origins.join(", ") }));
    }
    let limit = |limit: ShownLimit| json!({ "tools": limit.tools, "limit": limit.key, "max": limit.most, "used": limit.used, "origin": origin });
    view.insert("limits".to_owned(), limits.into_iter().map(limit).collect());
    output.json(&Raw::of(&Value::Object(view)));
    Ok(ExitCode::Ok)
}

fn key_view(name: &str, known: Option<&KnownClient>, file: &KeyFile) -> Map<String, Value> {
    let uses = file.last_uses();
    let key = known.map(|known| {
        json!({
            "created": list::rfc3339(known.created),
            "lastUsed": known.last_used(&uses).map(list::rfc3339),
            "expires": known.expires.map(list::rfc3339),
            "expired": known.is_expired(),
            "scope": known.scope.as_str(),
        })
    });
    Map::from_iter([("name".to_owned(), json!(name)), ("key".to_owned(), json!(key))])
}

/// What is in effect for a client, in order.
fn effective(name: &str, known: Option<&KnownClient>, config: &Config) -> Vec<Effective> {
    let settings = &config.settings;
    let client = settings.gateway.clients.value.get(name);
    let mut values = vec![servers(known, client), tools(known, client), mode(name, client, config)];
    let approver = client.map(|client| client.approver.clone()).unwrap_or_default();
    values.push(Effective {
        key: "approver".to_owned(),
        value: json!(approver.value.as_str()),
        origins: vec![approver.origin.to_string()],
    });
    let shown = show_config(config);
    for key in AS_SET {
        let path = format!("gateway.clients.{name}.{key}");
        let found = shown.iter().find(|shown| shown.key == path);
        let value = found.map_or(Value::Null, |shown| shown.value.clone());
        let origin = found.map_or(Origin::Default, |shown| shown.origin.clone());
        values.push(Effective { key: (*key).to_owned(), value, origins: vec![origin.to_string()] });
    }
    values
}

/// The servers that both the key and the configuration allow; `null`: all.
fn servers(known: Option<&KnownClient>, client: Option<&ClientSettings>) -> Effective {
    let by_key = known.and_then(|known| known.servers.clone());
    let by_setting = set(client.map(|client| &client.servers));
    let names = by_setting.map(|servers| servers.iter().map(ToString::to_string).collect::<BTreeSet<_>>());
    let value = match (&by_key, &names) {
        (Some(one), Some(other)) => json!(one.intersection(other).collect::<Vec<_>>()),
        (one, other) => json!(one.as_ref().or(other.as_ref())),
    };
    let origins = origins(by_key.is_some(), client.map(|client| &client.servers));
    Effective { key: "servers".to_owned(), value, origins }
}

/// The patterns of tools; `null`: all. If both the key and the configuration have some, a tool must match one of each.
fn tools(known: Option<&KnownClient>, client: Option<&ClientSettings>) -> Effective {
    let by_key = known.and_then(|known| known.tools.clone());
    let by_setting = set(client.map(|client| &client.tools));
    let patterns = by_setting.map(|tools| tools.iter().map(ToString::to_string).collect::<Vec<_>>());
    let value = match (&by_key, &patterns) {
        (Some(one), Some(other)) => json!({ "key": one, "configuration": other }),
        (one, other) => json!(one.as_ref().or(other.as_ref())),
    };
    let origins = origins(by_key.is_some(), client.map(|client| &client.tools));
    Effective { key: "tools".to_owned(), value, origins }
}

fn set<T>(setting: Option<&Setting<Option<T>>>) -> Option<&T> {
    setting.and_then(|setting| setting.value.as_ref())
}

/// Where bounds come from.
fn origins<T>(is_of_key: bool, setting: Option<&Setting<Option<T>>>) -> Vec<String> {
    let of_setting = setting.filter(|setting| setting.value.is_some()).map(|setting| setting.origin.to_string());
    let both: Vec<String> = is_of_key.then(|| KEY.to_owned()).into_iter().chain(of_setting).collect();
    if both.is_empty() { vec![Origin::Default.to_string()] } else { both }
}

/// The stricter of the mode for all and that of the client; `null`: the default of the gateway.
fn mode(name: &str, client: Option<&ClientSettings>, config: &Config) -> Effective {
    let policy = Policy::new(Stance::BySurface, &config.settings);
    let mode = policy.mode_of(&Caller::Client(name.into()));
    let of_all = &config.settings.policy.mode;
    let of_client = client.map(|client| &client.mode);
    let origin = match of_client.filter(|of_client| of_client.value == mode && of_all.value != mode) {
        Some(of_client) => &of_client.origin,
        None => &of_all.origin,
    };
    let value = json!(mode.map(|mode| mode.as_str()));
    Effective { key: "mode".to_owned(), value, origins: vec![origin.to_string()] }
}

/// The limits of a client with what is used of them: as the running gateway counts, or only those of the day.
async fn limits(name: &str, settings: &ClientSettings, app: &App) -> Result<Vec<ShownLimit>, Report> {
    let level = &settings.limits.value;
    if level.is_empty() {
        return Ok(Vec::new());
    }
    let running = match app.ask_gateway_of_configuration(&ControlRequest::Limits {}).await? {
        Some(reply) => reply.value["limits"].as_array().cloned().unwrap_or_default(),
        None => Vec::new(),
    };
    let of_day = app.records()?.calls_of_day(std::time::SystemTime::now()).await?;
    let used = |tools: Option<&str>, key: &str| {
        let is_it = |used: &&Value| {
            used["client"] == name && used["tools"].as_str() == tools && used["limit"].as_str() == Some(key)
        };
        let scope = LimitScope { owner: LimitOwner::Client(name.into()), tools: tools.map(Into::into) };
        let stored = || (key == "callsPerDay").then(|| of_day.get(&scope.count_key()).copied().unwrap_or_default());
        running.iter().find(is_it).and_then(|used| used["used"].as_u64()).or_else(stored)
    };
    let of_all = level.all.values().into_iter().map(|(key, most)| (None, key, most));
    let of_tools = level
        .tools
        .iter()
        .flat_map(|tool| tool.limit.values().into_iter().map(|(key, most)| (Some(tool.written.clone()), key, most)));
    let shown = of_all.chain(of_tools).map(|(tools, key, most)| {
        let used = used(tools.as_deref(), key);
        ShownLimit { tools, key, most, used }
    });
    Ok(shown.collect())
}

fn print(name: &str, known: Option<&KnownClient>, values: &[Effective], limits: &[ShownLimit], output: &mut Output) {
    output.entry(name, "");
    if let Some(known) = known {
        let expires = known.expires.map_or_else(|| "never".to_owned(), list::rfc3339);
        output.line(&format!("    {:<14} created {}, expires {expires}", "key", list::rfc3339(known.created)));
    }
    for Effective { key, value, origins } in values {
        output.line(&format!("    {key:<14} {} ({})", text(key, value), origins.join(" and ")));
    }
    for limit in limits {
        let of = limit.tools.as_ref().map(|tools| format!(" of {tools}")).unwrap_or_default();
        let used = limit.used.map(|used| format!(", {used} used")).unwrap_or_default();
        output.line(&format!("    {:<14} {}{of}: {}{used}", "limit", limit.key, limit.most));
    }
}

/// A value in words.
fn text(key: &str, value: &Value) -> String {
    let list = |values: &Value| {
        let texts = values.as_array().into_iter().flatten().filter_map(Value::as_str);
        let texts: Vec<&str> = texts.collect();
        if texts.is_empty() { "none".to_owned() } else { texts.join(", ") }
    };
    match (key, value) {
        ("servers" | "tools", Value::Null) => "all".to_owned(),
        ("mode", Value::Null) => "default of the gateway".to_owned(),
        ("inbox.wait", Value::Null) => "as for all".to_owned(),
        ("sampling" | "roots", Value::Null) => "none".to_owned(),
        ("tools", Value::Object(both)) => {
            format!("{}, and of these {}", list(&both["key"]), list(&both["configuration"]))
        }
        (_, Value::Array(values)) if values.iter().all(Value::is_string) => list(value),
        (_, Value::String(text)) => text.clone(),
        (_, other) => other.to_string(),
    }
}
