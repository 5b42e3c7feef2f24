//! VS Code: `.vscode/mcp.json` of a project and `mcp.json` of a profile, with inputs that the user enters. A snippet may
//! have the same under `mcp`, as for `settings.json`.

use super::{
    Echo, Host, Input,
    entry::{Entries, FileReader, usable},
    find::Location,
    rules::{KeyRule, USUAL},
};
use crate::{
    document::{Section, Value},
    error::ConfigError,
    interpolate::Dialect,
    server::Format,
    shape::Field,
};

pub(super) const HOST: Host = Host {
    format: Format::VsCode,
    locations: &[
        Location::Project(".vscode/mcp.json"),
        Location::Project(".mcp.json"),
        Location::Config("Code/User/mcp.json"),
        Location::Config("Code - Insiders/User/mcp.json"),
    ],
    read,
};

const ENTRIES: Entries = Entries {
    dialect: Dialect::VsCode,
    rules: &[
        USUAL,
        &[
            ("envFile", KeyRule::EnvironmentFile),
            ("sandboxEnabled", KeyRule::Ignored("sandboxing is not supported")),
            ("sandbox", KeyRule::Ignored("sandboxing is not supported")),
            ("dev", KeyRule::Nothing),
            ("gallery", KeyRule::Nothing),
            ("version", KeyRule::Nothing),
        ],
    ],
    unusable: usable,
};

fn read(reader: &mut FileReader<'_>) -> Result<(), ConfigError> {
    let mut root = reader.document.root()?;
    if let Some(mut mcp) = root.take_section("mcp")? {
        read_section(&mut mcp, reader)?;
    }
    read_section(&mut root, reader)
}

fn read_section(root: &mut Section<'_>, reader: &mut FileReader<'_>) -> Result<(), ConfigError> {
    for input in inputs(root, reader)? {
        reader.add_input(input);
    }
    for container in ["servers", "mcpServers"] {
        if let Some(entries) = root.take_section(container)? {
            reader.entries(entries, &ENTRIES);
        }
    }
    Ok(())
}

fn inputs(root: &mut Section<'_>, reader: &FileReader<'_>) -> Result<Vec<Input>, ConfigError> {
    let Some(node) = root.take("inputs") else { return Ok(Vec::new()) };
    let mut inputs = Vec::new();
    for field in Field::new(reader.document, "inputs".to_owned(), node).fields()? {
        let members = field.members()?;
        let get = |wanted: &str| members.iter().find(|(key, _)| *key == wanted).map(|(_, field)| field);
        let text = |wanted: &str| get(wanted).and_then(|field| field.text().ok()).map(str::to_owned);
        let hidden = get("password").is_some_and(|field| field.node.value == Value::Flag(true));
        let Some(id) = text("id") else { continue };
        let echo = if hidden { Echo::Hidden } else { Echo::Shown };
        inputs.push(Input { id, description: text("description"), echo });
    }
    Ok(inputs)
}
