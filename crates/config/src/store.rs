//! Settings of the store: where calls and conversations are kept, and how much of them.

use std::{path::PathBuf, time::Duration};

use crate::{
    error::ConfigError,
    interpolate::{Dialect, Template},
    limits::parse_size,
    settings::{Setting, Settings},
    shape::{Field, Key, Shape, put},
};

/// Settings of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreSettings {
    /// Database file; `None` means `toolway.db` in the state directory.
    pub path: Setting<Option<PathBuf>>,
    /// URL of a Postgres database, instead of a file.
    pub url: Setting<Option<Template>>,
    /// What is kept of arguments and results.
    pub bodies: Setting<Bodies>,
    /// When a commit reaches the disk.
    pub sync: Setting<SyncMode>,
    /// Whether a call is refused if it cannot be recorded; `None` means only in `serve`.
    pub required: Setting<Option<bool>>,
    /// Calls that are older are removed.
    pub max_age: Setting<StoreLimit<Duration>>,
    /// Largest size of the files in bytes.
    pub max_bytes: Setting<StoreLimit<u64>>,
    /// Conversations that were not changed for longer are removed; `None` means never.
    pub conversations_max_age: Setting<Option<Duration>>,
    /// Audit entries that are older are removed and leave a checkpoint; `None` means never.
    pub audit_max_age: Setting<Option<Duration>>,
}

/// A limit that has a default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreLimit<T> {
    /// The default of the key.
    #[default]
    Default,
    /// This much.
    At(T),
    /// No limit.
    Unlimited,
}

/// Default of `store.maxAge`: 90 days.
const DEFAULT_MAX_AGE: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// Default of `store.maxBytes`: 2 GB.
const DEFAULT_MAX_BYTES: u64 = 2 << 30;
/// Smallest `store.maxBytes`: less has no room for an empty database and its logs.
const LEAST_BYTES: u64 = 1 << 20;
/// The word for no limit.
const UNLIMITED: &str = "unlimited";

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

impl SyncMode {
    /// The value in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Full => "full",
        }
    }
}

const BODIES: &[(&str, Bodies)] = &[("full", Bodies::Full), ("redacted", Bodies::Redacted), ("none", Bodies::None)];
const BODIES_VALUES: &[&str] = &["full", "redacted", "none"];
const SYNC: &[(&str, SyncMode)] = &[("normal", SyncMode::Normal), ("full", SyncMode::Full)];
const SYNC_VALUES: &[&str] = &["normal", "full"];

const MEMBERS: &[(&str, Shape)] = &[
    ("path", Shape::Text),
    ("url", Shape::Text),
    ("bodies", Shape::OneOf(BODIES_VALUES)),
    ("sync", Shape::OneOf(SYNC_VALUES)),
    ("required", Shape::Flag),
    ("maxAge", Shape::TimeOrUnlimited),
    ("maxBytes", Shape::SizeOrUnlimited),
    ("conversations", Shape::Times(AGES)),
    ("audit", Shape::Times(AGES)),
];
const AGES: &[&str] = &["maxAge"];

/// The top-level key `store`.
pub(crate) const STORE: Key<Settings> = Key {
    name: "store",
    shape: Shape::Members(MEMBERS),
    doc: "Where calls, audit events and conversations are kept. `path`: database file, default `toolway.db` in the state \
          directory. `url`: a Postgres database instead of a file, such as \
          `postgres://toolway@db.example.com/toolway`, best as a reference: `env:NAME` or `${secret:NAME}`; the \
          certificate of the server is verified, also by those in `sslrootcert=FILE`, unless the URL says \
          `sslmode=disable`; `path`, `sync` and `maxBytes` are for files. `bodies`: what is kept of arguments and results: `full`, `redacted` (default: known secrets are \
          replaced) or `none` (sizes only). `sync`: `normal` (default) or `full` (every commit waits for the disk). \
          `required`: refuse calls that cannot be recorded, default `true` for `serve` and `false` elsewhere. `maxBytes`: \
          largest size of the database with its logs and with corrupt files that were set aside, default `2GB`, at least \
          `1MB`; what exceeds it is removed while calls are recorded: corrupt files, then the oldest bodies (first those of \
          a caller that has more than a quarter), then the oldest calls. `maxAge`: age from which calls are removed, default \
          `90d`. Both may be `unlimited`. `conversations.maxAge` and `audit.maxAge`: age from which conversations and audit \
          entries are removed; by default they are kept.",
    example: r#"{"bodies": "none", "maxBytes": "4GB", "maxAge": "30d", "audit": {"maxAge": "365d"}}"#,
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
            "url" => put(&mut store.url, field.setting(Some(url_template(&field)?)))?,
            "bodies" => {
                let bodies = field.choice(BODIES, Shape::OneOf(BODIES_VALUES))?;
                put(&mut store.bodies, field.setting(bodies))?;
            }
            "sync" => {
                let sync = field.choice(SYNC, Shape::OneOf(SYNC_VALUES))?;
                put(&mut store.sync, field.setting(sync))?;
            }
            "required" => put(&mut store.required, field.setting(Some(field.flag()?)))?,
            "maxAge" => put(&mut store.max_age, field.setting(limit(&field, Field::time)?))?,
            "maxBytes" => put(&mut store.max_bytes, field.setting(limit(&field, bytes)?))?,
            "conversations" => put(&mut store.conversations_max_age, max_age(&field)?)?,
            "audit" => put(&mut store.audit_max_age, max_age(&field)?)?,
            _ => return Err(field.unknown(MEMBERS.iter().map(|(key, _)| *key))),
        }
    }
    if store.url.value.is_some() {
        let of_files = [
            ("path", store.path.value.is_some()),
            ("sync", store.sync.value == SyncMode::Full),
            ("maxBytes", matches!(store.max_bytes.value, StoreLimit::At(_))),
        ];
        if let Some((key, _)) = of_files.into_iter().find(|(_, is_set)| *is_set) {
            return Err(field.expected(&format!("either `url` or `{key}`, which is for a file")));
        }
    }
    Ok(())
}

