//! Policy as the user and a project wrote it: the mode, and rules in the order of their file. `host` decides by them.

use crate::{
    HostPattern,
    document::Value,
    error::{ConfigError, Place},
    settings::{Setting, Settings},
    shape::{Field, Key, Shape, put},
    trust::{self, DRIFT_VALUES, DriftEffect, LEVELS, RISKS, TRUST_VALUES, Trust, TrustedFolder},
    visible,
};

/// Characters of the reason of a project's rule.
const MAX_PROJECT_REASON: usize = 300;

/// Replaces the default of every surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyMode {
    /// Ask before every call, whatever rules and saved approvals allow.
    Ask,
    /// Ask before every call that may write.
    Writes,
    /// Allow every call.
    Allow,
}

/// What a rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleEffect {
    /// The call is sent.
    Allow,
    /// Asks unless the server is trusted and the tool is annotated read-only and not destructive.
    Writes,
    /// A user is asked.
    Ask,
    /// The call is refused.
    Deny,
}

/// The policy of the user's file and of a project's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicySettings {
    /// Replaces the default of every surface. Only the user sets it.
    pub mode: Setting<Option<PolicyMode>>,
    /// The rules of the user's file; the first match decides.
    pub user: Vec<Rule>,
    /// The rules of the project's file, which only make the decision stricter.
    pub project: ProjectRules,
    /// Hosts that are never new. Only the user sets them.
    pub hosts: Setting<Vec<HostPattern>>,
    /// What becomes of calls of a tool whose definition or server has changed; `None`: agents ask, others are recorded.
    pub changed_tools: Setting<Option<DriftEffect>>,
    /// What becomes of calls of a tool that its server did not have when it was first seen.
    pub new_tools: Setting<DriftEffect>,
    /// Folders whose projects are trusted. Only the user sets them.
    pub trusted_folders: Setting<Vec<TrustedFolder>>,
}

/// The rules of a project's file. None of them says `allow`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectRules(Vec<Rule>);

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// File and line.
    pub place: Place,
    /// Conditions, all of which must hold.
    pub matches: RuleMatch,
    /// What it says.
    pub then: RuleEffect,
    /// Shown to the user and to the model.
    pub reason: Option<String>,
}

/// Conditions of a rule. An empty list and `None` match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleMatch {
    /// Callers, `kind` or `kind:name`, with `*`.
    pub caller: Vec<String>,
    /// Surfaces: `call`, `chat`, `run`, `gateway`, `console`, `library`.
    pub surface: Vec<String>,
    /// Server names, with `*`.
    pub server: Vec<String>,
    /// The server's own names of tools, prompts, URIs or methods, with `*`.
    pub tool: Vec<String>,
    /// `tool`, `prompt`, `resource`, `method`.
    pub kind: Vec<String>,
    /// Annotation `readOnlyHint`, with the protocol's default.
    pub read_only: Option<bool>,
    /// Annotation `destructiveHint`, with the protocol's default.
    pub destructive: Option<bool>,
    /// Annotation `openWorldHint`, with the protocol's default.
    pub open_world: Option<bool>,
    /// Trust of the server.
    pub trust: Option<Trust>,
    /// Trust levels: `untrusted`, `server-trusted`, `tool-allowlisted`, `trusted-folder`.
    pub trust_level: Vec<String>,
    /// Risks: `low`, `medium`, `high`, `critical`.
    pub risk: Vec<String>,
    /// Conditions on arguments, by JSON Pointer.
    pub arguments: Vec<(String, ArgumentMatch)>,
}

/// A condition on one argument. A missing argument does not match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentMatch {
    /// A string that matches, with `*`.
    Glob(String),
    /// One of these values.
    OneOf(Vec<ArgumentValue>),
    /// A number in this range; bounds are inclusive.
    Range {
        /// Lower bound.
        min: Option<Number>,
        /// Upper bound.
        max: Option<Number>,
    },
}

/// A value of a list of allowed values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentValue {
    /// A string.
    Text(String),
    /// A number.
    Number(Number),
    /// A boolean.
    Flag(bool),
}

/// A finite number, compared by its bits.
#[derive(Clone, Copy, Debug)]
pub struct Number(pub f64);

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.0.total_cmp(&other.0).is_eq()
    }
}

impl Eq for Number {}

