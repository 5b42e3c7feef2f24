//! The way of a call: find, decide, admit, send, record. There is no other.
//!
//! A tool that is called, a resource that is read and a prompt that is got all go it, whoever asks: the command line,
//! a model, the gateway. It ends in exactly one [`CallOutcome`], and that is recorded. The first stretch is in `find`,
//! the others are in `way`, what the caller holds meanwhile in [`relay`]; completing arguments and hearing of updates are
//! in [`beside`].

pub mod beside;
pub mod caller;
mod find;
pub mod outcome;
pub mod relay;
pub mod request;
mod way;

use std::sync::Arc;

pub use beside::{Completion, Subscription, TasksOf};
pub use caller::{Caller, OnBehalf, Visible};
pub use outcome::{CallError, CallOutcome};
pub use relay::{CallHappening, Relay};
pub use request::{CallId, CallKind, CallRequest, Target};

use crate::{
    host::Host,
    record::{Draft, Recording},
};

impl Host {
    /// Begins a call; whatever happens, happens in the relay. Nothing is done before it is looked at.
    pub fn open(&self, request: CallRequest) -> Relay {
        let inner = self.inner();
        let draft = Draft {
            id: inner.next_call(),
            caller: request.caller.clone(),
            kind: request.target.kind(),
            name: request.target.name().to_owned(),
            argument_bytes: request.content().map_or(0, |content| content.as_bytes().len()),
        };
        let id = draft.id;
        let recording = Recording::begin(draft, Arc::clone(&inner.room.ports.calls), inner.room.events.clone());
        Relay::new(Arc::clone(inner), request, id, Box::new(recording))
    }

    /// Makes a call and goes through to its end; what the server asks goes to the host's ports.
    pub async fn call(&self, request: CallRequest) -> CallOutcome {
        self.open(request).outcome().await
    }
}
