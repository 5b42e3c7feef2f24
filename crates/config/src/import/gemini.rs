//! Gemini CLI: `.gemini/settings.json`, where `url` means HTTP+SSE and `httpUrl` Streamable HTTP.

use super::{
    Host,
    entry::{Entries, Reading, usable},
    find::Spot,
    rules::{Clock, MILLISECONDS, Rule},
};
use crate::{
    document::Section,
    error::ConfigError,
    interpolate::Dialect,
    server::{Format, HttpKind},
};

pub(super) const HOST: Host = Host {
    format: Format::GeminiCli,
    spots: &[Spot::Project(".gemini/settings.json"), Spot::Home(".gemini/settings.json")],
    read,
};

const ENTRIES: Entries = Entries {
    dialect: Dialect::Gemini,
    rules: &[&[
        ("type", Rule::Kind),
        ("command", Rule::Command),
        ("args", Rule::Arguments),
        ("env", Rule::Environment),
        ("cwd", Rule::Directory),
        ("httpUrl", Rule::UrlOf(HttpKind::Http)),
        ("url", Rule::UrlOf(HttpKind::Sse)),
        ("headers", Rule::Headers),
        ("includeTools", Rule::Only),
        ("excludeTools", Rule::Without),
        ("timeout", Rule::Time(Clock::Total, MILLISECONDS)),
        ("description", Rule::Description),
        ("trust", Rule::Ignored("approvals are not taken over")),
        ("oauth", Rule::OAuth),
        ("authProviderType", Rule::Provider),
        ("targetAudience", Rule::Ignored("nobody is impersonated here")),
        ("targetServiceAccount", Rule::Ignored("nobody is impersonated here")),
    ]],
    unusable: usable,
};

fn read(reading: &mut Reading<'_>) -> Result<(), ConfigError> {
    let mut root = reading.document.root()?;
    if let Some(entries) = root.take_section("mcpServers")? {
        reading.entries(entries, &ENTRIES);
    }
    if let Some(mut switches) = root.take_section("mcp")? {
        apply_switches(reading, &mut switches)?;
    }
    Ok(())
}

/// `allowed` names the only ones, `excluded` some that are off.
fn apply_switches(reading: &mut Reading<'_>, switches: &mut Section<'_>) -> Result<(), ConfigError> {
    let labels = |list: Vec<(String, usize)>| list.into_iter().map(|(label, _)| label).collect::<Vec<_>>();
    if let Some(allowed) = switches.take_texts("allowed")?.map(labels) {
        let others = reading.servers_mut().iter().map(|server| server.label.clone());
        let others: Vec<String> = others.filter(|label| !allowed.contains(label)).collect();
        reading.disable(&others);
    }
    if let Some(excluded) = switches.take_texts("excluded")?.map(labels) {
        reading.disable(&excluded);
    }
    Ok(())
}
