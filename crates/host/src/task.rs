//! Tasks: calls that their server continues after its first answer, in one form for both protocol eras.
//!
//! A task is one row (`row`), written through a port ([`TaskLog`]) and read through
//! [`Records`](crate::record::Records). Its id is that of its call, whose record stays `running` until the task ends.
//!
//! | file | what it owns |
//! |---|---|
//! | `status` | the states of a task |
//! | `row` | a task as it is stored, and which tasks a query returns |
//! | `log` | the write port |
//! | `tracked` | the row of a task that this process follows |
//! | `row_writer` | when its changes are written |
//! | `background` | tasks that no call waits for, and how one is followed |
//! | `adoption` | follows tasks that an earlier process left |
//!
//! What a server says about a task is read by [`toolway_wire::task`]; access for a caller is in [`crate::call::tasks`].

use std::time::Duration;

pub(crate) mod adoption;
mod background;
mod log;
mod row;
mod row_writer;
mod status;
mod tracked;

pub(crate) use background::{BackgroundTask, BackgroundTasks, NotFollowed, SampledTask, SeenTask, TaskSessions};
pub use log::{NoTaskLog, SettledCall, TaskLog};
pub use row::{AnsweredBy, KeptBy, StoredTask, TaskFilter, TaskProgress, TaskRow};
pub use status::{TaskStatus, UnknownTaskStatus};
pub(crate) use tracked::{TaskOrigin, TaskPorts, TrackedTask};

/// When the status is read for the first time: a task may be done soon, and servers suggest long intervals.
pub(crate) const FIRST_READ: Duration = Duration::from_millis(250);

/// How long a server that cannot be reached is asked again.
pub(crate) const UNREACHABLE_FOR: Duration = Duration::from_secs(60 * 60);

/// Time until a server that cannot be reached is asked again.
pub(crate) fn pause_after(unreachable_for: Duration) -> Duration {
    unreachable_for.clamp(Duration::from_secs(1), Duration::from_secs(60))
}

/// What is said of a task that ended with the process that ran it.
pub const ENDED_WITH_PROCESS: &str = "its server ended with the process that had started it";
