//! Claude Code: `.mcp.json` of a project, and `~/.claude.json` with the user's servers and those of single folders.

use super::{
    Host,
    entry::{Entries, Reading},
    find::Spot,
    rules::{Clock, MILLISECONDS, Rule},
};
use crate::{
    document::{Document, Section},
    error::ConfigError,
    interpolate::Dialect,
    server::{Behind, Draft, Format},
};

pub(super) const HOST: Host =
    Host { format: Format::ClaudeCode, spots: &[Spot::Project(".mcp.json"), Spot::Home(".claude.json")], read };

const ENTRIES: Entries = Entries {
    dialect: Dialect::Shell,
    rules: &[&[
        ("type", Rule::Kind),
        ("command", Rule::Command),
        ("args", Rule::Arguments),
        ("env", Rule::Environment),
        ("url", Rule::Url),
        ("headers", Rule::Headers),
        // Less than a second is ignored there too.
        ("timeout", Rule::LongTime(Clock::Total, MILLISECONDS)),
        ("headersHelper", Rule::Ignored("no program is run for headers")),
        ("oauth", Rule::OAuth),
    ]],
    unusable,
};

/// An address without a `type` is no server there either.
fn unusable(draft: &Draft, _entry: &Section<'_>) -> Option<String> {
    let untyped = draft.url.is_some() && draft.kind.is_none();
    untyped.then(|| "it has a `url` but no `type`, which that host takes for a program".to_owned())
}

/// Settings that can switch off a server of `.mcp.json`.
const SETTINGS: [&str; 2] = [".claude/settings.json", ".claude/settings.local.json"];

fn read(reading: &mut Reading<'_>) -> Result<(), ConfigError> {
    let mut root = reading.document.root()?;
    match reading.found.behind {
        Behind::Project => {
            if let Some(entries) = root.take_section("mcpServers")? {
                reading.entries(entries, &ENTRIES);
            }
            let labels = switched_off(reading);
            reading.disable(&labels);
        }
        Behind::User | Behind::Program => read_user_file(reading, root)?,
    }
    Ok(())
}

/// What was said for this folder goes before what was said for all.
fn read_user_file(reading: &mut Reading<'_>, mut root: Section<'_>) -> Result<(), ConfigError> {
    let user_servers = root.take_section("mcpServers")?;
    if let Some(project) = reading.search.project.and_then(|folder| folder.to_str())
        && let Some(mut folder) = of_folder(&mut root, project)?
    {
        let labels = texts(&mut folder, "disabledMcpServers");
        if let Some(entries) = folder.take_section("mcpServers")? {
            let home = reading.search.home;
            reading.set_folder(project.as_ref());
            reading.entries(entries, &ENTRIES);
            if let Some(home) = home {
                reading.set_folder(home);
            }
        }
        if let Some(entries) = user_servers {
            reading.entries(entries, &ENTRIES);
        }
        reading.disable(&labels);
    } else if let Some(entries) = user_servers {
        reading.entries(entries, &ENTRIES);
    }
    Ok(())
}

fn of_folder<'a>(root: &mut Section<'a>, project: &str) -> Result<Option<Section<'a>>, ConfigError> {
    let Some(mut projects) = root.take_section("projects")? else { return Ok(None) };
    projects.take_section(project)
}

/// The labels that any settings file of that host switches off.
fn switched_off(reading: &Reading<'_>) -> Vec<String> {
    let folders = [reading.search.home, reading.search.project];
    let files = folders.into_iter().flatten().flat_map(|folder| SETTINGS.map(|file| folder.join(file)));
    let documents = files.filter_map(|file| reading.beside(&file));
    let mut labels: Vec<String> = documents.flat_map(|document| disabled_in(&document, None)).collect();
    if let (Some(home), Some(project)) = (reading.search.home, reading.search.project)
        && let Some(document) = reading.beside(&home.join(".claude.json"))
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
