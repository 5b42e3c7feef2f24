//! What the slash commands do.

use toolway_agent::{is_attachment, is_task_block};
use toolway_config::PolicyMode;
use toolway_host::{catalog::ToolEntry, connection::ServerStatus};
use toolway_model::{Message, Role};

use super::{
    Chat, Next,
    command::{COMMANDS, ChatCommand},
    stored,
};
use crate::{assistant, clock::Clock, output::clean, record_id, schema, terminal::text};

/// Tools in one list.
const MOST_TOOLS: usize = 200;
/// Columns of a command in the help.
const COMMAND: usize = 19;
/// Columns of a terminal on which commands and their meanings have lines of their own.
const NARROW: usize = 60;
/// Conversations in one list.
const MOST_CONVERSATIONS: usize = 15;

impl Chat<'_> {
    pub(super) async fn execute(&mut self, command: ChatCommand) -> Next {
        match command {
            ChatCommand::Help => self.help(),
            ChatCommand::Tools(words) => {
                self.wait_for_servers().await;
                self.tools(words.as_deref());
            }
            ChatCommand::Servers => self.servers(),
            ChatCommand::Show(number) => self.show_result(number),
            ChatCommand::Model(None) if self.screen.is_terminal() => self.pick_model().await,
            ChatCommand::Model(name) => self.change_model(name.as_deref()),
            ChatCommand::Mode(None) if self.screen.is_terminal() => self.pick_mode().await,
            ChatCommand::Mode(mode) => self.change_mode(mode),
            ChatCommand::Assistant => self.show_assistant(),
            ChatCommand::Tasks(None) => self.list_tasks(),
            ChatCommand::Tasks(Some(id)) => self.cancel_task(&id),
            ChatCommand::Usage => self.show_usage(),
            ChatCommand::Compact => self.compact().await,
            ChatCommand::Resume(None) if self.screen.is_terminal() => self.pick_conversation().await,
            ChatCommand::Resume(None) => self.list_conversations().await,
            ChatCommand::Resume(Some(id)) => self.resume(&id).await,
            ChatCommand::Clear => {
                self.elsewhere.clear();
                self.replace_conversation(toolway_agent::Conversation::new(self.log.clone()));
                self.screen.line("New conversation.");
            }
            ChatCommand::Exit => return Next::Leave,
            ChatCommand::Prompt(prompt, words) => {
                if let Some(messages) = self.get_prompt(&prompt, &words).await {
                    self.turn(messages).await;
                }
            }
        }
        Next::Continue
    }

    fn help(&self) {
        let about = "Use a prompt of a server, with `name=value` for its arguments; `/SERVER.PROMPT` is the same";
        let prompts = ("/SERVER/PROMPT".to_owned(), about);
        let own = COMMANDS.iter().map(|(word, arguments, about)| (format!("/{word} {arguments}"), *about));
        for (command, about) in own.chain([prompts]) {
            self.screen.line(&help_line(&command, about, super::screen::width()));
        }
        self.screen
            .line("\nEnter sends, Alt+Enter or Shift+Enter begins a new line, Tab completes commands and tools.");
        self.screen.line(
            "@ attaches a file, a resource or a prompt: @notes.txt, @\"my notes.txt\", @SERVER.URI, @SERVER.PROMPT.",
        );
        self.screen
            .line("Ctrl-C drops what you typed or stops the model; twice leaves. Ctrl-R searches earlier messages.");
        self.screen
            .line("While the model works, Enter queues a message for the end of the turn, and Esc stops the model.");
    }

    fn tools(&self, words: Option<&str>) {
        let catalog = self.host.catalog();
        let entries: Vec<_> = match words {
            Some(words) => {
                let sees = |entry: &ToolEntry| self.agent.sees(&entry.origin);
                catalog.search_among(words, MOST_TOOLS, sees).into_iter().map(|hit| hit.entry).collect()
            }
            None => catalog.tools().iter().filter(|entry| self.agent.sees(&entry.origin)).take(MOST_TOOLS).collect(),
        };
        if entries.is_empty() {
            self.screen.line("No tools.");
        }
        for entry in &entries {
            let name = format!("{}.{}", entry.origin.server, entry.origin.raw_name);
            let about = entry.item.description.as_deref().unwrap_or_default();
            let room = super::screen::width().saturating_sub(name.chars().count() + 3).max(20);
            self.screen.line(&format!("{}  {}", clean::flat(&name), clean::line(about, room)));
        }
        let all = || catalog.tools().iter().filter(|entry| self.agent.sees(&entry.origin)).count();
        let rest = if words.is_none() { all().saturating_sub(entries.len()) } else { 0 };
        if rest > 0 {
            self.screen.line(&format!("… and {rest} more; search with /tools WORDS"));
        }
    }

    fn servers(&self) {
        let statuses = self.host.servers();
        if statuses.is_empty() {
            self.screen.line("No servers are configured.");
        }
        for ServerStatus { server, phase, counts, .. } in statuses {
            let counts = counts.map(|counts| format!(", tools: {}, prompts: {}", counts.tools, counts.prompts));
            self.screen.line(&format!("{server}: {}{}", phase.for_operator().as_str(), counts.unwrap_or_default()));
        }
    }

    pub(super) fn change_model(&mut self, name: Option<&str>) {
        let Some(name) = name else {
            self.screen.line(&format!("Model {}.", self.agent.model().name()));
            for model in self.app.listed_models(&self.config.settings) {
                let vendor = model.config.vendor.as_str();
                self.screen.line(&format!("  {} ({vendor}, {})", model.name, model.shown_model()));
            }
            return;
        };
        match self.app.model(Some(name), &self.config.settings) {
            Ok(model) => {
                self.agent = self.agent.with_model(model);
                self.screen.line(&format!("Model {name} from the next message on."));
            }
            Err(report) => self.screen.line(&report.to_human()),
        }
    }

    pub(super) fn change_mode(&mut self, mode: Option<PolicyMode>) {
        let Some(mode) = mode else {
            let mode = self.agent.mode().or(self.config.settings.policy.mode.value);
            let words = mode.map_or("writes (the default of chat)", about);
            return self.screen.line(&format!("Mode {words}."));
        };
        // Only the model's calls: what the user invokes with a command is approved by that.
        self.agent = self.agent.with_mode(mode);
        self.screen.line(&format!("Mode {} from the next call on; rules still come first.", about(mode)));
        if let Some(note) = assistant::looser_mode(self.agent.assistant(), Some(mode)) {
            self.screen.line(&note);
        }
    }

    async fn list_conversations(&self) {
        let stored = match stored::list(self.app, MOST_CONVERSATIONS).await {
            Ok(stored) => stored,
            Err(report) => return self.screen.line(&report.to_human()),
        };
        if stored.is_empty() {
            self.screen.line("No conversations are stored.");
        }
        for conversation in stored {
            let title = clean::line(&conversation.title, super::screen::width().saturating_sub(60).max(20));
            let (id, at) = (record_id::short(&conversation.id), Clock::exact().brief(conversation.updated_at));
            self.screen.line(&format!("{id}  {at}  {title}"));
        }
        self.screen.line("Continue one with /resume ID, or the latest with /resume last.");
    }

    /// Goes on with another conversation. Answers that were given for the one before end with it.
    fn replace_conversation(&mut self, conversation: toolway_agent::Conversation) {
        self.host.end_conversation(self.conversation.id());
        self.conversation = conversation;
    }

    /// Continues a stored conversation of the same assistant.
    pub(super) async fn resume(&mut self, id: &str) {
        match stored::load(self.app, id).await {
            Ok(stored) => match self.other_assistant(&stored.head, &stored.notes) {
                Some(problem) => self.screen.line(&problem),
                None => self.go_on(id).await,
            },
            Err(report) => self.screen.line(&report.to_human()),
        }
    }

    /// Continues a stored conversation, with the assistant of this chat.
    pub(crate) async fn go_on(&mut self, id: &str) {
        match stored::load(self.app, id).await {
            Ok(stored) => {
                let stored::Stored { head, messages, notes } = stored;
                self.screen.note(&format!("Conversation `{}`, {} messages.", head.title, messages.len()));
                let last = messages
                    .iter()
                    .rposition(|message| {
                        message.role == Role::User && !is_task_block(message) && !is_attachment(message)
                    })
                    .unwrap_or_default();
                messages.iter().skip(last).for_each(|message| self.show(message));
                self.resume_tasks(head.id, &messages).await;
                let resumed = toolway_agent::Conversation::resume(&head.id.to_string(), messages, self.log.clone());
                self.replace_conversation(resumed.with_notes(&notes));
                if self.conversation.lacks_results() {
                    let note =
                        "Results of its calls were not kept (`store.bodies` is `none`); the model sees placeholders.";
                    self.screen.note(note);
                }
            }
            Err(report) => self.screen.line(&report.to_human()),
        }
    }

    fn show(&self, message: &Message) {
        let text = message.text();
        match message.role {
            Role::User if is_attachment(message) || is_task_block(message) => {
                self.screen.note(text.lines().next().unwrap_or_default())
            }
            Role::User => self.screen.line(&format!("> {text}")),
            Role::Assistant if !text.is_empty() => self.screen.markdown(&text),
            _ => {}
        }
    }
}

