//! An exchange that is recorded: it begins when its record is written, and ends before its outcome is returned.

use std::{
    fmt,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use toolway_wire::{
    exchange::{Exchange, ExchangeEvent, ExchangeInterceptor, Outcome},
    message::RpcError,
};

use super::CallOutcome;
use crate::{audience::ClientText, policy::Refusal, record::Recording};

/// An exchange with its recording.
pub(super) struct RecordedExchange {
    stage: Stage,
}

/// An exchange that begins once its record is written.
type Opening = BoxFuture<'static, (Recording, Result<Exchange, Refusal>)>;

enum Stage {
    Opening(Opening),
    Open(Exchange, Box<Recording>),
    /// The outcome is returned when its record is written.
    Recording(BoxFuture<'static, ()>, Option<Outcome>),
    Ended,
}

impl RecordedExchange {
    pub(super) fn new(opening: Opening) -> Self {
        Self { stage: Stage::Opening(opening) }
    }

    fn end(mut recording: Recording, recorded: &CallOutcome, outcome: Outcome) -> Stage {
        let written = recording.end(recorded).unwrap_or_else(|| Box::pin(std::future::ready(())));
        Stage::Recording(written, Some(outcome))
    }
}

impl ExchangeInterceptor for RecordedExchange {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<ExchangeEvent>> {
        loop {
            match &mut self.stage {
                Stage::Opening(opening) => match std::task::ready!(opening.as_mut().poll(context)) {
                    (recording, Ok(exchange)) => self.stage = Stage::Open(exchange, Box::new(recording)),
                    (recording, Err(refusal)) => {
                        let error = RpcError::new(RpcError::INTERNAL, &ClientText::from(&refusal).to_string());
                        self.stage = Self::end(recording, &refusal.into(), Outcome::Refused(error));
                    }
                },
                Stage::Open(exchange, recording) => match std::task::ready!(exchange.poll_next(context)) {
                    Some(ExchangeEvent::ServerRequest(request)) => {
                        recording.count_server_request(&request.details.method);
                        let request = recording.observe_answer(request);
                        return Poll::Ready(Some(ExchangeEvent::ServerRequest(request)));
                    }
                    Some(ExchangeEvent::Ended(outcome)) => {
                        let Stage::Open(_, recording) = std::mem::replace(&mut self.stage, Stage::Ended) else {
                            return Poll::Ready(None);
                        };
                        self.stage = Self::end(*recording, &CallOutcome::from(outcome.clone()), outcome);
                    }
                    event => return Poll::Ready(event),
                },
                Stage::Recording(written, outcome) => {
                    std::task::ready!(written.as_mut().poll(context));
                    let outcome = outcome.take();
                    self.stage = Stage::Ended;
                    return Poll::Ready(outcome.map(ExchangeEvent::Ended));
                }
                Stage::Ended => return Poll::Ready(None),
            }
        }
    }

    fn cancel(&mut self, reason: &str) {
        match &mut self.stage {
            // Nothing was sent. Dropping the recording records the cancellation.
            Stage::Opening(_) => {
                self.stage = Stage::Recording(Box::pin(std::future::ready(())), Some(Outcome::Cancelled));
            }
            Stage::Open(exchange, _) => exchange.cancel(reason),
            Stage::Recording(..) | Stage::Ended => {}
        }
    }

    fn missed(&self) -> u64 {
        match &self.stage {
            Stage::Open(exchange, _) => exchange.missed(),
            Stage::Opening(_) | Stage::Recording(..) | Stage::Ended => 0,
        }
    }
}

impl fmt::Debug for RecordedExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecordedExchange")
    }
}
