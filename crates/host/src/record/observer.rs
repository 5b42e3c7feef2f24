//! The port that sees each call with its arguments and its result, for embedding programs.
//!
//! Nothing is queued for it: it is called where the call begins and ends, with texts that end with the call of the method. A
//! [`CallLog`](super::CallLog) gets the record alone, and the events of the host report the stages between.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use toolway_config::Bodies;
use toolway_wire::json::Raw;

use super::{
    CallRecord,
    redact::{KnownSecrets, Redactor},
};

/// Sees each call with its arguments and its result.
///
/// Both are JSON texts as [`HostPorts::bodies`](crate::HostPorts::bodies) says: by default without the secrets of servers and
/// cut to 1 MB, so that a long one may be invalid JSON; absent with `none`. Methods must not block; they are also called
/// while a call is dropped.
pub trait CallObserver: Send + Sync {
    /// The host accepts a call. `call` has what is known now: id, caller, surface, conversation, kind and name.
    fn begin(&self, call: &CallRecord, arguments: Option<&str>);

    /// A call ends, once, however it ends. Without a result, `call.message` says why. For a call that
    /// its server continues as a task, this is the end of the task, if this process follows it.
    fn end(&self, call: &CallRecord, result: Option<&str>);
}

/// An observer, and what it may see.
#[derive(Clone)]
pub(crate) struct Observation {
    pub(crate) observer: Arc<dyn CallObserver>,
    pub(crate) bodies: Bodies,
    /// Before a call is sent, its server and so the server's secrets are not known.
    pub(crate) known_secrets: Arc<KnownSecrets>,
}

// === impl Observation ===

impl Observation {
    pub(super) fn begin(&self, call: &CallRecord, arguments: Option<&Raw>) {
        let arguments = arguments.and_then(|arguments| self.shown(arguments, &Redactor::default()));
        guard(call, || self.observer.begin(call, arguments.as_deref()));
    }

    pub(super) fn end(&self, call: &CallRecord, result: Option<&Raw>, of_server: &Redactor) {
        let result = result.and_then(|result| self.shown(result, of_server));
        guard(call, || self.observer.end(call, result.as_deref()));
    }

    /// A body as the observer may see it.
    fn shown(&self, raw: &Raw, of_server: &Redactor) -> Option<String> {
        match self.bodies {
            Bodies::Full => Some(raw.text().into_owned()),
            Bodies::Redacted => Some(self.known_secrets.redactor().body(&of_server.plain(&raw.text()))),
            Bodies::None => None,
        }
    }
}

/// A panic of the observer must not lose the call.
fn guard(call: &CallRecord, observe: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(observe)).is_err() {
        tracing::error!(call_id = %call.id, caller = %call.caller, "the call observer panicked");
    }
}
