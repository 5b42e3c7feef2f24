//! Follows a task of a server for its caller, who may leave and come back: the task continues. A call whose task its caller
//! does not know is followed by the host.

use std::{
    fmt,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use toolway_config::ServerName;
use toolway_host::{
    Host,
    call::{CallOutcome, CallerContext, CallerTasks},
};
use toolway_wire::exchange::{Exchange, ExchangeEvent, ExchangeInterceptor, Outcome};

use super::tasks;

/// A task of a server.
pub(super) struct TaskFollower {
    server: ServerName,
    stage: Stage,
}

enum Stage {
    /// Getting access to the task at its server.
    Resolving(BoxFuture<'static, Result<CallerTasks, CallOutcome>>, String),
    /// The task; keeps its access to the server alive.
    Task {
        exchange: Exchange,
        _access: Box<CallerTasks>,
    },
    Cancelled,
    Ended,
}

/// Follows an existing task of a server to its end.
pub(super) fn follow_task(host: &Host, caller_context: CallerContext, server: ServerName, id: String) -> Exchange {
    let (host, task, at) = (host.clone(), id.clone(), server.clone());
    let resolving = async move { host.tasks(caller_context, &at, Some(&task)).await };
    Exchange::through(TaskFollower { server, stage: Stage::Resolving(Box::pin(resolving), id) })
}

impl TaskFollower {
    fn end(&mut self, outcome: Outcome) -> Poll<Option<ExchangeEvent>> {
        self.stage = Stage::Ended;
        Poll::Ready(Some(ExchangeEvent::Ended(outcome)))
    }
}

impl ExchangeInterceptor for TaskFollower {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<ExchangeEvent>> {
        loop {
            match &mut self.stage {
                Stage::Ended => return Poll::Ready(None),
                Stage::Cancelled => return self.end(Outcome::Cancelled),
                Stage::Task { exchange, .. } => {
                    let event = exchange.poll_next(context);
                    if matches!(event, Poll::Ready(Some(ExchangeEvent::Ended(_)) | None)) {
                        self.stage = Stage::Ended;
                    }
                    return event.map(|event| event.map(|event| event.map_outcome(tasks::without_details)));
                }
                Stage::Resolving(resolving, id) => match resolving.as_mut().poll(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(of_server)) => {
                        let exchange = of_server.tasks().follow(id, tasks::no_timeouts());
                        self.stage = Stage::Task { exchange, _access: Box::new(of_server) };
                    }
                    Poll::Ready(Err(outcome)) => {
                        return self.end(tasks::unanswered(&outcome).into());
                    }
                },
            }
        }
    }

    fn cancel(&mut self, _reason: &str) {
        if !matches!(self.stage, Stage::Ended) {
            self.stage = Stage::Cancelled;
        }
    }

    fn missed(&self) -> u64 {
        match &self.stage {
            Stage::Task { exchange, .. } => exchange.missed(),
            Stage::Resolving(..) | Stage::Cancelled | Stage::Ended => 0,
        }
    }
}

impl fmt::Debug for TaskFollower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskFollower").field("server", &self.server).finish_non_exhaustive()
    }
}
