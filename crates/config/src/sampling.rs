//! Settings of sampling: whether a server may ask one of our models for an answer.
//!
//! They can be set at the top, for a server and for a client of the gateway; the strictest of those that are set counts,
//! and none set means `never`. They govern answers by our models. A request is relayed to a client of the gateway that
//! answers it itself, unless a level says `never`.

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
    /// Requests of this level that are answered within an hour.
    pub requests_per_hour: Option<u32>,
    /// Tokens of this level within a day.
    pub tokens_per_day: Option<u32>,
    /// Whether a person sees the answer of the model before the server does.
    pub review: Option<bool>,
}

/// The levels that concern one request. A level that does not exist is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SamplingLevels {
    /// `sampling` at the top.
    pub top: SamplingSettings,
    /// `sampling` of the server that asks.
    pub server: SamplingSettings,
    /// `gateway.clients.<name>.sampling` of the client whose call it is.
    pub client: SamplingSettings,
}

const PERMISSIONS: &[(&str, SamplingPermission)] =
    &[("never", SamplingPermission::Never), ("ask", SamplingPermission::Ask), ("always", SamplingPermission::Always)];
const PERMISSION_VALUES: &[&str] = &["never", "ask", "always"];

/// The keys of one level.
pub(crate) const MEMBERS: &[(&str, Shape)] = &[
    ("allow", Shape::OneOf(PERMISSION_VALUES)),
    ("model", Shape::Text),
    ("maxTokens", Shape::Count),
    ("requestsPerHour", Shape::Count),
    ("tokensPerDay", Shape::Count),
    ("review", Shape::Flag),
];

/// The top-level key `sampling`.
pub(crate) const SAMPLING: Key<Settings> = Key {
    name: "sampling",
    shape: Shape::Members(MEMBERS),
    doc: "Whether servers may ask a model for an answer (sampling). `allow`: `never` (default), `ask` (you are asked each \
          time; without a user, refused) or `always`. `model`: a name in `models`; default: the model of the conversation, \
          else `defaultModel`. `maxTokens`: most tokens of an answer. `requestsPerHour`, `tokensPerDay`: quotas of all \
          processes that use the same store; a request reserves its maximum and its own tokens, estimated, until the \
          model has answered. `review`: the answer is shown before the server gets it. The entry of a server and of a \
          client of the gateway can have the same keys: the strictest `allow` and the smallest `maxTokens` count, and \
          each quota counts the requests of its level.",
    example: r#"{"allow": "ask", "maxTokens": 2000, "tokensPerDay": 100000}"#,
    set: |settings, field| put(&mut settings.sampling, field.setting(read(field)?)),
};

/// Reads the settings of one level.
pub(crate) fn read(field: &Field<'_>) -> Result<SamplingSettings, ConfigError> {
    let mut sampling = SamplingSettings::default();
    let positive = |field: &Field<'_>| match field.count()? {
        0 => Err(field.expected("a whole number greater than zero")),
        count => Ok(Some(count)),
    };
    for (key, field) in field.members()? {
        match key {
            "allow" => sampling.allow = Some(field.choice(PERMISSIONS, Shape::OneOf(PERMISSION_VALUES))?),
            "model" => sampling.model = Some(field.text()?.to_owned()),
            "maxTokens" => sampling.max_tokens = positive(&field)?,
            "requestsPerHour" => sampling.requests_per_hour = positive(&field)?,
            "tokensPerDay" => sampling.tokens_per_day = positive(&field)?,
            "review" => sampling.review = Some(field.flag()?),
            _ => return Err(field.unknown(MEMBERS.iter().map(|(key, _)| *key))),
        }
    }
    Ok(sampling)
}

/// Reads the settings of a server or a client, which may be a flag: `false` is `never`, `true` sets nothing.
pub(crate) fn read_flag_or_level(field: &Field<'_>) -> Result<SamplingSettings, ConfigError> {
    match field.flag() {
        Ok(true) => Ok(SamplingSettings::default()),
        Ok(false) => Ok(SamplingSettings::never()),
        Err(_) if field.members().is_err() => Err(field.wrong(Shape::FlagOrMembers(MEMBERS))),
        Err(_) => read(field),
    }
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

impl SamplingLevels {
    /// From the most general to the most special one.
    fn all(&self) -> [&SamplingSettings; 3] {
        [&self.top, &self.server, &self.client]
    }

    /// The strictest permission that is set; `never` if none is.
    pub fn permission(&self) -> SamplingPermission {
        self.all().into_iter().filter_map(|level| level.allow).min().unwrap_or(SamplingPermission::Never)
    }

    /// Whether a level says `never`: then requests are not relayed either.
    pub fn is_forbidden(&self) -> bool {
        self.all().into_iter().any(SamplingSettings::is_forbidden)
    }

    /// The smallest maximum of an answer that is set.
    pub fn max_tokens(&self) -> Option<u32> {
        self.all().into_iter().filter_map(|level| level.max_tokens).min()
    }

    /// The model of the most special level that names one.
    pub fn model(&self) -> Option<&str> {
        self.all().into_iter().rev().find_map(|level| level.model.as_deref())
    }

    /// Whether a level wants answers to be shown before they are sent.
    pub fn has_review(&self) -> bool {
        self.all().into_iter().any(|level| level.review == Some(true))
    }
}

#[cfg(test)]
mod tests {
    use super::{SamplingPermission::*, *};

    fn level(allow: Option<SamplingPermission>) -> SamplingSettings {
        SamplingSettings { allow, ..SamplingSettings::default() }
    }

    #[test]
    fn strictest_level_counts_and_none_is_never() {
        let all = [None, Some(Never), Some(Ask), Some(Always)];
        for top in all {
            for server in all {
                for client in all {
                    let levels = SamplingLevels { top: level(top), server: level(server), client: level(client) };
                    let expected = [top, server, client].into_iter().flatten().min().unwrap_or(Never);
                    assert_eq!(levels.permission(), expected, "{levels:?}");
                    let is_said = [top, server, client].contains(&Some(Never));
                    assert_eq!(levels.is_forbidden(), is_said, "only an explicit `never` stops a relay: {levels:?}");
                }
            }
        }
    }

    #[test]
    fn special_level_names_the_model_and_the_smallest_maximum_counts() {
        let top = SamplingSettings { model: Some("a".into()), max_tokens: Some(10), ..SamplingSettings::default() };
        let server = SamplingSettings { model: Some("b".into()), max_tokens: Some(20), ..SamplingSettings::default() };
        let client = SamplingSettings { review: Some(true), ..SamplingSettings::default() };
        let levels = SamplingLevels { top: top.clone(), server, client };
        assert_eq!((levels.model(), levels.max_tokens(), levels.has_review()), (Some("b"), Some(10), true));
        let levels = SamplingLevels { top, ..SamplingLevels::default() };
        assert_eq!((levels.model(), levels.has_review()), (Some("a"), false));
    }
}
