//! Builds the neutral message of an answer while its stream is read; shared by all wires.

use std::{
    borrow::Cow,
    hash::{BuildHasher, RandomState},
};

use toolway_wire::json::Raw;

use crate::{Message, ModelEvent, Part, RawItems, Role, ToolCall, raw_json};

/// An answer so far.
#[derive(Debug, Default)]
pub(crate) struct AnswerBuilder {
    parts: Vec<Building>,
    calls: usize,
}

#[derive(Debug)]
enum Building {
    Text(String),
    Reasoning(String),
    Call { index: usize, id: String, name: String, arguments: String, ended: bool },
}

impl AnswerBuilder {
    /// Adds text to the last text part, or begins one.
    pub(crate) fn text(&mut self, delta: &str) -> ModelEvent {
        match self.parts.last_mut() {
            Some(Building::Text(text)) => text.push_str(delta),
            _ => self.parts.push(Building::Text(delta.to_owned())),
        }
        ModelEvent::Text(delta.to_owned())
    }

    /// Adds reasoning to the last reasoning part, or begins one.
    pub(crate) fn reasoning(&mut self, delta: &str) -> ModelEvent {
        match self.parts.last_mut() {
            Some(Building::Reasoning(text)) => text.push_str(delta),
            _ => self.parts.push(Building::Reasoning(delta.to_owned())),
        }
        ModelEvent::Reasoning(delta.to_owned())
    }

    /// Begins a call. An empty id is replaced by one of ours, which is unique in a conversation, so that results can refer
    /// to it.
    pub(crate) fn start_call(&mut self, id: &str, name: &str) -> (usize, ModelEvent) {
        let index = self.calls;
        self.calls += 1;
        let id =
            if id.is_empty() { format!("call_{:016x}", RandomState::new().hash_one(index)) } else { id.to_owned() };
        let event = ModelEvent::ToolCallStart { index, id: id.clone(), name: name.to_owned() };
        self.parts.push(Building::Call { index, id, name: name.to_owned(), arguments: String::new(), ended: false });
        (index, event)
    }

    /// Adds to the arguments of a call. `None` if there is no such call.
    pub(crate) fn arguments(&mut self, index: usize, delta: &str) -> Option<ModelEvent> {
        let Building::Call { arguments, .. } = self.call(index)? else { return None };
        arguments.push_str(delta);
        Some(ModelEvent::ToolCallArguments { index, delta: delta.to_owned() })
    }

    /// The JSON text of a call's arguments so far.
    pub(crate) fn arguments_of(&mut self, index: usize) -> &str {
        match self.call(index) {
            Some(Building::Call { arguments, .. }) => arguments,
            _ => "",
        }
    }

    /// Ends a call, once.
    pub(crate) fn end_call(&mut self, index: usize) -> Option<ModelEvent> {
        let Building::Call { ended, .. } = self.call(index)? else { return None };
        (!std::mem::replace(ended, true)).then_some(ModelEvent::ToolCallEnd { index })
    }

    /// Ends all calls that are open.
    pub(crate) fn end_calls(&mut self) -> Vec<ModelEvent> {
        (0..self.calls).filter_map(|index| self.end_call(index)).collect()
    }

    /// Whether the answer has a call.
    pub(crate) fn has_calls(&self) -> bool {
        self.calls > 0
    }

    /// The message, with the vendor's items.
    pub(crate) fn finish(&mut self, raw: RawItems) -> Message {
        let parts = std::mem::take(&mut self.parts).into_iter().map(Building::finish).collect();
        Message { role: Role::Assistant, parts, raw: Some(raw), task: None, attached: None }
    }

    /// Whether a call with this id was begun.
    pub(crate) fn has_call(&self, wanted: &str) -> bool {
        self.parts.iter().any(|part| matches!(part, Building::Call { id, .. } if id == wanted))
    }

    fn call(&mut self, wanted: usize) -> Option<&mut Building> {
        self.parts.iter_mut().find(|part| matches!(part, Building::Call { index, .. } if *index == wanted))
    }
}

impl Building {
    fn finish(self) -> Part {
        match self {
            Self::Text(text) => Part::Text { text },
            Self::Reasoning(text) => Part::Reasoning { text },
            Self::Call { id, name, arguments, .. } => {
                Part::ToolCall(ToolCall { id, name, arguments: parse_arguments(&arguments) })
            }
        }
    }
}

/// Arguments as JSON. No text is no arguments; text that is not JSON is kept as a string, to be shown to the model.
pub(crate) fn parse_arguments(text: &str) -> Raw {
    if text.trim().is_empty() {
        return Raw::empty_object();
    }
    Raw::parse(text.to_owned()).unwrap_or_else(|_| Raw::of(text))
}

/// Arguments as the JSON text that a vendor expects.
pub(crate) fn arguments_text(arguments: &Raw) -> String {
    arguments.as_str().map_or_else(|| arguments.to_string(), Cow::into_owned)
}

/// Arguments for a vendor that accepts objects only.
pub(crate) fn arguments_object(arguments: &Raw) -> Raw {
    if raw_json::is_object(arguments) { arguments.clone() } else { Raw::empty_object() }
}
