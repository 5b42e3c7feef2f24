//! What a server says about a task without being asked. It is a hint to read the task sooner, or progress to be shown; the
//! answer of the server to a read decides.
//!
//! In a session, notifications come without a request; without one, a server is asked for them, and may refuse.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::sync::{
    OwnedSemaphorePermit,
    broadcast::{self, error::RecvError},
    watch,
};

use super::{
    PeerTasks,
    accent::ChangeDelivery,
    listen::{self, TaskListener},
    router::Router,
};
use crate::{error::WireError, json::Raw, message::ClientCapabilities, notice::Notice};

/// Shortest time between two reads of a task because of hints: a server that sends many does not get as many requests.
pub const HINT_PAUSE: Duration = Duration::from_secs(1);
/// Tasks of one connection about whose changes a server without sessions is asked at the same time; others are polled only.
pub(super) const MAX_LISTENERS: usize = 8;

/// The hints about one task, from its creation on. Does not keep the connection open.
pub struct TaskHints {
    id: String,
    router: Weak<Router>,
    /// Method of the notification about a task.
    method: &'static str,
    /// `None` after the end of the connection.
    notices: Option<broadcast::Receiver<Notice>>,
    /// `None` if the task did not begin on this connection.
    progress: Option<watch::Receiver<Option<Raw>>>,
    announcements: Announcements,
}

/// One hint.
#[derive(Clone, Debug)]
pub enum TaskHint {
    /// The task may have changed.
    Changed,
    /// `progress`, `total`, `message` as received.
    Progress(Raw),
}

/// Announcements of a server that has to be asked for them.
enum Announcements {
    /// They come without a request, or not at all.
    None,
    /// The server is being asked.
    Opening(BoxFuture<'static, Option<TaskListener>>),
    /// It agreed; the permit counts against [`MAX_LISTENERS`].
    Open(TaskListener),
}

impl PeerTasks {
    /// Hints about a task from now on.
    pub fn hints(&self, id: &str) -> TaskHints {
        let router = self.peer.router();
        let accent = router.accent().ok();
        let is_asked_for =
            accent.as_ref().is_some_and(|accent| accent.change_delivery() == ChangeDelivery::SubscriptionStream);
        let announcements = match is_asked_for {
            true => Announcements::open(router, id, self.capabilities.clone()),
            false => Announcements::None,
        };
        TaskHints {
            id: id.to_owned(),
            router: Arc::downgrade(router),
            method: accent.map_or("", |accent| accent.task_notification()),
            notices: Some(router.notices.subscribe()),
            progress: router.task_progress.of(id),
            announcements,
        }
    }

    /// Hints about a task from now on: those that were got before, if they come over this connection.
    pub fn hints_after(&self, before: Option<TaskHints>, id: &str) -> TaskHints {
        let router = Arc::downgrade(self.peer.router());
        match before.filter(|before| before.id == id && before.router.ptr_eq(&router)) {
            Some(mut before) => {
                before.skip();
                before
            }
            None => self.hints(id),
        }
    }
}

// === impl TaskHints ===

impl TaskHints {
    /// Waits for the poll interval of the task, or until its server announces a change, but at least [`HINT_PAUSE`] then.
    pub async fn pause(&mut self, delay: Duration) {
        if delay <= HINT_PAUSE {
            return tokio::time::sleep(delay).await;
        }
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = self.changed() => tokio::time::sleep(HINT_PAUSE.min(delay)).await,
        }
    }

    /// Resolves with the next hint; never after the end of the connection. What the server said while this was not awaited is
    /// one hint.
    pub async fn next(&mut self) -> TaskHint {
        let Self { id, method, notices, progress, announcements, .. } = self;
        tokio::select! {
            () = noticed(notices, method, id) => TaskHint::Changed,
            () = announcements.next() => TaskHint::Changed,
            report = reported(progress) => TaskHint::Progress(report),
        }
    }

    async fn changed(&mut self) {
        while !matches!(self.next().await, TaskHint::Changed) {}
    }

    /// Forgets what was announced and not read yet.
    fn skip(&mut self) {
        self.notices = self.notices.take().map(|notices| notices.resubscribe());
        if let Announcements::Open(listener) = &mut self.announcements {
            listener.skip();
        }
    }
}

/// Resolves when the server announces a change of the task, or may have done so.
async fn noticed(notices: &mut Option<broadcast::Receiver<Notice>>, method: &str, id: &str) {
    loop {
        let Some(open) = notices else { return std::future::pending().await };
        match open.recv().await {
            Ok(notice) if is_about(&notice, method, id) => return,
            Ok(Notice::Missed(_)) | Err(RecvError::Lagged(_)) => return,
            Ok(_) => {}
            Err(RecvError::Closed) => *notices = None,
        }
    }
}

