//! Meaning of the keys in entries of other hosts.

use std::time::Duration;

use super::{authentication, sign_in};
use crate::{
    document::Value,
    error::ConfigError,
    interpolate::{Dialect, Template},
    roots,
    sampling::{SamplingPermission, SamplingSettings},
    server::{self, Draft, Era, HttpKind, Kind, Need, Offered, all_but, only},
    shape::Field,
    trust,
};

/// Meaning of a key. A format is a table of keys and rules.
#[derive(Clone, Copy, Debug)]
pub(super) enum KeyRule {
    Command,
    /// A list of program and arguments, or the program alone.
    CommandList,
    /// The program, or an object of `path`, `args` and `env`.
    CommandOrObject,
    Arguments,
    Environment,
    /// Names of variables that are passed on.
    EnvironmentNames,
    /// Names of variables; unset ones are looked up in the keychain under this service.
    KeychainNames(&'static str),
    EnvironmentFile,
    Directory,
    Url,
    /// A URL with this transport.
    UrlOf(HttpKind),
    Headers,
    /// Headers with the name of the variable that has their value.
    HeaderNames,
    /// Name of the variable that has the bearer token.
    BearerName,
    /// The bearer token itself.
    Bearer,
    /// OAuth settings.
    OAuth,
    /// Requested scopes.
    Scopes,
    /// Authentication provider.
    Provider,
    /// Sign-in method; the given value is the default here.
    SignInMethod(&'static str),
    Kind,
    Enabled,
    Disabled,
    Required,
    /// Included tools; an empty list means no tools.
    Only,
    /// Included tools; an empty list means all tools.
    OnlyIfAny,
    Without,
    Time(Clock, Duration),
    /// Like `Time`, but values below one second are ignored.
    LongTime(Clock, Duration),
    /// An object of durations by name.
    Times(&'static [(&'static str, Clock)], Duration),
    Era,
    /// A protocol revision.
    Revision,
    Description,
    /// An object inside the entry, with rules of its own.
    Inside(&'static [(&'static str, Self)]),
    /// The program with its arguments: a command line, or a list.
    CommandLine,
    /// Whether something is offered at all.
    Switch(Switch),
    /// Included prompts.
    OnlyPrompts,
    /// Excluded prompts.
    WithoutPrompts,
    /// Authentication by `type`, one of these.
    Authentication(&'static [&'static str]),
    /// Trust in Toolway's words; `true` and `false`, as other hosts write it, are ignored.
    Trust,
    /// Maximum number of consecutive retries.
    Attempts,
    /// A list of roots; ignored if it has another form.
    Roots,
    /// Ignored without a warning.
    Nothing,
    Sampling(SamplingKey),
    /// Ignored with a warning, which has this reason.
    Ignored(&'static str),
}

/// What a key says of sampling.
#[derive(Clone, Copy, Debug)]
pub(super) enum SamplingKey {
    /// Whether the server may ask: `ask` or `never`.
    Enabled,
    /// Whether a person approves each request; `false` after an enabling key means `always`.
    Approval,
    MaxTokens,
    /// Requests that may be made; taken as those of an hour, the longest time that other programs mean.
    RateLimit,
}

/// What a boolean key turns on or off.
#[derive(Clone, Copy, Debug)]
pub(super) enum Switch {
    Tools,
    Resources,
    Prompts,
    Elicitation,
}

/// Keys that most hosts have in common.
pub(super) const USUAL: &[(&str, KeyRule)] = &[
    ("type", KeyRule::Kind),
    ("command", KeyRule::Command),
    ("args", KeyRule::Arguments),
    ("env", KeyRule::Environment),
    ("cwd", KeyRule::Directory),
    ("url", KeyRule::Url),
    ("headers", KeyRule::Headers),
    ("allowSampling", KeyRule::Sampling(SamplingKey::Enabled)),
];

/// Providers with the same meaning here.
const PROVIDERS: [&str; 2] = ["google_credentials", "dynamic_discovery"];
const OTHER_SIGN_IN: &str = "`auth` and `oauth` have no counterpart";

/// Which timeout a duration sets.
#[derive(Clone, Copy, Debug)]
pub(super) enum Clock {
    Connect,
    Total,
}

pub(super) const SECONDS: Duration = Duration::from_secs(1);
pub(super) const MILLISECONDS: Duration = Duration::from_millis(1);

