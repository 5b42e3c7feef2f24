//! The calls of one message of the model: concurrent, each on the host's path of a call, with results in the order of
//! the calls.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::{sync::mpsc, time::Instant};
use toolway_host::{
    call::{CallEvent, CallOutcome, CallRequest, Caller, Relay, Target, TaskHandling, Unsent, VisibleServers},
    catalog::Origin,
    record::Delivery,
};
use toolway_model::{ResultPart, ToolCall, ToolResult};
use toolway_wire::json::{JsonKind, Raw};
use uuid::Uuid;

use crate::{
    agent::{Agent, Observer},
    answering::Interrupt,
    budget::Spent,
    builtin::Builtin,
    content::Structured,
    conversation::Conversation,
    event::{self, AgentEvent, CallProgress, CallState, EndedCall, MadeCall, StartedCall},
    resource_list,
    result::{self, Showing, Shown},
    search,
    tools::{ToolSet, Wanted},
};

/// Reports of progress that wait to be seen.
const PROGRESS: usize = 64;

/// A call before it is made.
struct Planned {
    /// Public name of the tool that is called.
    tool: String,
    step: Step,
}

enum Step {
    /// The agent answers it itself.
    Answered(CallState, ToolResult),
    /// The host makes it.
    Open(Box<Relay>),
}

impl Planned {
    /// Why it is not made; `None` if it is, or has an answer.
    fn failure(&self) -> Option<String> {
        match &self.step {
            Step::Answered(CallState::Failed, result) => match result.content.as_slice() {
                [ResultPart::Text { text }] => Some(text.clone()),
                _ => None,
            },
            Step::Answered(..) | Step::Open(_) => None,
        }
    }
}

impl Agent {
    /// Makes the calls of one message concurrently; their results have the order of the calls. Calls that are still
    /// running at an interruption are cancelled.
    pub(crate) async fn call_all(
        &self,
        wanted: &[ToolCall],
        tools: &ToolSet,
        spent: &mut Spent,
        conversation: &Conversation,
        interrupt: &Interrupt,
        observe: Observer<'_>,
    ) -> Vec<(MadeCall, ToolResult)> {
        let (sender, mut progress) = mpsc::channel(PROGRESS);
        let mut running: FuturesUnordered<BoxFuture<'_, (usize, EndedCall)>> = FuturesUnordered::new();
        let mut ended: Vec<Option<EndedCall>> = vec![None; wanted.len()];
        let mut started = Vec::with_capacity(wanted.len());
        for (index, call) in wanted.iter().enumerate() {
            let planned = match spent.count_call(call) {
                Ok(()) => self.plan(call, tools, conversation),
                Err(why) => not_made(call, why),
            };
            if let Some(why) = planned.failure().filter(|_| Builtin::find(&call.name).is_none()) {
                self.record_unsent(call, why, conversation).await;
            }
            let call_id = match &planned.step {
                Step::Open(relay) => Some(relay.id().to_string()),
                Step::Answered(..) => None,
            };
            started.push((planned.tool.clone(), call_id.clone()));
            observe(AgentEvent::CallStarted(StartedCall { call: call.clone(), tool: planned.tool.clone(), call_id }));
            running.push(
                self.finish(call, planned, sender.clone(), conversation.id()).map(move |ended| (index, ended)).boxed(),
            );
        }
        let reason = loop {
            tokio::select! {
                biased;
                Some(event) = progress.recv() => observe(AgentEvent::CallProgress(event)),
                next = running.next() => match next {
                    Some((index, call)) => {
                        observe(AgentEvent::CallEnded(call.clone()));
                        ended[index] = Some(call);
                    }
                    None => break None,
                },
                reason = interrupt.triggered() => break Some(reason),
            }
        };
        drop(running);
        let reason =
            reason.map(|stop| if stop.is_cancelled() { "the user cancelled it" } else { "the time limit is reached" });
        let results = wanted.iter().zip(started).zip(ended).map(|((call, (name, call_id)), ended)| {
            let ended = ended.unwrap_or_else(|| {
                // One that was not sent yet cannot be told apart here.
                let delivery = if call_id.is_some() { Delivery::Unknown } else { Delivery::NotSent };
                let reason = delivery.said_after(reason.unwrap_or_default());
                let result = result::error(&call.id, &call.name, reason);
                let made = MadeCall { name, state: CallState::Cancelled, call_id, remedies: Vec::new() };
                let ended = EndedCall {
                    made,
                    result,
                    problem: None,
                    mismatches: Vec::new(),
                    duration: Duration::ZERO,
                    waited: Duration::ZERO,
                };
                observe(AgentEvent::CallEnded(ended.clone()));
                ended
            });
            (ended.made, ended.result)
        });
        results.collect()
    }

