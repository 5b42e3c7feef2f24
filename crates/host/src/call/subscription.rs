//! What goes the way of a call without being one: completing an argument, hearing of updates of a resource, and a sign of
//! life.
//!
//! All are found, decided, admitted and recorded like a call, sizes only. A completion happens with each key, so there
//! are many records of them: each is of the kind [`CallKind::Method`] under the method's name, so that whoever keeps or
//! shows calls can tell them from those, and a log is bounded anyway. A subscription is recorded when it has begun; what
//! is read after an update is a call of its own.

use std::{sync::Arc, time::Duration};

use toolway_config::ServerName;
use toolway_wire::{
    json::Raw,
    notice::{Notice, Wanted},
    up::{Listening, PeerTasks, Reference},
};

use super::{
    CallError, CallKind, CallOutcome, Caller, OnBehalf, Target,
    find::{self, Found},
    way::{self, not_connected},
};
use crate::{
    catalog::{Origin, PublicName},
    connection::{
        Connection, Ear, Ready, Seat,
        lines::{Asker, LineSeat, Need},
    },
    host::{Host, Inner},
    policy::{Permit, Refusal},
    record::{Draft, Recording},
};

/// An argument to complete.
#[derive(Clone, Debug)]
pub struct Completion {
    /// On whose behalf.
    pub on_behalf: OnBehalf,
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
    on_behalf: OnBehalf,
    patience: Duration,
    heard: Option<Heard>,
}

/// A subscription that stands, and what it stands on.
#[derive(Debug)]
struct Heard {
    listening: Listening,
    ground: Ground,
}

/// What a subscription stands on; while it does, that is not stopped for want of use.
#[derive(Debug)]
enum Ground {
    Connection { _ear: Ear },
    Line(LineSeat),
}

/// The tasks that a server keeps for a caller, over the connection they go on on. It holds a slot like a call.
#[derive(Debug)]
pub struct TasksOf {
    tasks: PeerTasks,
    connection: Connection,
    caller: Caller,
    _held: Box<(Permit, Ready, Seat)>,
}

/// What a subscriber hears.
#[derive(Clone, Debug)]
pub enum Update {
    /// The resource, or a part of it, is not what it was.
    Changed {
        /// The URI the server named.
        uri: String,
        /// All that it said.
        params: Raw,
    },
    /// The connection was lost and is back: it may have changed meanwhile.
    Resumed,
}

/// How soon a subscription that was lost is tried again.
const AGAIN: Duration = Duration::from_secs(1);

impl Host {
    /// Completes an argument: the result as it came.
    pub async fn complete(&self, completion: Completion) -> Result<Raw, CallOutcome> {
        let mut recording = self.inner().begin(&completion.on_behalf.caller, "completion/complete", completion.bytes());
        let completed = completed(self.inner(), completion, &mut recording).await;
        recording.end(&outcome_of(completed.clone()));
        completed
    }

    /// Hears of updates of a resource from now on.
    pub async fn subscribe(
        &self,
        on_behalf: impl Into<OnBehalf>,
        resource: Target,
    ) -> Result<Subscription, CallOutcome> {
        let on_behalf = on_behalf.into();
        let mut recording = self.inner().begin(&on_behalf.caller, "resources/subscribe", resource.name().len());
        let subscribed = subscribed(self.inner(), on_behalf, &resource, &mut recording).await;
        recording.end(&outcome_of(subscribed.as_ref().map(|_| Raw::empty_object()).map_err(CallOutcome::clone)));
        subscribed
    }

    /// The tasks that a server keeps for a caller; `task` is the one that matters, where there is one. Looking at tasks
    /// is decided and admitted like a call and not recorded: what began them was.
    pub async fn tasks(
        &self,
        on_behalf: impl Into<OnBehalf>,
        server: &ServerName,
        task: Option<&str>,
    ) -> Result<TasksOf, CallOutcome> {
        let (on_behalf, inner) = (on_behalf.into(), self.inner());
        let target = Target::Method { server: server.clone(), method: "tasks/get".to_owned() };
        let entry = inner.slots.enter(&on_behalf.caller)?;
        let found = find::find(inner, &on_behalf.visible, &target, None).await?;
        let grant = way::granted(inner, &found, &on_behalf.caller, None, None).await?;
        let Found { connection, .. } = found;
        let ready = connection.ready().await.map_err(|why| not_connected(&connection, why))?;
        let asker = Asker { task, ..Asker::of(&on_behalf) };
        let seat = connection.seat(&ready, asker, Need::Carried, inner.slots.patience()).await;
        let seat = seat.map_err(|no_seat| way::unseated(&connection, no_seat))?;
        let permit = way::admit(inner, &connection, grant, entry).await?;
        let tasks = seat.peer(&ready).tasks(on_behalf.capabilities);
        let held = Box::new((permit, ready, seat));
        Ok(TasksOf { tasks, connection, caller: on_behalf.caller, _held: held })
    }

