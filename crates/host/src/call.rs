//! The stages of a call: find, decide, admit, send, record.
//!
//! Tool calls, resource reads and prompt requests of all surfaces pass through them. Each call ends in exactly one
//! [`CallOutcome`], which is recorded. The first stage is in `find`, the others are in `pipeline`, and the caller's
//! handle is in [`relay`]. Completions, pings and subscriptions share their stages in `auxiliary`.

mod approval_form;
mod approving;
mod auxiliary;
pub mod caller;
mod client_approval;
pub mod completion;
mod completion_ref;
mod deadline;
mod definition_state;
mod drift;
mod find;
mod keyed;
mod method;
pub(crate) mod open_calls;
pub mod outcome;
mod ping;
mod pipeline;
mod recorded_exchange;
pub mod relay;
pub mod request;
pub(crate) mod resource_cache;
pub mod subscription;
pub mod tasks;
mod unsent;

use std::sync::Arc;

pub use caller::{Caller, CallerContext, Selection, VisibleServers};
pub use completion::{Completion, CompletionOf};
pub use completion_ref::CompletionRef;
pub use definition_state::{DefinitionStanding, DefinitionState};
pub use drift::ServerInstructions;
pub(crate) use drift::{ComparedDefinitions, DriftKind, EntryNow, entry_baseline, first_sight};
pub use find::Located;
pub use method::MethodSpelling;
pub use outcome::{CallError, CallOutcome};
pub use relay::{CallEvent, Relay};
pub use request::{ApprovalHandling, CallId, CallKind, CallRequest, Target, TaskHandling};
pub use subscription::{ResourceUpdate, Subscription};
pub use tasks::{CallerTasks, RecordedTasks, TaskOperation};
pub use unsent::Unsent;

use crate::{
    host::Host,
    policy::Surface,
    record::{Draft, RecordedArguments, Recording},
};

impl Host {
    /// Starts a call. The call makes progress only while the returned relay is polled.
    pub fn open(&self, mut request: CallRequest) -> Relay {
        let inner = self.inner();
        let waits_in_inbox = request.surface == Surface::Console || request.task == TaskHandling::Background;
        if waits_in_inbox && request.capabilities.is_none() {
            request.capabilities = inner.context.undeclared_elicitation();
        }
        let draft = self.draft(&request);
        let id = draft.id;
        let recording = Recording::begin(draft, inner.record_ports());
        Relay::new(Arc::clone(inner), request, id, Box::new(recording))
    }

    /// What is known of a call at its start.
    fn draft(&self, request: &CallRequest) -> Draft {
        let inner = self.inner();
        let ports = &inner.context.ports;
        let arguments = match (&ports.recorder, &ports.observer) {
            (None, None) => RecordedArguments::Nothing,
            _ => request.recorded_arguments(),
        };
        Draft {
            id: inner.next_call(),
            caller: request.caller.clone(),
            surface: request.surface,
            conversation: request.conversation.clone(),
            kind: request.target.kind(),
            name: request.target.name().to_owned(),
            arguments,
            argument_bytes: request.content().map_or(0, |content| content.as_bytes().len()),
        }
    }

    /// Makes a call and waits for its outcome. The ports of the host answer server requests.
    pub async fn call(&self, request: CallRequest) -> CallOutcome {
        self.open(request).outcome().await
    }
}
