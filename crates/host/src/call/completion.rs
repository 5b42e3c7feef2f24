//! Completion of an argument of a prompt or resource template.

use toolway_wire::{json::Raw, up::CompletionTarget};

use super::{CallError, CallOutcome, CallerContext, Target, auxiliary::reach};
use crate::{
    catalog::{Origin, PublicName},
    host::{Host, Inner},
    policy::Refusal,
    record::Recording,
};

/// An argument to complete.
#[derive(Clone, Debug)]
pub struct Completion {
    /// Caller of the completion.
    pub caller_context: CallerContext,
    /// Prompt or template that has the argument.
    pub of: CompletionOf,
    /// Argument name.
    pub argument: String,
    /// Value typed so far.
    pub value: String,
    /// Values of other arguments, as an object of strings.
    pub known: Option<serde_json::Value>,
}

/// The prompt or template whose argument is completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompletionOf {
    /// A prompt by its public name.
    Prompt(PublicName),
    /// A prompt by its name at the server.
    PromptOf(Origin),
    /// A resource template by its template at the server.
    TemplateOf(Origin),
}

impl Host {
    /// Completes an argument and returns the result unchanged. Each completion is recorded like a call, of the kind
    /// [`CallKind::Method`](super::CallKind::Method).
    pub async fn complete(&self, completion: Completion) -> Result<Raw, CallOutcome> {
        let caller = &completion.caller_context.caller;
        let mut recording = self.inner().begin_recording(caller, "completion/complete", completion.bytes());
        let result = complete(self.inner(), completion, &mut recording).await;
        recording.end_with(result.as_ref()).await;
        result
    }
}

async fn complete(host: &Inner, completion: Completion, recording: &mut Recording) -> Result<Raw, CallOutcome> {
    let Completion { caller_context, of, argument, value, known } = completion;
    let target = match of.clone() {
        CompletionOf::Prompt(name) => Target::Prompt(name),
        CompletionOf::PromptOf(origin) => Target::PromptOf(origin),
        CompletionOf::TemplateOf(origin) => Target::ResourceOf(origin),
    };
    let reached = reach(host, &caller_context, &target, recording).await?;
    let raw_name = reached.permit.subject().raw_name.clone();
    let completion_target = match of {
        CompletionOf::Prompt(_) | CompletionOf::PromptOf(_) => CompletionTarget::Prompt(raw_name),
        CompletionOf::TemplateOf(_) => CompletionTarget::Resource(raw_name),
    };
    let peer = &reached.ready.peer;
    if !peer.profile().capabilities.has("completions") {
        let problem = format!("server `{}` does not support completion", reached.found.connection.name());
        return Err(Refusal::Malformed(problem).into());
    }
    let completed = peer.complete(&completion_target, (&argument, &value), known.as_ref()).await;
    completed.map_err(|error| CallOutcome::Failed(CallError::Wire(error)))
}

impl Completion {
    /// Size of the caller's input in bytes.
    fn bytes(&self) -> usize {
        let known = self.known.as_ref().map_or(0, |known| known.to_string().len());
        self.argument.len() + self.value.len() + known
    }
}