/// `env:NAME` is another spelling of `${NAME}`.
fn url_template(field: &Field<'_>) -> Result<Template, ConfigError> {
    let text = field.text()?;
    if let Some(name) = text.strip_prefix("env:") {
        return Ok(Template::new(format!("${{{name}}}"), Dialect::ToolwayValue, field.node.line));
    }
    let is_url = ["postgres://", "postgresql://", "${"].iter().any(|start| text.starts_with(start));
    if !is_url {
        return Err(field.expected("a URL that begins with `postgres://`, `env:NAME` or `${secret:NAME}`"));
    }
    field.template(Dialect::ToolwayValue)
}

/// A limit, or the word for none.
fn limit<'a, T>(
    field: &Field<'a>,
    read: impl FnOnce(&Field<'a>) -> Result<T, ConfigError>,
) -> Result<StoreLimit<T>, ConfigError> {
    match field.text() {
        Ok(UNLIMITED) => Ok(StoreLimit::Unlimited),
        _ => read(field).map(StoreLimit::At),
    }
}

/// A size with its unit, or a number of bytes.
fn bytes(field: &Field<'_>) -> Result<u64, ConfigError> {
    let bytes = match (field.text(), field.number()) {
        (Ok(text), _) => parse_size(text),
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and in range")]
        (_, Ok(number)) if number.fract() == 0.0 && (1.0..=9e15).contains(&number) => Some(number as u64),
        _ => None,
    };
    let bytes = bytes.filter(|bytes| LEAST_BYTES <= *bytes);
    bytes.ok_or_else(|| field.expected("a size such as `2GB` or `500MB`, at least `1MB`, or `unlimited`"))
}

/// The only member of `store.conversations` and `store.audit`.
fn max_age(field: &Field<'_>) -> Result<Setting<Option<Duration>>, ConfigError> {
    let mut age = Setting::default();
    for (key, field) in field.members()? {
        match key {
            "maxAge" => age = field.setting(Some(field.time()?)),
            _ => return Err(field.unknown(AGES.iter().copied())),
        }
    }
    Ok(age)
}

impl StoreSettings {
    /// Age from which calls are removed; `None`: they are kept.
    pub fn max_age(&self) -> Option<Duration> {
        self.max_age.value.or(DEFAULT_MAX_AGE)
    }

    /// Largest size of the files in bytes; `None`: no limit.
    pub fn max_bytes(&self) -> Option<u64> {
        self.max_bytes.value.or(DEFAULT_MAX_BYTES)
    }

    /// These settings, overridden by those that the nearer layer sets.
    #[must_use]
    pub(crate) fn overridden_by(self, nearer: Self) -> Self {
        Self {
            path: self.path.overridden_by(nearer.path),
            url: self.url.overridden_by(nearer.url),
            bodies: self.bodies.overridden_by(nearer.bodies),
            sync: self.sync.overridden_by(nearer.sync),
            required: self.required.overridden_by(nearer.required),
            max_age: self.max_age.overridden_by(nearer.max_age),
            max_bytes: self.max_bytes.overridden_by(nearer.max_bytes),
            conversations_max_age: self.conversations_max_age.overridden_by(nearer.conversations_max_age),
            audit_max_age: self.audit_max_age.overridden_by(nearer.audit_max_age),
        }
    }
}

impl<T: Copy> StoreLimit<T> {
    fn or(self, default: T) -> Option<T> {
        match self {
            Self::Default => Some(default),
            Self::At(limit) => Some(limit),
            Self::Unlimited => None,
        }
    }
}

impl Bodies {
    /// The value as written in configuration.
    pub fn as_str(self) -> &'static str {
        BODIES.iter().find(|(_, bodies)| *bodies == self).map_or("redacted", |(word, _)| word)
    }
}
