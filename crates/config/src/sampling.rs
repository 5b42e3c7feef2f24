//! Settings of sampling: whether a server may ask one of our models for an answer.
//!
//! They can be set at the top and for a server; the strictest of those that are set counts, and none set means `never`.
//! They govern answers by our models. A request is relayed to a client of the gateway that answers it itself, unless a
//! level says `never`.

use crate::{
    error::ConfigError,
    settings::Settings,
    shape::{Field, Key, Shape, put},
};

/// Whether a server may ask a model, from the strictest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SamplingPermission {
    /// Requests are refused.
    Never,
    /// A person is asked each time.
    Ask,
    /// Requests are answered without asking.
    Always,
}

/// Settings of one level. What is `None` is not set there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SamplingSettings {
    /// Whether requests are answered.
    pub allow: Option<SamplingPermission>,
    /// Name of the model in `models`.
    pub model: Option<String>,
    /// Maximum number of tokens of an answer.
    pub max_tokens: Option<u32>,
}

const PERMISSIONS: &[(&str, SamplingPermission)] =
    &[("never", SamplingPermission::Never), ("ask", SamplingPermission::Ask), ("always", SamplingPermission::Always)];
const PERMISSION_VALUES: &[&str] = &["never", "ask", "always"];

/// The keys of one level.
pub(crate) const MEMBERS: &[(&str, Shape)] =
    &[("allow", Shape::OneOf(PERMISSION_VALUES)), ("model", Shape::Text), ("maxTokens", Shape::Count)];

/// The top-level key `sampling`.
pub(crate) const SAMPLING: Key<Settings> = Key {
    name: "sampling",
    shape: Shape::Members(MEMBERS),
    doc: "Whether servers may ask a model for an answer (sampling), in `call`, `chat` and `run`. `allow`: `never` (default), \
          `ask` (you are asked each time; without a terminal, refused) or `always`. `model`: a name in `models`; default: \
          the model of the conversation, else `defaultModel`. `maxTokens`: most tokens of an answer. A server's entry can \
          have the same keys; the strictest `allow` and the smallest `maxTokens` count.",
    example: r#"{"allow": "ask", "maxTokens": 2000}"#,
    set: |settings, field| put(&mut settings.sampling, field.setting(read(field)?)),
};

/// Reads the settings of one level.
pub(crate) fn read(field: &Field<'_>) -> Result<SamplingSettings, ConfigError> {
    let mut sampling = SamplingSettings::default();
    for (key, field) in field.members()? {
        match key {
            "allow" => sampling.allow = Some(field.choice(PERMISSIONS, Shape::OneOf(PERMISSION_VALUES))?),
            "model" => sampling.model = Some(field.text()?.to_owned()),
            "maxTokens" => {
                sampling.max_tokens = match field.count()? {
                    0 => return Err(field.expected("a whole number greater than zero")),
                    count => Some(count),
                }
            }
            _ => return Err(field.unknown(MEMBERS.iter().map(|(key, _)| *key))),
        }
    }
    Ok(sampling)
}

impl SamplingPermission {
    /// The value in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Ask => "ask",
            Self::Always => "always",
        }
    }
}

impl SamplingSettings {
    /// The level of a server that must not be answered.
    pub(crate) fn never() -> Self {
        Self { allow: Some(SamplingPermission::Never), ..Self::default() }
    }

    /// What counts of these levels, from the most general to the most special one: the strictest permission, the smallest
    /// maximum, and the model of the most special level that names one.
    pub fn combined<'a>(levels: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut all = Self::default();
        for level in levels {
            all.allow = all.allow.into_iter().chain(level.allow).min();
            all.max_tokens = all.max_tokens.into_iter().chain(level.max_tokens).min();
            all.model = level.model.clone().or(all.model);
        }
        all
    }

    /// The permission; `never` if none is set.
    pub fn permission(&self) -> SamplingPermission {
        self.allow.unwrap_or(SamplingPermission::Never)
    }

    /// Whether a level says `never`: then requests are not relayed either.
    pub fn is_forbidden(&self) -> bool {
        self.allow == Some(SamplingPermission::Never)
    }

    /// The settings with only the restrictions of another level applied.
    pub(crate) fn restricted_by(&self, other: Option<&Self>) -> Self {
        match other {
            Some(other) if other.is_forbidden() => Self { allow: other.allow, ..self.clone() },
            _ => self.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{SamplingPermission::*, *};

    #[test]
    fn strictest_level_counts_and_none_is_never() {
        let level = |allow| SamplingSettings { allow, ..SamplingSettings::default() };
        let all = [None, Some(Never), Some(Ask), Some(Always)];
        for (top, server) in all.iter().flat_map(|top| all.iter().map(move |server| (*top, *server))) {
            let expected = match (top, server) {
                (None, None) => Never,
                (Some(one), None) | (None, Some(one)) => one,
                (Some(one), Some(other)) => one.min(other),
            };
            let combined = SamplingSettings::combined([&level(top), &level(server)]);
            assert_eq!(combined.permission(), expected, "{top:?} {server:?}");
        }
    }

    #[test]
    fn special_level_names_the_model_and_the_smallest_maximum_counts() {
        let top = SamplingSettings { model: Some("a".into()), max_tokens: Some(10), ..SamplingSettings::default() };
        let server = SamplingSettings { model: Some("b".into()), max_tokens: Some(20), ..SamplingSettings::default() };
        let combined = SamplingSettings::combined([&top, &server]);
        assert_eq!((combined.model.as_deref(), combined.max_tokens), (Some("b"), Some(10)));
        let combined = SamplingSettings::combined([&top, &SamplingSettings::default()]);
        assert_eq!(combined.model.as_deref(), Some("a"));
    }
}
