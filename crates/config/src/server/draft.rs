//! An entry while it is read: the keys that are set, without defaults.

use std::{collections::BTreeMap, time::Duration};

use super::{
    DefinedBy, Era, Filters, Http, HttpKind, NameFilter, Need, Offered, PlainHttp, Process, Reconnect, ServerConfig,
    ServerName, SessionEnd, Sharing, Source, Standing, Start, Timeouts, Transport, VariablesFile, Withheld,
    auth::{Auth, OAuth},
    transport::has_header,
};
use crate::{
    Pattern, address,
    call_limits::LimitLevel,
    cluster::Replicas,
    error::{ConfigError, Place},
    header,
    interpolate::Template,
    roots::RootSetting,
    sampling::SamplingSettings,
    tasks::TaskSettings,
    trust::{FileAccess, Trust, TrustLists},
};

/// The keys that an entry sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Draft {
    pub(crate) command: Option<Template>,
    pub(crate) arguments: Option<Vec<Template>>,
    pub(crate) variables: Vec<(String, Template)>,
    pub(crate) variables_file: Option<Template>,
    pub(crate) directory: Option<Template>,
    pub(crate) url: Option<Template>,
    pub(crate) headers: Vec<(String, Template)>,
    pub(crate) kind: Option<Kind>,
    pub(crate) plain: Option<PlainHttp>,
    pub(crate) auth: Option<Auth<Template>>,
    pub(crate) oauth: OAuth<Template>,
    pub(crate) enabled: Option<bool>,
    pub(crate) need: Option<Need>,
    pub(crate) era: Option<Era>,
    pub(crate) timeouts: Timeouts,
    pub(crate) filters: Filters,
    pub(crate) reconnect: Reconnect,
    pub(crate) sampling: Option<SamplingSettings>,
    pub(crate) elicitation: Option<bool>,
    pub(crate) roots: Option<Vec<RootSetting>>,
    pub(crate) start: Option<Start>,
    pub(crate) idle_stop: Option<Duration>,
    pub(crate) sharing: Option<Sharing>,
    pub(crate) replicas: Option<Replicas>,
    pub(crate) sessions: Option<SessionEnd>,
    pub(crate) tasks: Option<TaskSettings>,
    pub(crate) extra_methods: Option<Vec<String>>,
    pub(crate) trust: Option<Trust>,
    pub(crate) trusted_tools: Option<Vec<Pattern>>,
    pub(crate) require_confirmation: Option<Vec<Pattern>>,
    pub(crate) file_access: Option<FileAccess>,
    pub(crate) limits: Option<LimitLevel>,
    pub(crate) auto_context: Option<bool>,
    pub(crate) description: Option<String>,
    /// Place of each key that is set, by Toolway's name of the key.
    pub(crate) origins: BTreeMap<&'static str, Place>,
}

/// Value of `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Process,
    Http(HttpKind),
}

impl Draft {
    /// Whether it sets a transport; if not, it can only change an existing server.
    pub(crate) fn has_transport(&self) -> bool {
        self.command.is_some() || self.url.is_some() || self.kind.is_some()
    }

    /// Keys without effect with this transport and authentication.
    pub(crate) fn keys_without_effect(&self) -> Vec<(&'static str, &Place)> {
        let keys: &[&str] = match self.kind {
            Some(Kind::Process) => &["url", "headers", "allowInsecureHttp", "auth", "oauth"],
            Some(Kind::Http(_)) if self.uses_no_tokens() => &["command", "args", "env", "envFile", "cwd", "oauth"],
            Some(Kind::Http(_)) => &["command", "args", "env", "envFile", "cwd"],
            None if self.url.is_some() && self.uses_no_tokens() => &["args", "env", "envFile", "cwd", "oauth"],
            None if self.url.is_some() => &["args", "env", "envFile", "cwd"],
            None if self.command.is_some() => &["headers", "allowInsecureHttp", "auth", "oauth"],
            None => &[],
        };
        self.origins.iter().filter(|(key, _)| keys.contains(*key)).map(|(key, place)| (*key, place)).collect()
    }

