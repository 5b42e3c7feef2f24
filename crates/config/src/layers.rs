//! defaults < user < project < environment < flags: what the last two of them say.

use std::{ffi::OsStr, time::Duration};

use crate::{
    error::{ConfigError, Place},
    paths::Environment,
    server::Start,
    settings::{Origin, Prefix, Setting, Settings},
    shape::read_time,
};

/// What the command line says; nothing means that it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--auto-connect`
    pub start: Option<Start>,
    /// `--timeout`
    pub request_timeout: Option<Duration>,
    /// `--prefix`
    pub prefix: Option<Prefix>,
}

/// When servers are connected: `true` or `false`.
pub const AUTO_CONNECT: &str = "TOOLWAY_AUTO_CONNECT";
/// How long a call may take in all: seconds, or a text such as `5m`.
pub const REQUEST_TIMEOUT: &str = "TOOLWAY_REQUEST_TIMEOUT";
/// When public names carry their server's name: `always`, `auto` or `never`.
pub const NAMING_PREFIX: &str = "TOOLWAY_NAMING_PREFIX";

impl Flags {
    pub(crate) fn settings(self) -> Settings {
        fn said<T>(value: Option<T>, flag: &'static str) -> Option<Setting<T>> {
            value.map(|value| Setting::new(value, Origin::Flag(flag)))
        }
        Settings {
            start: said(self.start, "--auto-connect").unwrap_or_default(),
            request_timeout: said(self.request_timeout.map(Some), "--timeout").unwrap_or_default(),
            prefix: said(self.prefix, "--prefix").unwrap_or_default(),
            ..Settings::default()
        }
    }
}

/// What the environment says. An empty variable says nothing.
pub(crate) fn of_environment(environment: &Environment) -> Result<Settings, ConfigError> {
    let start = |text: &str| switch(text).map(Start::when_connected_at_once);
    let time = |text: &str| read_time(text).map(Some);
    let prefix = |text: &str| [Prefix::Always, Prefix::Auto, Prefix::Never].into_iter().find(|it| it.word() == text);
    Ok(Settings {
        start: read(environment, AUTO_CONNECT, "`true` or `false`", start)?,
        request_timeout: read(environment, REQUEST_TIMEOUT, "seconds, or a text such as `5m`", time)?,
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
