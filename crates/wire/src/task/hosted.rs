//! One task kept here: an exchange driven on without its caller, what it waits for, and whoever follows it.

use std::{
    collections::HashSet,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::future::{self, BoxFuture};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::{Inside, Status, Task, Unanswered, watch::Watched};
use crate::{
    exchange::{Answer, ServerRequest, ServerRequestId, Exchange, ExchangeEvent, Outcome, ServerRequestDetails},
    json::Raw,
    message::RpcError,
};

/// One task.
#[derive(Debug)]
pub(crate) struct Hosted {
    // Nothing awaits under these locks.
    state: Mutex<State>,
    /// Wakes whoever follows it.
    changed: watch::Sender<u64>,
    driver: Mutex<Option<AbortOnDropHandle<()>>>,
}

#[derive(Debug)]
struct State {
    task: Task,
    /// What it waits for, by key, in the order it asked.
    asks: Vec<(String, ServerRequest)>,
    used: HashSet<String>,
}

/// Whoever follows one task, and what it has seen of it.
#[derive(Debug)]
pub(crate) struct Follower {
    hosted: Arc<Hosted>,
    version: Mutex<watch::Receiver<u64>>,
}

// === impl Hosted ===

impl Hosted {
    /// Keeps an exchange as this task; it goes on by itself.
    pub(crate) fn keep(task: Task, exchange: Exchange) -> Arc<Self> {
        Arc::new_cyclic(|me| {
            let driver = tokio::runtime::Handle::current().spawn(drive(Weak::clone(me), exchange));
            Self {
                state: Mutex::new(State { task, asks: Vec::new(), used: HashSet::new() }),
                changed: watch::Sender::new(0),
                driver: Mutex::new(Some(AbortOnDropHandle::new(driver))),
            }
        })
    }

    /// The whole of it, at this moment.
    pub(crate) fn seen(&self) -> Task {
        let state = self.state.lock();
        let mut task = state.task.clone();
        if !state.asks.is_empty() {
            let question = |(key, ask): &(String, ServerRequest)| ServerRequestDetails { key: Some(key.clone()), ..ask.details.clone() };
            task.inside = Inside::Asks(state.asks.iter().map(question).collect());
        }
        task
    }

    fn took_place(&self, happening: ExchangeEvent) {
        match happening {
            ExchangeEvent::ServerRequest(ask) => self.ask(ask),
            ExchangeEvent::Withdrawn(id) => self.withdraw(id),
            ExchangeEvent::Progress(params) => self.say(&params),
            // Nobody looks at a task's log lines.
            ExchangeEvent::Log(_) => {}
            ExchangeEvent::Ended(outcome) => match outcome {
                Outcome::Answered(result) => self.end(Status::Completed, Inside::Result(result)),
                Outcome::Refused(error) => self.end(Status::Failed, Inside::Error(error)),
                Outcome::Cancelled => self.end(Status::Cancelled, Inside::Nothing),
                other => self.end(Status::Failed, Inside::Error(failure(&other))),
            },
        }
    }

    /// One more thing it waits for. No key is used twice in the life of a task.
    fn ask(&self, ask: ServerRequest) {
        self.change(|state| {
            let given = ask.details.key.clone().filter(|key| !state.used.contains(key));
            let minted = || (1..).map(|number| format!("ask-{number}")).find(|key| !state.used.contains(key));
            let key = given.or_else(minted).unwrap_or_default();
            state.used.insert(key.clone());
            state.asks.push((key, ask));
        });
    }

    fn withdraw(&self, id: ServerRequestId) {
        self.change(|state| state.asks.retain(|(_, ask)| ask.details.id != id));
    }

    fn say(&self, progress: &Raw) {
        let message = progress.get("message").as_ref().and_then(Raw::as_str).map(std::borrow::Cow::into_owned);
        if message.is_some() {
            self.change(|state| state.task.message = message);
        }
    }

    /// Gives the answers it waits for; others are nothing to it.
    pub(crate) fn take(&self, answers: &Raw) {
        let mut given = Vec::new();
        self.change(|state| {
            for (key, ask) in std::mem::take(&mut state.asks) {
                match answers.get(&key) {
                    Some(answer) => given.push((ask, answer)),
                    None => state.asks.push((key, ask)),
                }
            }
        });
        // Outside the lock: the work behind it may go on at once.
        given.into_iter().for_each(|(ask, answer)| ask.answer(Answer::Given(answer)));
    }

    /// Stops it, unless it is over. With its driver the exchange is let go of; that cancels it on the other side.
    pub(crate) fn cancel(&self) {
        self.end(Status::Cancelled, Inside::Nothing);
        drop(self.driver.lock().take());
    }

    /// Waits until there is something to see, as `enough` judges, but no longer than this; gives what there is then.
    pub(crate) async fn until(self: &Arc<Self>, patience: Duration, enough: impl Fn(&Task) -> bool) -> Task {
        let follower = Follower::new(Arc::clone(self));
        let waiting = async {
            loop {
                let task = follower.seen();
                if enough(&task) {
                    return;
                }
                follower.changed(&task).await;
            }
        };
        // What there is when time is up is what there is.
        drop(tokio::time::timeout(patience, waiting).await);
        self.seen()
    }

    fn end(&self, status: Status, inside: Inside) {
        let mut unanswered = Vec::new();
        self.change(|state| {
            if !state.task.status.is_over() {
                unanswered = std::mem::take(&mut state.asks);
                state.task.status = status;
                state.task.inside = inside;
            }
        });
        drop(unanswered);
    }

    fn change(&self, act: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        act(&mut state);
        let status = match state.task.status {
            over if over.is_over() => over,
            _ if state.asks.is_empty() => Status::Working,
            _ => Status::InputRequired,
        };
        state.task.touch(status);
        drop(state);
        self.changed.send_modify(|version| *version += 1);
    }
}

impl Follower {
    pub(crate) fn new(hosted: Arc<Hosted>) -> Self {
        let version = Mutex::new(hosted.changed.subscribe());
        Self { hosted, version }
    }

    fn seen(&self) -> Task {
        // Noted first: what changes while it is being looked at is looked at again.
        self.version.lock().mark_unchanged();
        self.hosted.seen()
    }
}

impl Watched for Follower {
    fn look(&self) -> BoxFuture<'_, Result<Task, Unanswered>> {
        Box::pin(future::ready(Ok(self.seen())))
    }

    fn answer(&self, answers: Raw) -> BoxFuture<'_, Result<(), Unanswered>> {
        self.hosted.take(&answers);
        Box::pin(future::ready(Ok(())))
    }

    fn changed(&self, _task: &Task) -> BoxFuture<'_, ()> {
        let mut version = self.version.lock().clone();
        // The other end lives as long as this value.
        Box::pin(async move { drop(version.changed().await) })
    }
}

/// Sees an exchange through on behalf of its task, as long as that is kept.
async fn drive(hosted: Weak<Hosted>, mut exchange: Exchange) {
    while let Some(happening) = exchange.next().await {
        match hosted.upgrade() {
            Some(hosted) => hosted.took_place(happening),
            None => return,
        }
    }
}

fn failure(outcome: &Outcome) -> RpcError {
    let sentence = match outcome {
        Outcome::Failed(error) => error.to_string(),
        Outcome::TimedOut { kind, limit } => format!("no answer within {limit:?} ({kind})"),
        _ => "the task gave no answer".to_owned(),
    };
    RpcError::new(RpcError::INTERNAL, &sentence)
}