    /// Decides what a call means, and opens it at the host.
    fn plan(&self, call: &ToolCall, tools: &ToolSet, conversation: &Conversation) -> Planned {
        let Some(wanted) = tools.find(&call.name) else {
            return not_made(call, format!("unknown tool `{}`", call.name));
        };
        if !call.has_object() {
            return not_made(call, format!("the arguments are not a JSON object: {}", call.arguments));
        }
        let (catalog, visible) = (self.host.own_catalog(), self.visible());
        let text = match wanted {
            Wanted::Tool(name) => {
                let arguments = Some(call.arguments.clone());
                return self.open(name.to_string(), call, Target::Tool(name), arguments, conversation);
            }
            Wanted::Builtin(Builtin::CallTool(effect)) => {
                match search::choose(&catalog, &visible, effect, &call.arguments) {
                    Ok((name, arguments)) => {
                        return self.open(name.to_string(), call, Target::Tool(name), Some(arguments), conversation);
                    }
                    Err(why) => Err(why),
                }
            }
            Wanted::Builtin(builtin @ (Builtin::ReadResource | Builtin::GetPrompt)) => {
                match target_of(builtin, &call.arguments) {
                    Ok((target, given)) => return self.open(call.name.clone(), call, target, given, conversation),
                    Err(why) => Err(why),
                }
            }
            Wanted::Builtin(builtin @ (Builtin::TaskStatus | Builtin::TaskCancel)) => {
                self.use_task(builtin, &call.arguments, conversation.id())
            }
            Wanted::Builtin(Builtin::ReadResult) => self.read_result(&call.arguments),
            Wanted::Builtin(Builtin::ListResources) => {
                let listed =
                    resource_list::list(&catalog, &visible, &call.arguments).map(|text| self.without_secrets(&text));
                listed.map(|text| self.first_page(&call.id, text))
            }
            Wanted::Builtin(Builtin::SearchTools) => {
                search::search(&catalog, &visible, &call.arguments).map(|text| self.without_secrets(&text))
            }
            Wanted::Builtin(Builtin::DescribeTool) => {
                let described = search::describe(&catalog, &visible, &call.arguments);
                let described = described.map(|text| self.without_secrets(&text));
                described.map(|text| self.first_page(&call.id, text))
            }
        };
        match text {
            Ok(text) => {
                let content = vec![ResultPart::Text { text }];
                let (call_id, name) = (call.id.clone(), call.name.clone());
                let result = ToolResult { call_id, name, content, is_error: false };
                Planned { tool: call.name.clone(), step: Step::Answered(CallState::Succeeded, result) }
            }
            Err(why) => not_made(call, why),
        }
    }

    /// What servers say of themselves, for the model: known secrets do not reach it, wherever they stand.
    fn without_secrets(&self, text: &str) -> String {
        self.host.redactor().plain(text).into_owned()
    }

    /// Records a call of a tool that is not made. The agent's own tools have no records.
    async fn record_unsent(&self, call: &ToolCall, why: String, conversation: &Conversation) {
        let Ok(name) = call.name.parse() else { return };
        let request = self.request(Target::Tool(name), Some(call.arguments.clone()), conversation);
        self.host.record_unsent(&request, Unsent::Invalid(why)).await;
    }