    /// Whether a caller began tasks that a server keeps, on a connection of that caller or on the one that all share.
    pub fn keeps_tasks(&self, caller: &Caller, server: &ServerName) -> bool {
        let connection = self.inner().connection(server);
        connection.is_some_and(|connection| connection.shared().lines.keeps_for(caller, None))
    }

    /// Asks a server for a sign of life, in the words of its era.
    pub async fn ping(&self, on_behalf: impl Into<OnBehalf>, server: &ServerName) -> Result<(), CallOutcome> {
        let on_behalf = on_behalf.into();
        let mut recording = self.inner().begin(&on_behalf.caller, PING, 0);
        let pinged = pinged(self.inner(), &on_behalf, server, &mut recording).await;
        recording.end(&outcome_of(pinged.clone()));
        pinged.map(drop)
    }
}

/// What a sign of life is called in records, whatever the server calls it.
const PING: &str = "ping";

async fn completed(host: &Inner, completion: Completion, recording: &mut Recording) -> Result<Raw, CallOutcome> {
    let Completion { on_behalf, of, argument, value, known } = completion;
    let target = match of.clone() {
        CompletionOf::Prompt(name) => Target::Prompt(name),
        CompletionOf::PromptOf(origin) => Target::PromptOf(origin),
        CompletionOf::TemplateOf(origin) => Target::ResourceOf(origin),
    };
    let reached = reach(host, &on_behalf, &target, recording).await?;
    let raw_name = reached.permit.subject().raw_name.clone();
    let reference = match of {
        CompletionOf::Prompt(_) | CompletionOf::PromptOf(_) => Reference::Prompt(raw_name),
        CompletionOf::TemplateOf(_) => Reference::Resource(raw_name),
    };
    let peer = &reached.ready.peer;
    if !peer.profile().capabilities.has("completions") {
        return Err(Refusal::Malformed(format!("`{}` completes nothing", reached.connection.name())).into());
    }
    let completed = peer.complete(&reference, (&argument, &value), known.as_ref()).await;
    completed.map_err(|error| CallOutcome::Failed(CallError::Wire(error)))
}

async fn subscribed(
    host: &Inner,
    on_behalf: OnBehalf,
    target: &Target,
    recording: &mut Recording,
) -> Result<Subscription, CallOutcome> {
    // The slot is for beginning it; hearing takes none.
    let Reached { connection, permit, .. } = &reach(host, &on_behalf, target, recording).await?;
    let (uri, patience) = (permit.subject().raw_name.clone(), host.slots.patience());
    let mut subscription = Subscription { uri, on_behalf, patience, heard: None, connection: connection.clone() };
    subscription.heard = Some(subscription.listen().await?);
    Ok(subscription)
}

async fn pinged(
    host: &Inner,
    on_behalf: &OnBehalf,
    server: &ServerName,
    recording: &mut Recording,
) -> Result<Raw, CallOutcome> {
    let target = Target::Method { server: server.clone(), method: PING.to_owned() };
    let reached = reach(host, on_behalf, &target, recording).await?;
    let failed = |error| CallOutcome::Failed(CallError::Wire(error));
    let request = reached.ready.peer.sign_of_life().map_err(failed)?;
    let terms = reached.connection.wanted().clocks.list;
    match reached.ready.peer.open(request, terms).outcome().await.into() {
        CallOutcome::Answered(answer) => Ok(answer),
        other => Err(other),
    }
}

/// A server that was found, may be asked and can be.
struct Reached {
    connection: Connection,
    ready: Ready,
    permit: Permit,
}