/// The words of modes with their values, and three more that are accepted and never shown.
const MODES: &[(&str, PolicyMode)] = &[
    ("ask", PolicyMode::Ask),
    ("writes", PolicyMode::Writes),
    ("allow", PolicyMode::Allow),
    ("interactive", PolicyMode::Ask),
    ("restricted", PolicyMode::Writes),
    ("full", PolicyMode::Allow),
];
/// The words of modes.
pub(crate) const MODE_VALUES: &[&str] = &["ask", "writes", "allow"];
const EFFECTS: &[(&str, RuleEffect)] = &[
    ("allow", RuleEffect::Allow),
    ("ask", RuleEffect::Ask),
    ("writes", RuleEffect::Writes),
    ("deny", RuleEffect::Deny),
];
const EFFECT_VALUES: &[&str] = &["allow", "ask", "writes", "deny"];
const CALLER_KINDS: &[&str] = &["terminal", "agent", "client", "console", "program"];
const SURFACES: &[&str] = &["call", "chat", "run", "gateway", "console", "library"];
const KINDS: &[&str] = &["tool", "prompt", "resource", "method"];

const MATCH: &[(&str, Shape)] = &[
    ("caller", Shape::TextOrTexts),
    ("surface", Shape::TextOrTexts),
    ("server", Shape::TextOrTexts),
    ("tool", Shape::TextOrTexts),
    ("kind", Shape::TextOrTexts),
    ("readOnly", Shape::Flag),
    ("destructive", Shape::Flag),
    ("openWorld", Shape::Flag),
    ("trust", Shape::OneOf(TRUST_VALUES)),
    ("trustLevel", Shape::TextOrTexts),
    ("risk", Shape::TextOrTexts),
    ("arguments", Shape::AnyObject),
];
const RULE: &[(&str, Shape)] =
    &[("match", Shape::Members(MATCH)), ("then", Shape::OneOf(EFFECT_VALUES)), ("reason", Shape::Text)];
const MEMBERS: &[(&str, Shape)] = &[
    ("mode", Shape::OneOf(MODE_VALUES)),
    (RULES, Shape::ListOfMembers(RULE)),
    ("hosts", Shape::Texts),
    ("trustedFolders", Shape::AnyObject),
    ("changedTools", Shape::OneOf(DRIFT_VALUES)),
    ("newTools", Shape::OneOf(DRIFT_VALUES)),
];

/// Member of `policy`: the rules.
pub(crate) const RULES: &str = "rules";

/// What an element of `hosts` must be.
const HOST: &str = "a host such as `example.org`, `*.example.org` or an IP address, without scheme, port and path";

/// The top-level key `policy`.
pub(crate) const POLICY: Key<Settings> = Key {
    name: "policy",
    shape: Shape::Members(MEMBERS),
    doc: "Decides which calls are sent, asked about or refused. `mode` replaces the default of every surface: \
          `ask` (before every call, whatever rules and saved approvals allow), `writes` (ask before calls that may write) \
          or `allow`. `rules`: the first rule of a file whose `match` holds decides: `then` is `allow`, `ask`, `writes` \
          (ask unless the server is trusted and the tool is annotated read-only and not destructive) or `deny`; `reason` \
          is shown. `match` has `caller` \
          (`terminal`, `agent`, `client`, `console`, `program`, or `client:NAME`), `surface` (`call`, `chat`, `run`, \
          `gateway`, `console`, `library`), `server`, `tool`, `kind`, `readOnly`, `destructive`, `openWorld`, `trust`, \
          `trustLevel` (`untrusted`, `server-trusted`, `tool-allowlisted`, `trusted-folder`), `risk` (`low`, `medium`, \
          `high`, `critical`) and `arguments`: an object of JSON Pointer to a pattern with `*`, a list of values, or `{\"min\": 0, \"max\": \
          10}`. A project file may contain rules that say `ask`, `writes` or `deny`: the stricter of its result and that \
          of the user's file counts. `hosts`: hosts that a tool which passes `writes` may reach without a question; \
          `*.example.org` stands for the subdomains. `trustedFolders`: folders (absolute, or from `~/` on) with `read` or \
          `full`, the trust of accepted servers of projects inside; symbolic links are resolved, and the innermost \
          folder counts. Servers of a project still have to be accepted. `changedTools`: what becomes of a call of a tool \
          or prompt whose description, schema, arguments or annotations have changed since it was first seen, or whose \
          server has another command, file or host: `ask` (default for models), `hide` (left out of every list, and \
          refused) or `allow`; calls of other callers are recorded unless it is set. `newTools`: the same for a tool or \
          prompt that its server did not have before; default `allow`.",
    example: r#"{"mode": "writes", "rules": [{"match": {"tool": "delete_*"}, "then": "deny"}]}"#,
    set: read,
};

