//! State shared by both ends of an exchange: a bounded queue of events, the timeouts, and cancellation.
//!
//! Pushing an event never waits, so that one slow caller cannot block a connection that serves others: if the queue is
//! full, the oldest progress or log event is dropped and counted. Server requests and the outcome are never dropped.
//! The content of unread events is charged to the byte budget; if that is exhausted, the oldest events make room, and
//! then a server request is left unanswered and a result is replaced by a failure.

use std::{
    collections::VecDeque,
    fmt,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::oneshot, time::Instant};

use super::{
    Answer, ExchangeEvent, ExchangeTimeouts, Outcome, ServerRequest, ServerRequestDetails, ServerRequestId,
    timeouts::ExchangeClock, write_mark::WriteState,
};
use crate::{
    budget::{Charge, MemoryBudget, OverBudget},
    error::TimeoutKind,
};

type OnCancel = Box<dyn FnOnce(&str) + Send>;

pub(super) struct Core {
    // No await and no callback under this lock.
    state: Mutex<State>,
    unread: usize,
    memory: MemoryBudget,
    write_state: WriteState,
}

struct State {
    queue: VecDeque<ExchangeEvent>,
    /// Charge for the queue and the outcome.
    charge: Charge,
    /// The outcome, delivered after everything in the queue.
    end: Option<Outcome>,
    clock: ExchangeClock,
    caller: Option<Waker>,
    feeder: Option<Waker>,
    on_cancel: Option<OnCancel>,
    /// Server requests that wait for an answer.
    open_server_requests: Vec<ServerRequestId>,
    missed: u64,
    ended: bool,
    left: bool,
    /// The caller's end was dropped.
    gone: bool,
}

impl Core {
    pub(super) fn new(timeouts: ExchangeTimeouts, unread: usize, memory: MemoryBudget) -> Self {
        let state = State {
            queue: VecDeque::new(),
            charge: Charge::empty(memory.clone()),
            end: None,
            clock: ExchangeClock::new(timeouts),
            caller: None,
            feeder: None,
            on_cancel: None,
            open_server_requests: Vec::new(),
            missed: 0,
            ended: false,
            left: false,
            gone: false,
        };
        Self { state: Mutex::new(state), unread, memory, write_state: WriteState::default() }
    }

    pub(super) fn write_state(&self) -> &WriteState {
        &self.write_state
    }

    /// Returns the next event. Without one, registers the caller's waker and returns the timeout that expires first.
    pub(super) fn poll(
        &self,
        context: &Context<'_>,
    ) -> Result<ExchangeEvent, Option<(Instant, TimeoutKind, Duration)>> {
        let mut state = self.state.lock();
        if let Some(event) = state.queue.pop_front() {
            state.charge.shrink(event.size());
            return Ok(event);
        }
        if let Some(outcome) = state.end.take() {
            state.charge.shrink(outcome.size());
            return Ok(ExchangeEvent::Ended(outcome));
        }
        store_waker(&mut state.caller, context);
        Err(state.clock.deadline())
    }

    /// Forgets the caller's waker: the caller is about to read and need not be woken.
    pub(super) fn clear_caller_waker(&self) {
        self.state.lock().caller = None;
    }

    /// Returns the total timeout if it expired before the outcome.
    pub(super) fn overdue(&self) -> Option<Duration> {
        let state = self.state.lock();
        state.clock.overdue().filter(|_| !state.ended)
    }

    pub(super) fn push_event(&self, event: ExchangeEvent) {
        let mut state = self.state.lock();
        if state.ended || state.left {
            return;
        }
        state.clock.record_activity();
        if self.unread <= state.queue.len() {
            state.drop_oldest();
        }
        if state.make_room(event.size()).is_err() {
            state.missed += 1;
            return;
        }
        state.queue.push_back(event);
        wake(state.caller.take());
    }

    pub(super) fn ask(self: &Arc<Self>, details: ServerRequestDetails) -> oneshot::Receiver<Answer> {
        let (sender, receiver) = oneshot::channel();
        let size = details.params.as_ref().map_or(0, |params| params.as_bytes().len());
        let charge = self.memory.charge(size);
        let over_budget = charge.is_err();
        let request = ServerRequest::new(details, Arc::clone(self), sender, charge.unwrap_or_default());
        let mut state = self.state.lock();
        state.open_server_requests.push(request.details.id);
        state.clock.pause();
        if state.ended || state.left || over_budget {
            drop(state);
            drop(request);
            return receiver;
        }
        state.queue.push_back(ExchangeEvent::ServerRequest(request));
        wake(state.caller.take());
        receiver
    }

