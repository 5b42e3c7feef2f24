//! The deadline of a call: its total time, whatever progress it reports, without the time that a person takes to answer.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep_until};
use toolway_wire::error::TimeoutKind;

use super::{CallOutcome, client_approval::OpenCall};
use crate::record::{PersonWait, Recording};

/// When a call began, and how long it has waited for a person.
#[derive(Clone, Debug)]
pub(super) struct CallClock {
    began: Instant,
    person_wait: PersonWait,
}

/// The deadline of one call.
pub(super) struct Deadline {
    clock: CallClock,
    limit: Duration,
    timer: Pin<Box<Sleep>>,
}

/// How often the time is looked at while a person is waited for: only the end of that wait lets the time go on.
const WHILE_WAITING: Duration = Duration::from_millis(50);

// === impl CallClock ===

impl CallClock {
    pub(super) fn of(recording: &Recording) -> Self {
        Self { began: recording.began(), person_wait: recording.person_wait().clone() }
    }

    /// The deadline of a call; `None` if it has none, or if it is not known yet.
    pub(super) fn deadline(&self, call: &OpenCall) -> Option<Deadline> {
        let limit = call.bounds()?.deadline?;
        let timer = Box::pin(sleep_until(self.began + limit));
        Some(Deadline { clock: self.clone(), limit, timer })
    }

    /// Runs the stages of a call before it is sent, until its deadline.
    pub(super) async fn bound<T>(
        &self,
        call: &OpenCall,
        stages: impl Future<Output = Result<T, CallOutcome>>,
    ) -> Result<T, CallOutcome> {
        let mut stages = pin!(stages);
        let mut deadline = None;
        poll_fn(|context| {
            if let Poll::Ready(done) = stages.as_mut().poll(context) {
                return Poll::Ready(done);
            }
            if deadline.is_none() {
                deadline = self.deadline(call);
            }
            let Some(deadline) = &mut deadline else { return Poll::Pending };
            deadline.poll(context).map(Err)
        })
        .await
    }
}

// === impl Deadline ===

impl Deadline {
    /// The outcome of the call, when its time has passed.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<CallOutcome> {
        loop {
            let CallClock { began, person_wait } = &self.clock;
            let now = Instant::now();
            let at = *began + self.limit + person_wait.total();
            if at <= now {
                return Poll::Ready(CallOutcome::TimedOut { kind: TimeoutKind::Deadline, limit: self.limit });
            }
            let at = if person_wait.is_open() { at.max(now + WHILE_WAITING) } else { at };
            if self.timer.deadline() != at {
                self.timer.as_mut().reset(at);
            }
            ready!(self.timer.as_mut().poll(context));
        }
    }
}