    /// Whether authentication needs no authorization server.
    fn uses_no_tokens(&self) -> bool {
        match &self.auth {
            Some(auth) => !auth.uses_tokens(),
            None => has_header(&self.headers, "authorization"),
        }
    }

    /// The header that both `auth` and `headers` set, if any.
    pub(crate) fn duplicate_auth_header(&self) -> Option<&str> {
        let of_auth = self.auth.as_ref().and_then(Auth::header);
        let same = |wanted: &str| self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        of_auth.and_then(same).map(|(name, _)| name.as_str())
    }

    /// The server, with defaults applied.
    pub(crate) fn finish(self, name: ServerName, label: &str, source: Source) -> Result<ServerConfig, ConfigError> {
        let transport = self.transport(&source, label)?;
        Ok(ServerConfig {
            name,
            label: label.to_owned(),
            transport,
            standing: Standing::when(self.enabled.unwrap_or(true)),
            need: self.need.unwrap_or_default(),
            era: self.era.unwrap_or_default(),
            timeouts: self.timeouts,
            filters: self.filters,
            reconnect: self.reconnect,
            withheld: Withheld {
                sampling: is_forbidden(self.sampling.as_ref()),
                elicitation: self.elicitation == Some(false),
            },
            // A project cannot let its own servers ask a model.
            sampling: match source.defined_by {
                DefinedBy::Project => SamplingSettings::default().restricted_by(self.sampling.as_ref()),
                _ => self.sampling.unwrap_or_default(),
            },
            roots: self.roots.unwrap_or_default(),
            start: self.start,
            idle_stop: self.idle_stop,
            sharing: self.sharing.unwrap_or_default(),
            replicas: self.replicas,
            sessions: self.sessions,
            tasks: self.tasks.unwrap_or_default(),
            extra_methods: self.extra_methods.unwrap_or_default(),
            // A project cannot vouch for its own servers and tools.
            trust_lists: TrustLists {
                trusted_tools: match source.defined_by {
                    DefinedBy::Project => Vec::new(),
                    _ => self.trusted_tools.unwrap_or_default(),
                },
                require_confirmation: self.require_confirmation.unwrap_or_default(),
                file_access: self.file_access.unwrap_or_default(),
                folder: None,
            },
            trust: self.trust.filter(|_| source.defined_by != DefinedBy::Project),
            limits: self.limits.unwrap_or_default(),
            auto_context: self.auto_context.unwrap_or_default(),
            description: self.description,
            origins: self.origins,
            source,
        })
    }

