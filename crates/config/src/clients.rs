//! Settings of single clients of the gateway, by name. The names themselves are those of the key file, which `gateway` owns.
//!
//! What the key file and these settings both say (servers and tools) bounds the client twice: both must allow it.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    ServerName,
    call_limits::{self, LimitLevel, LimitsOf},
    error::{ConfigError, Place},
    inbox,
    policy::{MODE_VALUES, PolicyMode, mode},
    roots::{self, RootSetting},
    sampling::{self, SamplingSettings},
    settings::Setting,
    shape::{Field, Shape, put},
    tool_pattern::ToolPattern,
    warning::Warning,
};

/// Where the questions of policy about the calls of a client go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Approver {
    /// To the client itself if it supports forms, and to the inbox, where the operator answers.
    #[default]
    Client,
    /// Only to the inbox.
    Inbox,
}

/// Settings of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSettings {
    /// File and line of the entry.
    pub place: Place,
    /// Servers that it may see; `None`: as its key says.
    pub servers: Setting<Option<Vec<ServerName>>>,
    /// Tools that it may see; `None`: as its key says.
    pub tools: Setting<Option<Vec<ToolPattern>>>,
    /// Mode of its calls; the stricter of this one and `policy.mode` counts.
    pub mode: Setting<Option<PolicyMode>>,
    /// Where questions about its calls go.
    pub approver: Setting<Approver>,
    /// Whether our models answer sampling requests in its calls; and whether it gets them itself.
    pub sampling: Setting<SamplingSettings>,
    /// Folders that servers are told of in its calls.
    pub roots: Setting<Vec<RootSetting>>,
    /// Whether forms and URLs in its calls wait in the inbox; `None`: as for all.
    pub inbox_wait: Setting<Option<bool>>,
    /// Limits on its calls.
    pub limits: Setting<LimitLevel>,
}

const APPROVERS: &[(&str, Approver)] = &[("client", Approver::Client), ("inbox", Approver::Inbox)];
const APPROVER_VALUES: &[&str] = &["client", "inbox"];

/// Keys of one client.
pub(crate) const MEMBERS: &[(&str, Shape)] = &[
    ("servers", Shape::Texts),
    ("tools", Shape::Texts),
    ("mode", Shape::OneOf(MODE_VALUES)),
    ("approver", Shape::OneOf(APPROVER_VALUES)),
    ("sampling", Shape::FlagOrMembers(sampling::MEMBERS)),
    ("roots", roots::SHAPE),
    ("inbox", Shape::Members(inbox::MEMBERS)),
    ("limits", Shape::Members(call_limits::MEMBERS)),
];

/// Parses `gateway.clients`.
pub(crate) fn read(field: &Field<'_>) -> Result<BTreeMap<String, ClientSettings>, ConfigError> {
    let client = |(name, field): (&str, Field<'_>)| Ok((name.to_owned(), read_client(&field)?));
    field.members()?.into_iter().map(client).collect()
}

fn read_client(field: &Field<'_>) -> Result<ClientSettings, ConfigError> {
    let place = field.document.place(field.node.line);
    let mut client = ClientSettings {
        place,
        servers: Setting::default(),
        tools: Setting::default(),
        mode: Setting::default(),
        approver: Setting::default(),
        sampling: Setting::default(),
        roots: Setting::default(),
        inbox_wait: Setting::default(),
        limits: Setting::default(),
    };
    for (key, field) in field.members()? {
        match key {
            "servers" => put(&mut client.servers, field.setting(Some(servers(&field)?)))?,
            "tools" => put(&mut client.tools, field.setting(Some(tools(&field)?)))?,
            "limits" => put(&mut client.limits, field.setting(call_limits::read(&field, LimitsOf::Client)?))?,
            "mode" => put(&mut client.mode, field.setting(Some(mode(&field)?)))?,
            "approver" => {
                let approver = field.choice(APPROVERS, Shape::OneOf(APPROVER_VALUES))?;
                put(&mut client.approver, field.setting(approver))?;
            }
            "sampling" => put(&mut client.sampling, field.setting(sampling::read_flag_or_level(&field)?))?,
            "inbox" => put(&mut client.inbox_wait, field.setting(inbox::read(&field)?))?,
            "roots" => put(&mut client.roots, field.setting(roots::read(&field)?))?,
            _ => return Err(field.unknown(MEMBERS.iter().map(|(key, _)| *key))),
        }
    }
    Ok(client)
}

fn servers(field: &Field<'_>) -> Result<Vec<ServerName>, ConfigError> {
    let server = |field: Field<'_>| {
        let name = ServerName::from_label(field.text().map_err(|_| field.wrong(Shape::Texts))?);
        name.map_err(|_| field.expected("a list of names of servers"))
    };
    field.fields()?.into_iter().map(server).collect()
}

