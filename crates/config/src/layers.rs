//! Settings from environment variables and command-line options: defaults < user < project < environment < options.

use std::{ffi::OsStr, time::Duration};

use crate::{
    error::{ConfigError, Place},
    paths::Environment,
    server::Start,
    settings::{Origin, Prefix, Setting, Settings},
    shape::parse_duration,
};

/// Settings of the command line; `None` if the option is not given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--auto-connect`
    pub start: Option<Start>,
    /// `--timeout`
    pub request_timeout: Option<Duration>,
    /// `--prefix`
    pub prefix: Option<Prefix>,
}

/// Overrides `autoConnect`: `true` or `false`.
pub const AUTO_CONNECT: &str = "TOOLWAY_AUTO_CONNECT";
/// Overrides `requestTimeout`: seconds, or a string such as `5m`.
pub const REQUEST_TIMEOUT: &str = "TOOLWAY_REQUEST_TIMEOUT";
/// Overrides `naming.prefix`: `always`, `auto` or `never`.
pub const NAMING_PREFIX: &str = "TOOLWAY_NAMING_PREFIX";

impl Flags {
    pub(crate) fn settings(self) -> Settings {
        fn setting<T>(value: Option<T>, flag: &'static str) -> Option<Setting<T>> {
            value.map(|value| Setting::new(value, Origin::Flag(flag)))
        }
        Settings {
            start: setting(self.start, "--auto-connect").unwrap_or_default(),
            request_timeout: setting(self.request_timeout.map(Some), "--timeout").unwrap_or_default(),
            prefix: setting(self.prefix, "--prefix").unwrap_or_default(),
            ..Settings::default()
        }
    }
}

/// Settings of the environment. An empty variable counts as unset.
pub(crate) fn from_environment(environment: &Environment) -> Result<Settings, ConfigError> {
    let start = |text: &str| switch(text).map(Start::from_auto_connect);
    let time = |text: &str| parse_duration(text).map(Some);
    let prefix = |text: &str| [Prefix::Always, Prefix::Auto, Prefix::Never].into_iter().find(|it| it.as_str() == text);
    Ok(Settings {
        start: read(environment, AUTO_CONNECT, "`true` or `false`", start)?,
        request_timeout: read(environment, REQUEST_TIMEOUT, "a duration: seconds, or a string such as `5m`", time)?,
        prefix: read(environment, NAMING_PREFIX, "`always`, `auto` or `never`", prefix)?,
        ..Settings::default()
    })
}

fn read<T: Default>(
    environment: &Environment,
    name: &'static str,
    expected: &str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<Setting<T>, ConfigError> {
    let Some(text) = environment.get(OsStr::new(name)).filter(|text| !text.is_empty()) else {
        return Ok(Setting::default());
    };
    let value = text.to_str().and_then(read).ok_or_else(|| ConfigError::Expected {
        place: Place { file: "the environment".into(), line: 0 },
        key: name.to_owned(),
        expected: expected.to_owned(),
    })?;
    Ok(Setting::new(value, Origin::Variable(name)))
}

fn switch(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Some(true),
        "false" | "0" | "no" | "off" => Some(false),
        _ => None,
    }
}
