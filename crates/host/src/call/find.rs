//! The first stretch of the way: the server of what is asked for, and its own name for it.
//!
//! A caller finds what is at servers that it sees. What is at another is refused in the words in which it would be if
//! there were no such server, and nothing is woken, waited for or hinted at for its sake. This is the one place where that
//! is looked at, whatever is asked for and however.

use std::{borrow::Cow, sync::Arc};

use toolway_config::ServerName;
use toolway_wire::json::Raw;

use super::{CallKind, OnBehalf, Target, Visible};
use crate::{
    catalog::{Catalog, Fingerprint, Naming, NoOwner, Origin, PublicName, uri},
    connection::{Connection, NotConnected, Phase},
    host::{Host, Inner},
    policy::{Refusal, Subject},
};

/// Where a request goes.
pub(super) struct Found {
    pub(super) connection: Connection,
    pub(super) subject: Subject,
    pub(super) fingerprint: Option<Fingerprint>,
    /// Why it cannot go there: somebody has to sign in first. It may not have been listed then.
    pub(super) locked: Option<NotConnected>,
}

/// Somebody who looks for something.
struct Finder<'a> {
    host: &'a Inner,
    visible: &'a Visible,
}

/// Names that are compared with one that was not found.
const COMPARED: usize = 5_000;
/// How alike two names are that are worth a hint.
const ALIKE: f64 = 0.7;

/// Finds what is asked for. A server that is not listed yet is waited for where the name is one of its own.
pub(super) async fn find(
    host: &Inner,
    visible: &Visible,
    target: &Target,
    params: Option<&Raw>,
) -> Result<Found, Refusal> {
    if host.is_stopping() {
        return Err(Refusal::ShuttingDown);
    }
    let finder = Finder { host, visible };
    match target {
        Target::Tool(name) => finder.named(CallKind::Tool, name).await,
        Target::Prompt(name) => finder.named(CallKind::Prompt, name).await,
        Target::Resource(uri) => finder.located(uri).await,
        Target::ToolOf(origin) => {
            let catalog = host.cataloguer.catalog();
            let fingerprint = catalog.tool_at(&origin.server, &origin.raw_name).map(|tool| tool.fingerprint);
            finder.at(CallKind::Tool, origin.clone(), fingerprint)
        }
        Target::PromptOf(origin) => finder.at(CallKind::Prompt, origin.clone(), None),
        Target::ResourceOf(origin) => finder.at(CallKind::Resource, origin.clone(), None),
        Target::Method { server, method } => {
            let (kind, raw_name) = meant(method, params);
            finder.at(kind, Origin { server: server.clone(), raw_name }, None)
        }
    }
}

impl Host {
    /// What is asked for by its server and its own name, where [`Host::catalog_of`] a caller has it and everybody's does
    /// not, or has another under this name; else as it was asked for. For surfaces that show a caller its own catalog.
    pub fn located(&self, on_behalf: &OnBehalf, target: Target) -> Target {
        let catalog = self.catalog();
        // A name says whose it is, so that it is everybody's or not; else, and a URI, it may be another's in each view.
        let says_whose = catalog.naming() == Naming::Always && !matches!(target, Target::Resource(_));
        if says_whose && listed_in(&catalog, &on_behalf.visible, &target).is_some() {
            return target;
        }
        let view = self.catalog_of(on_behalf);
        if Arc::ptr_eq(&view, &catalog) {
            return target;
        }
        match (listed_in(&view, &on_behalf.visible, &target), &target) {
            (Some(origin), Target::Tool(_)) => Target::ToolOf(origin),
            (Some(origin), Target::Prompt(_)) => Target::PromptOf(origin),
            (Some(origin), Target::Resource(_)) => Target::ResourceOf(origin),
            (_, _) => target,
        }
    }

    /// Where that is, as far as the caller sees it and it is listed or named by its server.
    pub fn origin_of(&self, on_behalf: &OnBehalf, target: &Target) -> Option<Origin> {
        listed_in(&self.catalog(), &on_behalf.visible, target)
    }
}

/// Where a catalog has something that is seen.
fn listed_in(catalog: &Catalog, visible: &Visible, target: &Target) -> Option<Origin> {
    let origin = match target {
        Target::Tool(name) => catalog.find_tool(name)?.origin.clone(),
        Target::Prompt(name) => catalog.find_prompt(name)?.origin.clone(),
        Target::Resource(uri) => catalog.owner_among(uri, |server| visible.covers(server)).ok()?,
        Target::ToolOf(origin) | Target::PromptOf(origin) | Target::ResourceOf(origin) => origin.clone(),
        Target::Method { .. } => return None,
    };
    visible.covers(&origin.server).then_some(origin)
}