/// Goes the way as far as the server. Whoever waits for it to be connected keeps no slot from the others meanwhile.
async fn reach(
    host: &Inner,
    on_behalf: &OnBehalf,
    target: &Target,
    recording: &mut Recording,
) -> Result<Reached, CallOutcome> {
    let entry = host.slots.enter(&on_behalf.caller)?;
    let found = find::find(host, &on_behalf.visible, target, None).await?;
    recording.found(&found.subject);
    let grant = way::granted(host, &found, &on_behalf.caller, None, Some(recording)).await?;
    let Found { connection, .. } = found;
    let ready = connection.ready().await.map_err(|why| not_connected(&connection, why))?;
    let permit = way::admit(host, &connection, grant, entry).await?;
    recording.sent(connection.name(), &permit, ready.redactor.clone());
    Ok(Reached { connection, ready, permit })
}

fn outcome_of(result: Result<Raw, CallOutcome>) -> CallOutcome {
    result.map_or_else(|outcome| outcome, CallOutcome::Answered)
}

impl Inner {
    fn begin(&self, caller: &Caller, method: &'static str, argument_bytes: usize) -> Recording {
        let draft = Draft {
            id: self.next_call(),
            caller: caller.clone(),
            kind: CallKind::Method,
            name: method.to_owned(),
            argument_bytes,
        };
        Recording::begin(draft, Arc::clone(&self.room.ports.calls), self.room.events.clone())
    }
}

impl Completion {
    /// How much of it is the caller's.
    fn bytes(&self) -> usize {
        let known = self.known.as_ref().map_or(0, |known| known.to_string().len());
        self.argument.len() + self.value.len() + known
    }
}

impl Subscription {
    /// The resource, as its server calls it.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The next update; `None` when there will be no more, because the server is no longer wanted or does not tell.
    pub async fn next(&mut self) -> Option<Update> {
        loop {
            if let Some(heard) = &mut self.heard {
                match heard.next().await {
                    Some(Notice::Updated { uri, params }) => return Some(Update::Changed { uri, params }),
                    Some(Notice::Missed(_)) => return Some(Update::Resumed),
                    Some(_) => continue,
                    None => self.heard = None,
                }
            }
            match self.listen().await {
                Ok(heard) => {
                    self.heard = Some(heard);
                    return Some(Update::Resumed);
                }
                Err(CallOutcome::Refused(_)) => return None,
                Err(_) if self.connection.is_over() => return None,
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
    }

    /// Subscribes over the connection that its caller's calls go over: there may be no other on which it is told.
    async fn listen(&self) -> Result<Heard, CallOutcome> {
        let connection = &self.connection;
        let ready = connection.ready().await.map_err(|why| not_connected(connection, why))?;
        if !ready.peer.profile().capabilities.flag("resources", "subscribe") {
            return Err(Refusal::Malformed(format!("`{}` does not tell of updates", connection.name())).into());
        }
        let seat = connection.seat(&ready, Asker::of(&self.on_behalf), Need::Carried, self.patience).await;
        let seat = seat.map_err(|no_seat| way::unseated(connection, no_seat))?;
        let listening = seat.peer(&ready).listen(Wanted::resource(&self.uri)).await;
        let listening = listening.map_err(|error| CallOutcome::Failed(CallError::Wire(error)))?;
        if listening.honoured().uris.is_empty() {
            return Err(Refusal::Malformed(format!("`{}` does not tell of updates of this", connection.name())).into());
        }
        let ground = match seat {
            Seat::Base { .. } => Ground::Connection { _ear: connection.ear() },
            Seat::Line(seat) => Ground::Line(seat.listening()),
        };
        Ok(Heard { listening, ground })
    }
}

impl Heard {
    /// The next notice; none when it is over, or somebody else is told from now on.
    async fn next(&mut self) -> Option<Notice> {
        match &self.ground {
            Ground::Connection { .. } => self.listening.next().await,
            Ground::Line(seat) => tokio::select! {
                notice = self.listening.next() => notice,
                () = seat.ended() => None,
            },
        }
    }
}

impl TasksOf {
    /// Whether this task is known to be its caller's: a server that is reached with one credential for all may list those
    /// of others too.
    pub fn is_theirs(&self, task: &str) -> bool {
        self.connection.shared().lines.keeps_for(&self.caller, Some(task))
    }

    /// Themselves.
    pub fn tasks(&self) -> &PeerTasks {
        &self.tasks
    }
}