    /// The server with the keys of this entry applied.
    pub(crate) fn apply_to(self, server: ServerConfig) -> ServerConfig {
        let transport = match server.transport {
            Transport::Process(process) => Transport::Process(Process {
                arguments: self.arguments.unwrap_or(process.arguments),
                variables: replaced(process.variables, self.variables),
                variables_file: self.variables_file.map(VariablesFile::at).or(process.variables_file),
                directory: self.directory.or(process.directory),
                ..process
            }),
            Transport::Http(http) => {
                let header = self.auth.as_ref().and_then(Auth::header).map(str::to_owned);
                let http = without_other_credentials(http, &self.headers, header.as_deref());
                Transport::Http(Http {
                    headers: replaced(http.headers, self.headers),
                    plain: self.plain.unwrap_or(http.plain),
                    auth: self.auth.map(Box::new).or(http.auth),
                    oauth: Box::new(http.oauth.overridden_by(self.oauth)),
                    ..http
                })
            }
        };
        ServerConfig {
            transport,
            standing: self.enabled.map_or(server.standing, Standing::when),
            need: self.need.unwrap_or(server.need),
            era: self.era.unwrap_or(server.era),
            timeouts: Timeouts {
                connect: self.timeouts.connect.or(server.timeouts.connect),
                idle: self.timeouts.idle.or(server.timeouts.idle),
                total: self.timeouts.total.or(server.timeouts.total),
            },
            filters: server.filters.and(self.filters),
            reconnect: server.reconnect.overridden_by(self.reconnect),
            withheld: Withheld {
                sampling: self.sampling.as_ref().map_or(server.withheld.sampling, SamplingSettings::is_forbidden),
                elicitation: self.elicitation.map_or(server.withheld.elicitation, |on| !on),
            },
            sampling: self.sampling.unwrap_or(server.sampling),
            roots: self.roots.unwrap_or(server.roots),
            start: self.start.or(server.start),
            idle_stop: self.idle_stop.or(server.idle_stop),
            sharing: self.sharing.unwrap_or(server.sharing),
            replicas: self.replicas.or(server.replicas),
            sessions: self.sessions.or(server.sessions),
            tasks: server.tasks.overridden_by(self.tasks.unwrap_or_default()),
            extra_methods: self.extra_methods.unwrap_or(server.extra_methods),
            trust: self.trust.or(server.trust),
            trust_lists: TrustLists {
                trusted_tools: self.trusted_tools.unwrap_or(server.trust_lists.trusted_tools),
                require_confirmation: self.require_confirmation.unwrap_or(server.trust_lists.require_confirmation),
                file_access: self.file_access.unwrap_or(server.trust_lists.file_access),
                folder: server.trust_lists.folder,
            },
            limits: self.limits.unwrap_or(server.limits),
            auto_context: self.auto_context.unwrap_or(server.auto_context),
            description: self.description.or(server.description),
            origins: joined(server.origins, self.origins),
            ..server
        }
    }

    /// The server with only the restrictions of this entry applied: narrower filters, limits, questions, or disabled.
    pub(crate) fn restrict(self, server: ServerConfig) -> ServerConfig {
        let off = self.enabled == Some(false);
        let mut trust_lists = server.trust_lists;
        trust_lists.require_confirmation.extend(self.require_confirmation.unwrap_or_default());
        if self.file_access == Some(FileAccess::RootsOnly) {
            trust_lists.file_access = FileAccess::RootsOnly;
        }
        ServerConfig {
            standing: if off { Standing::Disabled } else { server.standing },
            filters: server.filters.and(self.filters),
            withheld: Withheld {
                sampling: server.withheld.sampling || is_forbidden(self.sampling.as_ref()),
                elicitation: server.withheld.elicitation || self.elicitation == Some(false),
            },
            sampling: server.sampling.restricted_by(self.sampling.as_ref()),
            trust_lists,
            limits: server.limits.restricted_by(self.limits.unwrap_or_default()),
            origins: joined(server.origins, self.origins),
            ..server
        }
    }

    /// The entry without its restrictions; equal to the default if it has only restrictions.
    pub(crate) fn without_restrictions(&self) -> Self {
        let enabled = self.enabled.filter(|enabled| *enabled);
        let sampling = self.sampling.clone().filter(|sampling| *sampling != SamplingSettings::never());
        let elicitation = self.elicitation.filter(|on| *on);
        let file_access = self.file_access.filter(|access| *access == FileAccess::Unchecked);
        Self {
            enabled,
            sampling,
            elicitation,
            file_access,
            require_confirmation: None,
            limits: None,
            filters: Filters::default(),
            origins: BTreeMap::new(),
            ..self.clone()
        }
    }

