//! A call whose server hands it over to a task, seen through to the end for a caller that wants none.

use std::{
    fmt,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use toolway_config::ServerName;
use toolway_host::{
    Host,
    call::{CallOutcome, OnBehalf, beside::TasksOf},
};
use toolway_wire::{
    error::WireError,
    exchange::{Between, Exchange, Happening, Outcome},
};

use super::tasks;

/// A call, and the task that may take its place.
pub(super) struct Driven {
    host: Host,
    on_behalf: OnBehalf,
    server: ServerName,
    stage: Stage,
}

enum Stage {
    /// The call itself.
    Call(Exchange),
    /// Its server is being asked for the task.
    Asking(BoxFuture<'static, Result<TasksOf, CallOutcome>>, String),
    /// The task; what reaches it is held as long.
    Task(Exchange, #[expect(dead_code, reason = "held as long as the task is followed")] TasksOf),
    Ended,
}

/// A call whose task, if there will be one, is nobody's business but ours.
pub(super) fn driven(host: Host, on_behalf: OnBehalf, server: ServerName, call: Exchange) -> Exchange {
    Exchange::through(Driven { host, on_behalf, server, stage: Stage::Call(call) })
}

/// A task of a server's, followed to its end.
pub(super) fn seen_through(host: Host, on_behalf: OnBehalf, server: ServerName, id: String) -> Exchange {
    let mut driven = Driven { host, on_behalf, server, stage: Stage::Ended };
    driven.follow(id);
    Exchange::through(driven)
}

impl Driven {
    fn follow(&mut self, id: String) {
        let (host, on_behalf, server, task) =
            (self.host.clone(), self.on_behalf.clone(), self.server.clone(), id.clone());
        let asking = async move { host.tasks(on_behalf, &server, Some(&task)).await };
        self.stage = Stage::Asking(Box::pin(asking), id);
    }

    fn end(&mut self, outcome: Outcome) -> Poll<Option<Happening>> {
        self.stage = Stage::Ended;
        Poll::Ready(Some(Happening::Ended(outcome)))
    }
}

impl Between for Driven {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Happening>> {
        loop {
            match &mut self.stage {
                Stage::Ended => return Poll::Ready(None),
                Stage::Call(exchange) => match exchange.poll_next(context) {
                    Poll::Ready(Some(Happening::Ended(Outcome::HandedOff(task)))) => self.follow(task.id.clone()),
                    other => return other,
                },
                Stage::Task(exchange, _) => return exchange.poll_next(context),
                Stage::Asking(asking, id) => match asking.as_mut().poll(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(of_server)) => {
                        let exchange = of_server.tasks().see_through(id, tasks::patience());
                        self.stage = Stage::Task(exchange, of_server);
                    }
                    Poll::Ready(Err(outcome)) => {
                        let message = outcome.message().unwrap_or_default();
                        return self.end(Outcome::Failed(WireError::Refused(message)));
                    }
                },
            }
        }
    }

    fn cancel(&mut self, reason: &str) {
        match &mut self.stage {
            Stage::Call(exchange) | Stage::Task(exchange, _) => exchange.cancel(reason),
            Stage::Asking(..) => self.stage = Stage::Call(Exchange::ended(Outcome::Cancelled)),
            Stage::Ended => {}
        }
    }

    fn missed(&self) -> u64 {
        match &self.stage {
            Stage::Call(exchange) | Stage::Task(exchange, _) => exchange.missed(),
            Stage::Asking(..) | Stage::Ended => 0,
        }
    }
}

impl fmt::Debug for Driven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driven").field("server", &self.server).finish_non_exhaustive()
    }
}
