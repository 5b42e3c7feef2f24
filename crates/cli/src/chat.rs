//! `toolway chat`: a conversation with a model at the terminal.
//!
//! | part | file |
//! |---|---|
//! | messages: the line editor, or standard input | `chat/input.rs`, `chat/editor.rs`, `chat/seen_text.rs`, `chat/words.rs` |
//! | one turn: the model works, Esc and Ctrl-C stop it | `chat/turn.rs` |
//! | what is typed meanwhile | `chat/typing.rs`, `chat/echo.rs` |
//! | output: text, calls, status | `chat/screen.rs`, `chat/call_line.rs`, `chat/status_line.rs` |
//! | approvals and forms in place | `chat/answerer.rs` |
//! | files, resources and prompts behind `@` | `chat/attaching.rs`, `chat/reference.rs`, `chat/file_words.rs` |
//! | the assistant of a conversation | `chat/assistants.rs` |
//! | slash commands | `chat/command.rs`, `chat/commands.rs`, `chat/choosing.rs`, `chat/prompt.rs` |
//! | the context window and what was used | `chat/usage.rs` |
//! | background tasks | `chat/tasks.rs` |
//! | who has the terminal | `chat/terminal_gate.rs` |
//! | stored conversations | `chat/stored.rs` |
//! | without a model | `chat/no_model.rs` |

mod answerer;
mod assistants;
mod attaching;
mod call_line;
mod choosing;
mod command;
mod commands;
mod echo;
mod editor;
mod file_words;
mod input;
pub(crate) mod no_model;
mod prompt;
mod reference;
mod screen;
mod seen_text;
mod status_line;
pub(crate) mod stored;
mod tasks;
mod terminal_gate;
mod turn;
mod typing;
mod usage;
mod words;

use std::{collections::VecDeque, ffi::OsStr, path::PathBuf, sync::Arc};

use futures_util::future::join_all;
use tokio_util::task::AbortOnDropHandle;
use toolway_agent::{Agent, AgentOptions, Conversation, ConversationModels, ProjectInstructions, TaskBoard};
use toolway_config::Config;
use toolway_host::{
    Host,
    connection::ServerStatus,
    conversation::ConversationLog,
    inbox::{Answerer, NoAnswerer},
    task::TaskRow,
};
use toolway_model::{Model, Usage};
use url::Url;

pub(crate) use answerer::ChatAnswerer;
use command::ChatCommand;
use editor::{EditedLine, Editor, EditorOptions};
use file_words::AttachFolders;
use input::ChatInput;
pub(crate) use screen::{Screen, ScreenKind};
pub(crate) use terminal_gate::TerminalGate;
use words::Words;

use crate::{
    app::App, cost::Cost, exit_code::ExitCode, output, output::Colour, report::Report, terminal::TerminalAnswerer,
};

/// File of earlier messages in the state directory.
const HISTORY: &str = "chat-history.txt";

/// A chat.
pub(crate) struct Chat<'a> {
    app: &'a App,
    config: Config,
    host: Host,
    agent: Agent,
    conversation: Conversation,
    /// File of the project's instructions that the model gets.
    project_file: Option<String>,
    log: Option<Arc<dyn ConversationLog>>,
    screen: Arc<Screen>,
    input: ChatInput,
    /// Where files are attached from.
    folders: AttachFolders,
    /// Messages that were typed while the model worked.
    queued: VecDeque<String>,
    gate: TerminalGate,
    tasks: TaskBoard,
    /// Open tasks of the conversation that another process follows.
    elsewhere: Vec<TaskRow>,
    used: Usage,
    /// What that cost; `None` if no price is configured.
    cost: Option<Cost>,
    /// The servers that connect at the start; `None` when they were reported.
    connecting: Option<AbortOnDropHandle<Vec<ServerStatus>>>,
    /// Whether the last thing that happened was a Ctrl-C.
    was_interrupted: bool,
}

/// What a chat is made of.
pub(crate) struct ChatParts {
    pub(crate) config: Config,
    pub(crate) host: Host,
    pub(crate) log: Option<Arc<dyn ConversationLog>>,
    pub(crate) model: Arc<dyn Model>,
    /// Where the sampler of the host finds the model of the conversation.
    pub(crate) models: ConversationModels,
    pub(crate) options: AgentOptions,
    /// Accepted instructions of the project.
    pub(crate) project: Option<ProjectInstructions>,
    pub(crate) screen: Arc<Screen>,
    pub(crate) colour: Colour,
    pub(crate) gate: TerminalGate,
}

/// Whether the chat goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Continue,
    Leave,
}

/// The answerer of a chat, and its terminal if it has one.
pub(crate) fn answerer(app: &App) -> (Arc<dyn Answerer>, Option<Arc<ChatAnswerer>>) {
    if !output::is_interactive() {
        return (Arc::new(NoAnswerer), None);
    }
    let answerer = Arc::new(ChatAnswerer::new(TerminalAnswerer::new(&app.environment)));
    (Arc::<ChatAnswerer>::clone(&answerer), Some(answerer))
}