    /// Marks a server request as answered or withdrawn; after the last one the timeouts run again.
    pub(super) fn close_server_request(&self, id: ServerRequestId) {
        let mut state = self.state.lock();
        let Some(index) = state.open_server_requests.iter().position(|open| *open == id) else { return };
        state.open_server_requests.swap_remove(index);
        if state.open_server_requests.is_empty() {
            state.clock.resume();
            wake(state.caller.take());
        }
    }

    pub(super) fn end(&self, outcome: Outcome) -> bool {
        let mut state = self.state.lock();
        if state.ended || state.left {
            return false;
        }
        state.ended = true;
        let on_cancel = state.on_cancel.take();
        let outcome = match state.make_room(outcome.size()) {
            Ok(()) => outcome,
            Err(error) => Outcome::Failed(error.into()),
        };
        state.end = Some(outcome);
        let caller = state.caller.take();
        drop(state);
        wake(caller);
        drop(on_cancel);
        true
    }

    /// Whether it has ended or was cancelled.
    pub(super) fn is_over(&self) -> bool {
        let state = self.state.lock();
        state.ended || state.left
    }

    /// Cancels; the caller keeps reading and gets the outcome `Cancelled`.
    pub(super) fn cancel(&self, reason: &str) {
        self.cancel_if(|_| true, reason);
    }

    /// Cancels if a server request is unanswered; returns whether it did.
    pub(super) fn cancel_if_awaiting_answer(&self, reason: &str) -> bool {
        self.cancel_if(|state| !state.open_server_requests.is_empty(), reason)
    }

    fn cancel_if(&self, condition: impl FnOnce(&State) -> bool, reason: &str) -> bool {
        let on_cancel = {
            let mut state = self.state.lock();
            if state.ended || !condition(&state) {
                return false;
            }
            state.ended = true;
            state.left = true;
            state.end = Some(Outcome::Cancelled);
            wake(state.feeder.take());
            // The reading task need not be the one that cancels.
            wake(state.caller.take());
            state.on_cancel.take()
        };
        if let Some(act) = on_cancel {
            act(reason);
        }
        true
    }

    /// The caller's end is dropped: unread events and server requests are discarded.
    pub(super) fn leave(&self, reason: &str) {
        let (unread, on_cancel) = {
            let mut state = self.state.lock();
            let unended = !state.ended;
            (state.left, state.ended, state.gone) = (true, true, true);
            wake(state.feeder.take());
            let unread = (std::mem::take(&mut state.queue), state.end.take());
            state.charge = Charge::default();
            (unread, state.on_cancel.take().filter(|_| unended))
        };
        // Outside the lock: dropping an unanswered server request locks this core.
        drop(unread);
        if let Some(act) = on_cancel {
            act(reason);
        }
    }

    pub(super) fn when_cancelled(&self, act: OnCancel) {
        let mut state = self.state.lock();
        if state.left {
            drop(state);
            act("the caller disconnected");
        } else if !state.ended {
            state.on_cancel = Some(act);
        }
    }

    pub(super) fn poll_left(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.left {
            return Poll::Ready(());
        }
        store_waker(&mut state.feeder, context);
        Poll::Pending
    }

    pub(super) fn has_left(&self) -> bool {
        self.state.lock().left
    }

    pub(super) fn is_gone(&self) -> bool {
        self.state.lock().gone
    }

    pub(super) fn is_open(&self, id: ServerRequestId) -> bool {
        self.state.lock().open_server_requests.contains(&id)
    }

    pub(super) fn open_server_requests(&self) -> usize {
        self.state.lock().open_server_requests.len()
    }

    pub(super) fn missed(&self) -> u64 {
        self.state.lock().missed
    }
}

impl State {
    /// Drops the oldest progress or log event; returns whether there was one.
    fn drop_oldest(&mut self) -> bool {
        let oldest = self.queue.iter().position(ExchangeEvent::is_droppable);
        let Some(event) = oldest.and_then(|oldest| self.queue.remove(oldest)) else { return false };
        self.charge.shrink(event.size());
        self.missed += 1;
        true
    }

    /// Charges `size` bytes; drops the oldest events if the budget is exhausted.
    fn make_room(&mut self, size: usize) -> Result<(), OverBudget> {
        loop {
            match self.charge.grow(size) {
                Err(_) if self.drop_oldest() => {}
                charged => return charged,
            }
        }
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").finish_non_exhaustive()
    }
}

fn store_waker(slot: &mut Option<Waker>, context: &Context<'_>) {
    if !slot.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
        *slot = Some(context.waker().clone());
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