fn read(settings: &mut Settings, field: &Field<'_>) -> Result<(), ConfigError> {
    for (key, field) in field.members()? {
        match key {
            "mode" => put(&mut settings.policy.mode, field.setting(Some(mode(&field)?)))?,
            RULES => {
                let rules = field.list(Shape::ListOfMembers(RULE))?.iter().map(rule).collect::<Result<_, _>>()?;
                settings.policy.user = rules;
            }
            "hosts" => {
                let host = |field: Field<'_>| field.text()?.parse().map_err(|_| field.expected(HOST));
                let hosts = field.list(Shape::Texts)?.into_iter().map(host).collect::<Result<_, _>>()?;
                put(&mut settings.policy.hosts, field.setting(hosts))?;
            }
            "changedTools" => put(&mut settings.policy.changed_tools, field.setting(Some(trust::drift(&field)?)))?,
            "newTools" => put(&mut settings.policy.new_tools, field.setting(trust::drift(&field)?))?,
            "trustedFolders" => {
                let folders = trust::folders(&field)?;
                put(&mut settings.policy.trusted_folders, field.setting(folders))?;
            }
            _ => return Err(field.unknown(MEMBERS.iter().map(|(key, _)| *key))),
        }
    }
    Ok(())
}

fn rule(field: &Field<'_>) -> Result<Rule, ConfigError> {
    let (mut matches, mut then, mut reason) = (RuleMatch::default(), None, None);
    for (key, field) in field.members()? {
        match key {
            "match" => matches = rule_match(&field)?,
            "then" => then = Some(field.choice(EFFECTS, Shape::OneOf(EFFECT_VALUES))?),
            "reason" => reason = Some(field.text()?.to_owned()),
            _ => return Err(field.unknown(RULE.iter().map(|(key, _)| *key))),
        }
    }
    let then = then.ok_or_else(|| field.below("then").wrong(Shape::OneOf(EFFECT_VALUES)))?;
    Ok(Rule { place: field.document.place(field.node.line), matches, then, reason })
}

fn rule_match(field: &Field<'_>) -> Result<RuleMatch, ConfigError> {
    let mut matches = RuleMatch::default();
    for (key, field) in field.members()? {
        match key {
            "caller" => matches.caller = callers(&field)?,
            "surface" => matches.surface = words(&field, SURFACES)?,
            "server" => matches.server = field.text_or_texts()?,
            "tool" => matches.tool = field.text_or_texts()?,
            "kind" => matches.kind = words(&field, KINDS)?,
            "readOnly" => matches.read_only = Some(field.flag()?),
            "destructive" => matches.destructive = Some(field.flag()?),
            "openWorld" => matches.open_world = Some(field.flag()?),
            "trust" => matches.trust = Some(trust::trust(&field)?),
            "trustLevel" => matches.trust_level = words(&field, LEVELS)?,
            "risk" => matches.risk = words(&field, RISKS)?,
            "arguments" => matches.arguments = arguments(&field)?,
            _ => return Err(field.unknown(MATCH.iter().map(|(key, _)| *key))),
        }
    }
    Ok(matches)
}

/// Parses a mode.
pub(crate) fn mode(field: &Field<'_>) -> Result<PolicyMode, ConfigError> {
    field.choice(MODES, Shape::OneOf(MODE_VALUES))
}

/// A misspelt kind would match nothing, and a `deny` would be lost in silence.
fn callers(field: &Field<'_>) -> Result<Vec<String>, ConfigError> {
    let callers = field.text_or_texts()?;
    let known = |caller: &String| CALLER_KINDS.contains(&caller.split(':').next().unwrap_or_default()) || caller == "*";
    if callers.iter().all(known) {
        return Ok(callers);
    }
    Err(field.expected(&format!("{}, or `client:NAME`", Shape::one_of(CALLER_KINDS))))
}