impl<'a> Chat<'a> {
    /// A chat with a new conversation.
    pub(crate) fn new(app: &'a App, parts: ChatParts) -> Result<Self, Report> {
        let ChatParts { config, host, log, model, models, options, project, screen, colour, gate } = parts;
        let folders = attach_folders(app, &config);
        let input = if output::is_interactive() {
            let models = app.listed_models(&config.settings).into_iter().map(|model| model.name).collect();
            let words = Words { host: host.clone(), models, folders: folders.clone() };
            let history = app.paths.state.as_ref().filter(|_| !app.reach.no_store).map(|folder| folder.join(HISTORY));
            let editor = Editor::start(EditorOptions { history, words, colour, gate: gate.clone() });
            let failed = |error: std::io::Error| Report::new(ExitCode::Internal, "internal", error.to_string());
            ChatInput::Editor(editor.map_err(failed)?)
        } else {
            ChatInput::lines()
        };
        let tasks = TaskBoard::new(&host);
        let agent = Agent::new(host.clone(), model, options).with_tasks(tasks.clone());
        let project_file = project.as_ref().map(|project| project.file.clone());
        let agent = agent.with_project_instructions(project).with_conversation_models(models);
        let connecting =
            Some(AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(connect_all(host.clone()))));
        let conversation = Conversation::new(log.clone());
        let used = Usage::default();
        let was_interrupted = false;
        Ok(Self {
            app,
            config,
            host,
            agent,
            conversation,
            project_file,
            log,
            screen,
            input,
            folders,
            queued: VecDeque::new(),
            gate,
            tasks,
            elsewhere: Vec::new(),
            used,
            cost: None,
            connecting,
            was_interrupted,
        })
    }

    /// Talks until the user leaves. `resumed` is the id of the conversation that goes on.
    pub(crate) async fn run(mut self, resumed: Option<&str>) -> ExitCode {
        self.greet();
        if let Some(id) = resumed {
            self.go_on(id).await;
        }
        loop {
            let next = match self.next_line().await {
                EditedLine::Text(text) => {
                    self.was_interrupted = false;
                    self.handle_input(&text).await
                }
                EditedLine::Dropped => {
                    self.was_interrupted = false;
                    Next::Continue
                }
                EditedLine::Interrupted if self.was_interrupted => Next::Leave,
                EditedLine::Interrupted => {
                    self.was_interrupted = true;
                    self.screen.note("Press Ctrl-C again to leave.");
                    Next::Continue
                }
                // A prompt of a background task had the terminal.
                EditedLine::Suspended => Next::Continue,
                EditedLine::End => Next::Leave,
            };
            if next == Next::Leave {
                break;
            }
        }
        if !self.conversation.messages().is_empty() && self.log.is_some() && !self.app.reach.no_store {
            self.screen.note(&format!("Continue with: toolway chat --resume {}", self.conversation.id()));
        }
        self.note_open_tasks();
        self.host.shutdown().await;
        ExitCode::Ok
    }

    fn greet(&self) {
        let servers = self.host.servers().len();
        let servers = match servers {
            0 => "no servers".to_owned(),
            1 => "1 server".to_owned(),
            count => format!("{count} servers"),
        };
        self.screen.note(&format!("Model {}, {servers}. /help lists the commands.", self.agent.model().name()));
        self.greet_as_assistant();
        if self.host.servers().is_empty() {
            self.screen
                .note("Add a server with `toolway import`, or in toolway.json; docs/guide/servers.md shows how.");
        }
    }

    async fn handle_input(&mut self, text: &str) -> Next {
        if text.trim().is_empty() {
            return Next::Continue;
        }
        if text.starts_with('/') && text.contains(['.', '/']) {
            // Prompts of servers are known when these are connected.
            self.wait_for_servers().await;
        }
        let catalog = self.host.catalog();
        match ChatCommand::parse(text, &catalog) {
            Some(Ok(command)) => self.execute(command).await,
            Some(Err(problem)) => {
                self.screen.line(&problem);
                Next::Continue
            }
            None => {
                self.send(text.trim()).await;
                Next::Continue
            }
        }
    }
}

/// The working folder, and the folders of the configured roots.
fn attach_folders(app: &App, config: &Config) -> AttachFolders {
    let home = app.environment.get(OsStr::new("HOME")).map(PathBuf::from);
    let roots = config.settings.roots.value.iter().filter(|root| root.enabled);
    let folder = |uri: &str| Url::parse(uri).ok()?.to_file_path().ok();
    let configured = roots.filter_map(|root| folder(&root.uri(home.as_deref()).ok()?));
    let given = app.given_roots().unwrap_or_default();
    let given = given.iter().filter_map(|root| folder(&root.uri));
    AttachFolders {
        working: std::env::current_dir().unwrap_or_default(),
        roots: configured.chain(given).collect(),
        home,
    }
}

/// Connects all servers; returns their states.
async fn connect_all(host: Host) -> Vec<ServerStatus> {
    let servers = host.servers();
    let listed = join_all(servers.iter().map(|status| host.list(&status.server))).await;
    listed.into_iter().flatten().collect()
}