    fn open(
        &self,
        tool: String,
        call: &ToolCall,
        target: Target,
        arguments: Option<Raw>,
        conversation: &Conversation,
    ) -> Planned {
        let request = self.request(target, arguments, conversation);
        // What is found again if this process is killed before the result is stored.
        let idempotency_key = self.host.keeps_keys().then(|| Ok(conversation.key_of(call)));
        let request = CallRequest { idempotency_key, ..request };
        Planned { tool, step: Step::Open(Box::new(self.host.open(request))) }
    }

    pub(crate) fn request(&self, target: Target, arguments: Option<Raw>, conversation: &Conversation) -> CallRequest {
        let visible = VisibleServers::from(self.visible().0);
        let task = self.task_handling(&target);
        CallRequest {
            task,
            surface: self.options.surface,
            conversation: Some(Arc::clone(conversation.id())),
            seen: Some(Arc::clone(conversation.seen())),
            arguments,
            visible,
            mode: self.options.mode,
            max_age: self.options.reading.cache,
            assistant: self.assistant().map(|assistant| Arc::clone(assistant.policy())),
            poll_interval: self.assistant().and_then(|assistant| assistant.tasks().poll_interval),
            ..CallRequest::new(Caller::Agent(Arc::clone(conversation.id())), target)
        }
    }

    /// Whether a call ends with its task, or waits for it.
    fn task_handling(&self, target: &Target) -> TaskHandling {
        let catalog = self.host.own_catalog();
        let tool = match target {
            Target::Tool(name) if self.tasks.is_some() => catalog.find_tool(name),
            _ => None,
        };
        let own = self.assistant().and_then(|assistant| assistant.tasks().background);
        let is_background = |server| own.unwrap_or_else(|| self.host.task_terms(server).background);
        match tool.is_some_and(|tool| is_background(&tool.origin.server)) {
            true => TaskHandling::Background,
            false => TaskHandling::Await,
        }
    }

    /// Makes a planned call.
    async fn finish(&self, call: &ToolCall, planned: Planned, progress: Progress, conversation: &str) -> EndedCall {
        let began = Instant::now();
        let mut relay = match planned.step {
            Step::Answered(state, result) => {
                let made = MadeCall { name: planned.tool, state, call_id: None, remedies: Vec::new() };
                let (duration, waited) = (began.elapsed(), Duration::ZERO);
                return EndedCall { made, result, problem: None, mismatches: Vec::new(), duration, waited };
            }
            Step::Open(relay) => relay,
        };
        let call_id = relay.id();
        let id = call_id.to_string();
        let person_wait = relay.person_wait().clone();
        let outcome = relay.end_with(|event| send_progress(&progress, &call.id, event)).await;
        let report = self.host.take_validation_report(call_id);
        let delivery = relay.delivery().unwrap_or(Delivery::Unknown);
        let structured = Structured::of(&self.host.own_catalog(), &planned.tool);
        let redactor = self.host.redactor();
        let showing = Showing { result_id: &id, structured, page: self.page_size(), redactor: &redactor };
        let mut shown = result::show(call, &outcome, delivery, &showing);
        if let Some(tasks) = &self.tasks {
            if let CallOutcome::HandedOff(_) = outcome {
                tasks.start(conversation, call_id.uuid());
                shown = Shown { result: result::started_task(&call.id, &call.name, &id), rest: None };
            } else {
                tasks.forget_call(conversation, call_id.uuid());
            }
        }
        if let Some(rest) = shown.rest {
            self.kept.keep(&id, rest);
        }
        let (state, remedies) = (CallState::of(&outcome), event::remedies(&outcome));
        let made = MadeCall { name: planned.tool, state, call_id: Some(id), remedies };
        let mismatches = report.map(|report| report.lines()).unwrap_or_default();
        let waited = person_wait.total();
        let duration = began.elapsed().saturating_sub(waited);
        let problem = outcome.message().filter(|_| state != CallState::Running);
        EndedCall { made, result: shown.result, problem, mismatches, duration, waited }
    }

    /// The beginning of a text that may be too long for the model; the whole is kept under `id`.
    fn first_page(&self, id: &str, text: String) -> String {
        let page = result::page(&text, 0, id, self.page_size());
        if page != text {
            self.kept.keep(id, text);
        }
        page
    }

