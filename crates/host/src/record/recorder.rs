//! The port for durable records: what is written before a request is sent and before its answer is given.
//!
//! The host redacts bodies before they reach the port. A [`CallLog`](super::CallLog) only observes; a recorder can make
//! the host refuse a call.

use futures_util::future::BoxFuture;
use toolway_config::ServerName;

use super::CallRecord;

/// State of a call that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenState {
    /// Begun and not sent.
    Pending,
    /// About to be sent.
    Running,
}

/// Arguments and result of a call, redacted as configured; `None` if they are not kept or not known yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallBody {
    /// JSON of the arguments.
    pub arguments: Option<String>,
    /// JSON of the result.
    pub result: Option<String>,
}

/// Something other than a call that the audit log keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditNote {
    /// `decision`, `approval`, `server-request`, `connection`, `sign-in`, `configuration`, `key`.
    pub kind: &'static str,
    /// `kind[:name]` of the caller.
    pub caller: Option<String>,
    /// Server name.
    pub server: Option<ServerName>,
    /// Tool, prompt, key, file …
    pub subject: Option<String>,
    /// The call it belongs to.
    pub call: Option<crate::call::CallId>,
    /// Further properties, without secrets.
    pub details: serde_json::Value,
}

/// What happens to a call that cannot be recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Requirement {
    /// It is sent, with a warning.
    #[default]
    BestEffort,
    /// It is refused.
    Required,
}

/// Writes records durably. All methods submit their write before they return; a future only waits for its commit.
pub trait CallRecorder: Send + Sync {
    /// What happens to a call that cannot be recorded.
    fn requirement(&self) -> Requirement;

    /// Writes a call that has not ended.
    fn write(&self, call: &CallRecord, state: OpenState, body: CallBody) -> BoxFuture<'static, Result<(), String>>;

    /// Writes the end of a call.
    fn end(&self, call: &CallRecord, body: CallBody) -> BoxFuture<'static, Result<(), String>>;

    /// Appends to the audit log.
    fn note(&self, note: AuditNote);
}
