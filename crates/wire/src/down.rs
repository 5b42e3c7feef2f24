//! A service as others reach it, whatever their era: the same two accents, the other way round.
//!
//! Whoever answers implements [`Service`]: a request in, an [`Exchange`] out. A relay to a server is
//! `Peer::open` in that place. The faces ([`stdio`], [`http`]) decide the era of each request from its metadata
//! and let the accent speak; what a service does knows no year.

mod accent;
mod dialect;
mod hosted_tasks;
pub mod http;

mod legacy;
mod modern;
mod park;
mod progress;
mod refusal;
mod session;
pub mod stdio;
mod stream;
mod tasks;

use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    exchange::{Exchange, LogLevel, Request},
    header::ParamHeader,
    json::Raw,
    limit::Limits,
    message::ClientCapabilities,
    notice::{Notice, Wanted},
    revision::Revision,
    seal::{NoRandomness, Sealer},
};

pub use hosted_tasks::{HostedTasks, Keeping, TASKS_PER_CALLER};
pub use tasks::{Tasks, undeclared as tasks_undeclared};

use self::park::ParkingLot;

/// Whoever answers.
pub trait Service: Send + Sync + 'static {
    /// What it says of itself to this caller.
    fn profile(&self, caller: &Caller) -> Profile;

    /// Who answers: the `info` of its profile, which every stateless result carries.
    fn info(&self, caller: &Caller) -> Raw {
        self.profile(caller).info
    }

    /// Answers one request. A method it does not know ends in `METHOD_NOT_FOUND`.
    fn open(&self, request: Request, caller: &Caller) -> Exchange;

    /// Tells of changes from now on; the receiver ends when there is no more to tell. Waited for, because what is
    /// honoured may be another server's word.
    fn listen<'a>(&'a self, wanted: Wanted, caller: &'a Caller) -> BoxFuture<'a, Heard>;

    /// Who keeps the tasks it hands requests over to; nobody where it never does. Both eras are told accordingly.
    fn tasks(&self, _caller: &Caller) -> Option<&dyn Tasks> {
        None
    }

    /// A caller's session is over.
    fn left(&self, _caller: &Caller) {}

    /// A caller may no longer come in: what is kept for it ends.
    fn expelled(&self, _principal: &str) {}

    /// Which arguments of a tool must be repeated in headers.
    fn param_headers(&self, _tool: &str, _caller: &Caller) -> Vec<ParamHeader> {
        Vec::new()
    }
}

/// What a service says of itself.
#[derive(Clone, Debug)]
pub struct Profile {
    /// `{name, version, …}`
    pub info: Raw,
    /// What it offers.
    pub capabilities: Raw,
    /// How it wants to be used.
    pub instructions: Option<String>,
}

/// A subscription as a service grants it.
#[derive(Debug)]
pub struct Heard {
    /// The part it will tell of.
    pub honoured: Wanted,
    /// The notices.
    pub notices: mpsc::Receiver<Notice>,
}

/// On whose behalf a request is made.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The revision it speaks.
    pub revision: Revision,
    /// What its side can be asked.
    pub capabilities: ClientCapabilities,
    /// What it says of itself, for display.
    pub info: Option<Raw>,
    /// Who it is, as far as whoever let it in knows; empty where nobody asked.
    pub principal: Arc<str>,
    /// A name for its session, where it keeps one; not the one it is known by on the wire.
    pub session: Option<Arc<str>>,
}

/// How a face behaves.
#[derive(Clone, Debug)]
pub struct FaceOptions {
    /// Which revisions are spoken.
    pub revisions: Vec<Revision>,
    /// The bounds.
    pub limits: Limits,
    /// How long a question in the middle of a call waits for its caller's answer, in either era.
    pub park: Duration,
    /// How long a session may be left alone: nothing under way, no stream read, nothing heard of its caller.
    pub session_idle: Duration,
    /// How often a silent stream gets a sign of life.
    pub keep_alive: Duration,
    /// How long requests under way are given to end by themselves when the face is told to stop.
    pub drain: Duration,
    /// What a caller that keeps a session may be asked.
    pub asks: Asks,
    /// Which logs a caller gets that keeps a session and never said, of servers that log only when told to.
    pub usual_log_level: Option<LogLevel>,
    /// What seals the handles that pass through callers' hands; without one, a key that lives as long as the face.
    pub sealer: Option<Arc<Sealer>>,
    /// Where the bounds on sessions and parked calls hold; without one, for the face alone.
    pub premises: Option<Premises>,
}

/// What faces of one program have together: sessions and parked calls of all of them count against one bound. Each is
/// known only at its own face. Clones are the same premises.
#[derive(Clone, Debug, Default)]
pub struct Premises {
    pub(crate) sessions: Arc<http::SessionRoom>,
    pub(crate) parked: park::Places,
}

/// What a caller that keeps a session may be asked. Without one nobody is ever asked what it did not declare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// What it declared; anything else is refused in its place.
    Declared,
    /// Anything, as many servers do: what it did not declare it refuses itself.
    Anything,
}

/// What all connections of one face share.
pub(crate) struct Face {
    pub(crate) service: Arc<dyn Service>,
    pub(crate) options: FaceOptions,
    pub(crate) parked: ParkingLot,
    /// The end is near: whoever listens is told that there is no more to hear.
    pub(crate) draining: CancellationToken,
}

impl Caller {
    /// Whether it can be told which capability a request of its would have needed: only where it declares them with each.
    pub fn says_what_it_lacks(&self) -> bool {
        self.revision.era() == crate::revision::Era::Modern
    }
}

impl Default for FaceOptions {
    fn default() -> Self {
        Self {
            revisions: Revision::ALL.to_vec(),
            limits: Limits::default(),
            park: Duration::from_secs(600),
            session_idle: Duration::from_secs(1_800),
            keep_alive: Duration::from_secs(15),
            drain: http::DRAIN_TIME,
            asks: Asks::Declared,
            usual_log_level: Some(LogLevel::Info),
            sealer: None,
            premises: None,
        }
    }
}

impl Face {
    pub(crate) fn new(service: Arc<dyn Service>, mut options: FaceOptions) -> Result<Arc<Self>, NoRandomness> {
        let sealer = match &options.sealer {
            Some(given) => Arc::clone(given),
            None => Arc::new(Sealer::generated()?),
        };
        // Taken out: sessions hold their face, and must not hold the room they are in.
        let places = options.premises.take().map(|premises| premises.parked).unwrap_or_default();
        let parked = ParkingLot::new(sealer, &options.limits, options.park, places)?;
        Ok(Arc::new(Self { service, options, parked, draining: CancellationToken::new() }))
    }

    /// Whether any revision of this era is spoken.
    pub(crate) fn speaks(&self, era: crate::revision::Era) -> bool {
        self.options.revisions.iter().any(|revision| revision.era() == era)
    }

    /// The revisions of one era, newest first.
    pub(crate) fn revisions(&self, era: crate::revision::Era) -> Vec<Revision> {
        let mut revisions: Vec<_> =
            self.options.revisions.iter().copied().filter(|revision| revision.era() == era).collect();
        revisions.sort_unstable();
        revisions.reverse();
        revisions
    }
}

impl fmt::Debug for Face {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Face").field("options", &self.options).finish_non_exhaustive()
    }
}
