//! What a supervisor is told to do from outside, and what it does about it.

use tokio::sync::oneshot;

use super::{Aim, Doing, Grace, Next, Supervisor};
use crate::connection::{
    live::Order,
    state::{Phase, Stopped},
};

impl Supervisor {
    /// Does as it is told; whoever said it hears that it was taken.
    pub(super) fn ordered(&mut self, order: Order) -> Next {
        match order {
            Order::Wake => {
                // Somebody may have said otherwise since it was wanted.
                let sleeps = Phase::Stopped(Stopped::NotNeededYet) == self.status.phase
                    || Phase::Stopped(Stopped::Idle) == self.status.phase
                    || matches!(self.status.phase, Phase::Waiting { .. } | Phase::Failed { .. });
                match &mut self.doing {
                    Doing::Resting | Doing::Waiting(_) if sleeps => self.dial(),
                    // It is being stopped for want of use, and is not unwanted any more.
                    Doing::Closing(_, aim) if sleeps && aim.is_sleep() => *aim = Aim::Dial,
                    _ => {}
                }
                Next::Wait
            }
            Order::Suspect { generation, error } => self.suspect(generation, &error),
            Order::SessionChanged { generation } => {
                if let Doing::Serving(attached) = &mut self.doing
                    && generation == self.generation
                {
                    attached.refresh();
                    self.tell_profile();
                }
                Next::Wait
            }
            Order::Connect(done) => {
                self.backoff.succeed();
                let next = match self.doing {
                    Doing::Serving(_) | Doing::Dialling(_) => Next::Wait,
                    _ => self.go(Aim::Dial, Grace::None),
                };
                finish(done, next)
            }
            Order::Reconnect(done) => {
                self.backoff.succeed();
                let next = self.go(Aim::Dial, Grace::None);
                finish(done, next)
            }
            Order::Disconnect(done) => {
                let next = self.go(Aim::Rest(Phase::Stopped(Stopped::Disconnected)), Grace::None);
                finish(done, next)
            }
            Order::Refresh(done) => {
                if let Doing::Serving(attached) = &mut self.doing {
                    self.listed = false;
                    attached.refresh();
                    self.publish();
                }
                finish(done, Next::Wait)
            }
            Order::LogLevel(level, done) => {
                self.log_level = Some(level);
                if let Doing::Serving(attached) = &mut self.doing {
                    attached.set_log_level(level);
                }
                finish(done, Next::Wait)
            }
            Order::Toggle(standing, done) => {
                let before = self.toggled.replace(standing).unwrap_or(self.wanted.standing);
                // Said again, it changes nothing.
                let next = if before == standing { Next::Wait } else { self.go(self.aim(), Grace::None) };
                finish(done, next)
            }
        }
    }
}

/// Whoever gave the order is told that it was taken; it may have left.
fn finish(done: oneshot::Sender<()>, next: Next) -> Next {
    let _left = done.send(());
    next
}
