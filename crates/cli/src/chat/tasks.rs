//! Background tasks in a chat: how far they are above the prompt, turns that the end of a task starts, `/tasks`, and what
//! became of the tasks of a resumed conversation.

use std::{sync::Arc, time::Duration};

use toolway_agent::describe;
use toolway_host::task::TaskRow;
use toolway_model::Message;
use uuid::Uuid;

use super::{Chat, EditedLine, screen, stored};
use crate::{output::clean, record_id, report::Report};

/// Time between two looks at tasks of the conversation that another process follows.
const LOOK: Duration = Duration::from_secs(2);

impl Chat<'_> {
    /// The next line of the user: one that was typed while the model worked, or a new one. Until then, the ends of tasks are
    /// told to the model, which is idle.
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
                () = tokio::time::sleep(LOOK), if !self.elsewhere.is_empty() => self.look_elsewhere().await,
            }
        }
    }

    /// Shows how far the open tasks are, on the line above the prompt.
    pub(super) fn show_open_tasks(&self) {
        let open = self.open_tasks();
        let text = match &open[..] {
            [] => String::new(),
            [task] => self.progress(task),
            [task, others @ ..] => format!("{} (and {} more, /tasks)", self.progress(task), others.len()),
        };
        self.gate.show(clean::line(&text, screen::width().saturating_sub(1)));
    }

    /// The open tasks of the conversation, those that this process follows first.
    fn open_tasks(&self) -> Vec<Arc<TaskRow>> {
        let mut open = self.tasks.open(self.conversation.id());
        open.extend(self.elsewhere.iter().cloned().map(Arc::new));
        open
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
        let open = self.open_tasks();
        if open.is_empty() {
            return self.screen.line("No tasks run in this conversation. `toolway tasks` lists all.");
        }
        open.iter().for_each(|task| self.screen.line(&self.progress(task)));
        self.screen.line("Cancel one with /tasks cancel ID.");
    }

    pub(super) fn cancel_task(&self, typed: &str) {
        let open = self.open_tasks();
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
        for task in self.open_tasks() {
            let after = "a server over HTTP goes on with it, another one ends now; see `toolway tasks`";
            self.screen.note(&format!("{}; {after}", describe(&task)));
        }
    }

    /// Shows what became of the tasks of a resumed conversation. Ends that the model does not know are told to it with the
    /// next turn.
    pub(super) async fn resume_tasks(&mut self, conversation: Uuid, messages: &[Message]) {
        self.elsewhere.clear();
        if let Err(report) = self.find_tasks(conversation, messages).await {
            self.screen.line(&report.to_human());
        }
    }

    async fn find_tasks(&mut self, conversation: Uuid, messages: &[Message]) -> Result<(), Report> {
        let tasks = self.take_up(conversation, messages).await?;
        tasks.iter().for_each(|task| self.screen.note(&describe(task)));
        Ok(())
    }

    /// Takes up the tasks of a conversation, and remembers those that another process follows.
    async fn take_up(&mut self, conversation: Uuid, messages: &[Message]) -> Result<Vec<TaskRow>, Report> {
        let records = self.app.settled_records()?;
        let tasks = self.tasks.resume(&*records, conversation, messages).await?;
        let here = self.tasks.open(&conversation.to_string());
        let is_elsewhere = |task: &&TaskRow| task.status.is_open() && here.iter().all(|own| own.id != task.id);
        self.elsewhere = tasks.iter().filter(is_elsewhere).cloned().collect();
        Ok(tasks)
    }

    /// Looks at the tasks that another process follows. What has ended is told to the model like the tasks of this process.
    async fn look_elsewhere(&mut self) {
        if let Err(report) = self.read_elsewhere().await {
            self.elsewhere.clear();
            self.screen.line(&report.to_human());
        }
    }

    async fn read_elsewhere(&mut self) -> Result<(), Report> {
        // The process that follows them may have ended.
        let records = self.app.settled_records()?;
        let mut is_changed = false;
        for known in &mut self.elsewhere {
            let now = records.task(known.id).await?;
            is_changed |= now.as_ref().is_none_or(|now| !now.status.is_open() || now.process.is_none());
            if let Some(now) = now {
                *known = now;
            }
        }
        if is_changed {
            // As they are stored: another process that has the conversation may have told the model.
            let stored::Stored { head, messages, .. } = stored::load(self.app, self.conversation.id()).await?;
            self.take_up(head.id, &messages).await?;
        }
        Ok(())
    }
}