fn words(field: &Field<'_>, known: &'static [&'static str]) -> Result<Vec<String>, ConfigError> {
    let words = field.text_or_texts()?;
    if words.iter().all(|word| known.contains(&word.as_str())) {
        Ok(words)
    } else {
        Err(field.wrong(Shape::OneOf(known)))
    }
}

fn arguments(field: &Field<'_>) -> Result<Vec<(String, ArgumentMatch)>, ConfigError> {
    let argument = |(pointer, field): (&str, Field<'_>)| {
        if !pointer.starts_with('/') {
            return Err(field.expected("under a JSON Pointer, such as `/path`"));
        }
        Ok((pointer.to_owned(), argument_match(&field)?))
    };
    field.members()?.into_iter().map(argument).collect()
}

fn argument_match(field: &Field<'_>) -> Result<ArgumentMatch, ConfigError> {
    match &field.node.value {
        Value::Text(glob) => Ok(ArgumentMatch::Glob(glob.clone())),
        Value::List(_) => {
            let values = field.list(Shape::Texts)?;
            Ok(ArgumentMatch::OneOf(values.iter().map(argument_value).collect::<Result<_, _>>()?))
        }
        Value::Map(_) => {
            let (mut min, mut max) = (None, None);
            for (key, field) in field.members()? {
                match key {
                    "min" => min = Some(Number(field.number()?)),
                    "max" => max = Some(Number(field.number()?)),
                    _ => return Err(field.unknown(["min", "max"].into_iter())),
                }
            }
            Ok(ArgumentMatch::Range { min, max })
        }
        _ => Err(field.expected("a pattern, a list of values, or an object with `min` and `max`")),
    }
}

fn argument_value(field: &Field<'_>) -> Result<ArgumentValue, ConfigError> {
    match &field.node.value {
        Value::Text(text) => Ok(ArgumentValue::Text(text.clone())),
        Value::Number(number) => Ok(ArgumentValue::Number(Number(*number))),
        Value::Flag(flag) => Ok(ArgumentValue::Flag(*flag)),
        _ => Err(field.expected("a string, a number, true or false")),
    }
}

impl PolicySettings {
    /// These settings with those of a nearer layer of the user: its mode overrides, its rules follow.
    #[must_use]
    pub(crate) fn overridden_by(self, nearer: Self) -> Self {
        let mode = self.mode.overridden_by(nearer.mode);
        let hosts = self.hosts.overridden_by(nearer.hosts);
        let trusted_folders = self.trusted_folders.overridden_by(nearer.trusted_folders);
        Self {
            mode,
            user: [self.user, nearer.user].concat(),
            project: self.project,
            hosts,
            changed_tools: self.changed_tools.overridden_by(nearer.changed_tools),
            new_tools: self.new_tools.overridden_by(nearer.new_tools),
            trusted_folders,
        }
    }

    /// All rules: those of the user's file, then those of the project's.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.user.iter().chain(self.project.as_slice())
    }
}

impl ProjectRules {
    /// Rules of a project's file. One that allows is refused: a repository that was cloned decides about nothing. Their
    /// reasons say that they are the project's, because they reach users and models.
    pub fn new(rules: Vec<Rule>) -> Result<Self, ConfigError> {
        let Some(allows) = rules.iter().find(|rule| rule.then == RuleEffect::Allow) else {
            let quoted = |rule: Rule| Rule { reason: rule.reason.as_deref().map(reason_of_project), ..rule };
            return Ok(Self(rules.into_iter().map(quoted).collect()));
        };
        let problem = "a rule of a project file may not say `allow`, only `ask`, `writes` or `deny`; rules that allow \
                       stand in your own file"
            .to_owned();
        Err(ConfigError::Refused { place: allows.place.clone(), problem })
    }

    /// The rules in the order of their file.
    pub fn as_slice(&self) -> &[Rule] {
        &self.0
    }
}

/// A reason as text of others: on one line, in quotes, without hidden characters.
fn reason_of_project(reason: &str) -> String {
    let shown: String = visible::one_line(reason).replace('"', "'").chars().take(MAX_PROJECT_REASON + 1).collect();
    let kept: String = shown.chars().take(MAX_PROJECT_REASON).collect();
    let ellipsis = if kept.len() < shown.len() { "…" } else { "" };
    format!("the project's file says \"{kept}{ellipsis}\"")
}

impl PolicyMode {
    /// The value as written in configuration.
    pub fn as_str(self) -> &'static str {
        MODES.iter().find(|(_, mode)| *mode == self).map_or("ask", |(word, _)| word)
    }

    /// What a rule that says the same as this mode says. Effects are ordered by strictness.
    pub fn effect(self) -> RuleEffect {
        match self {
            Self::Ask => RuleEffect::Ask,
            Self::Writes => RuleEffect::Writes,
            Self::Allow => RuleEffect::Allow,
        }
    }

    /// Parses a value of `--mode`: a mode, or the approval of assistants that is the same.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "always-ask" => Some(Self::Ask),
            "auto" => Some(Self::Allow),
            text => MODES.iter().find(|(word, _)| *word == text).map(|(_, mode)| *mode),
        }
    }
}

