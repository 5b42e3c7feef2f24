//! Prompts of servers as slash commands: their arguments are given or asked, their messages begin a turn.

use serde_json::{Map, Value};
use toolway_agent::prompt_messages;
use toolway_host::{
    call::{CallOutcome, CallRequest, Caller, Target},
    catalog::PromptEntry,
};
use toolway_model::Message;
use toolway_wire::json::Raw;

use super::{Chat, commands::prompt_usage, turn::Stoppable};
use crate::report::Report;

impl Chat<'_> {
    /// Gets the messages of a prompt; `None` if it failed, which is said, or the user gave up.
    pub(super) async fn get_prompt(&mut self, prompt: &PromptEntry, words: &[String]) -> Option<Vec<Message>> {
        let result = self.get_prompt_result(prompt, words).await?;
        Some(prompt_messages(&result, &self.host.redactor()))
    }

    /// Gets a prompt as its server sends it.
    pub(super) async fn get_prompt_result(&mut self, prompt: &PromptEntry, words: &[String]) -> Option<Raw> {
        let arguments = match given(prompt, words) {
            Ok(given) => self.ask_missing(prompt, given).await?,
            Err(problem) => {
                self.screen.line(&problem);
                return None;
            }
        };
        let request = CallRequest {
            arguments: Some(Raw::of(&Value::Object(arguments))),
            conversation: Some(std::sync::Arc::clone(self.conversation.id())),
            // Typing the command is consent, as for `toolway prompts get`.
            ..CallRequest::new(Caller::Terminal, Target::PromptOf(prompt.origin.clone()))
        };
        self.screen.busy(&format!("getting {}.{}", prompt.origin.server, prompt.origin.raw_name));
        let outcome = self.stoppable(self.host.call(request)).await;
        self.screen.idle();
        match outcome {
            Stoppable::Done(CallOutcome::Answered(result)) => Some(result),
            Stoppable::Done(outcome) => {
                self.screen.line(&Report::from_outcome(&outcome, "prompts/get").to_human());
                None
            }
            Stoppable::Stopped => {
                self.screen.line("Stopped.");
                None
            }
        }
    }

    /// Asks for required arguments that were not given.
    async fn ask_missing(&mut self, prompt: &PromptEntry, mut given: Map<String, Value>) -> Option<Map<String, Value>> {
        for argument in prompt.item.arguments.iter().filter(|argument| argument.required) {
            if given.contains_key(&argument.name) {
                continue;
            }
            if let Some(about) = &argument.description {
                self.screen.note(about);
            }
            let value = self.input.value(&argument.name).await?;
            given.insert(argument.name.clone(), value.into());
        }
        Some(given)
    }
}

/// The arguments on the line: `name=value`, or values in the order of the arguments.
fn given(prompt: &PromptEntry, words: &[String]) -> Result<Map<String, Value>, String> {
    let arguments = &prompt.item.arguments;
    let mut given = Map::new();
    for word in words {
        let named = word.split_once('=').filter(|(name, _)| arguments.iter().any(|argument| argument.name == *name));
        let (name, value) = match named {
            Some((name, value)) => (name, value),
            None => {
                let next = arguments.iter().find(|argument| !given.contains_key(&argument.name));
                let usage = || prompt_usage(&format!("{}.{}", prompt.origin.server, prompt.item.name), arguments);
                (next.ok_or_else(|| format!("unexpected `{word}`\n{}", usage()))?.name.as_str(), word.as_str())
            }
        };
        given.insert(name.to_owned(), value.into());
    }
    Ok(given)
}
