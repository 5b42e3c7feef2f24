//! Settings of tasks: calls that their server continues after its first answer.

use std::time::Duration;

use crate::{
    error::ConfigError,
    settings::Settings,
    shape::{Field, Key, Shape, put},
};

/// Settings of one level. What is `None` is not set there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TaskSettings {
    /// Whether a conversation goes on while a task runs.
    pub background: Option<bool>,
    /// How long servers are asked to keep a task.
    pub ttl: Option<Duration>,
    /// Time between two polls of a task whose server suggests none.
    pub poll_interval: Option<Duration>,
}

/// Settings of a server, with the defaults applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskTerms {
    /// Whether a conversation goes on while a task runs.
    pub background: bool,
    /// How long the server is asked to keep a task; `None`: as it likes.
    pub ttl: Option<Duration>,
    /// Time between two polls of a task whose server suggests none.
    pub poll_interval: Duration,
}

/// Time between two polls by default.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Shortest and longest time between two polls.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// The keys of one level.
pub(crate) const MEMBERS: &[(&str, Shape)] =
    &[("background", Shape::Flag), ("ttl", Shape::Time), ("pollInterval", Shape::Time)];

/// The top-level key `tasks`.
pub(crate) const TASKS: Key<Settings> = Key {
    name: "tasks",
    shape: Shape::Members(MEMBERS),
    doc: "How calls are treated that their server continues as tasks. `background`: whether a conversation goes on while a \
          task runs, and the model gets the result later (default `true`). `ttl`: how long servers are asked to keep a task \
          and its result; default: as long as they like. `pollInterval`: time between two looks at a task whose server \
          suggests none, from `1s` to `60s`, default `5s`; what a server suggests is kept within the same bounds. The entry \
          of a server can have the same keys.",
    example: r#"{"pollInterval": "2s", "ttl": "1h"}"#,
    set: |settings, field| put(&mut settings.tasks, field.setting(read(field)?)),
};

/// Reads the settings of one level.
pub(crate) fn read(field: &Field<'_>) -> Result<TaskSettings, ConfigError> {
    let mut tasks = TaskSettings::default();
    for (key, field) in field.members()? {
        match key {
            "background" => tasks.background = Some(field.flag()?),
            "ttl" => tasks.ttl = Some(field.time()?),
            "pollInterval" => {
                let interval = field.time()?;
                if !(SHORTEST..=LONGEST).contains(&interval) {
                    return Err(field.expected("a time from `1s` to `60s`"));
                }
                tasks.poll_interval = Some(interval);
            }
            _ => return Err(field.unknown(MEMBERS.iter().map(|(key, _)| *key))),
        }
    }
    Ok(tasks)
}

impl TaskSettings {
    /// These settings, overridden by those that the nearer level sets.
    #[must_use]
    pub fn overridden_by(self, nearer: Self) -> Self {
        Self {
            background: nearer.background.or(self.background),
            ttl: nearer.ttl.or(self.ttl),
            poll_interval: nearer.poll_interval.or(self.poll_interval),
        }
    }

    /// The settings with the defaults applied.
    pub fn terms(self) -> TaskTerms {
        TaskTerms {
            background: self.background.unwrap_or(true),
            ttl: self.ttl,
            poll_interval: self.poll_interval.unwrap_or(POLL_INTERVAL),
        }
    }
}

impl Default for TaskTerms {
    fn default() -> Self {
        TaskSettings::default().terms()
    }
}