/// Resolves with the newest report that was not read yet.
async fn reported(progress: &mut Option<watch::Receiver<Option<Raw>>>) -> Raw {
    loop {
        let Some(reports) = progress else { return std::future::pending().await };
        match reports.changed().await {
            Ok(()) => {
                let newest = reports.borrow_and_update().clone();
                if let Some(newest) = newest {
                    return newest;
                }
            }
            // The task has ended.
            Err(_) => *progress = None,
        }
    }
}

/// Whether a notification is about a task.
pub(super) fn is_about(notice: &Notice, method: &str, id: &str) -> bool {
    let Notice::Other { method: sent, params } = notice else { return false };
    let named = || params.as_ref().and_then(|params| params.get("taskId"));
    sent == method && named().as_ref().and_then(Raw::as_str).as_deref() == Some(id)
}

// === impl Announcements ===

impl Announcements {
    /// Asks the server for announcements about a task, unless it refused that before or is asked about too many.
    fn open(router: &Arc<Router>, id: &str, capabilities: Option<ClientCapabilities>) -> Self {
        let Ok(permit) = Arc::clone(&router.task_listeners).try_acquire_owned() else { return Self::None };
        let router = Arc::downgrade(router);
        let id = id.to_owned();
        Self::Opening(Box::pin(async move { open(&router.upgrade()?, &id, capabilities, permit).await }))
    }

    /// Resolves when a change is announced, or may have been.
    async fn next(&mut self) {
        loop {
            match self {
                Self::None => return std::future::pending().await,
                Self::Opening(opening) => {
                    *self = opening.await.map_or(Self::None, Self::Open);
                    // What changed before is not announced.
                    if matches!(self, Self::Open(_)) {
                        return;
                    }
                }
                Self::Open(listener) => match listener.next().await {
                    Some(()) => return,
                    None => *self = Self::None,
                },
            }
        }
    }
}

async fn open(
    router: &Arc<Router>,
    id: &str,
    capabilities: Option<ClientCapabilities>,
    permit: OwnedSemaphorePermit,
) -> Option<TaskListener> {
    match listen::listen_to_task(router, id, capabilities, permit).await {
        Ok(listener) => Some(listener),
        Err(error) => {
            // A server that does not announce changes of tasks is not asked about the next one.
            if matches!(error, WireError::Refused(_) | WireError::Status { .. }) {
                router.task_listeners.close();
            }
            tracing::debug!(%error, task = id, "the server does not announce changes of a task");
            None
        }
    }
}

impl fmt::Debug for TaskHints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHints").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::sync::{broadcast, watch};

    use super::{Announcements, HINT_PAUSE, Notice, Raw, TaskHint, TaskHints, Weak};

    fn hints(sender: &broadcast::Sender<Notice>, reports: Option<watch::Receiver<Option<Raw>>>) -> TaskHints {
        TaskHints {
            id: "t".to_owned(),
            router: Weak::new(),
            method: "notifications/tasks/status",
            notices: Some(sender.subscribe()),
            progress: reports,
            announcements: Announcements::None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_notifications_about_the_task_are_hints() {
        let sender = broadcast::Sender::new(8);
        let mut hints = hints(&sender, None);
        let mut is_hint = async |method: &str, id: &str| {
            let params = Some(Raw::of(&json!({ "taskId": id, "status": "completed" })));
            sender.send(Notice::read(method, params)).unwrap();
            tokio::time::timeout(HINT_PAUSE, hints.next()).await.is_ok()
        };
        assert!(is_hint("notifications/tasks/status", "t").await);
        assert!(!is_hint("notifications/tasks", "t").await, "the notification of the other era");
        assert!(!is_hint("notifications/tasks/status", "u").await);
        assert!(!is_hint("notifications/other", "t").await);
        drop(sender);
        assert!(tokio::time::timeout(HINT_PAUSE, hints.next()).await.is_err(), "the poll interval counts from here on");
    }

    #[tokio::test(start_paused = true)]
    async fn progress_is_a_hint_of_its_own() {
        let (sender, reports) = (broadcast::Sender::new(8), watch::Sender::new(None));
        let mut hints = hints(&sender, Some(reports.subscribe()));
        (1..=9).for_each(|done| drop(reports.send_replace(Some(Raw::of(&json!({ "progress": done }))))));
        let TaskHint::Progress(newest) = hints.next().await else { panic!("no progress") };
        assert_eq!(newest.to_string(), r#"{"progress":9}"#);
        assert!(tokio::time::timeout(HINT_PAUSE, hints.next()).await.is_err(), "each is reported once");
        drop(reports);
        assert!(tokio::time::timeout(HINT_PAUSE, hints.next()).await.is_err());
    }
}
