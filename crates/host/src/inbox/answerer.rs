//! The port that answers inbox items on the surface of this process, such as its terminal.

use futures_util::future::{BoxFuture, pending};

use super::{InboxAnswer, InboxItem};

/// Answers inbox items. An implementation may take any time; the future is dropped when another surface has answered, the
/// item has expired, or its call has ended. A model must never be behind this port.
pub trait Answerer: Send + Sync {
    /// Supported modes of elicitation, as declared to servers.
    fn modes(&self) -> ElicitationModes;

    /// Answers one item.
    fn answer<'a>(&'a self, item: &'a InboxItem) -> BoxFuture<'a, InboxAnswer>;
}

/// Supported modes of elicitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElicitationModes {
    /// Elicitation is not supported.
    Nothing,
    /// Only forms are supported.
    Forms,
    /// Forms and URLs are supported.
    FormsAndUrls,
}

/// Answers nothing: calls that require approval are refused, and elicitation is not offered. The safe default.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoAnswerer;

/// Leaves every item to [`Inbox::answer`](super::Inbox::answer): for a process whose inbox is open on another surface.
#[derive(Clone, Copy, Debug)]
pub struct InboxAnswerer {
    /// Supported modes of elicitation.
    pub modes: ElicitationModes,
}

impl Answerer for NoAnswerer {
    fn modes(&self) -> ElicitationModes {
        ElicitationModes::Nothing
    }

    fn answer<'a>(&'a self, _item: &'a InboxItem) -> BoxFuture<'a, InboxAnswer> {
        Box::pin(async { InboxAnswer::Unavailable })
    }
}

impl Answerer for InboxAnswerer {
    fn modes(&self) -> ElicitationModes {
        self.modes
    }

    fn answer<'a>(&'a self, _item: &'a InboxItem) -> BoxFuture<'a, InboxAnswer> {
        Box::pin(pending())
    }
}
