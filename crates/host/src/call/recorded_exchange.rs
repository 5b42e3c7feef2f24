//! The exchange of a task that is recorded: it begins when its record is written, and ends before its outcome is returned.

use std::{
    fmt,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use toolway_wire::{
    exchange::{Exchange, ExchangeEvent, ExchangeInterceptor, Outcome},
    message::RpcError,
};

use super::{CallError, CallOutcome, tasks::withheld};
use crate::{
    audience::ClientText,
    policy::{Refusal, limit::taken::CallBounds},
    record::{EndRecord, Recording},
};

/// An exchange with its recording.
pub(super) struct RecordedExchange {
    stage: RecordedStage,
    on_result: OnResult,
    /// What its result may not exceed.
    bounds: CallBounds,
}

/// Called with the result of the task, if it has one.
type OnResult = Box<dyn Fn(CallOutcome) + Send + Sync>;

/// An exchange that begins once its record is written.
type Opening = BoxFuture<'static, (Recording, Result<Exchange, Refusal>)>;

enum RecordedStage {
    Opening(Opening),
    Open(Exchange, Box<Recording>),
    /// The outcome is returned when its record is written.
    Recording(BoxFuture<'static, EndRecord>, Option<Outcome>),
    Ended,
}

impl RecordedExchange {
    pub(super) fn new(opening: Opening, on_result: OnResult, bounds: CallBounds) -> Self {
        Self { stage: RecordedStage::Opening(opening), on_result, bounds }
    }

    fn end(mut recording: Recording, recorded: &CallOutcome, outcome: Outcome) -> RecordedStage {
        let written = recording.end(recorded).unwrap_or_else(|| Box::pin(std::future::ready(EndRecord::Kept)));
        RecordedStage::Recording(written, Some(outcome))
    }
}

impl ExchangeInterceptor for RecordedExchange {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<ExchangeEvent>> {
        loop {
            match &mut self.stage {
                RecordedStage::Opening(opening) => match std::task::ready!(opening.as_mut().poll(context)) {
                    (mut recording, Ok(exchange)) => {
                        recording.assume_written();
                        self.stage = RecordedStage::Open(exchange, Box::new(recording));
                    }
                    (recording, Err(refusal)) => {
                        let error = RpcError::new(RpcError::INTERNAL, &ClientText::from(&refusal).to_string());
                        self.stage = Self::end(recording, &refusal.into(), Outcome::Refused(error));
                    }
                },
                RecordedStage::Open(exchange, recording) => match std::task::ready!(exchange.poll_next(context)) {
                    Some(ExchangeEvent::ServerRequest(request)) => {
                        recording.count_server_request(&request.details.method);
                        let request = recording.observe_answer(request);
                        return Poll::Ready(Some(ExchangeEvent::ServerRequest(request)));
                    }
                    Some(ExchangeEvent::Ended(outcome)) => {
                        let RecordedStage::Open(_, recording) =
                            std::mem::replace(&mut self.stage, RecordedStage::Ended)
                        else {
                            return Poll::Ready(None);
                        };
                        let recorded = CallOutcome::from(outcome.clone());
                        if matches!(recorded, CallOutcome::Answered(_)) {
                            (self.on_result)(recorded.clone());
                        }
                        self.stage = match recorded.result().and_then(|result| self.bounds.exceeded_by(result)) {
                            None => Self::end(*recording, &recorded, outcome),
                            Some(reached) => {
                                let outcome = Outcome::Refused(withheld(&reached));
                                let recorded = CallOutcome::Failed(CallError::Limit(Box::new(reached)));
                                Self::end(*recording, &recorded, outcome)
                            }
                        };
                    }
                    event => return Poll::Ready(event),
                },
                RecordedStage::Recording(written, outcome) => {
                    std::task::ready!(written.as_mut().poll(context));
                    let outcome = outcome.take();
                    self.stage = RecordedStage::Ended;
                    return Poll::Ready(outcome.map(ExchangeEvent::Ended));
                }
                RecordedStage::Ended => return Poll::Ready(None),
            }
        }
    }

    fn cancel(&mut self, reason: &str) {
        match &mut self.stage {
            // Nothing was sent. Dropping the recording records the cancellation.
            RecordedStage::Opening(_) => {
                self.stage =
                    RecordedStage::Recording(Box::pin(std::future::ready(EndRecord::Kept)), Some(Outcome::Cancelled));
            }
            RecordedStage::Open(exchange, _) => exchange.cancel(reason),
            RecordedStage::Recording(..) | RecordedStage::Ended => {}
        }
    }

    fn missed(&self) -> u64 {
        match &self.stage {
            RecordedStage::Open(exchange, _) => exchange.missed(),
            RecordedStage::Opening(_) | RecordedStage::Recording(..) | RecordedStage::Ended => 0,
        }
    }
}

impl fmt::Debug for RecordedExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecordedExchange")
    }
}
