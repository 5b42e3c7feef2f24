//! What is written down of each call, and the port it is written through.
//!
//! A record says who asked for what, where it went, how it ended and how long it took. It holds no argument and no
//! result: of both only the size is kept, and what a server said when it failed is redacted first ([`redact`]). It is
//! made once for every call, however that ends; `Recording` sees to it.

mod memory;
mod recording;
pub mod redact;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures_util::future::BoxFuture;
use toolway_config::ServerName;

pub use memory::{KEPT_BYTES, KEPT_RECORDS, MemoryCallLog};
pub(crate) use recording::{Draft, Recording};

use crate::{
    call::{CallId, CallKind, Caller},
    policy::RuleId,
};

/// One call, after its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// Which.
    pub id: CallId,
    /// On whose behalf.
    pub caller: Caller,
    /// A call, a read, a prompt …
    pub kind: CallKind,
    /// As it was asked for; of a URI, without its query and its user part.
    pub name: String,
    /// Where it went, or would have gone.
    pub server: Option<ServerName>,
    /// The server's own name for it; of a URI, the same part.
    pub raw_name: Option<String>,
    /// When it came in.
    pub started_at: SystemTime,
    /// How long until it was sent: finding, deciding, connecting, waiting for a slot. All of it where it never was.
    pub waited: Duration,
    /// How long it took in all.
    pub took: Duration,
    /// How it ended.
    pub ending: Ending,
    /// Whether it was answered with a result in which the tool says that it failed.
    pub tool_error: bool,
    /// What went wrong, redacted; none where nothing did.
    pub message: Option<String>,
    /// The rule that let it through.
    pub rule: Option<RuleId>,
    /// Bytes of the arguments.
    pub argument_bytes: usize,
    /// Bytes of the result.
    pub result_bytes: usize,
    /// Questions the server asked on the way.
    pub asks: u32,
    /// Signs of progress it gave.
    pub progress: u32,
}

/// The ways a call ends, as a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// With a result.
    Answered,
    /// With a task in its place.
    HandedOff,
    /// By us; nothing was sent.
    Refused,
    /// On the way, or by the server.
    Failed,
    /// By its caller, who may simply have left.
    Cancelled,
    /// By a clock.
    TimedOut,
}

/// Where records go.
///
/// `append` never waits: it is also called when a caller has left. A log that writes elsewhere keeps a bounded queue of
/// its own and says how many it lost.
pub trait CallLog: Send + Sync {
    /// Takes one record.
    fn append(&self, record: Arc<CallRecord>);

    /// Resolves when everything appended so far is safe; asked for when the host is shut down.
    fn flush(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

impl Ending {
    /// Its stable word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::HandedOff => "handed_off",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