impl Finder<'_> {
    /// A server that is there, and is seen.
    fn connection(&self, server: &ServerName) -> Option<Connection> {
        self.host.connection(server).filter(|_| self.visible.covers(server))
    }

    fn at(&self, kind: CallKind, origin: Origin, fingerprint: Option<Fingerprint>) -> Result<Found, Refusal> {
        let Origin { server, raw_name } = origin;
        let connection = self.connection(&server).ok_or_else(|| Refusal::UnknownServer(server.to_string()))?;
        let status = Arc::clone(&connection.live().status);
        let locked = match status.phase {
            Phase::Disabled => return Err(Refusal::Disabled(server)),
            Phase::SignInNeeded { .. } => Some(status.why_not()),
            _ => None,
        };
        Ok(Found { connection, subject: Subject { server, kind, raw_name }, fingerprint, locked })
    }

    async fn named(&self, kind: CallKind, name: &PublicName) -> Result<Found, Refusal> {
        if let Some((origin, fingerprint)) = self.listed(kind, name) {
            return self.at(kind, origin, Some(fingerprint));
        }
        let origins = name.origins();
        for connection in origins.iter().filter_map(|origin| self.connection(&origin.server)) {
            self.heard(&connection).await?;
        }
        match self.listed(kind, name) {
            Some((origin, fingerprint)) => self.at(kind, origin, Some(fingerprint)),
            None => self.locked(kind, origins).ok_or_else(|| self.unknown(kind, name)),
        }
    }

    /// Where everybody's catalog has a name.
    fn listed(&self, kind: CallKind, name: &PublicName) -> Option<(Origin, Fingerprint)> {
        let catalog = self.host.cataloguer.catalog();
        let (origin, fingerprint) = match kind {
            CallKind::Tool => catalog.find_tool(name).map(|tool| (&tool.origin, tool.fingerprint))?,
            _ => catalog.find_prompt(name).map(|prompt| (&prompt.origin, prompt.fingerprint))?,
        };
        self.visible.covers(&origin.server).then(|| (origin.clone(), fingerprint))
    }

    /// What is meant where a server lists nothing before somebody has signed in: the call then says who has to.
    fn locked(&self, kind: CallKind, origins: impl IntoIterator<Item = Origin>) -> Option<Found> {
        let mut found = origins.into_iter().filter_map(|origin| self.at(kind, origin, None).ok());
        found.find(|found| found.locked.is_some())
    }

    /// Waits until a server has been listed.
    async fn heard(&self, connection: &Connection) -> Result<(), Refusal> {
        if connection.is_disabled() {
            return Err(Refusal::Disabled(connection.name().clone()));
        }
        Box::pin(self.host.listed(connection)).await;
        // It had said that somebody has to sign in, and somebody just did.
        if !connection.live().status.phase.is_settled() {
            Box::pin(self.host.listed(connection)).await;
        }
        Ok(())
    }

    async fn located(&self, uri: &str) -> Result<Found, Refusal> {
        let owner = || self.host.cataloguer.catalog().owner_among(uri, |server| self.visible.covers(server));
        let (owner, named) = match (owner(), uri::split_owned(uri)) {
            (Err(NoOwner::Unknown(_)), Some((server, raw_name))) => {
                if let Some(connection) = self.connection(&server) {
                    self.heard(&connection).await?;
                }
                (owner(), Some(Origin { server, raw_name: raw_name.to_owned() }))
            }
            (owner, _) => (owner, None),
        };
        match owner {
            Ok(origin) => self.at(CallKind::Resource, origin, None),
            Err(NoOwner::Unknown(name)) => {
                let unknown = Refusal::Unknown { kind: CallKind::Resource, name, near: None };
                self.locked(CallKind::Resource, named).ok_or(unknown)
            }
            Err(several @ NoOwner::Several { .. }) => Err(Refusal::Malformed(several.to_string())),
        }
    }

    fn unknown(&self, kind: CallKind, name: &PublicName) -> Refusal {
        Refusal::Unknown { kind, name: name.to_string(), near: self.nearest(kind, name.as_str()) }
    }

    /// The name that was probably meant.
    fn nearest(&self, kind: CallKind, name: &str) -> Option<String> {
        let catalog = self.host.cataloguer.catalog();
        let tools = || catalog.tools().iter().map(|entry| (&entry.origin, &entry.public));
        let prompts = || catalog.prompts().iter().map(|entry| (&entry.origin, &entry.public));
        let seen = |(origin, public): (&Origin, &PublicName)| {
            let alike = || (strsim::jaro_winkler(public.as_str(), name), public.to_string());
            self.visible.covers(&origin.server).then(alike)
        };
        let scored: Vec<_> = match kind {
            CallKind::Tool => tools().filter_map(seen).take(COMPARED).collect(),
            _ => prompts().filter_map(seen).take(COMPARED).collect(),
        };
        let best = scored.into_iter().max_by(|one, other| one.0.total_cmp(&other.0))?;
        (ALIKE < best.0).then_some(best.1)
    }
}

/// What a method with these params really asks for: a rule about a tool holds however the tool is asked for.
fn meant(method: &str, params: Option<&Raw>) -> (CallKind, String) {
    let member = |key| params.and_then(|params| params.get(key));
    let text = |value: Option<Raw>| value.and_then(|value| value.as_str().map(Cow::into_owned));
    let (kind, name) = match method {
        "tools/call" => (CallKind::Tool, text(member("name"))),
        "prompts/get" => (CallKind::Prompt, text(member("name"))),
        "resources/read" | "resources/subscribe" => (CallKind::Resource, text(member("uri"))),
        "completion/complete" => match member("ref").map(|about| about.fields(["name", "uri"])) {
            Some([_, Some(uri)]) => (CallKind::Resource, text(Some(uri))),
            Some([name, None]) => (CallKind::Prompt, text(name)),
            None => (CallKind::Method, None),
        },
        "subscriptions/listen" => {
            let wanted = member("notifications").and_then(|filter| filter.get("resourceSubscriptions"));
            match wanted.and_then(|uris| uris.elements().into_iter().next()) {
                Some(first) => (CallKind::Resource, text(Some(first))),
                None => (CallKind::Method, None),
            }
        }
        _ => (CallKind::Method, None),
    };
    (kind, name.unwrap_or_else(|| method.to_owned()))
}
