//! An agent: what it works with, and how it begins an answer. The loop is in `answering`.

use std::{collections::BTreeSet, sync::Arc};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use toolway_config::{PolicyMode, ServerName};
use toolway_host::{Host, call::Selection, catalog::Origin, policy::Surface};
use toolway_model::{Message, Model, ModelError, Usage};

use crate::{
    answer_schema::AnswerSchema,
    answering::{Answering, Told},
    assistant::Assistant,
    attaching::ResourceOptions,
    attachment::is_attachment,
    budget::{Budget, Stop},
    context::{self, ContextOptions, Frame, USUAL_WINDOW},
    conversation::Conversation,
    event::{AgentEvent, MadeCall},
    kept::KeptResults,
    result,
    sampling::ConversationModels,
    system::{ComparedInstructions, ProjectInstructions, SystemParts, SystemPrompt, compare_instructions},
    task_board::{GivenTask, TaskBoard, TurnBy},
    tools::{AdaptedTools, Offer, ToolSet, Visible},
};

/// An agent: a host, a model, and how they work together. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Agent {
    pub(crate) host: Host,
    model: Arc<dyn Model>,
    pub(crate) options: AgentOptions,
    pub(crate) kept: Arc<KeptResults>,
    adapted: Arc<AdaptedTools>,
    /// Accepted instructions of the project.
    project: Option<Arc<ProjectInstructions>>,
    /// Instructions of servers, as the last answer had them. No await under this lock.
    compared: Arc<Mutex<Option<ComparedInstructions>>>,
    /// Where calls go on that servers continue as tasks; `None`: calls wait for their tasks.
    pub(crate) tasks: Option<TaskBoard>,
    /// Where its model is known to the sampler of the host.
    pub(crate) models: ConversationModels,
}

/// Options of an agent.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// The surface it works for: `Chat`, `Run` or `Console`.
    pub surface: Surface,
    /// The user's system prompt.
    pub system: String,
    /// The servers it sees; `None`: all.
    pub servers: Option<BTreeSet<ServerName>>,
    /// Limits of one answer.
    pub budget: Budget,
    /// Limit of output tokens of one request; `None`: the model's.
    pub max_output: Option<u64>,
    /// Whether the model gets a tool to read resources.
    pub resources: bool,
    /// Whether the model gets a tool to get prompts.
    pub prompts: bool,
    /// JSON Schema that the answer must match. The model is asked again, twice at most, if it does not.
    pub answer_schema: Option<Arc<AnswerSchema>>,
    /// Mode of policy for its calls; `None`: the configured one.
    pub mode: Option<PolicyMode>,
    /// How its context is kept within the window.
    pub context: ContextOptions,
    /// How it uses resources of servers.
    pub reading: ResourceOptions,
    /// The assistant that it is. Servers, system prompt and budget of these options are those of the assistant already.
    pub assistant: Option<Assistant>,
}

impl Default for AgentOptions {
    /// An agent without a user, with all servers: calls that only read pass, others are refused unless a rule allows them.
    fn default() -> Self {
        Self {
            surface: Surface::Run,
            system: String::new(),
            servers: None,
            budget: Budget::default(),
            max_output: None,
            resources: true,
            prompts: true,
            answer_schema: None,
            mode: None,
            context: ContextOptions::default(),
            reading: ResourceOptions::default(),
            assistant: None,
        }
    }
}

/// The tools on offer to a model.
#[derive(Clone, Debug)]
pub struct OfferedTools {
    /// Their names, in the order of the request.
    pub names: Vec<String>,
    /// Why tools are not offered, one sentence each.
    pub left_out: Vec<String>,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Text of the last message.
    pub text: String,
    /// Why it ended.
    pub stop: Stop,
    /// Requests to the model.
    pub turns: u32,
    /// Calls in the order they were asked for.
    pub calls: Vec<MadeCall>,
    /// Tokens of all requests.
    pub usage: Usage,
}

