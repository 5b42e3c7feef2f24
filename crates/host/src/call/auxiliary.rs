//! Shared stages of requests other than calls: completion, subscription and ping.
//!
//! They are found, decided, admitted and recorded like a call, with sizes instead of contents. Their records have the
//! kind [`CallKind::Method`] and the name of the method, so that readers of the log can tell them from calls: a
//! completion is recorded for each keystroke. A subscription is recorded when it begins; reading the resource after an
//! update is a call of its own.

use toolway_wire::json::Raw;

use super::{
    CallKind, CallOutcome, Caller, CallerContext, Target,
    approving::{self, AuxiliaryRequest, CurrentGrant, Moment},
    find::Found,
    pipeline::{self, not_connected},
};
use crate::{
    connection::ReadyPeer,
    host::Inner,
    policy::{Permit, Refusal, Surface},
    record::{Draft, RecordedArguments, Recording},
};

/// A connected server, with the permit for one request.
pub(super) struct Reached {
    pub(super) found: Found,
    pub(super) ready: ReadyPeer,
    pub(super) permit: Permit,
    /// When it was decided.
    pub(super) moment: Moment,
}

impl Reached {
    /// Whether policy and the definition are still those that were decided on.
    pub(super) fn is_current(&self, host: &Inner) -> bool {
        self.moment.is_now(host, &self.found)
    }
}

/// Runs all stages before sending. No slot is held while the server is being connected.
pub(super) async fn reach(
    host: &Inner,
    caller_context: &CallerContext,
    target: &Target,
    recording: &mut Recording,
) -> Result<Reached, CallOutcome> {
    let request = AuxiliaryRequest { context: caller_context, target, annotations: None };
    let reached = reach_current(host, request, recording).await?;
    let Reached { found, ready, permit, .. } = &reached;
    recording.mark_running(permit, ready.redactor.clone()).await?;
    recording.mark_sent(found.connection.name(), permit, ready.redactor.clone(), None);
    Ok(reached)
}

/// Decides, connects and waits for a slot, until what was decided on is what is true when there is one.
async fn reach_current(
    host: &Inner,
    request: AuxiliaryRequest<'_>,
    recording: &mut Recording,
) -> Result<Reached, CallOutcome> {
    let mut previous = None;
    for _ in 0..approving::MAX_DECISIONS {
        let client_slot = host.slots.take_client_slot(&request.context.caller)?;
        let found = recording.while_pending(request.find(host)).await?;
        recording.set_subject(&found.subject, found.public_name());
        let current = approving::obtain_current_grant(host, request, previous.take(), Some(recording)).await?;
        let CurrentGrant { found, grant, moment } = current;
        let connection = &found.connection;
        let ready = recording.while_pending(connection.ready()).await;
        let ready = ready.map_err(|why| not_connected(connection, why))?;
        let permit = recording.while_pending(pipeline::admit(host, connection, grant, client_slot)).await?;
        let reached = Reached { found, ready, permit, moment };
        if reached.is_current(host) {
            return Ok(reached);
        }
        previous = Some(reached.permit.into_grant());
    }
    Err(Refusal::KeepsChanging(request.target.name().to_owned()).into())
}

impl Inner {
    pub(super) fn begin_recording(&self, caller: &Caller, method: &'static str, argument_bytes: usize) -> Recording {
        let draft = Draft {
            id: self.next_call(),
            caller: caller.clone(),
            surface: Surface::of(caller),
            conversation: None,
            kind: CallKind::Method,
            name: method.to_owned(),
            arguments: RecordedArguments::Nothing,
            argument_bytes,
        };
        Recording::begin(draft, self.record_ports())
    }
}

impl Recording {
    /// Records the end of a request other than a call, and waits until that is written.
    pub(super) async fn end_with(&mut self, result: Result<&Raw, &CallOutcome>) {
        let written = match result {
            Ok(answer) => self.end(&CallOutcome::Answered(answer.clone())),
            Err(outcome) => self.end(outcome),
        };
        if let Some(written) = written {
            written.await;
        }
    }
}