impl KeyRule {
    /// Toolway's name of the key; `None` if the key is ignored.
    pub(super) fn own_key(self) -> Option<&'static str> {
        match self {
            Self::Command | Self::CommandList | Self::CommandOrObject | Self::CommandLine => Some("command"),
            Self::Arguments => Some("args"),
            Self::Environment | Self::EnvironmentNames | Self::KeychainNames(_) => Some("env"),
            Self::EnvironmentFile => Some("envFile"),
            Self::Directory => Some("cwd"),
            Self::Url | Self::UrlOf(_) => Some("url"),
            Self::Headers | Self::HeaderNames | Self::BearerName | Self::Bearer => Some("headers"),
            Self::OAuth | Self::Scopes => Some("oauth"),
            Self::Provider | Self::Authentication(_) => Some("auth"),
            Self::Kind => Some("type"),
            Self::Enabled | Self::Disabled => Some("enabled"),
            Self::Required => Some("required"),
            Self::Only | Self::OnlyIfAny => Some("includeTools"),
            Self::Without => Some("excludeTools"),
            Self::OnlyPrompts => Some("includePrompts"),
            Self::WithoutPrompts => Some("excludePrompts"),
            Self::Trust => Some("trust"),
            Self::Attempts => Some("reconnect"),
            Self::Roots => Some("roots"),
            Self::Switch(Switch::Tools) => Some("tools"),
            Self::Switch(Switch::Resources) => Some("resources"),
            Self::Switch(Switch::Prompts) => Some("prompts"),
            Self::Sampling(_) => Some("sampling"),
            Self::Switch(Switch::Elicitation) => Some("elicitation"),
            Self::Time(..) | Self::LongTime(..) | Self::Times(..) => Some("timeouts"),
            Self::Era | Self::Revision => Some("era"),
            Self::Description => Some("description"),
            Self::Nothing | Self::SignInMethod(_) | Self::Ignored(_) | Self::Inside(_) => None,
        }
    }

    /// Applies the rule to the value of its key.
    pub(super) fn apply(self, draft: &mut Draft, field: &Field<'_>, dialect: Dialect) -> Result<(), ConfigError> {
        match self {
            Self::Command => draft.command = Some(field.template(dialect)?),
            Self::CommandList => command_list(draft, field, dialect)?,
            Self::CommandOrObject => command_or_object(draft, field, dialect)?,
            Self::CommandLine => command_line(draft, field, dialect)?,
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
            Self::Authentication(types) => authentication::apply(draft, field, dialect, types)?,
            Self::Nothing | Self::SignInMethod(_) | Self::Ignored(_) => {}
            _ => self.apply_to_rest(draft, field, dialect)?,
        }
        Ok(())
    }

    /// The ignored keys, each with its line and reason.
    pub(super) fn ignored(self, field: &Field<'_>) -> Vec<(String, usize, &'static str)> {
        let whole = |why| vec![(field.name.clone(), field.node.line, why)];
        match self {
            Self::Ignored(why) => whole(why),
            Self::Trust if field.flag().is_ok() => whole("use `untrusted`, `read` or `full`"),
            Self::Provider if field.text().is_ok_and(|name| !PROVIDERS.contains(&name)) => whole(OTHER_SIGN_IN),
            Self::SignInMethod(default) if field.text().is_ok_and(|name| name != default) => whole(OTHER_SIGN_IN),
            Self::Authentication(_) => {
                let members = authentication::ignored(field).into_iter();
                members.map(|(name, line)| (name, line, OTHER_SIGN_IN)).collect()
            }
            Self::OAuth => {
                let members = sign_in::ignored(field).into_iter();
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
            Self::OnlyPrompts => filter_prompts(draft, only(field.texts()?)),
            Self::WithoutPrompts => filter_prompts(draft, all_but(field.texts()?)),
            Self::Trust if field.flag().is_err() => draft.trust = Some(trust::trust(field)?),
            Self::Attempts => draft.reconnect.attempts = Some(field.count()?),
            Self::Switch(switch) => switch.set(draft, field.flag()?),
            Self::Sampling(key) => key.set(draft.sampling.get_or_insert_default(), field)?,
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
            Self::Roots => draft.roots = roots::read(field).ok(),
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

impl SamplingKey {
    /// Applies the key to what was said before it.
    pub(super) fn set(self, sampling: &mut SamplingSettings, field: &Field<'_>) -> Result<(), ConfigError> {
        let positive = || match field.count()? {
            0 => Err(field.expected("a whole number greater than zero")),
            count => Ok(Some(count)),
        };
        match self {
            Self::Enabled if field.flag()? => sampling.allow = Some(SamplingPermission::Ask),
            Self::Enabled => sampling.allow = Some(SamplingPermission::Never),
            Self::Approval if !field.flag()? && sampling.allow == Some(SamplingPermission::Ask) => {
                sampling.allow = Some(SamplingPermission::Always);
            }
            Self::Approval => {}
            Self::MaxTokens => sampling.max_tokens = positive()?,
            Self::RateLimit => sampling.requests_per_hour = positive()?,
        }
        Ok(())
    }
}

impl Switch {
    fn set(self, draft: &mut Draft, on: bool) {
        match self {
            Self::Tools => draft.filters.tools = Offered::when(on),
            Self::Resources => draft.filters.resources = Offered::when(on),
            Self::Prompts => draft.filters.prompts = Offered::when(on),
            Self::Elicitation => draft.elicitation = Some(on),
        }
    }
}

fn filter_prompts(draft: &mut Draft, filter: server::NameFilter) {
    draft.filters.prompt_names = std::mem::take(&mut draft.filters.prompt_names).and(filter);
}

/// Splits a command line as a shell would, unless the arguments are given separately.
fn command_line(draft: &mut Draft, field: &Field<'_>, dialect: Dialect) -> Result<(), ConfigError> {
    let Ok(line) = field.text() else { return command_list(draft, field, dialect) };
    if draft.arguments.is_some() || !line.contains(char::is_whitespace) {
        return KeyRule::Command.apply(draft, field, dialect);
    }
    let words = shlex::split(line).ok_or_else(|| field.expected("a command line with matching quotes"))?;
    let mut words = words.into_iter().map(|word| Template::new(word, dialect, field.node.line));
    draft.command = words.next();
    draft.arguments = Some(words.collect());
    Ok(())
}

fn filter(draft: &mut Draft, filter: server::NameFilter) {
    draft.filters.tool_names = std::mem::take(&mut draft.filters.tool_names).and(filter);
}

fn command_list(draft: &mut Draft, field: &Field<'_>, dialect: Dialect) -> Result<(), ConfigError> {
    if matches!(field.node.value, Value::Text(_)) {
        draft.command = Some(field.template(dialect)?);
        return Ok(());
    }
    let mut parts = field.templates(dialect)?.into_iter();
    draft.command = parts.next();
    draft.arguments.get_or_insert_default().splice(0..0, parts);
    Ok(())
}

fn command_or_object(draft: &mut Draft, field: &Field<'_>, dialect: Dialect) -> Result<(), ConfigError> {
    if !matches!(field.node.value, Value::Map(_)) {
        return KeyRule::Command.apply(draft, field, dialect);
    }
    for (key, field) in field.members()? {
        match key {
            "path" | "command" => KeyRule::Command.apply(draft, &field, dialect)?,
            "args" => KeyRule::Arguments.apply(draft, &field, dialect)?,
            "env" if field.node.value != Value::Null => KeyRule::Environment.apply(draft, &field, dialect)?,
            _ => {}
        }
    }
    Ok(())
}

/// Each element is a name, or an object with `name`; names with the source `remote` are skipped.
fn names(field: &Field<'_>) -> Result<Vec<(String, Template)>, ConfigError> {
    let mut variables = Vec::new();
    for element in field.fields()? {
        if let Ok(members) = element.members() {
            let text = |wanted: &str| {
                let member = members.iter().find(|(key, _)| *key == wanted);
                member.and_then(|(_, field)| field.text().ok())
            };
            let name = text("name").ok_or_else(|| element.expected("a variable name, or an object with `name`"))?;
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

fn era(name: &str) -> Era {
    match name {
        "legacy" => Era::Legacy,
        "modern" => Era::Modern,
        _ => Era::Auto,
    }
}

/// Revisions are dates; the modern era starts with 2026-07-28.
fn of_revision(revision: &str) -> Era {
    match revision {
        "auto" => Era::Auto,
        date if date < "2026-07-28" => Era::Legacy,
        _ => Era::Modern,
    }
}
