//! Settings of the store: where calls and conversations are kept, and how much of them.

use std::{path::PathBuf, time::Duration};

use crate::{
    error::ConfigError,
    settings::{Setting, Settings},
    shape::{Field, Key, Shape, put},
};

/// Settings of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreSettings {
    /// Database file; `None` means `toolway.db` in the state directory.
    pub path: Setting<Option<PathBuf>>,
    /// What is kept of arguments and results.
    pub bodies: Setting<Bodies>,
    /// When a commit reaches the disk.
    pub sync: Setting<SyncMode>,
    /// Whether a call is refused if it cannot be recorded; `None` means only in `serve`.
    pub required: Setting<Option<bool>>,
    /// Rows that are older are removed; `None` means never.
    pub max_age: Setting<Option<Duration>>,
    /// Largest size of the data in bytes; `None` means no limit.
    pub max_bytes: Setting<Option<u64>>,
}

/// What is kept of arguments and results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bodies {
    /// Arguments and results as they are.
    Full,
    /// Everything, with known secrets replaced.
    #[default]
    Redacted,
    /// Only their sizes.
    None,
}

/// When a commit reaches the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncMode {
    /// Later: survives the end of the process, not a power failure.
    #[default]
    Normal,
    /// At once.
    Full,
}

const BODIES: &[(&str, Bodies)] = &[("full", Bodies::Full), ("redacted", Bodies::Redacted), ("none", Bodies::None)];
const BODIES_VALUES: &[&str] = &["full", "redacted", "none"];
const SYNC: &[(&str, SyncMode)] = &[("normal", SyncMode::Normal), ("full", SyncMode::Full)];
const SYNC_VALUES: &[&str] = &["normal", "full"];

const MEMBERS: &[(&str, Shape)] = &[
    ("path", Shape::Text),
    ("bodies", Shape::OneOf(BODIES_VALUES)),
    ("sync", Shape::OneOf(SYNC_VALUES)),
    ("required", Shape::Flag),
    ("maxAge", Shape::Time),
    ("maxBytes", Shape::Count),
];

/// The top-level key `store`.
pub(crate) const STORE: Key<Settings> = Key {
    name: "store",
    shape: Shape::Members(MEMBERS),
    doc: "Where calls, audit events and conversations are kept. `path`: database file, default `toolway.db` in the state \
          directory. `bodies`: what is kept of arguments and results: `full`, `redacted` (default: known secrets are \
          replaced) or `none` (sizes only). `sync`: `normal` (default) or `full` (every commit waits for the disk). \
          `required`: refuse calls that cannot be recorded, default `true` for `serve` and `false` elsewhere. `maxAge` \
          and `maxBytes`: what is older or exceeds the size is removed by `toolway store prune`; default: nothing \
          is removed.",
    example: r#"{"bodies": "none", "maxAge": "720h"}"#,
    set: read,
};

fn read(settings: &mut Settings, field: &Field<'_>) -> Result<(), ConfigError> {
    let store = &mut settings.store;
    for (key, field) in field.members()? {
        match key {
            "path" => {
                let path = PathBuf::from(field.text()?);
                if !path.is_absolute() {
                    return Err(field.expected("an absolute path"));
                }
                put(&mut store.path, field.setting(Some(path)))?;
            }
            "bodies" => {
                let bodies = field.choice(BODIES, Shape::OneOf(BODIES_VALUES))?;
                put(&mut store.bodies, field.setting(bodies))?;
            }
            "sync" => {
                let sync = field.choice(SYNC, Shape::OneOf(SYNC_VALUES))?;
                put(&mut store.sync, field.setting(sync))?;
            }
            "required" => put(&mut store.required, field.setting(Some(field.flag()?)))?,
            "maxAge" => put(&mut store.max_age, field.setting(Some(field.time()?)))?,
            "maxBytes" => {
                let bytes = field.number().ok().filter(|bytes| bytes.fract() == 0.0 && (1.0..=9e15).contains(bytes));
                let bytes = bytes.ok_or_else(|| field.expected("a number of bytes greater than zero"))?;
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
                put(&mut store.max_bytes, field.setting(Some(bytes as u64)))?;
            }
            _ => return Err(field.unknown(MEMBERS.iter().map(|(key, _)| *key))),
        }
    }
    Ok(())
}

impl StoreSettings {
    /// These settings, overridden by those that the nearer layer sets.
    #[must_use]
    pub(crate) fn overridden_by(self, nearer: Self) -> Self {
        Self {
            path: self.path.overridden_by(nearer.path),
            bodies: self.bodies.overridden_by(nearer.bodies),
            sync: self.sync.overridden_by(nearer.sync),
            required: self.required.overridden_by(nearer.required),
            max_age: self.max_age.overridden_by(nearer.max_age),
            max_bytes: self.max_bytes.overridden_by(nearer.max_bytes),
        }
    }
}

impl Bodies {
    /// The value as written in configuration.
    pub fn as_str(self) -> &'static str {
        BODIES.iter().find(|(_, bodies)| *bodies == self).map_or("redacted", |(word, _)| word)
    }
}
