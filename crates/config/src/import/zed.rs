//! Zed: `context_servers` of its settings; entries of extensions are not servers we could start.

use super::{
    Host,
    entry::{Entries, Reading},
    find::Spot,
    rules::{Clock, Rule, SECONDS},
};
use crate::{
    document::Section,
    error::ConfigError,
    interpolate::Dialect,
    server::{Draft, Format},
};

pub(super) const HOST: Host = Host {
    format: Format::Zed,
    spots: &[Spot::Project(".zed/settings.json"), Spot::Config("zed/settings.json")],
    read,
};

const ENTRIES: Entries = Entries {
    dialect: Dialect::Literal,
    rules: &[&[
        ("command", Rule::CommandOrObject),
        ("args", Rule::Arguments),
        ("env", Rule::Environment),
        ("url", Rule::Url),
        ("headers", Rule::Headers),
        ("enabled", Rule::Enabled),
        ("timeout", Rule::Time(Clock::Total, SECONDS)),
        ("oauth", Rule::OAuth),
        ("source", Rule::Nothing),
        ("remote", Rule::Nothing),
        ("settings", Rule::Nothing),
    ]],
    unusable,
};

fn unusable(draft: &Draft, _entry: &Section<'_>) -> Option<String> {
    let of_extension = draft.command.is_none() && draft.url.is_none();
    of_extension.then(|| "it belongs to an extension of that editor, which knows how to start it".to_owned())
}

fn read(reading: &mut Reading<'_>) -> Result<(), ConfigError> {
    if let Some(entries) = reading.document.root()?.take_section("context_servers")? {
        reading.entries(entries, &ENTRIES);
    }
    Ok(())
}
