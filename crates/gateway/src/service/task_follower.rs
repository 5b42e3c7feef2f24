//! A call whose server hands it over to a task, seen through to the end for a caller that wants none.
//!
//! Whoever leaves such a call does not know of the task, so that it is stopped for them. Whoever follows a task of its own
//! may leave and come back.

use std::{
    fmt,
    task::{Context, Poll},
    time::Duration,
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
    leaving: Leaving,
}

/// What becomes of the task when nobody waits for its end any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    StopsIt,
    LetsItGoOn,
}

enum Stage {
    /// The call itself.
    Call(Exchange),
    /// Its server is being asked for the task.
    Asking(BoxFuture<'static, Result<TasksOf, CallOutcome>>, String),
    /// The task; what reaches it is held as long.
    Task(Exchange, TasksOf, String),
    Ended,
}

/// How long a server may take to stop a task that nobody waits for.
const TO_STOP: Duration = Duration::from_secs(30);

/// A call whose task, if there will be one, is nobody's business but ours.
pub(super) fn driven(host: &Host, on_behalf: OnBehalf, server: ServerName, call: Exchange) -> Exchange {
    let (host, stage) = (host.clone(), Stage::Call(call));
    Exchange::through(Driven { host, on_behalf, server, stage, leaving: Leaving::StopsIt })
}

/// A task of a server's, followed to its end.
pub(super) fn seen_through(host: &Host, on_behalf: OnBehalf, server: ServerName, id: String) -> Exchange {
    let (host, stage) = (host.clone(), Stage::Ended);
    let mut driven = Driven { host, on_behalf, server, stage, leaving: Leaving::LetsItGoOn };
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

    /// Nobody waits any more. What is known of a task is told its server, by the way it is reached already where there is
    /// one.
    fn leave(&mut self) {
        if self.leaving == Leaving::LetsItGoOn {
            return;
        }
        let stopping: BoxFuture<'static, ()> = match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Asking(asking, id) => Box::pin(async move {
                if let Ok(of_server) = asking.await {
                    drop(of_server.tasks().cancel(&id).await);
                }
            }),
            Stage::Task(_, of_server, id) => Box::pin(async move { drop(of_server.tasks().cancel(&id).await) }),
            stage @ (Stage::Call(_) | Stage::Ended) => {
                self.stage = stage;
                return;
            }
        };
        // A server that does not answer has been told all the same.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { drop(tokio::time::timeout(TO_STOP, stopping).await) });
        }
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
                Stage::Task(exchange, ..) => {
                    let happening = exchange.poll_next(context);
                    if matches!(happening, Poll::Ready(Some(Happening::Ended(_)) | None)) {
                        self.stage = Stage::Ended;
                    }
                    return happening;
                }
                Stage::Asking(asking, id) => match asking.as_mut().poll(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(of_server)) => {
                        let exchange = of_server.tasks().see_through(id, tasks::patience());
                        let id = std::mem::take(id);
                        self.stage = Stage::Task(exchange, of_server, id);
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
            Stage::Call(exchange) => exchange.cancel(reason),
            Stage::Asking(..) | Stage::Task(..) => {
                self.leave();
                self.stage = Stage::Call(Exchange::ended(Outcome::Cancelled));
            }
            Stage::Ended => {}
        }
    }

    fn missed(&self) -> u64 {
        match &self.stage {
            Stage::Call(exchange) | Stage::Task(exchange, ..) => exchange.missed(),
            Stage::Asking(..) | Stage::Ended => 0,
        }
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        self.leave();
    }
}

impl fmt::Debug for Driven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driven").field("server", &self.server).finish_non_exhaustive()
    }
}
