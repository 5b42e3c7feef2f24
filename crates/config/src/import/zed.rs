//! Zed: `context_servers` of its settings; entries of extensions are not supported.

use super::{
    Host,
    entry::{Entries, FileReader},
    find::Location,
    rules::{Clock, KeyRule, SECONDS},
};
use crate::{
    document::Section,
    error::ConfigError,
    interpolate::Dialect,
    server::{Draft, Format},
};

pub(super) const HOST: Host = Host {
    format: Format::Zed,
    locations: &[Location::Project(".zed/settings.json"), Location::Config("zed/settings.json")],
    read,
};

const ENTRIES: Entries = Entries {
    dialect: Dialect::Literal,
    rules: &[&[
        ("command", KeyRule::CommandOrObject),
        ("args", KeyRule::Arguments),
        ("env", KeyRule::Environment),
        ("url", KeyRule::Url),
        ("headers", KeyRule::Headers),
        ("enabled", KeyRule::Enabled),
        ("timeout", KeyRule::Time(Clock::Total, SECONDS)),
        ("oauth", KeyRule::OAuth),
        ("source", KeyRule::Nothing),
        ("remote", KeyRule::Nothing),
        ("settings", KeyRule::Nothing),
    ]],
    unusable,
};

fn unusable(draft: &Draft, _entry: &Section<'_>) -> Option<String> {
    let of_extension = draft.command.is_none() && draft.url.is_none();
    of_extension.then(|| "it belongs to a Zed extension, which only Zed can start".to_owned())
}

fn read(reader: &mut FileReader<'_>) -> Result<(), ConfigError> {
    if let Some(entries) = reader.document.root()?.take_section("context_servers")? {
        reader.entries(entries, &ENTRIES);
    }
    Ok(())
}
