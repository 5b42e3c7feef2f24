//! A file with `servers` by name and `globalSettings`. Times are in milliseconds.

use super::{
    Host,
    entry::{Entries, FileReader, usable},
    rules::{Clock, KeyRule, MILLISECONDS, SamplingKey},
};
use crate::{document::Section, error::ConfigError, interpolate::Dialect, server::Format, shape::Field};

pub(super) const HOST: Host = Host { format: Format::ServerMap, locations: &[], read };

const TYPES: &[&str] = &["oauth", "api-key", "google-credentials"];

const ENTRIES: Entries = Entries {
    dialect: Dialect::Toolway,
    rules: &[&[
        ("transport", KeyRule::Kind),
        ("type", KeyRule::Kind),
        // Before `command`, which is a command line only without them.
        ("args", KeyRule::Arguments),
        ("command", KeyRule::CommandLine),
        ("env", KeyRule::Environment),
        ("cwd", KeyRule::Directory),
        ("url", KeyRule::Url),
        ("headers", KeyRule::Headers),
        ("trust", KeyRule::Trust),
        ("disabled", KeyRule::Disabled),
        ("auth", KeyRule::Authentication(TYPES)),
        ("includeTools", KeyRule::Only),
        ("excludeTools", KeyRule::Without),
        ("includePrompts", KeyRule::OnlyPrompts),
        ("excludePrompts", KeyRule::WithoutPrompts),
        ("timeout", KeyRule::Time(Clock::Total, MILLISECONDS)),
        ("description", KeyRule::Description),
        ("allowSampling", KeyRule::Sampling(SamplingKey::Enabled)),
    ]],
    unusable: usable,
};

const SETTINGS: [&str; 3] = ["defaultTimeout", "debugMode", "trustedFolders"];

fn read(reader: &mut FileReader<'_>) -> Result<(), ConfigError> {
    let mut root = reader.document.root()?;
    if let Some(mut settings) = root.take_section("globalSettings")? {
        read_settings(reader, &mut settings)?;
    }
    if let Some(entries) = root.take_section("servers")? {
        reader.entries(entries, &ENTRIES);
    }
    reader.warn_about_own_settings(&root);
    Ok(())
}

fn read_settings(reader: &mut FileReader<'_>, settings: &mut Section<'_>) -> Result<(), ConfigError> {
    if let Some(node) = settings.take("defaultTimeout") {
        let field = Field::new(reader.document, settings.name("defaultTimeout"), node);
        reader.settings_mut().request_timeout = field.setting(Some(field.time_in(MILLISECONDS)?));
    }
    for (key, why) in [("debugMode", "use `--verbose`"), ("trustedFolders", "use `policy.trustedFolders`")] {
        let name = settings.name(key);
        if let Some(node) = settings.take(key) {
            reader.warn_ignored(reader.document.place(node.line), &name, why);
        }
    }
    reader.warn_about_unknown(settings, &SETTINGS.into_iter());
    Ok(())
}
