//! Subscriptions to tasks: polls each task for the client and notifies it of changes.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    down::{Caller, Downstream, ServiceSubscription},
    notice::{Notice, SubscriptionFilter},
    task::{Task, TaskDetail, codec},
};

/// Queued notices of one subscription; senders wait when it is full.
const UNREAD: usize = 64;

/// A subscription to notices of the service and to tasks.
pub(super) struct ActiveSubscription {
    pub(super) service: ServiceSubscription,
    /// Ids of the requested tasks that the caller has.
    pub(super) tasks: Vec<String>,
    _forwarders: Vec<AbortOnDropHandle<()>>,
}

impl ActiveSubscription {
    /// Subscribes to notices of the service and to tasks; ends when both have ended.
    pub(super) async fn to(
        downstream: Arc<Downstream>,
        caller: Caller,
        wanted: SubscriptionFilter,
        ids: Vec<String>,
    ) -> Self {
        if ids.is_empty() {
            let service = downstream.service.listen(wanted, &caller).await;
            return Self { service, tasks: Vec::new(), _forwarders: Vec::new() };
        }
        let (sender, notices) = mpsc::channel(UNREAD);
        let (mut tasks, mut forwarders) = (Vec::new(), Vec::new());
        let runtime = tokio::runtime::Handle::current();
        for id in ids {
            let Some(task) = task_state(&downstream, &caller, &id).await else { continue };
            let (downstream, caller, sender) = (Arc::clone(&downstream), caller.clone(), sender.clone());
            forwarders.push(AbortOnDropHandle::new(runtime.spawn(watch_task(downstream, caller, task, sender))));
            tasks.push(id);
        }
        let accepted = if wanted == SubscriptionFilter::default() {
            wanted
        } else {
            let service = downstream.service.listen(wanted, &caller).await;
            forwarders.push(AbortOnDropHandle::new(runtime.spawn(forward(service.notices, sender))));
            service.accepted
        };
        Self { service: ServiceSubscription { accepted, notices }, tasks, _forwarders: forwarders }
    }
}

async fn task_state(downstream: &Downstream, caller: &Caller, id: &str) -> Option<Task> {
    downstream.service.tasks(caller)?.get(id, TaskDetail::Full, caller).await.ok()
}

/// Sends a notification at each change of a task, until it is finished or gone.
async fn watch_task(downstream: Arc<Downstream>, caller: Caller, mut task: Task, sender: mpsc::Sender<Notice>) {
    loop {
        let Some(tasks) = downstream.service.tasks(&caller) else { return };
        let known = codec::modern_whole(&task);
        if task.status.is_finished() {
            return;
        }
        tasks.wait_for_change(&task, &caller).await;
        let Some(now) = task_state(&downstream, &caller, &task.id).await else { return };
        let params = codec::modern_whole(&now);
        if params != known {
            let notice = Notice::Other { method: "notifications/tasks".to_owned(), params: Some(params) };
            if sender.send(notice).await.is_err() {
                return;
            }
        }
        task = now;
    }
}

async fn forward(mut notices: mpsc::Receiver<Notice>, sender: mpsc::Sender<Notice>) {
    while let Some(notice) = notices.recv().await {
        if sender.send(notice).await.is_err() {
            return;
        }
    }
}