    fn transport(&self, source: &Source, label: &str) -> Result<Transport, ConfigError> {
        let problem = |key: &str, expected: &str| ConfigError::Expected {
            place: source.place.clone(),
            key: source.key(label, key),
            expected: expected.to_owned(),
        };
        let over_http = match self.kind {
            Some(Kind::Process) => false,
            Some(Kind::Http(_)) => true,
            None if self.command.is_some() && self.url.is_some() => {
                return Err(ConfigError::Refused {
                    place: source.place.clone(),
                    problem: format!("`{}`: set either `command` or `url`, not both", source.key(label, "command")),
                });
            }
            None => self.url.is_some(),
        };
        if over_http {
            let url = self.url.clone().ok_or_else(|| problem("url", "the URL of the server"))?;
            return self.http(url).and_then(|http| checked(http, source, label)).map(Transport::Http);
        }
        let command = self.command.clone().filter(|command| !command.written().expose().trim().is_empty());
        let command =
            command.ok_or_else(|| problem("command", "the program to start; for an HTTP server set `url` instead"))?;
        if let Some((name, _)) = self.variables.iter().find(|(name, _)| name.is_empty() || name.contains(['=', '\0'])) {
            let expected = format!("an object of variables; `{}` is not a valid name", name.escape_default());
            return Err(problem("env", &expected));
        }
        Ok(Transport::Process(Process {
            command,
            arguments: self.arguments.clone().unwrap_or_default(),
            variables: self.variables.clone(),
            variables_file: self.variables_file.clone().map(VariablesFile::at),
            directory: self.directory.clone(),
        }))
    }

    fn http(&self, url: Template) -> Result<Http, ConfigError> {
        let kind = match self.kind {
            Some(Kind::Http(kind)) => kind,
            _ => HttpKind::Auto,
        };
        Ok(Http {
            url,
            headers: self.headers.clone(),
            kind,
            plain: self.plain.unwrap_or_default(),
            auth: self.auth.clone().map(Box::new),
            oauth: Box::new(self.oauth.clone()),
        })
    }
}

fn is_forbidden(sampling: Option<&SamplingSettings>) -> bool {
    sampling.is_some_and(SamplingSettings::is_forbidden)
}

/// Drops the credentials that the nearer entry sets in another way: `header` is the header of its `auth`.
fn without_other_credentials(mut http: Http, nearer: &[(String, Template)], header: Option<&str>) -> Http {
    if let Some(header) = header {
        http.headers.retain(|(name, _)| !name.eq_ignore_ascii_case(header));
    }
    let is_replaced = |auth: &Auth<Template>| auth.header().is_some_and(|header| has_header(nearer, header));
    http.auth = http.auth.filter(|auth| !is_replaced(auth));
    http
}

/// Checks URL and headers without references; those with references are checked when they are resolved.
fn checked(http: Http, source: &Source, label: &str) -> Result<Http, ConfigError> {
    for (name, value) in &http.headers {
        let written = if value.is_literal() { value.written().expose() } else { "" };
        if let Some(expected) = header::problem(name, written) {
            return Err(ConfigError::Expected {
                place: source.place.at(value.line()),
                key: source.key(label, &format!("headers.{}", name.escape_debug())),
                expected: expected.to_owned(),
            });
        }
    }
    if http.url.is_literal() {
        address::check(http.url.written().expose(), http.plain).map_err(|refused| ConfigError::Expected {
            place: source.place.at(http.url.line()),
            key: source.key(label, "url"),
            expected: refused.expected().to_owned(),
        })?;
    }
    Ok(http)
}

/// Both maps in one; `nearer` takes precedence.
fn joined<K: Ord, V>(mut places: BTreeMap<K, V>, nearer: BTreeMap<K, V>) -> BTreeMap<K, V> {
    places.extend(nearer);
    places
}

/// The pairs, with those of the same name replaced by `by`.
fn replaced(mut pairs: Vec<(String, Template)>, by: Vec<(String, Template)>) -> Vec<(String, Template)> {
    for (name, text) in by {
        match pairs.iter_mut().find(|(known, _)| *known == name) {
            Some(pair) => pair.1 = text,
            None => pairs.push((name, text)),
        }
    }
    pairs
}

/// The filter that passes only these names.
pub(crate) fn only(include: Vec<String>) -> NameFilter {
    NameFilter { include: Some(include), exclude: Vec::new() }
}

/// The filter that passes all names but these.
pub(crate) fn all_but(exclude: Vec<String>) -> NameFilter {
    NameFilter { include: None, exclude }
}

/// Converts a boolean key such as `tools`.
pub(crate) fn offered(on: bool) -> Offered {
    Offered::when(on)
}
