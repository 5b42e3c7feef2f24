//! What a key of another host's entry means.

use std::time::Duration;

use super::sign_in;
use crate::{
    document::Value,
    error::ConfigError,
    interpolate::{Dialect, Template},
    server::{self, Draft, Era, HttpKind, Kind, Need, all_but, only},
    shape::Field,
};

/// What a key means. A table of these, with the keys they stand under, is a format.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    Command,
    /// A list of which the first is the program, or the program alone.
    CommandWords,
    /// The program, or an object of `path`, `args` and `env`.
    CommandOrObject,
    Arguments,
    Environment,
    /// Names of variables that are handed on.
    EnvironmentNames,
    /// Names of variables, looked up in the keychain of this service where they are not set.
    KeychainNames(&'static str),
    EnvironmentFile,
    Directory,
    Url,
    /// An address at which this transport is spoken.
    UrlOf(HttpKind),
    Headers,
    /// Headers by the variable that holds their value.
    HeaderNames,
    /// The variable that holds the bearer token.
    BearerName,
    /// The bearer token itself.
    Bearer,
    /// What is not left to discovery when somebody signs in.
    OAuth,
    /// What is asked for when somebody signs in.
    Scopes,
    /// Who gives tokens.
    Provider,
    /// How one signs in; the first word is what happens here anyway.
    SignInWord(&'static str),
    Kind,
    Enabled,
    Disabled,
    Required,
    /// Only these; an empty list means none.
    Only,
    /// Only these; an empty list means all.
    OnlyIfAny,
    Without,
    Time(Clock, Duration),
    /// As before, but less than a second says nothing.
    LongTime(Clock, Duration),
    /// An object of times by name.
    Times(&'static [(&'static str, Clock)], Duration),
    Era,
    /// A revision of the protocol.
    Revision,
    Description,
    /// Says nothing to us, and nobody misses it.
    Nothing,
    /// Changes nothing here, and one should know.
    Ignored(&'static str),
}

/// The keys that most hosts have taken over from each other.
pub(super) const USUAL: &[(&str, Rule)] = &[
    ("type", Rule::Kind),
    ("command", Rule::Command),
    ("args", Rule::Arguments),
    ("env", Rule::Environment),
    ("cwd", Rule::Directory),
    ("url", Rule::Url),
    ("headers", Rule::Headers),
];

/// Those that mean the same here.
const PROVIDERS: [&str; 2] = ["google_credentials", "dynamic_discovery"];
const OTHER_SIGN_IN: &str = "it has no counterpart in `auth` and `oauth`";

/// Which clock a time is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Clock {
    Connect,
    Total,
}

pub(super) const SECONDS: Duration = Duration::from_secs(1);
pub(super) const MILLISECONDS: Duration = Duration::from_millis(1);

