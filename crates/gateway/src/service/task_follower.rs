//! Follows a call whose server turns it into a task, for a caller that did not ask for a task.
//!
//! A caller that abandons such a call does not know the task, so the task is cancelled. A caller that follows a task of its
//! own may come back later, so that task continues.

use std::{
    fmt,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::BoxFuture;
use toolway_config::ServerName;
use toolway_host::{
    Host,
    call::{CallOutcome, CallerContext, CallerTasks},
};
use toolway_wire::exchange::{Exchange, ExchangeEvent, ExchangeInterceptor, Outcome};

use super::tasks;

/// A call, and the task that may replace it.
pub(super) struct TaskFollower {
    host: Host,
    caller_context: CallerContext,
    server: ServerName,
    stage: Stage,
    on_drop: OnDrop,
}

/// What happens to the task when the exchange is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnDrop {
    CancelTask,
    KeepTask,
}

enum Stage {
    /// The call itself.
    Call(Exchange),
    /// Getting access to the task at its server.
    Resolving(BoxFuture<'static, Result<CallerTasks, CallOutcome>>, String),
    /// The task; keeps its access to the server alive.
    Task(Exchange, CallerTasks, String),
    Ended,
}

/// Timeout for cancelling an abandoned task.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(30);

/// Cancels an abandoned task.
async fn cancel(of_server: &CallerTasks, id: &str) {
    if let Err(error) = of_server.tasks().cancel(id).await {
        tracing::debug!(%error, "cannot cancel an abandoned task");
    }
}

/// Follows a call; a task that its server creates is hidden from the caller.
pub(super) fn follow_call(host: &Host, caller_context: CallerContext, server: ServerName, call: Exchange) -> Exchange {
    let (host, stage) = (host.clone(), Stage::Call(call));
    Exchange::through(TaskFollower { host, caller_context, server, stage, on_drop: OnDrop::CancelTask })
}

/// Follows an existing task of a server to its end.
pub(super) fn follow_task(host: &Host, caller_context: CallerContext, server: ServerName, id: String) -> Exchange {
    let (host, stage) = (host.clone(), Stage::Ended);
    let mut follower = TaskFollower { host, caller_context, server, stage, on_drop: OnDrop::KeepTask };
    follower.follow(id);
    Exchange::through(follower)
}

impl TaskFollower {
    fn follow(&mut self, id: String) {
        let (host, caller_context, server, task) =
            (self.host.clone(), self.caller_context.clone(), self.server.clone(), id.clone());
        let resolving = async move { host.tasks(caller_context, &server, Some(&task)).await };
        self.stage = Stage::Resolving(Box::pin(resolving), id);
    }

    /// Cancels the task in the background if the exchange is abandoned, over the connection in use if there is one.
    fn abandon(&mut self) {
        if self.on_drop == OnDrop::KeepTask {
            return;
        }
        let stopping: BoxFuture<'static, ()> = match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Resolving(resolving, id) => Box::pin(async move {
                match resolving.await {
                    Ok(of_server) => cancel(&of_server, &id).await,
                    Err(error) => tracing::debug!(%error, "cannot cancel an abandoned task"),
                }
            }),
            Stage::Task(_, of_server, id) => Box::pin(async move { cancel(&of_server, &id).await }),
            stage @ (Stage::Call(_) | Stage::Ended) => {
                self.stage = stage;
                return;
            }
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { drop(tokio::time::timeout(CANCEL_TIMEOUT, stopping).await) });
        }
    }

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
                Stage::Call(exchange) => match exchange.poll_next(context) {
                    Poll::Ready(Some(ExchangeEvent::Ended(Outcome::HandedOff(task)))) => self.follow(task.id.clone()),
                    other => return other,
                },
                Stage::Task(exchange, ..) => {
                    let happening = exchange.poll_next(context);
                    if matches!(happening, Poll::Ready(Some(ExchangeEvent::Ended(_)) | None)) {
                        self.stage = Stage::Ended;
                    }
                    return happening.map(|event| event.map(|event| event.map_outcome(tasks::without_details)));
                }
                Stage::Resolving(resolving, id) => match resolving.as_mut().poll(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(of_server)) => {
                        let exchange = of_server.tasks().follow(id, tasks::no_timeouts());
                        let id = std::mem::take(id);
                        self.stage = Stage::Task(exchange, of_server, id);
                    }
                    Poll::Ready(Err(outcome)) => {
                        return self.end(tasks::unanswered(&outcome).into());
                    }
                },
            }
        }
    }

    fn cancel(&mut self, reason: &str) {
        match &mut self.stage {
            Stage::Call(exchange) => exchange.cancel(reason),
            Stage::Resolving(..) | Stage::Task(..) => {
                self.abandon();
                self.stage = Stage::Call(Exchange::ended(Outcome::Cancelled));
            }
            Stage::Ended => {}
        }
    }

    fn missed(&self) -> u64 {
        match &self.stage {
            Stage::Call(exchange) | Stage::Task(exchange, ..) => exchange.missed(),
            Stage::Resolving(..) | Stage::Ended => 0,
        }
    }
}

impl Drop for TaskFollower {
    fn drop(&mut self) {
        self.abandon();
    }
}

impl fmt::Debug for TaskFollower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskFollower").field("server", &self.server).finish_non_exhaustive()
    }
}
