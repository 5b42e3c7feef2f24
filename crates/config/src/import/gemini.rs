//! Gemini CLI: `.gemini/settings.json`, where `url` means HTTP+SSE and `httpUrl` Streamable HTTP.

use super::{
    Host,
    entry::{Entries, FileReader, usable},
    find::Location,
    rules::{Clock, KeyRule, MILLISECONDS},
};
use crate::{
    document::Section,
    error::ConfigError,
    interpolate::Dialect,
    server::{Format, HttpKind},
};

pub(super) const HOST: Host = Host {
    format: Format::GeminiCli,
    locations: &[Location::Project(".gemini/settings.json"), Location::Home(".gemini/settings.json")],
    read,
};

const ENTRIES: Entries = Entries {
    dialect: Dialect::Gemini,
    rules: &[&[
        ("type", KeyRule::Kind),
        ("command", KeyRule::Command),
        ("args", KeyRule::Arguments),
        ("env", KeyRule::Environment),
        ("cwd", KeyRule::Directory),
        ("httpUrl", KeyRule::UrlOf(HttpKind::Http)),
        ("url", KeyRule::UrlOf(HttpKind::Sse)),
        ("headers", KeyRule::Headers),
        ("includeTools", KeyRule::Only),
        ("excludeTools", KeyRule::Without),
        ("timeout", KeyRule::Time(Clock::Total, MILLISECONDS)),
        ("description", KeyRule::Description),
        ("trust", KeyRule::Ignored("approvals are not imported")),
        ("oauth", KeyRule::OAuth),
        ("authProviderType", KeyRule::Provider),
        ("targetAudience", KeyRule::Ignored("service account impersonation is not supported")),
        ("targetServiceAccount", KeyRule::Ignored("service account impersonation is not supported")),
    ]],
    unusable: usable,
};

fn read(reader: &mut FileReader<'_>) -> Result<(), ConfigError> {
    let mut root = reader.document.root()?;
    if let Some(entries) = root.take_section("mcpServers")? {
        reader.entries(entries, &ENTRIES);
    }
    if let Some(mut switches) = root.take_section("mcp")? {
        apply_switches(reader, &mut switches)?;
    }
    Ok(())
}

/// `allowed` lists the only enabled servers, `excluded` lists disabled ones.
fn apply_switches(reader: &mut FileReader<'_>, switches: &mut Section<'_>) -> Result<(), ConfigError> {
    let labels = |list: Vec<(String, usize)>| list.into_iter().map(|(label, _)| label).collect::<Vec<_>>();
    if let Some(allowed) = switches.take_texts("allowed")?.map(labels) {
        let others = reader.servers_mut().iter().map(|server| server.label.clone());
        let others: Vec<String> = others.filter(|label| !allowed.contains(label)).collect();
        reader.disable(&others);
    }
    if let Some(excluded) = switches.take_texts("excluded")?.map(labels) {
        reader.disable(&excluded);
    }
    Ok(())
}
