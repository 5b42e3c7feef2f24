//! What holds for all servers, each value with where it came from.

use std::{fmt, time::Duration};

use crate::{
    error::{ConfigError, Place},
    gateway::{GATEWAY, GatewaySettings},
    server::{Format, Start},
    shape::{Field, Key, Shape, put},
    sign_in::{SIGN_IN, SignInSettings},
};

/// Where a value came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said anything.
    #[default]
    Default,
    /// A file and its line.
    File(Place),
    /// A variable of the environment.
    Variable(&'static str),
    /// An option of the command line.
    Flag(&'static str),
}

/// A value and where it came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setting<T> {
    /// What holds.
    pub value: T,
    /// Who said so.
    pub origin: Origin,
}

/// When a public name carries its server's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefix {
    /// Always, so that a name does not change when a neighbour appears.
    #[default]
    Always,
    /// Only where two servers have a thing of one name.
    Auto,
    /// Never; of two things with one name only the first is offered.
    Never,
}

/// What holds for all servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// When servers are connected that do not say so themselves.
    pub start: Setting<Start>,
    /// How long a call may take in all, where a server does not say so itself.
    pub request_timeout: Setting<Option<Duration>>,
    /// When a public name carries its server's name.
    pub prefix: Setting<Prefix>,
    /// Whose files are read besides ours.
    pub imports: Setting<Vec<Format>>,
    /// What holds for the gateway.
    pub gateway: GatewaySettings,
    /// What holds for signing in to servers.
    pub sign_in: SignInSettings,
}

/// The words of `naming.prefix`.
const PREFIXES: &[(&str, Prefix)] = &[("always", Prefix::Always), ("auto", Prefix::Auto), ("never", Prefix::Never)];
const PREFIX_WORDS: &[&str] = &["always", "auto", "never"];

/// The words of `imports`, in the order of [`Format::OTHERS`].
const FORMAT_WORDS: &[&str] = &[
    "claude-code",
    "claude-desktop",
    "cursor",
    "vscode",
    "copilot",
    "codex",
    "gemini",
    "opencode",
    "opencode-v2",
    "zed",
    "windsurf",
    "goose",
    "kiro",
    "cline",
    "inspector",
    "mcporter",
];

/// The keys of the document that are not servers.
pub(crate) const SETTINGS: &[Key<Settings>] = &[
    Key {
        name: "autoConnect",
        shape: Shape::Flag,
        doc: "Whether servers are connected at the start, true unless said; otherwise each when it is first needed.",
        example: "false",
        set: |settings, field| {
            let start = Start::when_connected_at_once(field.flag()?);
            put(&mut settings.start, field.setting(start))
        },
    },
    Key {
        name: "requestTimeout",
        shape: Shape::Time,
        doc: "How long a call may take in all, where a server does not say so itself.",
        example: r#""10m""#,
        set: |settings, field| put(&mut settings.request_timeout, field.setting(Some(field.time()?))),
    },
    Key {
        name: "naming",
        shape: Shape::Choices(&[("prefix", PREFIX_WORDS)]),
        doc: "When a public name carries its server's name: `always` unless said, `auto` only where two would \
              be the same, or `never`.",
        example: r#"{"prefix": "auto"}"#,
        set: naming,
    },
    Key {
        name: "imports",
        shape: Shape::Words(FORMAT_WORDS),
        doc: "Whose configuration files are read besides this one.",
        example: r#"["cursor", "claude-code"]"#,
        set: |settings, field| put(&mut settings.imports, field.setting(imports(field)?)),
    },
    GATEWAY,
    SIGN_IN,
];

fn naming(settings: &mut Settings, field: &Field<'_>) -> Result<(), ConfigError> {
    for (key, field) in field.members()? {
        if key != "prefix" {
            return Err(field.unknown(["prefix"].into_iter()));
        }
        settings.prefix = field.setting(field.word(PREFIXES, Shape::Word(PREFIX_WORDS))?);
    }
    Ok(())
}

fn imports(field: &Field<'_>) -> Result<Vec<Format>, ConfigError> {
    let format = |field: &Field<'_>| {
        let word = field.text().ok().and_then(Format::of_word);
        word.ok_or_else(|| field.wrong(Shape::Word(FORMAT_WORDS)))
    };
    field.fields()?.iter().map(format).collect()
}

// === impl Setting ===

impl<T> Setting<T> {
    /// A value that someone said.
    pub fn new(value: T, origin: Origin) -> Self {
        Self { value, origin }
    }

    /// The nearer of two: the other, if anyone said it.
    #[must_use]
    pub(crate) fn or_nearer(self, nearer: Self) -> Self {
        if nearer.origin == Origin::Default { self } else { nearer }
    }
}

impl Field<'_> {
    pub(crate) fn setting<T>(&self, value: T) -> Setting<T> {
        Setting::new(value, Origin::File(self.document.place(self.node.line)))
    }
}

// === impl Settings ===

impl Settings {
    /// These, with what was said nearer put over them.
    #[must_use]
    pub(crate) fn under(self, nearer: Self) -> Self {
        Self {
            start: self.start.or_nearer(nearer.start),
            request_timeout: self.request_timeout.or_nearer(nearer.request_timeout),
            prefix: self.prefix.or_nearer(nearer.prefix),
            imports: self.imports.or_nearer(nearer.imports),
            gateway: self.gateway.under(nearer.gateway),
            sign_in: self.sign_in.under(nearer.sign_in),
        }
    }
}

// === impl Prefix ===

impl Prefix {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Auto => "auto",
            Self::Never => "never",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(place) => place.fmt(f),
            Self::Variable(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FORMAT_WORDS;
    use crate::server::Format;

    #[test]
    fn every_format_has_its_word() {
        assert_eq!(FORMAT_WORDS, Format::OTHERS.map(Format::word));
        assert!(FORMAT_WORDS.iter().all(|word| Format::of_word(word).is_some()));
    }
}