pub(super) fn about(mode: PolicyMode) -> &'static str {
    match mode {
        PolicyMode::Ask => "ask (asks about every call)",
        PolicyMode::Writes => "writes (asks about calls that may write)",
        PolicyMode::Allow => "allow (asks about nothing)",
    }
}

/// A command with its meaning beside it, or below it on a narrow terminal.
fn help_line(command: &str, about: &str, width: usize) -> String {
    if width < NARROW {
        return format!("{}\n{}", command.trim_end(), text::wrap(about, width, "  ", "  ").join("\n"));
    }
    let indent = " ".repeat(COMMAND);
    text::wrap(about, width, &format!("{command:<COMMAND$}"), &indent).join("\n")
}

/// How a prompt is used.
pub(super) fn prompt_usage(name: &str, arguments: &[toolway_wire::message::item::PromptArgument]) -> String {
    format!("usage: /{}", schema::prompt_signature(name, arguments))
}

#[cfg(test)]
mod tests {
    use super::help_line;

    #[test]
    fn help_is_aligned_and_fits() {
        let wide = help_line("/resume [ID]", "List earlier conversations, or continue one; `last` is the latest", 60);
        assert_eq!(
            wide,
            "/resume [ID]       List earlier conversations, or continue\n                   one; `last` is the latest"
        );
        assert_eq!(help_line("/usage ", "Show the tokens used so far", 20), "/usage\n  Show the tokens\n  used so far");
    }
}
