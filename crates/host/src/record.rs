//! Call records, the port that stores them ([`recorder`]), and the port that reads them ([`Records`]).
//!
//! A record has the caller, the requested item, the server, the outcome and the durations of a call. It holds no
//! arguments and no results, only their sizes, and error messages are redacted ([`redact`]). `Recording` ensures that
//! there is exactly one record for each call. Arguments and results go to a [`recorder`] and a [`CallObserver`] only.

mod audit;
mod audit_group;
mod delivery;
mod error;
mod keys;
mod memory;
mod observer;
mod pending_write;
mod person_wait;
pub mod recorder;
mod recording;
mod records;
pub mod redact;
mod settlement;
mod state;
mod stored_call;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures_util::future::BoxFuture;
use toolway_config::ServerName;

pub use audit::{AuditEntry, AuditFilter, LogOrigin, Verified, kind};
pub use audit_group::{AuditGroup, Detail, GroupPart};
pub use delivery::{Delivery, OUTCOME_META, UnknownDelivery};
pub use error::{RecordsCause, RecordsError};
pub use keys::{HeldKey, IdempotencyKey, InvalidKey, KEPT, KeyClaim, KeyHolder, MAX_KEY, Repeated};
pub use memory::{KEPT_BYTES, KEPT_RECORDS, MemoryCallLog};
pub use observer::CallObserver;
pub(crate) use observer::Observation;
pub use person_wait::PersonWait;
pub use recorder::{AuditNote, CallBody, CallRecorder, OpenState, RecorderUsage, Requirement};
pub(crate) use recording::{Draft, EndRecord, RecordPorts, RecordedArguments, Recording};
pub use records::{Fetch, InboxRow, NoRecords, RecordChanges, Records, RetentionPlan, StoreUsage};
pub use settlement::{Finding, Settlement};
pub use state::{CallState, UnknownState};
pub use stored_call::{CallFilter, CallRow, SamplingRow, StatsFilter, StoredCall, ToolStats};

use crate::{
    call::{CallId, CallKind, Caller},
    policy::{RuleId, Surface},
};

/// Record of a finished call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// Id of the call.
    pub id: CallId,
    /// Identity on whose behalf the call was made.
    pub caller: Caller,
    /// Surface that the call came from.
    pub surface: Surface,
    /// Conversation that the call belongs to.
    pub conversation: Option<Arc<str>>,
    /// Kind of the requested item.
    pub kind: CallKind,
    /// Name as requested; a URI without query, fragment and user information.
    pub name: String,
    /// Server of the item; `None` if the item was not found.
    pub server: Option<ServerName>,
    /// Name of the item at its server; a URI without query, fragment and user information.
    pub raw_name: Option<String>,
    /// Public name of the tool; `None` for other kinds.
    pub tool: Option<String>,
    /// Time at which the host accepted the request.
    pub started_at: SystemTime,
    /// Time until the call was sent: lookup, approval, connecting, queueing. Equals `took` if it was never sent.
    pub sent_after: Duration,
    /// The same without waiting for a person: what lookup, connecting and queueing took. `None` if it was never sent.
    pub prepared: Option<Duration>,
    /// Time during which it waited for a person: for approvals, and for forms and URLs of its server.
    pub waited: Duration,
    /// Total duration, with `waited`.
    pub took: Duration,
    /// Present state.
    pub state: CallState,
    /// Whether it was sent and answered; `None` before its end.
    pub outcome: Option<Delivery>,
    /// Whether the item is annotated idempotent or read-only, so that a second call does no harm.
    pub idempotent: bool,
    /// Whether an earlier result of the same resource answered it, so that nothing was sent.
    pub from_cache: bool,
    /// Redacted error message; `None` if the call succeeded.
    pub message: Option<String>,
    /// Stable error code of a refused call; `None` for others.
    pub code: Option<&'static str>,
    /// Rule that granted or refused the call.
    pub rule: Option<RuleId>,
    /// Who approved it, where policy asked.
    pub approved_by: Option<Arc<str>>,
    /// Size of the arguments in bytes.
    pub argument_bytes: usize,
    /// Size of the result in bytes.
    pub result_bytes: usize,
    /// Number of server requests during the call.
    pub server_requests: u32,
    /// Number of progress notifications.
    pub progress: u32,
}

/// Stores call records.
///
/// `append` must not block; it is also called while a call is dropped. A log that writes to a file or network needs a
/// bounded queue of its own and should report how many records it lost.
pub trait CallLog: Send + Sync {
    /// Stores one record.
    fn append(&self, record: Arc<CallRecord>);

    /// Waits until all appended records are stored. Called when the host shuts down.
    fn flush(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

impl CallRecord {
    /// Duration without the time in which a person was waited for.
    pub fn duration(&self) -> Duration {
        self.took.saturating_sub(self.waited)
    }
}
