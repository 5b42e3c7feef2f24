//! A call that its server continues as a task, or that is a task for its caller: its row, and who follows it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use toolway_wire::{exchange::Exchange, task::Task};

use super::{Relay, RelayStage};
use crate::{
    call::{
        CallOutcome, CallRequest, TaskHandling,
        tasks::followed::{self, Reconnection},
    },
    connection::InFlightCall,
    host::Inner,
    record::{EndRecord, Recording, redact::Redactor},
    task::{AnsweredBy, BackgroundTask, KeptBy, NotFollowed, SampledTask, TaskOrigin, TaskSessions, TrackedTask},
};

/// The row of a call that is a task for its caller, from the beginning on: the caller is given its id at once.
#[derive(Default)]
pub(super) struct HostedRow {
    pub(super) tracked: Option<TrackedTask>,
    /// Resolves when it is written.
    pub(super) written: Option<BoxFuture<'static, ()>>,
}

impl HostedRow {
    /// The row of a hosted call; nothing for any other. It ends with this process, unless a server continues the call.
    pub(super) fn begin(host: &Inner, request: &CallRequest, recording: &Recording) -> Self {
        let Some(record) = recording.record().filter(|_| request.task == TaskHandling::Hosted) else {
            return Self::default();
        };
        // A row is removed with the record of its call.
        recording.ensure_pending_written();
        let task = Task::new("", request.task_ttl, None);
        let origin = TaskOrigin {
            kept_by: KeptBy::Process,
            answered_by: AnsweredBy::Client,
            capabilities: request.capabilities.clone(),
            hosted_for: request.hosted_for.clone(),
        };
        let ports = host.context.task_ports();
        let (tracked, written) = TrackedTask::begin(&task, record, origin, ports, Redactor::default());
        Self { tracked: Some(tracked), written: Some(written) }
    }
}

impl Relay {
    /// The row of the task that continues the call, and when it is written; `None` after the end of the record.
    pub(super) fn track(
        &self,
        sent: &InFlightCall,
        recording: &Recording,
        task: &Task,
    ) -> Option<(TrackedTask, BoxFuture<'static, ()>)> {
        let answered_by = match self.request.task {
            TaskHandling::Await | TaskHandling::Background => AnsweredBy::Host,
            TaskHandling::Hosted | TaskHandling::HandOver => AnsweredBy::Client,
        };
        let capabilities = self.request.capabilities.clone();
        let origin = TaskOrigin { kept_by: sent.keeps_tasks(), answered_by, capabilities, hosted_for: None };
        let ports = self.host.context.task_ports();
        Some(TrackedTask::begin(task, recording.record()?, origin, ports, sent.redactor.clone()))
    }

    /// The exchange of the task that continues the call.
    pub(super) fn follow(&self, sent: &InFlightCall, task: &Task) -> Exchange {
        let again = (sent.keeps_tasks() == KeptBy::Server).then(|| Reconnection {
            host: Arc::clone(&self.host),
            server: sent.connection.name().clone(),
            caller_context: self.request.caller_context(),
        });
        followed::follow(sent.tasks(self.request.capabilities.clone()), task, again)
    }

    /// Ends the call with its task, once that is written. The host follows it, and ends the record with it.
    pub(super) fn hand_over(&mut self, sent: &InFlightCall, recording: Box<Recording>, task: &Task) {
        let outcome = CallOutcome::HandedOff(Box::new(task.clone()));
        let Some((tracked, written)) = self.track(sent, &recording, task) else { return };
        let following = BackgroundTask {
            process: sent.process(),
            origin: self.request.origin(self.id),
            caller_context: self.request.caller_context(),
            redactor: sent.redactor.clone(),
            sampling: SampledTask {
                mode: self.request.mode,
                assistant: self.request.assistant.clone(),
                attendance: self.request.attendance,
                called: self.request.target.name().to_owned(),
                person_wait: self.person_wait.clone(),
            },
            poll_interval: self.request.poll_interval,
            sessions: TaskSessions::Ours,
        };
        match following.start(&self.host, tracked) {
            Ok(starting) => {
                starting.with_recording(recording);
                let kept = Box::pin(async move {
                    written.await;
                    EndRecord::Kept
                });
                self.stage = RelayStage::Recording(kept, Some(outcome));
            }
            // The caller is told what is recorded, and the task does not go on unseen: it is cancelled at its server.
            Err(not_followed) => {
                let NotFollowed { tracked, outcome } = *not_followed;
                drop(followed::follow(sent.tasks(self.request.capabilities.clone()), task, None));
                self.task = Some(tracked);
                self.end(recording, outcome);
            }
        }
    }
}
