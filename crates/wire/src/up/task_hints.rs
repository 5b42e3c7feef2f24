//! Notifications of a server about its tasks. They are hints to read a task sooner; the answer of the server decides.

use std::time::Duration;

use tokio::sync::broadcast::{self, error::RecvError};

use super::PeerTasks;
use crate::{json::Raw, notice::Notice};

/// Shortest time between two reads of a task because of hints: a server that sends many does not get as many requests.
pub const HINT_PAUSE: Duration = Duration::from_secs(1);

/// The hints about one task, from its creation on. Does not keep the connection open.
#[derive(Debug)]
pub struct TaskHints {
    id: String,
    /// `None` after the end of the connection.
    notices: Option<broadcast::Receiver<Notice>>,
}

impl PeerTasks {
    /// Hints about a task from now on.
    pub fn hints(&self, id: &str) -> TaskHints {
        TaskHints { id: id.to_owned(), notices: Some(self.peer.router().notices.subscribe()) }
    }
}

impl TaskHints {
    /// Waits for the poll interval of the task, or until its server announces a change, but at least [`HINT_PAUSE`] then.
    pub async fn pause(mut self, delay: Duration) {
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = self.next() => tokio::time::sleep(HINT_PAUSE.min(delay)).await,
        }
    }

    /// Resolves when the server announces a change of the task, or may have done so; never after the end of the connection.
    pub async fn next(&mut self) {
        loop {
            let Some(notices) = &mut self.notices else { return std::future::pending().await };
            match notices.recv().await {
                Ok(Notice::Other { method, params }) if is_hint(&method, params.as_ref(), &self.id) => return,
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => return,
                Err(RecvError::Closed) => self.notices = None,
            }
        }
    }
}

/// Whether a notification of either era is about a task.
fn is_hint(method: &str, params: Option<&Raw>, id: &str) -> bool {
    matches!(method, "notifications/tasks/status" | "notifications/tasks")
        && params.and_then(|params| params.get("taskId")).as_ref().and_then(Raw::as_str).as_deref() == Some(id)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::sync::broadcast;

    use super::{HINT_PAUSE, Notice, Raw, TaskHints};

    #[tokio::test(start_paused = true)]
    async fn only_notifications_about_the_task_are_hints() {
        let sender = broadcast::Sender::new(8);
        let mut hints = TaskHints { id: "t".to_owned(), notices: Some(sender.subscribe()) };
        let mut is_hint = async |method: &str, id: &str| {
            let params = Some(Raw::of(&json!({ "taskId": id, "status": "completed" })));
            sender.send(Notice::read(method, params)).unwrap();
            tokio::time::timeout(HINT_PAUSE, hints.next()).await.is_ok()
        };
        assert!(is_hint("notifications/tasks/status", "t").await);
        assert!(is_hint("notifications/tasks", "t").await);
        assert!(!is_hint("notifications/tasks/status", "u").await);
        assert!(!is_hint("notifications/other", "t").await);
        drop(sender);
        assert!(tokio::time::timeout(HINT_PAUSE, hints.next()).await.is_err(), "the poll interval counts from here on");
    }
}
