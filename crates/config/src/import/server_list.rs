//! A file that is a list of servers, or has one under `servers`. Times are in milliseconds.

use super::{
    Host,
    entry::{Entries, FileReader, usable},
    rules::{Clock, KeyRule, MILLISECONDS, SamplingKey},
};
use crate::{
    document::{Section, Value},
    error::ConfigError,
    interpolate::Dialect,
    server::Format,
    shape::Field,
};

pub(super) const HOST: Host = Host { format: Format::ServerList, locations: &[], read };

const TYPES: &[&str] = &["none", "bearer", "api-key", "basic", "oauth2"];

const ENTRIES: Entries = Entries {
    dialect: Dialect::Toolway,
    rules: &[&[
        ("name", KeyRule::Nothing),
        ("transport", KeyRule::Kind),
        ("type", KeyRule::Kind),
        // Before `command`, which is a command line only without them.
        ("args", KeyRule::Arguments),
        ("command", KeyRule::CommandLine),
        ("env", KeyRule::Environment),
        ("cwd", KeyRule::Directory),
        ("url", KeyRule::Url),
        ("headers", KeyRule::Headers),
        ("authentication", KeyRule::Authentication(TYPES)),
        ("timeout", KeyRule::Time(Clock::Total, MILLISECONDS)),
        ("retryAttempts", KeyRule::Attempts),
        ("enabled", KeyRule::Enabled),
        ("description", KeyRule::Description),
        ("allowSampling", KeyRule::Sampling(SamplingKey::Enabled)),
    ]],
    unusable: usable,
};

fn read(reader: &mut FileReader<'_>) -> Result<(), ConfigError> {
    let document = reader.document;
    let servers = match document.root_value() {
        Value::List(_) => document.root_field("servers").fields()?,
        _ => {
            let mut root = document.root()?;
            let servers = root.take("servers").map(|node| Field::new(document, "servers".to_owned(), node));
            reader.warn_about_own_settings(&root);
            servers.map(|field| field.fields()).transpose()?.unwrap_or_default()
        }
    };
    let mut names: Vec<&str> = Vec::new();
    for field in servers {
        let name = name(&field)?;
        if names.contains(&name) {
            let problem = format!("two servers have the name `{name}`; rename one of them");
            return Err(ConfigError::Refused { place: document.place(field.node.line), problem });
        }
        names.push(name);
        let entry = Section::of(document, format!("servers.{name}"), field.node)?;
        reader.entry(name, entry, &ENTRIES);
    }
    Ok(())
}

/// The name of a server, which is required.
fn name<'a>(server: &Field<'a>) -> Result<&'a str, ConfigError> {
    let members = server.members().map_err(|_| server.expected("a list of objects, each with a `name`"))?;
    match members.iter().find(|(key, _)| *key == "name") {
        Some((_, field)) => field.text(),
        None => Err(server.below("name").expected("the name of the server")),
    }
}
