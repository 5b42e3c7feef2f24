//! The background tasks of a conversation that an earlier process had, or that ended while no process had it.

use toolway_host::{
    record::{Records, RecordsError},
    task::{TaskFilter, TaskRow},
};
use toolway_model::{Message, Part, ResultPart};
use uuid::Uuid;

use crate::{
    result,
    task_block::task_of,
    task_board::{EndedTask, TaskBoard},
};

/// Tasks of a conversation that are looked at when it is resumed.
const RESUMED: usize = 100;

impl TaskBoard {
    /// Takes up the tasks of a stored conversation, and returns those that are open or of whose end the model was not told.
    /// Tasks that no process follows are followed. The model is told of those that another process follows when they have
    /// ended and this is called again. Taking up a task twice is the same as once.
    pub async fn resume(
        &self,
        records: &dyn Records,
        conversation: Uuid,
        messages: &[Message],
    ) -> Result<Vec<TaskRow>, RecordsError> {
        let filter =
            || TaskFilter { conversation: Some(conversation.to_string()), limit: RESUMED, ..TaskFilter::default() };
        for task in records.tasks(filter()).await?.into_iter().filter(|task| task.status.is_open()) {
            if self.host().adopt_task(task.id).await? {
                self.resume_open(task);
            }
        }
        let mut taken_up = Vec::new();
        for task in records.tasks(filter()).await? {
            if !task.status.is_open() {
                if !is_awaited(task.id, messages) {
                    continue;
                }
                let text = self.recorded_text(records, &task).await?;
                self.resume_ended(EndedTask::of_record(task.clone(), text, self.host()));
            }
            taken_up.push(task);
        }
        Ok(taken_up)
    }

    /// What the record of a task that has ended says.
    async fn recorded_text(&self, records: &dyn Records, task: &TaskRow) -> Result<String, RecordsError> {
        let stored = records.call(task.id).await?;
        let result = stored.and_then(|call| call.body.result);
        Ok(match (result, &task.message) {
            (Some(result), _) => result::text_of_stored(&result),
            (None, Some(message)) => message.to_string(),
            (None, None) => "the result is not kept".to_owned(),
        })
    }
}

/// Whether the model was told that a task has started, and not of its end.
fn is_awaited(task: Uuid, messages: &[Message]) -> bool {
    let id = task.to_string();
    let cancelled_by_model = result::cancelling_words(&id);
    let is_known = messages.iter().any(|message| task_of(message) == Some(task))
        || messages.iter().any(|message| has_result(message, &cancelled_by_model));
    let started = result::started_words(&id);
    !is_known && messages.iter().any(|message| has_result(message, &started))
}

/// Whether a result in a message begins with this text.
fn has_result(message: &Message, beginning: &str) -> bool {
    let begins = |part: &ResultPart| matches!(part, ResultPart::Text { text } if text.starts_with(beginning));
    message.parts.iter().any(|part| match part {
        Part::ToolResult(result) => result.content.iter().any(begins),
        _ => false,
    })
}