impl Rule {
    /// Our name for what the key says.
    pub(super) fn ours(self) -> Option<&'static str> {
        match self {
            Self::Command | Self::CommandWords | Self::CommandOrObject => Some("command"),
            Self::Arguments => Some("args"),
            Self::Environment | Self::EnvironmentNames | Self::KeychainNames(_) => Some("env"),
            Self::EnvironmentFile => Some("envFile"),
            Self::Directory => Some("cwd"),
            Self::Url | Self::UrlOf(_) => Some("url"),
            Self::Headers | Self::HeaderNames | Self::BearerName | Self::Bearer => Some("headers"),
            Self::OAuth | Self::Scopes => Some("oauth"),
            Self::Provider => Some("auth"),
            Self::Kind => Some("type"),
            Self::Enabled | Self::Disabled => Some("enabled"),
            Self::Required => Some("required"),
            Self::Only | Self::OnlyIfAny => Some("includeTools"),
            Self::Without => Some("excludeTools"),
            Self::Time(..) | Self::LongTime(..) | Self::Times(..) => Some("timeouts"),
            Self::Era | Self::Revision => Some("era"),
            Self::Description => Some("description"),
            Self::Nothing | Self::SignInWord(_) | Self::Ignored(_) => None,
        }
    }

    /// Does what the rule says with what stands under its key.
    pub(super) fn apply(self, draft: &mut Draft, field: &Field<'_>, dialect: Dialect) -> Result<(), ConfigError> {
        match self {
            Self::Command => draft.command = Some(field.template(dialect)?),
            Self::CommandWords => command_words(draft, field, dialect)?,
            Self::CommandOrObject => command_or_object(draft, field, dialect)?,
            Self::Arguments => draft.arguments.get_or_insert_default().extend(field.templates(dialect)?),
            Self::Environment => draft.variables.extend(field.pairs(dialect)?),
            Self::EnvironmentNames => draft.variables.extend(names(field)?),
            Self::KeychainNames(service) => draft.variables.extend(keychain_names(field, service)?),
            Self::EnvironmentFile => draft.variables_file = Some(field.template(dialect)?),
            Self::Directory => draft.directory = Some(field.template(dialect)?),
            Self::Headers => draft.headers.extend(field.pairs(dialect)?),
            Self::HeaderNames => draft.headers.extend(header_names(field)?),
            Self::BearerName => draft.headers.push(bearer(field, &format!("${{{}}}", field.text()?), Dialect::Toolway)),
            Self::Bearer => draft.headers.push(bearer(field, field.text()?, dialect)),
            Self::OAuth => sign_in::oauth(draft, field, dialect)?,
            Self::Scopes => sign_in::scopes(draft, field)?,
            Self::Provider => sign_in::provider(draft, field)?,
            Self::Nothing | Self::SignInWord(_) | Self::Ignored(_) => {}
            _ => self.apply_to_rest(draft, field, dialect)?,
        }
        Ok(())
    }

    /// What of the key means nothing here, where and why.
    pub(super) fn not_taken_over(self, field: &Field<'_>) -> Vec<(String, usize, &'static str)> {
        let whole = |why| vec![(field.name.clone(), field.node.line, why)];
        match self {
            Self::Ignored(why) => whole(why),
            Self::Provider if field.text().is_ok_and(|word| !PROVIDERS.contains(&word)) => whole(OTHER_SIGN_IN),
            Self::SignInWord(usual) if field.text().is_ok_and(|word| word != usual) => whole(OTHER_SIGN_IN),
            Self::OAuth => {
                let members = sign_in::not_taken_over(field).into_iter();
                members.map(|(name, line)| (name, line, OTHER_SIGN_IN)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn apply_to_rest(self, draft: &mut Draft, field: &Field<'_>, dialect: Dialect) -> Result<(), ConfigError> {
        match self {
            Self::Url => draft.url = Some(field.template(dialect)?),
            Self::UrlOf(kind) => {
                draft.url = Some(field.template(dialect)?);
                draft.kind.get_or_insert(Kind::Http(kind));
            }
            Self::Kind => draft.kind = Some(server::kind(field)?),
            Self::Enabled => draft.enabled = Some(field.flag()? && draft.enabled.unwrap_or(true)),
            Self::Disabled => draft.enabled = Some(!field.flag()? && draft.enabled.unwrap_or(true)),
            Self::Required if field.flag()? => draft.need = Some(Need::Required),
            Self::Only => filter(draft, only(field.texts()?)),
            Self::OnlyIfAny => {
                let names = field.texts()?;
                if !names.is_empty() {
                    filter(draft, only(names));
                }
            }
            Self::Without => filter(draft, all_but(field.texts()?)),
            Self::Time(clock, unit) => clock.set(draft, field.time_in(unit)?),
            Self::LongTime(clock, unit) => {
                let time = field.time_in(unit)?;
                if SECONDS <= time {
                    clock.set(draft, time);
                }
            }
            Self::Times(clocks, unit) => {
                for (key, field) in field.members()? {
                    if let Some((_, clock)) = clocks.iter().find(|(name, _)| *name == key) {
                        clock.set(draft, field.time_in(unit)?);
                    }
                }
            }
            Self::Era => draft.era = Some(era(field.text()?)),
            Self::Revision => draft.era = Some(of_revision(field.text()?)),
            Self::Description => draft.description = Some(field.text()?.to_owned()),
            _ => {}
        }
        Ok(())
    }
}

impl Clock {
    fn set(self, draft: &mut Draft, time: Duration) {
        match self {
            Self::Connect => draft.timeouts.connect = Some(time),
            Self::Total => draft.timeouts.total = Some(time),
        }
    }
}

fn filter(draft: &mut Draft, filter: server::NameFilter) {
    draft.filters.tool_names = std::mem::take(&mut draft.filters.tool_names).and(filter);
}

fn command_words(draft: &mut Draft, field: &Field<'_>, dialect: Dialect) -> Result<(), ConfigError> {
    if matches!(field.node.value, Value::Text(_)) {
        draft.command = Some(field.template(dialect)?);
        return Ok(());
    }
    let mut words = field.templates(dialect)?.into_iter();
    draft.command = words.next();
    draft.arguments.get_or_insert_default().splice(0..0, words);
    Ok(())
}

fn command_or_object(draft: &mut Draft, field: &Field<'_>, dialect: Dialect) -> Result<(), ConfigError> {
    if !matches!(field.node.value, Value::Map(_)) {
        return Rule::Command.apply(draft, field, dialect);
    }
    for (key, field) in field.members()? {
        match key {
            "path" | "command" => Rule::Command.apply(draft, &field, dialect)?,
            "args" => Rule::Arguments.apply(draft, &field, dialect)?,
            "env" if field.node.value != Value::Null => Rule::Environment.apply(draft, &field, dialect)?,
            _ => {}
        }
    }
    Ok(())
}

/// Each a name, or an object with one; a name of another machine is not ours to hand on.
fn names(field: &Field<'_>) -> Result<Vec<(String, Template)>, ConfigError> {
    let mut variables = Vec::new();
    for element in field.fields()? {
        if let Ok(members) = element.members() {
            let text = |wanted: &str| {
                let member = members.iter().find(|(key, _)| *key == wanted);
                member.and_then(|(_, field)| field.text().ok())
            };
            let name = text("name").ok_or_else(|| element.expected("a name, or an object with one"))?;
            if text("source") != Some("remote") {
                variables.push(of_variable(name, name, element.node.line));
            }
        } else {
            let name = element.text()?;
            variables.push(of_variable(name, name, element.node.line));
        }
    }
    Ok(variables)
}

fn keychain_names(field: &Field<'_>, service: &str) -> Result<Vec<(String, Template)>, ConfigError> {
    let variable = |field: &Field<'_>| {
        let name = field.text()?;
        let text = format!("${{{name}:-${{keychain:{service}/{name}}}}}");
        Ok((name.to_owned(), Template::new(text, Dialect::Toolway, field.node.line)))
    };
    field.fields()?.iter().map(variable).collect()
}

fn header_names(field: &Field<'_>) -> Result<Vec<(String, Template)>, ConfigError> {
    let header = |(header, field): (&str, Field<'_>)| Ok(of_variable(header, field.text()?, field.node.line));
    field.members()?.into_iter().map(header).collect()
}

fn of_variable(key: &str, variable: &str, line: usize) -> (String, Template) {
    (key.to_owned(), Template::new(format!("${{{variable}}}"), Dialect::Toolway, line))
}

fn bearer(field: &Field<'_>, token: &str, dialect: Dialect) -> (String, Template) {
    ("Authorization".to_owned(), Template::new(format!("Bearer {token}"), dialect, field.node.line))
}

fn era(word: &str) -> Era {
    match word {
        "legacy" => Era::Legacy,
        "modern" => Era::Modern,
        _ => Era::Auto,
    }
}

/// Revisions are dates; the modern ones begin in July 2026.
fn of_revision(revision: &str) -> Era {
    match revision {
        "auto" => Era::Auto,
        date if date < "2026-07-28" => Era::Legacy,
        _ => Era::Modern,
    }
}
