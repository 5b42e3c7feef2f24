//! A call that its server continues as a task, or that is a task for its caller: its row, and who follows it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use toolway_wire::{exchange::Exchange, task::Task};

use super::{Relay, RelayStage};
use crate::{
    call::{
        CallOutcome, TaskHandling,
        tasks::followed::{self, Reconnection},
    },
    connection::InFlightCall,
    record::Recording,
    task::{AnsweredBy, BackgroundTask, KeptBy, NotFollowed, SampledTask, TaskOrigin, TrackedTask},
};

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
        let origin = TaskOrigin { kept_by: sent.keeps_tasks(), answered_by, capabilities };
        let ports = self.host.context.task_ports();
        Some(TrackedTask::begin(task, recording.record()?, origin, ports, sent.redactor.clone()))
    }

    /// The row of a call that is a task for its caller. It ends with this process, unless its server continues it.
    pub(super) fn host_task(&self, sent: &InFlightCall, recording: &Recording) -> Option<TrackedTask> {
        let task = Task::new("", self.request.task_ttl, None);
        let capabilities = self.request.capabilities.clone();
        let origin = TaskOrigin { kept_by: KeptBy::Process, answered_by: AnsweredBy::Client, capabilities };
        let ports = self.host.context.task_ports();
        let (tracked, _written) = TrackedTask::begin(&task, recording.record()?, origin, ports, sent.redactor.clone());
        Some(tracked)
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
                attendance: self.request.attendance,
                called: self.request.target.name().to_owned(),
                person_wait: self.person_wait.clone(),
            },
        };
        match following.start(&self.host, tracked) {
            Ok(starting) => {
                starting.with_recording(recording);
                self.stage = RelayStage::Recording(written, Some(outcome));
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