    /// Shows or cancels a background task of the conversation.
    fn use_task(&self, builtin: Builtin, arguments: &Raw, conversation: &str) -> Result<String, String> {
        let text = text_member(arguments, "id").unwrap_or_default();
        let unknown = || format!("unknown task `{text}`, or it has ended and its result was given to you");
        let (Some(tasks), Ok(id)) = (&self.tasks, text.parse::<Uuid>()) else { return Err(unknown()) };
        if builtin == Builtin::TaskStatus {
            return tasks.describe(conversation, id).ok_or_else(unknown);
        }
        match tasks.cancel_for_model(conversation, id) {
            true => Ok(result::cancelling_words(&id.to_string())),
            false => Err(unknown()),
        }
    }

    fn read_result(&self, arguments: &Raw) -> Result<String, String> {
        let id = text_member(arguments, "id").unwrap_or_default();
        let offset = arguments
            .get("offset")
            .and_then(|offset| offset.as_u64())
            .and_then(|offset| usize::try_from(offset).ok())
            .unwrap_or_default();
        self.kept.page(&id, offset, self.page_size()).ok_or_else(|| format!("unknown truncated result `{id}`"))
    }
}

/// Where progress of calls goes.
type Progress = mpsc::Sender<CallProgress>;

fn send_progress(sender: &Progress, id: &str, event: &CallEvent) {
    let CallEvent::Progress(params) = event else { return };
    let [progress, total, message] = params.fields(["progress", "total", "message"]);
    let number = |value: &Option<Raw>| value.as_ref().and_then(|value| value.to_string().parse().ok());
    let progress = CallProgress {
        id: id.to_owned(),
        progress: number(&progress).unwrap_or_default(),
        total: number(&total),
        message: message.as_ref().and_then(Raw::as_str).map(std::borrow::Cow::into_owned),
    };
    // A newer report replaces one that finds no room.
    let _full = sender.try_send(progress);
}

/// The target of one of the agent's own tools.
fn target_of(builtin: Builtin, arguments: &Raw) -> Result<(Target, Option<Raw>), String> {
    let text = |key: &str| text_member(arguments, key).ok_or_else(|| format!("`{key}` must be a string"));
    let server = text("server_id")?.parse().map_err(|_| "`server_id` is not a valid server name".to_owned())?;
    if builtin == Builtin::ReadResource {
        return Ok((Target::ResourceOf(Origin { server, raw_name: text("uri")? }), None));
    }
    let raw_name = text("prompt_name")?;
    let given = arguments.get("arguments").filter(|given| given.kind() == JsonKind::Object);
    Ok((Target::PromptOf(Origin { server, raw_name }), given))
}

/// A text member of the arguments of one of the agent's own tools.
pub(crate) fn text_member(arguments: &Raw, key: &str) -> Option<String> {
    arguments.get(key).as_ref().and_then(Raw::as_str).map(std::borrow::Cow::into_owned)
}

/// The calls of a message that was cut at the limit of output tokens. None is made: one without its arguments looks like
/// one that has none.
pub(crate) fn refuse_cut(wanted: &[ToolCall], observe: Observer<'_>) -> Vec<(MadeCall, ToolResult)> {
    let refuse = |call: &ToolCall| {
        observe(AgentEvent::CallStarted(StartedCall { call: call.clone(), tool: call.name.clone(), call_id: None }));
        let why = "not called: your message was cut at the limit of output tokens; call again with less in one message";
        let result = result::error(&call.id, &call.name, why.to_owned());
        let made = MadeCall { name: call.name.clone(), state: CallState::Failed, call_id: None, remedies: Vec::new() };
        let ended = EndedCall {
            made,
            result,
            problem: None,
            mismatches: Vec::new(),
            duration: Duration::ZERO,
            waited: Duration::ZERO,
        };
        observe(AgentEvent::CallEnded(ended.clone()));
        (ended.made, ended.result)
    };
    wanted.iter().map(refuse).collect()
}

/// A call that the agent does not make.
fn not_made(call: &ToolCall, why: String) -> Planned {
    let result = result::error(&call.id, &call.name, why);
    Planned { tool: call.name.clone(), step: Step::Answered(CallState::Failed, result) }
}
