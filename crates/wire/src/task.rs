//! A task: a request that goes on after its exchange has ended, in one form for both eras.
//!
//! An exchange hands over to one ([`crate::exchange::Outcome::HandedOff`]) when its request allows it
//! ([`crate::exchange::Handover`]). From then on whoever keeps the task can be asked how it stands, be answered, be told
//! to stop, or be followed to the end as another exchange. How the wire spells it is in [`spelling`]: the core tasks of
//! 2025-11-25 with a result of their own, the extension with everything in one answer.

pub(crate) mod hosted;
pub mod moment;
pub(crate) mod spelling;
pub(crate) mod watch;

use std::{fmt, str::FromStr, time::Duration};

use crate::{
    error::WireError,
    exchange::{Handover, Outcome, Question},
    json::Raw,
    message::RpcError,
};

/// A task, as far as was looked.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its keeper's name for it.
    pub id: String,
    /// How it stands. A tool that says it failed has completed.
    pub status: Status,
    /// What its keeper says of it, for people.
    pub message: Option<String>,
    /// When it began, as it was written.
    pub created: String,
    /// When it last changed, as it was written.
    pub updated: String,
    /// How long it is kept from its beginning; `None`: for ever.
    pub keeps: Option<Duration>,
    /// How often to look, if its keeper says.
    pub poll: Option<Duration>,
    /// What there is to it beside its status.
    pub inside: Inside,
    /// All that was said of it.
    pub raw: Raw,
}

/// How a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It goes on.
    Working,
    /// It waits for answers.
    InputRequired,
    /// It has a result.
    Completed,
    /// It ended with an error.
    Failed,
    /// It was stopped.
    Cancelled,
}

/// What there is to a task beside its status.
#[derive(Clone, Debug)]
pub enum Inside {
    /// Nothing, or it was not looked for.
    Nothing,
    /// What it waits for, each under its key; no key is used twice in one task.
    Asks(Vec<Question>),
    /// What it gave.
    Result(Raw),
    /// The error it ended with.
    Error(RpcError),
}

/// How closely to look at a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// How it stands.
    Status,
    /// Also its result, its error or what it asks.
    Whole,
}

/// Whether a tool can run as a task, as a server with sessions says of it. Without one nothing is said beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It cannot; also where nothing is said.
    Forbidden,
    /// It can.
    Optional,
    /// It runs in no other way.
    Required,
}

/// One page of a keeper's tasks.
#[derive(Clone, Debug, Default)]
pub struct TaskPage {
    /// The tasks, without what is inside.
    pub tasks: Vec<Task>,
    /// Where the next page begins.
    pub next: Option<Raw>,
}

/// Why nothing is known of a task, or nothing was done with it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Unanswered {
    /// Its keeper said no, as it came.
    #[error("{0}")]
    Refused(RpcError),
    /// It did not get that far.
    #[error(transparent)]
    Failed(#[from] WireError),
}

/// Not a status of tasks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown task status `{0}`")]
pub struct UnknownStatus(pub String);

// === impl Task ===

impl Task {
    /// A task that begins now.
    pub fn begun(id: &str, keeps: Option<Duration>, poll: Option<Duration>) -> Self {
        let now = moment::now();
        let task = Self {
            id: id.to_owned(),
            status: Status::Working,
            message: None,
            created: now.clone(),
            updated: now,
            keeps,
            poll,
            inside: Inside::Nothing,
            raw: Raw::empty_object(),
        };
        Self { raw: spelling::modern(&task), ..task }
    }

    /// The view of a task as either era spells it: flat, or under `task`.
    pub fn view(result: &Raw) -> Option<Self> {
        spelling::read(result)
    }

    /// The same under another name, as whoever stands in between calls it.
    #[must_use]
    pub fn named(self, id: &str) -> Self {
        Self { id: id.to_owned(), ..self }
    }

    /// How long to wait before it is looked at again: what its keeper says, within reason.
    pub(crate) fn interval(&self) -> Duration {
        const USUAL: Duration = Duration::from_secs(1);
        const LEAST: Duration = Duration::from_millis(100);
        const MOST: Duration = Duration::from_secs(60);
        self.poll.unwrap_or(USUAL).clamp(LEAST, MOST)
    }

    /// It has changed just now.
    pub(crate) fn touch(&mut self, status: Status) {
        self.status = status;
        self.updated = moment::now();
    }
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Working, Self::InputRequired, Self::Completed, Self::Failed, Self::Cancelled];

    /// As both eras spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing more will come.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

impl FromStr for Status {
    type Err = UnknownStatus;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or_else(|| UnknownStatus(text.to_owned()))
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Support ===

impl Support {
    /// What a listed tool says.
    pub fn of(tool: &Raw) -> Self {
        let said = tool.get("execution").and_then(|execution| execution.get("taskSupport"));
        match said.as_ref().and_then(Raw::as_str).as_deref() {
            Some("optional") => Self::Optional,
            Some("required") => Self::Required,
            _ => Self::Forbidden,
        }
    }

    /// What to say to the server of such a tool, where its caller says this: a server with sessions makes a task only
    /// where it is asked to.
    pub fn wish(self, caller: Handover) -> Handover {
        match (caller, self) {
            (Handover::Allowed, Self::Optional | Self::Required) => Handover::Wanted(None),
            (given, _) => given,
        }
    }
}

// === impl Unanswered ===

impl Unanswered {
    /// Nobody here knows a task of this name.
    pub fn unknown(id: &str) -> Self {
        Self::Refused(RpcError::new(RpcError::INVALID_PARAMS, &format!("no task `{id}`")))
    }

    /// Nobody here knows this method.
    pub fn no_such_method(method: &str) -> Self {
        Self::Refused(RpcError::new(RpcError::METHOD_NOT_FOUND, &format!("unknown method `{method}`")))
    }
}

impl From<Unanswered> for Outcome {
    fn from(problem: Unanswered) -> Self {
        match problem {
            Unanswered::Refused(error) => Self::Refused(error),
            Unanswered::Failed(error) => Self::Failed(error),
        }
    }
}
