//! Tasks a stateless caller wants to be told of: looked at on its behalf, and told of when they change.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    down::{Caller, Downstream, Heard},
    notice::{Notice, Wanted},
    task::{Depth, Task, spelling},
};

/// Notices of one subscription that wait for its reader; whoever tells waits with them.
const UNREAD: usize = 64;

/// A subscription: what a service tells of, and these tasks.
pub(super) struct Subscription {
    pub(super) heard: Heard,
    /// The tasks that exist and are the caller's.
    pub(super) tasks: Vec<String>,
    _telling: Vec<AbortOnDropHandle<()>>,
}

impl Subscription {
    /// Subscribes to what a service tells of and to tasks. With the end of both the subscription ends.
    pub(super) async fn to(downstream: Arc<Downstream>, caller: Caller, wanted: Wanted, ids: Vec<String>) -> Self {
        if ids.is_empty() {
            let heard = downstream.service.listen(wanted, &caller).await;
            return Self { heard, tasks: Vec::new(), _telling: Vec::new() };
        }
        let (sender, notices) = mpsc::channel(UNREAD);
        let (mut tasks, mut telling) = (Vec::new(), Vec::new());
        let runtime = tokio::runtime::Handle::current();
        for id in ids {
            let Some(task) = look(&downstream, &caller, &id).await else { continue };
            let (downstream, caller, sender) = (Arc::clone(&downstream), caller.clone(), sender.clone());
            telling.push(AbortOnDropHandle::new(runtime.spawn(tell(downstream, caller, task, sender))));
            tasks.push(id);
        }
        let honoured = if wanted == Wanted::default() {
            wanted
        } else {
            let heard = downstream.service.listen(wanted, &caller).await;
            telling.push(AbortOnDropHandle::new(runtime.spawn(pass_on(heard.notices, sender))));
            heard.honoured
        };
        Self { heard: Heard { honoured, notices }, tasks, _telling: telling }
    }
}

async fn look(downstream: &Downstream, caller: &Caller, id: &str) -> Option<Task> {
    downstream.service.tasks(caller)?.look(id, Depth::Whole, caller).await.ok()
}

/// Tells of a task whenever it has changed, until it is over or gone.
async fn tell(downstream: Arc<Downstream>, caller: Caller, mut task: Task, sender: mpsc::Sender<Notice>) {
    loop {
        let Some(tasks) = downstream.service.tasks(&caller) else { return };
        let told = spelling::modern_whole(&task);
        if task.status.is_over() {
            return;
        }
        tasks.changed(&task, &caller).await;
        let Some(now) = look(&downstream, &caller, &task.id).await else { return };
        let params = spelling::modern_whole(&now);
        if params != told {
            let notice = Notice::Other { method: "notifications/tasks".to_owned(), params: Some(params) };
            if sender.send(notice).await.is_err() {
                return;
            }
        }
        task = now;
    }
}

async fn pass_on(mut notices: mpsc::Receiver<Notice>, sender: mpsc::Sender<Notice>) {
    while let Some(notice) = notices.recv().await {
        if sender.send(notice).await.is_err() {
            return;
        }
    }
}
