//! Turns that no message of the user begins: a background task has ended while the model is idle.

use toolway_agent::TaskBoard;
use uuid::Uuid;

use super::{ReservedTurn, TurnSettings, Turns, Waiting};
use crate::error::ApiError;

/// Whether a conversation that was resumed has a turn now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resumed {
    /// The model is told that tasks have ended.
    Told,
    /// Nothing is to be told yet.
    AtRest,
}

impl Waiting {
    /// Keeps the settings of a turn that has ended as long as tasks of its conversation go on.
    pub(super) fn keep(&self, id: &str, board: &TaskBoard, settings: TurnSettings) {
        let mut all = self.settings.lock();
        match board.is_busy(id) {
            true => all.insert(id.to_owned(), settings),
            false => all.remove(id),
        };
    }
}

impl Turns {
    /// Sends messages that wait, and tells models of the ends of their tasks, until the console stops.
    pub(crate) async fn follow_tasks(&self) {
        let mut changes = self.board.changes();
        loop {
            tokio::select! {
                changed = changes.changed() => if changed.is_err() {
                    return;
                },
                () = self.waiting.turn_ended.notified() => {}
                () = self.stop.cancelled() => return,
            }
            for id in self.ready_queues() {
                self.send_next(&id).await;
            }
            for id in self.board.conversations() {
                if let Some(settings) = self.settings_at_rest(&id) {
                    self.tell(&id, settings).await;
                }
            }
        }
    }

    /// The settings of a conversation whose turn has ended and whose model is to be told of tasks. What other processes
    /// follow, and what nothing waits for, is forgotten: it is read from the records when it is wanted.
    fn settings_at_rest(&self, id: &str) -> Option<TurnSettings> {
        let running = self.running.lock();
        if running.contains_key(id) {
            return None;
        }
        let settings = self.waiting.settings.lock().get(id).cloned();
        if settings.is_none() {
            self.board.forget(id);
        }
        settings.filter(|_| self.board.wants_turn(id))
    }

    async fn tell(&self, id: &str, settings: TurnSettings) {
        // A turn that was begun meanwhile tells the model.
        let Ok(reserved) = self.reserve(id) else { return };
        let told = self.resume(reserved, settings).await;
        if let Err(error) = told {
            tracing::warn!(conversation = id, ?error, "the model is not told of a task that has ended");
        }
    }

    /// Takes up the tasks of a stored conversation. A turn is started if one of them has ended; later ends start one with
    /// the settings of the last turn, or with these.
    pub(crate) async fn resume(&self, reserved: ReservedTurn, settings: TurnSettings) -> Result<Resumed, ApiError> {
        let id = reserved.id.clone();
        let uuid: Uuid = id.parse().map_err(|_| ApiError::unknown_conversation())?;
        let conversation = self.load(uuid).await?.ok_or_else(ApiError::unknown_conversation)?;
        let settings = self.waiting.settings.lock().get(&id).cloned().unwrap_or(settings);
        if self.board.wants_turn(&id) {
            self.start(reserved, conversation, None, settings)?;
            return Ok(Resumed::Told);
        }
        self.waiting.keep(&id, &self.board, settings);
        drop(reserved);
        // A task may have ended while the turn was reserved.
        self.waiting.turn_ended.notify_one();
        Ok(Resumed::AtRest)
    }
}
