//! The commands that a supervisor receives from outside.

use tokio::sync::oneshot;

use super::{Activity, Goal, Grace, Next, Supervisor};
use crate::connection::{
    handle::SupervisorCommand,
    state::{Phase, StopReason},
};

impl Supervisor {
    /// Executes a command, then acknowledges it.
    pub(super) fn execute(&mut self, order: SupervisorCommand) -> Next {
        match order {
            SupervisorCommand::Wake => {
                // The state may have changed since the call asked for the server.
                let sleeps = Phase::Stopped(StopReason::NotNeededYet) == self.status.phase
                    || Phase::Stopped(StopReason::Idle) == self.status.phase
                    || matches!(self.status.phase, Phase::Waiting { .. } | Phase::Failed { .. });
                match &mut self.activity {
                    Activity::Resting | Activity::Waiting(_) if sleeps => self.dial(),
                    // It is being closed because it was idle, and is needed again.
                    Activity::Closing(_, goal) if sleeps && goal.is_sleep() => *goal = Goal::Dial,
                    _ => {}
                }
                Next::Wait
            }
            SupervisorCommand::Suspect { generation, error } => self.suspect(generation, &error),
            SupervisorCommand::HandedOver { generation } => {
                if let Activity::Serving(attached) = &mut self.activity
                    && generation == self.generation
                {
                    attached.stop_following();
                }
                Next::Wait
            }
            SupervisorCommand::SessionChanged { generation } => {
                if let Activity::Serving(attached) = &mut self.activity
                    && generation == self.generation
                {
                    attached.refresh();
                    self.publish_profile();
                }
                Next::Wait
            }
            SupervisorCommand::Connect(done) => {
                self.backoff.succeed();
                let next = match self.activity {
                    Activity::Serving(_) | Activity::Dialling(_) => Next::Wait,
                    _ => self.close_then(Goal::Dial, Grace::None),
                };
                acknowledge(done, next)
            }
            SupervisorCommand::Reconnect(done) => {
                self.backoff.succeed();
                let next = self.close_then(Goal::Dial, Grace::None);
                acknowledge(done, next)
            }
            SupervisorCommand::CapabilitiesChanged => match self.activity {
                Activity::Serving(_) | Activity::Dialling(_) => self.close_then(Goal::Dial, Grace::Moment),
                Activity::Resting | Activity::Waiting(_) | Activity::Closing(..) => Next::Wait,
            },
            SupervisorCommand::Disconnect(done) => {
                let next = self.close_then(Goal::Rest(Phase::Stopped(StopReason::Disconnected)), Grace::None);
                acknowledge(done, next)
            }
            SupervisorCommand::Refresh(done) => {
                if let Activity::Serving(attached) = &mut self.activity {
                    self.listed = false;
                    attached.refresh();
                    self.publish();
                }
                acknowledge(done, Next::Wait)
            }
            SupervisorCommand::LogLevel(level, done) => {
                self.log_level = Some(level);
                if let Activity::Serving(attached) = &mut self.activity {
                    attached.set_log_level(level);
                }
                acknowledge(done, Next::Wait)
            }
            SupervisorCommand::Toggle(standing, done) => {
                let before = self.toggled.replace(standing).unwrap_or(self.wanted.standing);
                // Repeating the same toggle changes nothing.
                let next = if before == standing { Next::Wait } else { self.close_then(self.goal(), Grace::None) };
                acknowledge(done, next)
            }
        }
    }
}

/// Acknowledges a command; its sender may be gone.
fn acknowledge(done: oneshot::Sender<()>, next: Next) -> Next {
    let _gone = done.send(());
    next
}
