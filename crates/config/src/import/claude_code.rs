//! Claude Code: `.mcp.json` of a project, and `~/.claude.json` with the user's servers and those of single folders.

use super::{
    Host,
    entry::{Entries, FileReader},
    find::Location,
    rules::{Clock, KeyRule, MILLISECONDS},
};
use crate::{
    document::{Document, Section},
    error::ConfigError,
    interpolate::Dialect,
    server::{DefinedBy, Draft, Format},
};

pub(super) const HOST: Host = Host {
    format: Format::ClaudeCode,
    locations: &[Location::Project(".mcp.json"), Location::Home(".claude.json")],
    read,
};

const ENTRIES: Entries = Entries {
    dialect: Dialect::Shell,
    rules: &[&[
        ("type", KeyRule::Kind),
        ("command", KeyRule::Command),
        ("args", KeyRule::Arguments),
        ("env", KeyRule::Environment),
        ("url", KeyRule::Url),
        ("headers", KeyRule::Headers),
        // Claude Code ignores values below one second too.
        ("timeout", KeyRule::LongTime(Clock::Total, MILLISECONDS)),
        ("headersHelper", KeyRule::Ignored("header helper programs are not supported")),
        ("oauth", KeyRule::OAuth),
    ]],
    unusable,
};

/// Claude Code does not use an entry with a URL and without a `type` either.
fn unusable(draft: &Draft, _entry: &Section<'_>) -> Option<String> {
    let untyped = draft.url.is_some() && draft.kind.is_none();
    untyped.then(|| "it has a `url` but no `type`, so Claude Code reads it as a program".to_owned())
}

/// Settings files that can disable a server of `.mcp.json`.
const SETTINGS: [&str; 2] = [".claude/settings.json", ".claude/settings.local.json"];

fn read(reader: &mut FileReader<'_>) -> Result<(), ConfigError> {
    let mut root = reader.document.root()?;
    match reader.found.defined_by {
        DefinedBy::Project => {
            if let Some(entries) = root.take_section("mcpServers")? {
                reader.entries(entries, &ENTRIES);
            }
            let labels = disabled_labels(reader);
            reader.disable(&labels);
        }
        DefinedBy::User | DefinedBy::Program => read_user_file(reader, root)?,
    }
    Ok(())
}

/// Entries for this folder take precedence over those for all folders.
fn read_user_file(reader: &mut FileReader<'_>, mut root: Section<'_>) -> Result<(), ConfigError> {
    let user_servers = root.take_section("mcpServers")?;
    if let Some(project) = reader.search.project.and_then(|folder| folder.to_str())
        && let Some(mut folder) = of_folder(&mut root, project)?
    {
        let labels = texts(&mut folder, "disabledMcpServers");
        if let Some(entries) = folder.take_section("mcpServers")? {
            let home = reader.search.home;
            reader.set_folder(project.as_ref());
            reader.entries(entries, &ENTRIES);
            if let Some(home) = home {
                reader.set_folder(home);
            }
        }
        if let Some(entries) = user_servers {
            reader.entries(entries, &ENTRIES);
        }
        reader.disable(&labels);
    } else if let Some(entries) = user_servers {
        reader.entries(entries, &ENTRIES);
    }
    Ok(())
}

fn of_folder<'a>(root: &mut Section<'a>, project: &str) -> Result<Option<Section<'a>>, ConfigError> {
    let Some(mut projects) = root.take_section("projects")? else { return Ok(None) };
    projects.take_section(project)
}

/// Labels that any settings file of Claude Code disables.
fn disabled_labels(reader: &FileReader<'_>) -> Vec<String> {
    let folders = [reader.search.home, reader.search.project];
    let files = folders.into_iter().flatten().flat_map(|folder| SETTINGS.map(|file| folder.join(file)));
    let documents = files.filter_map(|file| reader.read_other(&file));
    let mut labels: Vec<String> = documents.flat_map(|document| disabled_in(&document, None)).collect();
    if let (Some(home), Some(project)) = (reader.search.home, reader.search.project)
        && let Some(document) = reader.read_other(&home.join(".claude.json"))
    {
        labels.extend(disabled_in(&document, project.to_str()));
    }
    labels
}

fn disabled_in(document: &Document, project: Option<&str>) -> Vec<String> {
    let Ok(mut root) = document.root() else { return Vec::new() };
    let section = match project {
        None => Some(root),
        Some(project) => of_folder(&mut root, project).ok().flatten(),
    };
    section.map(|mut section| texts(&mut section, "disabledMcpjsonServers")).unwrap_or_default()
}

fn texts(section: &mut Section<'_>, key: &str) -> Vec<String> {
    let texts = section.take_texts(key).ok().flatten().unwrap_or_default();
    texts.into_iter().map(|(text, _)| text).collect()
}