impl Answer {
    /// This answer, continued by the next one of the same conversation.
    #[must_use]
    pub fn followed_by(mut self, next: Self) -> Self {
        self.calls.extend(next.calls);
        self.usage += next.usage;
        let text = if next.text.is_empty() { self.text } else { next.text };
        Self { text, stop: next.stop, turns: self.turns + next.turns, calls: self.calls, usage: self.usage }
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AgentError {
    /// The model failed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Another process has continued the conversation.
    #[error("another process has continued this conversation")]
    Continued,
}

/// Sees what happens. It must not block.
pub type Observer<'a> = &'a mut (dyn FnMut(AgentEvent) + Send);

impl Agent {
    /// An agent on a host.
    pub fn new(host: Host, model: Arc<dyn Model>, options: AgentOptions) -> Self {
        Self {
            host,
            model,
            options,
            kept: Arc::default(),
            adapted: Arc::default(),
            project: None,
            compared: Arc::default(),
            tasks: None,
            models: ConversationModels::default(),
        }
    }

    /// The same agent with another model.
    #[must_use]
    pub fn with_model(&self, model: Arc<dyn Model>) -> Self {
        Self { model, ..self.clone() }
    }

    /// The same agent with the long results of earlier turns.
    #[must_use]
    pub fn with_kept_results(&self, kept: Arc<KeptResults>) -> Self {
        Self { kept, ..self.clone() }
    }

    /// The same agent, whose tasks go on in the background.
    #[must_use]
    pub fn with_tasks(&self, tasks: TaskBoard) -> Self {
        Self { tasks: Some(tasks), ..self.clone() }
    }

    /// The same agent, whose model answers servers that ask in its calls: `models` are those of the host's sampler.
    #[must_use]
    pub fn with_conversation_models(&self, models: ConversationModels) -> Self {
        Self { models, ..self.clone() }
    }

    /// The same agent with instructions of a project that the user has accepted.
    #[must_use]
    pub fn with_project_instructions(&self, project: Option<ProjectInstructions>) -> Self {
        Self { project: project.map(Arc::new), ..self.clone() }
    }

    /// Limits of one answer.
    pub fn budget(&self) -> Budget {
        self.options.budget
    }

    /// The same agent with another budget.
    #[must_use]
    pub fn with_budget(&self, budget: Budget) -> Self {
        let mut agent = self.clone();
        agent.options.budget = budget;
        agent
    }

    /// The same agent with another mode of policy for its calls.
    #[must_use]
    pub fn with_mode(&self, mode: PolicyMode) -> Self {
        let mut agent = self.clone();
        agent.options.mode = Some(mode);
        agent
    }

    /// Mode of policy for its calls; `None`: the configured one.
    pub fn mode(&self) -> Option<PolicyMode> {
        self.options.mode
    }

    /// The assistant that it is.
    pub fn assistant(&self) -> Option<&Assistant> {
        self.options.assistant.as_ref()
    }

    /// Whether its model may see a tool.
    pub fn sees(&self, tool: &Origin) -> bool {
        self.visible().covers_tool(tool)
    }

    /// What its model sees.
    pub(crate) fn visible(&self) -> Visible {
        let tools = self.assistant().and_then(Assistant::tools).map(<[_]>::to_vec);
        Visible(Selection { servers: self.options.servers.clone(), tools })
    }

    /// The model.
    pub fn model(&self) -> &Arc<dyn Model> {
        &self.model
    }

    /// What the model of this agent is offered now, as the next request would have it.
    pub fn offered_tools(&self) -> OfferedTools {
        let ToolSet { definitions, left_out } = self.tools();
        OfferedTools { names: definitions.into_iter().map(|tool| tool.name).collect(), left_out }
    }

    fn tools(&self) -> ToolSet {
        let visible = self.visible();
        let offer = Offer {
            vendor: self.model.vendor(),
            window: self.model.context_window(),
            visible: &visible,
            resources: self.options.resources,
            prompts: self.options.prompts,
            tasks: self.tasks.is_some(),
        };
        ToolSet::of(&self.host, &self.adapted, offer)
    }

    /// Answers a message of the user, or the messages of a prompt; without messages, the ends of background tasks. Those
    /// that have ended are told to the model before, each in a message of its own. Everything that happened stays in the conversation:
    /// also if this fails, is cancelled, or its future is dropped, when only the model's unfinished message is lost.
    pub async fn answer(
        &self,
        conversation: &mut Conversation,
        messages: Vec<Message>,
        cancel: &CancellationToken,
        observe: Observer<'_>,
    ) -> Result<Answer, AgentError> {
        self.begin(conversation, &messages).await;
        self.attach_of_assistant(conversation, &messages, cancel, observe).await;
        for GivenTask { task, message } in self.ended_tasks(conversation, &messages) {
            conversation.push(message).await;
            observe(AgentEvent::TaskEnded(task));
        }
        self.attach_relevant(conversation, &messages, cancel, observe).await;
        for message in messages {
            conversation.push(message).await;
        }
        let tools = self.tools();
        tools.left_out.iter().for_each(|reason| observe(AgentEvent::LeftOut(reason.clone())));
        let compared = compare_instructions(&self.host, &self.visible()).await;
        *self.compared.lock() = Some(compared.clone());
        let system = self.system(conversation, Some(&compared));
        system.left_out.iter().for_each(|reason| observe(AgentEvent::LeftOut(reason.clone())));
        let system = self.redacted(system);
        Answering::new(self, conversation, Told { tools, system }, cancel, observe).run().await
    }

    /// The ends of background tasks that the model was not told of.
    fn ended_tasks(&self, conversation: &Conversation, messages: &[Message]) -> Vec<GivenTask> {
        let by = if messages.is_empty() { TurnBy::Itself } else { TurnBy::User };
        let given =
            self.tasks.as_ref().map(|tasks| tasks.begin_turn(conversation.id(), by, &self.kept, self.page_size()));
        given.unwrap_or_default()
    }

    /// Prepares a conversation for messages of the user.
    async fn begin(&self, conversation: &mut Conversation, messages: &[Message]) {
        conversation.keep_as(&self.host);
        self.close_open_calls(conversation).await;
        let typed = messages.iter().filter(|message| !is_attachment(message));
        let title = typed.map(Message::text).find(|text| !text.is_empty()).unwrap_or_default();
        conversation.begin(&title, self.model.name(), self.options.surface.as_str()).await;
        if let Some(assistant) = self.assistant() {
            conversation.store_assistant(assistant).await;
        }
    }

    /// The system prompt.
    fn system(&self, conversation: &Conversation, compared: Option<&ComparedInstructions>) -> SystemPrompt {
        let visible = self.visible();
        let window = self.model.context_window().unwrap_or(USUAL_WINDOW);
        let project = self.project.as_deref();
        let parts = SystemParts { own: &self.options.system, project, visible: &visible, compared };
        SystemPrompt::new(&self.host, parts, conversation.id(), window)
    }

    /// The system prompt without secrets.
    fn redacted(&self, mut system: SystemPrompt) -> SystemPrompt {
        system.text = self.host.redactor().plain(&system.text).into_owned();
        system
    }

    /// What a request has besides messages, as it would be now.
    pub(crate) fn frame(&self, conversation: &Conversation) -> Frame {
        let compared = self.compared.lock().clone();
        self.frame_of(&self.system(conversation, compared.as_ref()), &self.tools())
    }

    pub(crate) fn frame_of(&self, system: &SystemPrompt, tools: &ToolSet) -> Frame {
        let whole = system.text.len();
        let own = self.options.system.trim().len().min(whole);
        let project = system.project.min(whole - own);
        Frame { system: own, project, instructions: whole - own - project, tools: tools.tokens() }
    }

    /// Characters of one result that the model gets at once: a quarter of its context window at most.
    pub(crate) fn page_size(&self) -> usize {
        let window = self.model.context_window().unwrap_or(USUAL_WINDOW);
        context::bytes_of(window / 4).clamp(result::LEAST_SHOWN, result::SHOWN)
    }
}
