//! Background tasks in a chat: how far they are above the prompt, turns that the end of a task starts, `/tasks`, and what
//! became of the tasks of a resumed conversation.

use toolway_agent::describe;
use toolway_host::task::TaskRow;
use toolway_model::Message;
use uuid::Uuid;

use super::{Chat, EditedLine, screen};
use crate::{output::clean, record_id, report::Report};

impl Chat<'_> {
    /// The next line of the user: one that was typed while the model worked, or a new one. Until then, the ends of tasks are told to the model, which is idle.
    pub(super) async fn next_line(&mut self) -> EditedLine {
        if let Some(text) = self.queued.pop_front() {
            self.screen.line(&format!("> {text}"));
            return EditedLine::Text(text);
        }
        let mut changes = self.tasks.changes();
        loop {
            changes.borrow_and_update();
            self.show_open_tasks();
            if self.tasks.wants_turn(self.conversation.id()) {
                match self.input.suspend().await {
                    EditedLine::Suspended => self.turn(Vec::new()).await,
                    line => return line,
                }
                continue;
            }
            tokio::select! {
                line = self.input.message() => return line,
                // The board lives as long as the chat.
                _ = changes.changed() => {}
            }
        }
    }

    /// Shows how far the open tasks are, on the line above the prompt.
    pub(super) fn show_open_tasks(&self) {
        let open = self.tasks.open(self.conversation.id());
        let text = match &open[..] {
            [] => String::new(),
            [task] => self.progress(task),
            [task, others @ ..] => format!("{} (and {} more, /tasks)", self.progress(task), others.len()),
        };
        self.gate.show(clean::line(&text, screen::width().saturating_sub(1)));
    }

    fn progress(&self, task: &TaskRow) -> String {
        let done = task.progress.map(|progress| match progress.total {
            Some(total) if 0.0 < total => format!(" {:.0} %", 100.0 * progress.done / total),
            _ => format!(" {}", progress.done),
        });
        let message = task.message.as_ref().map(|message| format!(": {message}"));
        let id = record_id::short(&task.id);
        format!(
            "… {} (task {id}) {}{}{}",
            task.tool,
            task.status,
            done.unwrap_or_default(),
            message.unwrap_or_default()
        )
    }

    /// `/tasks`: the open tasks, or cancels one.
    pub(super) fn list_tasks(&self) {
        let open = self.tasks.open(self.conversation.id());
        if open.is_empty() {
            return self.screen.line("No tasks run in this conversation. `toolway tasks` lists all.");
        }
        open.iter().for_each(|task| self.screen.line(&self.progress(task)));
        self.screen.line("Cancel one with /tasks cancel ID.");
    }

    pub(super) fn cancel_task(&self, typed: &str) {
        let open = self.tasks.open(self.conversation.id());
        let found = record_id::select(open, typed, |task| task.id.to_string());
        match &found[..] {
            [task] if self.tasks.cancel(self.conversation.id(), task.id) => {
                self.screen
                    .line(&format!("Task {} is being cancelled; the model will be told.", record_id::short(&task.id)));
            }
            [] => self.screen.line(&format!("No task of this conversation has the id `{typed}`.")),
            [_] => self.screen.line("The task has ended, or another process follows it: use `toolway tasks cancel`."),
            _ => self.screen.line(&format!("More than one task has the id `{typed}`; give more of it.")),
        }
    }

    /// At the end of the chat: says what becomes of open tasks.
    pub(super) fn note_open_tasks(&self) {
        for task in self.tasks.open(self.conversation.id()) {
            let after = "a server over HTTP goes on with it, another one ends now; see `toolway tasks`";
            self.screen.note(&format!("{}; {after}", describe(&task)));
        }
    }

    /// Shows what became of the tasks of a resumed conversation. Ends that the model does not know are told to it with the
    /// next turn.
    pub(super) async fn resume_tasks(&self, conversation: Uuid, messages: &[Message]) {
        if let Err(report) = self.find_tasks(conversation, messages).await {
            self.screen.line(&report.to_human());
        }
    }

    async fn find_tasks(&self, conversation: Uuid, messages: &[Message]) -> Result<(), Report> {
        let records = self.app.settled_records()?;
        let tasks = self.tasks.resume(&*records, conversation, messages).await?;
        tasks.iter().for_each(|task| self.screen.note(&describe(task)));
        Ok(())
    }
}