fn tools(field: &Field<'_>) -> Result<Vec<ToolPattern>, ConfigError> {
    let expected = "a list of SERVER.TOOL; both parts may contain `*`, e.g. `files.read_*`";
    let tool = |field: Field<'_>| {
        let text = field.text().map_err(|_| field.wrong(Shape::Texts))?;
        text.parse().map_err(|_| field.expected(expected))
    };
    field.fields()?.into_iter().map(tool).collect()
}

/// Warnings about settings of clients that are not among the `known` ones.
pub fn unknown_clients(clients: &BTreeMap<String, ClientSettings>, known: &BTreeSet<String>) -> Vec<Warning> {
    let unknown = clients.iter().filter(|(name, _)| !known.contains(*name));
    unknown.map(|(name, client)| Warning::unknown_client(client.place.clone(), name, known)).collect()
}

impl Approver {
    /// The value as written in configuration.
    pub fn as_str(self) -> &'static str {
        APPROVERS.iter().find(|(_, approver)| *approver == self).map_or("client", |(word, _)| word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, document::Document};

    fn clients(text: &str) -> Result<BTreeMap<String, ClientSettings>, String> {
        let text = format!("{{\"gateway\": {{\"clients\":\n{text}}}}}");
        let document = Document::of("/x/toolway.json".as_ref(), &text).map_err(|error| error.to_string())?;
        Ok(Config::of(&document, None).map_err(|error| error.to_string())?.settings.gateway.clients.value)
    }

    #[test]
    fn a_client_keeps_its_mode_its_approver_and_its_line() {
        let clients = clients("{\"editor\": {\"mode\": \"ask\"},\n\"bot\": {\"approver\": \"inbox\"}}").unwrap();
        let (editor, bot) = (&clients["editor"], &clients["bot"]);
        assert_eq!((editor.mode.value, editor.approver.value), (Some(PolicyMode::Ask), Approver::Client));
        assert_eq!((bot.mode.value, bot.approver.value), (None, Approver::Inbox));
        assert_eq!((editor.place.line, bot.place.line), (2, 3));
    }

    #[test]
    fn a_misspelt_key_or_word_of_a_client_is_an_error() {
        for (text, expected) in [
            (r#"{"editor": {"mod": "ask"}}"#, "did you mean `mode`"),
            (r#"{"editor": {"mode": "deny"}}"#, "`gateway.clients.editor.mode` must be `ask`, `writes` or `allow`"),
            (r#"{"editor": {"approver": "any"}}"#, "`client` or `inbox`"),
            (r#"{"editor": {"tools": ["read"]}}"#, "a list of SERVER.TOOL"),
            (r#"{"editor": {"servers": "files"}}"#, "a list of strings"),
            (r#"{"editor": {"limits": {"tools": {"read": {}}}}}"#, "SERVER.TOOL"),
            (r#"{"editor": {"limits": {"callsPerHour": 1}}}"#, "unknown key"),
            (r#"{"editor": "ask"}"#, "`gateway.clients.editor` must be an object"),
            (r#"["editor"]"#, "`gateway.clients` must be an object"),
        ] {
            let error = clients(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_client_without_a_key_is_a_warning_with_its_line_and_a_similar_name() {
        let clients = clients("{\"editor\": {},\n\"edtior\": {\"mode\": \"ask\"}}").unwrap();
        let warnings = unknown_clients(&clients, &BTreeSet::from(["editor".to_owned()]));
        let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
        assert_eq!(warning.place.line, 3);
        assert!(warning.message.contains("`gateway.clients.edtior`"), "{warning}");
        assert!(warning.message.ends_with("did you mean `editor`?"), "{warning}");
    }
}
