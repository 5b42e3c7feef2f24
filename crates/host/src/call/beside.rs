//! What goes the way of a call without being one: completing an argument, and hearing of updates of a resource.
//!
//! Both are found, decided and admitted like a call. Neither is recorded: a completion happens with each key, and what
//! is read after an update is a call of its own.

use std::time::Duration;

use toolway_wire::{
    json::Raw,
    notice::{Notice, Wanted},
    up::{Listening, Reference},
};

use super::{
    CallError, CallOutcome, Caller, Target,
    way::{self, Found},
};
use crate::{
    catalog::{Origin, PublicName},
    connection::{Connection, Ear, NotConnected},
    host::{Host, Inner},
    policy::{Decision, Permit, Refusal, approval},
};

/// An argument to complete.
#[derive(Clone, Debug)]
pub struct Completion {
    /// On whose behalf.
    pub caller: Caller,
    /// Whose argument.
    pub of: CompletionOf,
    /// Which argument.
    pub argument: String,
    /// What of it is there.
    pub value: String,
    /// The values of others, as an object of strings.
    pub known: Option<serde_json::Value>,
}

/// Whose argument is completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompletionOf {
    /// A prompt's, by its public name.
    Prompt(PublicName),
    /// A prompt's, by the server's own name for it.
    PromptOf(Origin),
    /// A resource template's, by the server's own template.
    TemplateOf(Origin),
}

/// Updates of one resource. It lives through reconnects; dropping it ends it.
#[derive(Debug)]
pub struct Subscription {
    connection: Connection,
    uri: String,
    listening: Option<Listening>,
    _ear: Ear,
}

/// What a subscriber hears.
#[derive(Clone, Debug)]
pub enum Update {
    /// The resource, or a part of it, is not what it was.
    Changed {
        /// The URI the server named.
        uri: String,
    },
    /// The connection was lost and is back: it may have changed meanwhile.
    Resumed,
}

/// How soon a subscription that was lost is tried again.
const AGAIN: Duration = Duration::from_secs(1);

impl Host {
    /// Completes an argument: the result as it came.
    pub async fn complete(&self, completion: Completion) -> Result<Raw, CallOutcome> {
        let Completion { caller, of, argument, value, known } = completion;
        let inner = self.inner();
        let target = match of.clone() {
            CompletionOf::Prompt(name) => Target::Prompt(name),
            CompletionOf::PromptOf(origin) => Target::PromptOf(origin),
            CompletionOf::TemplateOf(origin) => Target::ResourceOf(origin),
        };
        let found = way::find(inner, &target, None).await?;
        let reference = match of {
            CompletionOf::Prompt(_) | CompletionOf::PromptOf(_) => Reference::Prompt(found.subject.raw_name.clone()),
            CompletionOf::TemplateOf(_) => Reference::Resource(found.subject.raw_name.clone()),
        };
        let (connection, _permit) = permitted(inner, found, &caller).await?;
        let ready = connection.ready().await.map_err(|why| not_connected(&connection, why))?;
        if !ready.peer.profile().capabilities.has("completions") {
            return Err(Refusal::Malformed(format!("`{}` completes nothing", connection.name())).into());
        }
        let completed = ready.peer.complete(&reference, (&argument, &value), known.as_ref()).await;
        completed.map_err(|error| CallOutcome::Failed(CallError::Wire(error)))
    }

    /// Hears of updates of a resource from now on.
    pub async fn subscribe(&self, caller: &Caller, uri: &str) -> Result<Subscription, CallOutcome> {
        let inner = self.inner();
        let found = way::find(inner, &Target::Resource(uri.to_owned()), None).await?;
        let uri = found.subject.raw_name.clone();
        // The slot is for beginning it; hearing takes none.
        let (connection, _permit) = permitted(inner, found, caller).await?;
        let listening = listen(&connection, &uri).await?;
        let ear = connection.ear();
        Ok(Subscription { connection, uri, listening: Some(listening), _ear: ear })
    }
}

impl Subscription {
    /// The next update; `None` when there will be no more, because the server is no longer wanted or does not tell.
    pub async fn next(&mut self) -> Option<Update> {
        loop {
            if let Some(listening) = &mut self.listening {
                match listening.next().await {
                    Some(Notice::Updated { uri, .. }) => return Some(Update::Changed { uri }),
                    Some(Notice::Missed(_)) => return Some(Update::Resumed),
                    Some(_) => continue,
                    None => self.listening = None,
                }
            }
            match listen(&self.connection, &self.uri).await {
                Ok(listening) => {
                    self.listening = Some(listening);
                    return Some(Update::Resumed);
                }
                Err(CallOutcome::Refused(_)) => return None,
                Err(_) if self.connection.is_over() => return None,
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
    }
}

async fn listen(connection: &Connection, uri: &str) -> Result<Listening, CallOutcome> {
    let ready = connection.ready().await.map_err(|why| not_connected(connection, why))?;
    if !ready.peer.profile().capabilities.flag("resources", "subscribe") {
        return Err(Refusal::Malformed(format!("`{}` does not tell of updates", connection.name())).into());
    }
    let listening = ready.peer.listen(Wanted::resource(uri)).await;
    let listening = listening.map_err(|error| CallOutcome::Failed(CallError::Wire(error)))?;
    if listening.honoured().uris.is_empty() {
        return Err(Refusal::Malformed(format!("`{}` does not tell of updates of this", connection.name())).into());
    }
    Ok(listening)
}

async fn permitted(host: &Inner, found: Found, caller: &Caller) -> Result<(Connection, Permit), CallOutcome> {
    let Found { connection, subject, .. } = found;
    let grant = match host.policy.decide(subject, caller, &connection.wanted().filter) {
        Decision::Allow(grant) => grant,
        Decision::Ask(question) => approval::put(question, &*host.room.ports.approver).await?,
        Decision::Deny(refusal) => return Err(refusal.into()),
    };
    let permit = way::admit(host, &connection, grant).await?;
    Ok((connection, permit))
}

fn not_connected(connection: &Connection, why: NotConnected) -> CallOutcome {
    CallOutcome::Failed(CallError::NotConnected { server: connection.name().clone(), why })
}
