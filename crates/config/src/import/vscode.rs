//! VS Code: `.vscode/mcp.json` of a project and `mcp.json` of a profile, with inputs a person is asked for.

use super::{
    Echo, Host, Input,
    entry::{Entries, Reading, usable},
    find::Spot,
    rules::{Rule, USUAL},
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
    spots: &[
        Spot::Project(".vscode/mcp.json"),
        Spot::Project(".mcp.json"),
        Spot::Config("Code/User/mcp.json"),
        Spot::Config("Code - Insiders/User/mcp.json"),
    ],
    read,
};

const ENTRIES: Entries = Entries {
    dialect: Dialect::VsCode,
    rules: &[
        USUAL,
        &[
            ("envFile", Rule::EnvironmentFile),
            ("sandboxEnabled", Rule::Ignored("programs are not confined here")),
            ("sandbox", Rule::Ignored("programs are not confined here")),
            ("dev", Rule::Nothing),
            ("gallery", Rule::Nothing),
            ("version", Rule::Nothing),
        ],
    ],
    unusable: usable,
};

fn read(reading: &mut Reading<'_>) -> Result<(), ConfigError> {
    let mut root = reading.document.root()?;
    for input in inputs(&mut root, reading)? {
        reading.add_input(input);
    }
    for container in ["servers", "mcpServers"] {
        if let Some(entries) = root.take_section(container)? {
            reading.entries(entries, &ENTRIES);
        }
    }
    Ok(())
}

fn inputs(root: &mut Section<'_>, reading: &Reading<'_>) -> Result<Vec<Input>, ConfigError> {
    let Some(node) = root.take("inputs") else { return Ok(Vec::new()) };
    let mut inputs = Vec::new();
    for field in Field::new(reading.document, "inputs".to_owned(), node).fields()? {
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
