//! The port for durable records: what is written before a request is sent and before its answer is given.
//!
//! The host redacts bodies before they reach the port. A [`CallLog`](super::CallLog) only observes; a recorder can make
//! the host refuse a call.

use futures_util::future::BoxFuture;
use toolway_config::{Bodies, ServerName};

use super::{CallRecord, IdempotencyKey, KeyClaim, KeyHolder, RecordsError, StoredCall, redact::Redactor};
use crate::inbox::InboxRecord;
use crate::{
    call::{CallId, Caller},
    connection::HostContext,
    host::Host,
};

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
    /// One of [`kind`](super::kind).
    pub kind: &'static str,
    /// `kind[:name]` of the caller.
    pub caller: Option<String>,
    /// Server name.
    pub server: Option<ServerName>,
    /// Tool, prompt, key, file …
    pub subject: Option<String>,
    /// The call it belongs to.
    pub call: Option<CallId>,
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

/// How full the store of a recorder is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecorderUsage {
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes that they may have; `None`: no limit.
    pub max_bytes: Option<u64>,
    /// Bodies that were removed since the start.
    pub removed_bodies: u64,
    /// Calls that were removed since the start.
    pub removed_calls: u64,
}

/// Writes records durably. All methods submit their write before they return; a future only waits for its commit.
pub trait CallRecorder: Send + Sync {
    /// What happens to a call that cannot be recorded.
    fn requirement(&self) -> Requirement;

    /// Writes a call that has not ended.
    fn write(
        &self,
        call: &CallRecord,
        state: OpenState,
        body: CallBody,
    ) -> BoxFuture<'static, Result<(), RecordsError>>;

    /// Writes the end of a call.
    fn end(&self, call: &CallRecord, body: CallBody) -> BoxFuture<'static, Result<(), RecordsError>>;

    /// Claims an idempotency key for a call, if no other holds it, and waits until that is durable. Default: there is no
    /// place for keys.
    fn claim_key(&self, claim: KeyClaim) -> BoxFuture<'static, Result<KeyHolder, RecordsError>> {
        drop(claim);
        Box::pin(async { Err(RecordsError::Invalid("this recorder keeps no idempotency keys")) })
    }

    /// The call that holds a key; `None` if no call does. Default: not known.
    fn find_key(&self, key: IdempotencyKey) -> BoxFuture<'static, Result<Option<StoredCall>, RecordsError>> {
        drop(key);
        Box::pin(async { Ok(None) })
    }

    /// Frees the key of a call that its server refused before it looked at it.
    fn release_key(&self, call: CallId) {
        let _nothing = call;
    }

    /// Appends to the audit log.
    fn note(&self, note: AuditNote);

    /// How full the store is. Default: not known. Must not block.
    fn usage(&self) -> Option<RecorderUsage> {
        None
    }

    /// Records an inbox item when it appears and when it ends. Default: not kept.
    fn inbox(&self, item: InboxRecord) {
        drop(item);
    }
}

impl CallBody {
    /// The same without a text of more bytes.
    #[must_use]
    pub fn bounded(self, most: u64) -> Self {
        let bounded = |text: String| {
            let is_large = most < text.len() as u64;
            if is_large {
                not_kept(&text, &format!("larger than {most} bytes, a share of `store.maxBytes`"))
            } else {
                text
            }
        };
        Self { arguments: self.arguments.map(bounded), result: self.result.map(bounded) }
    }

    /// Replaces both texts by the reason why they are not kept.
    pub fn omit(&mut self, why: &str) {
        for text in [&mut self.arguments, &mut self.result].into_iter().flatten() {
            *text = not_kept(text, why);
        }
    }

    /// Bytes of both texts.
    pub fn bytes(&self) -> usize {
        let texts = [&self.arguments, &self.result];
        texts.into_iter().flatten().map(String::len).sum()
    }
}

/// What stands for a text that is not kept.
fn not_kept(text: &str, why: &str) -> String {
    serde_json::json!({ "toolway": { "notKept": why, "bytes": text.len() } }).to_string()
}

impl AuditNote {
    /// A note about a server, outside any call.
    pub fn of_server(kind: &'static str, server: &ServerName, details: serde_json::Value) -> Self {
        Self { kind, caller: None, server: Some(server.clone()), subject: None, call: None, details }
    }

    /// The same note with the caller concerned.
    #[must_use]
    pub fn with_caller(self, caller: &Caller) -> Self {
        Self { caller: Some(caller.label()), ..self }
    }
}

impl Host {
    /// Appends to the audit log, if there is a recorder.
    pub fn note(&self, note: AuditNote) {
        self.inner().context.note(note);
    }

    /// How full the store of its recorder is; `None` without one.
    pub fn recorder_usage(&self) -> Option<RecorderUsage> {
        self.inner().context.ports.recorder.as_ref()?.usage()
    }

    /// The call that holds an idempotency key; `None` if no call does, or that is not known.
    pub async fn call_under(&self, key: IdempotencyKey) -> Option<StoredCall> {
        let recorder = self.inner().context.ports.recorder.clone()?;
        recorder.find_key(key).await.ok().flatten()
    }

    /// Whether idempotency keys can be kept.
    pub fn keeps_keys(&self) -> bool {
        self.inner().context.ports.recorder.is_some()
    }

    /// What is kept of arguments and results.
    pub fn bodies(&self) -> Bodies {
        self.inner().context.ports.bodies
    }

    /// Removes the secrets of all servers from what a model is given, and from conversations as far as `store.bodies` says
    /// so. What is kept on disk is no reason to send secrets to a vendor.
    pub fn redactor(&self) -> Redactor {
        self.inner().context.dialer.known_secrets.redactor()
    }

    /// Calls since the start that have no complete durable record.
    pub fn unrecorded_calls(&self) -> u64 {
        self.inner().unrecorded_calls()
    }
}

impl HostContext {
    /// Appends to the audit log, if there is a recorder.
    pub(crate) fn note(&self, note: AuditNote) {
        if let Some(recorder) = &self.ports.recorder {
            recorder.note(note);
        }
    }
}