impl RuleEffect {
    /// The value as written in configuration.
    pub fn as_str(self) -> &'static str {
        EFFECTS.iter().find(|(_, effect)| *effect == self).map_or("deny", |(word, _)| word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, document::Document};

    fn policy(rules: &str) -> Result<PolicySettings, String> {
        let text = format!(r#"{{"policy": {{"mode": "writes", "rules": {rules}}}}}"#);
        let document = Document::of("/x/toolway.json".as_ref(), &text).map_err(|error| error.to_string())?;
        Ok(Config::of(&document, None).map_err(|error| error.to_string())?.settings.policy)
    }

    #[test]
    fn a_rule_keeps_its_conditions_effect_and_line() {
        let policy = policy(
            "[\n{\"match\": {\"caller\": \"agent\", \"tool\": [\"write_*\", \"move\"], \"readOnly\": false,\n\
             \"arguments\": {\"/path\": \"/tmp/*\", \"/count\": {\"max\": 10}, \"/mode\": [\"a\", 1, true]}},\n\
             \"then\": \"ask\", \"reason\": \"it writes\"}]",
        );
        let policy = policy.unwrap();
        assert_eq!(policy.mode.value, Some(PolicyMode::Writes));
        let rule = &policy.user[0];
        assert_eq!((rule.place.line, rule.then, rule.reason.as_deref()), (2, RuleEffect::Ask, Some("it writes")));
        assert_eq!(rule.matches.tool, ["write_*", "move"]);
        assert_eq!(rule.matches.read_only, Some(false));
        assert_eq!(rule.matches.arguments[0].1, ArgumentMatch::Glob("/tmp/*".to_owned()));
        assert_eq!(rule.matches.arguments[1].1, ArgumentMatch::Range { min: None, max: Some(Number(10.0)) });
    }

    #[test]
    fn the_reason_of_a_project_is_quoted_as_text_of_others() {
        let reason_of = |reason: &str| {
            let rules = serde_json::json!([{ "match": {}, "then": "ask", "reason": reason }]).to_string();
            ProjectRules::new(policy(&rules).unwrap().user).unwrap().as_slice()[0].reason.clone().unwrap()
        };
        assert_eq!(reason_of("no \"secrets\""), "the project's file says \"no 'secrets'\"");
        assert_eq!(reason_of("x\n\u{1b}[2J\u{202e}"), "the project's file says \"x \\u{1b}[2J\\u{202e}\"");
        assert!(reason_of(&"x".repeat(10_000)).chars().count() < 350);
    }

    #[test]
    fn the_words_of_modes_are_shown_and_three_others_are_accepted() {
        for (written, shown) in [
            ("ask", "ask"),
            ("writes", "writes"),
            ("allow", "allow"),
            ("interactive", "ask"),
            ("restricted", "writes"),
            ("full", "allow"),
        ] {
            let text = format!(r#"{{"policy": {{"mode": "{written}"}}}}"#);
            let document = Document::of("/x/toolway.json".as_ref(), &text).unwrap();
            let mode = Config::of(&document, None).unwrap().settings.policy.mode.value.unwrap();
            assert_eq!((mode.as_str(), PolicyMode::parse(written)), (shown, Some(mode)));
        }
        let text = r#"{"policy": {"mode": "auto"}}"#;
        let document = Document::of("/x/toolway.json".as_ref(), text).unwrap();
        let error = Config::of(&document, None).unwrap_err().to_string();
        assert!(error.contains("`ask`, `writes`") && !error.contains("interactive"), "{error}");
        assert_eq!(PolicyMode::parse("auto"), Some(PolicyMode::Allow));
    }

    #[test]
    fn a_misspelt_rule_is_an_error_and_not_a_rule_that_never_matches() {
        for (rules, expected) in [
            (r#"[{"match": {}}]"#, "then"),
            (r#"[{"match": {"tol": "x"}, "then": "deny"}]"#, "did you mean `tool`"),
            (r#"[{"match": {"caller": "agnet"}, "then": "deny"}]"#, "`agent`"),
            (r#"[{"match": {"surface": "web"}, "then": "deny"}]"#, "`console`"),
            (r#"[{"match": {"arguments": {"path": "x"}}, "then": "deny"}]"#, "JSON Pointer"),
            (r#"[{"match": {"arguments": {"/path": {"most": 1}}}, "then": "deny"}]"#, "most"),
            (r#"[{"then": "refuse"}]"#, "`deny`"),
            (r#"{"then": "deny"}"#, "rules"),
        ] {
            let error = policy(rules).unwrap_err();
            assert!(error.contains(expected), "{rules}: {error}");
        }
    }
}
