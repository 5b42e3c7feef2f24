//! What happens while an agent answers, as owned values, so that a surface can keep them or send them on.

use std::time::Duration;

use toolway_host::{
    audience::OperatorText,
    call::CallOutcome,
    policy::{Refusal, RuleId},
};
use toolway_model::{ModelEvent, ToolCall, ToolResult, Usage};

use crate::{attaching::AttachedResource, compacting::Compacted, task_board::EndedTask};

/// Something that happens while an agent answers.
#[derive(Clone, Debug)]
pub enum AgentEvent {
    /// An event of the model, except for the end of its message.
    Model(ModelEvent),
    /// The model's message is complete. Tokens of this answer so far.
    Usage(Usage),
    /// A tool, or the instructions of a server, are left out, with the reason.
    LeftOut(String),
    /// A call begins.
    CallStarted(StartedCall),
    /// A call reports progress.
    CallProgress(CallProgress),
    /// A call has ended.
    CallEnded(EndedCall),
    /// The model is told that a background task has ended.
    TaskEnded(EndedTask),
    /// A resource was attached because it fits the message.
    Attached(AttachedResource),
    /// Older turns were shortened or summarised to keep the context window.
    Compacted(Compacted),
}

/// A call that begins.
#[derive(Clone, Debug, PartialEq)]
pub struct StartedCall {
    /// The call as the model made it.
    pub call: ToolCall,
    /// Public name of the tool that is called: the call's own, or the one inside `call_tool_read` and its siblings.
    pub tool: String,
    /// Id in the records; `None` if the agent answers the call itself.
    pub call_id: Option<String>,
}

/// Progress of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallProgress {
    /// Id that the model gave to the call.
    pub id: String,
    /// Progress so far, in the server's unit.
    pub progress: f64,
    /// Progress at the end; `None` if unknown.
    pub total: Option<f64>,
    /// The server's words.
    pub message: Option<String>,
}

/// A call that has ended.
#[derive(Clone, Debug)]
pub struct EndedCall {
    /// How it ended.
    pub made: MadeCall,
    /// Its result as the model gets it.
    pub result: ToolResult,
    /// Why it failed or was refused, with the details that the model does not get; `None` if it has a result.
    pub problem: Option<OperatorText>,
    /// What does not match the schemas of the tool; empty if everything does.
    pub mismatches: Vec<String>,
    /// Time since it began, without `waited`.
    pub duration: Duration,
    /// Time in which it waited for a person.
    pub waited: Duration,
}

/// A call that was made for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeCall {
    /// Public name of the tool, or the name of one of the agent's own tools.
    pub name: String,
    /// How it ended.
    pub state: CallState,
    /// Id in the records; `None` if it was not made.
    pub call_id: Option<String>,
    /// The command that would allow it, if no user could be asked.
    pub remedies: Vec<String>,
}

/// How a call ended, as far as an agent's caller acts on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallState {
    /// Not yet: it goes on as a task in the background.
    Running,
    /// With a result.
    Succeeded,
    /// With a result that reports an error.
    ToolError,
    /// Refused by policy, a user or a limit.
    Refused,
    /// Refused because no user could be asked.
    ApproverUnavailable,
    /// Refused because a user refused the tool for good.
    RefusedForGood,
    /// Failed in transport, at the server, or in the agent.
    Failed,
    /// Cancelled by the user or the server.
    Cancelled,
    /// A time limit expired.
    TimedOut,
}

impl CallState {
    /// The word for scripts, as in call records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::ToolError => "tool-error",
            Self::Refused | Self::ApproverUnavailable | Self::RefusedForGood => "refused",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed-out",
        }
    }

    pub(crate) fn of(outcome: &CallOutcome) -> Self {
        match outcome {
            CallOutcome::Answered(_) if outcome.is_tool_error() => Self::ToolError,
            CallOutcome::Answered(_) => Self::Succeeded,
            CallOutcome::HandedOff(_) => Self::Running,
            CallOutcome::Refused(Refusal::ApproverUnavailable { .. }) => Self::ApproverUnavailable,
            CallOutcome::Refused(Refusal::Denied { rule: RuleId::Saved(_), .. }) => Self::RefusedForGood,
            CallOutcome::Refused(_) => Self::Refused,
            CallOutcome::Failed(_) => Self::Failed,
            CallOutcome::Cancelled => Self::Cancelled,
            CallOutcome::TimedOut { .. } => Self::TimedOut,
        }
    }
}

/// The commands of which each would allow a refused call.
pub(crate) fn remedies(outcome: &CallOutcome) -> Vec<String> {
    match outcome {
        CallOutcome::Refused(Refusal::ApproverUnavailable { remedies, .. }) => remedies.clone(),
        CallOutcome::Refused(Refusal::Denied { rule: RuleId::Saved(id), .. }) => {
            vec![format!("toolway trust remove {id}")]
        }
        _ => Vec::new(),
    }
}
