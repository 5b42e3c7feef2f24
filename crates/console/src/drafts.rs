//! What a user attaches to a message that is not sent yet: files that were uploaded, resources and prompts that were read.
//! All of it is charged to the byte budget until it is sent, taken away, or too much else was attached since.

use std::collections::VecDeque;

use http::StatusCode;
use parking_lot::Mutex;
use serde_json::{Value, json};
use toolway_agent::{Attachment, AttachmentSource};
use toolway_wire::budget::{Charge, MemoryBudget};
use uuid::Uuid;

use crate::error::ApiError;

/// Attachments of one message.
const MAX_ATTACHMENTS: usize = 32;
/// Messages with attachments that are not sent yet; the oldest is dropped.
const MAX_DRAFTS: usize = 64;

/// Attachments of messages that are not sent, by conversation. No await under its lock.
#[derive(Debug, Default)]
pub(crate) struct Drafts {
    entries: Mutex<VecDeque<Draft>>,
    memory: MemoryBudget,
}

#[derive(Debug)]
struct Draft {
    conversation: Uuid,
    /// Whether the conversation has no message yet.
    is_new: bool,
    attached: Vec<Attached>,
}

/// An attachment of a message that is not sent.
#[derive(Debug)]
struct Attached {
    id: Uuid,
    attachment: Attachment,
    _charge: Charge,
}

impl Drafts {
    /// Attachments that are charged to this budget.
    pub(crate) fn new(memory: MemoryBudget) -> Self {
        Self { entries: Mutex::default(), memory }
    }

    /// The id of a conversation that begins with a message with attachments.
    pub(crate) fn begin(&self) -> Uuid {
        let conversation = Uuid::now_v7();
        self.push(Draft { conversation, is_new: true, attached: Vec::new() });
        conversation
    }

    /// Whether this is the id of a conversation without a message.
    pub(crate) fn is_new(&self, conversation: Uuid) -> bool {
        self.entries.lock().iter().any(|draft| draft.conversation == conversation && draft.is_new)
    }

    /// Adds an attachment to the next message of a conversation, and returns how pages see it.
    pub(crate) fn add(&self, conversation: Uuid, attachment: Attachment) -> Result<Value, ApiError> {
        let charge = self.memory.charge(attachment.bytes())?;
        let attached = Attached { id: Uuid::now_v7(), attachment, _charge: charge };
        let shown = view(attached.id, &attached.attachment);
        let mut entries = self.entries.lock();
        match entries.iter_mut().find(|draft| draft.conversation == conversation) {
            Some(draft) if MAX_ATTACHMENTS <= draft.attached.len() => {
                let message = format!("a message has at most {MAX_ATTACHMENTS} attachments");
                return Err(
                    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", message).hint("send some of them first")
                );
            }
            Some(draft) => draft.attached.push(attached),
            None => {
                drop(entries);
                self.push(Draft { conversation, is_new: false, attached: vec![attached] });
            }
        }
        Ok(shown)
    }

    /// Takes an attachment away; returns whether it was there.
    pub(crate) fn remove(&self, conversation: Uuid, id: Uuid) -> bool {
        let mut entries = self.entries.lock();
        let Some(draft) = entries.iter_mut().find(|draft| draft.conversation == conversation) else { return false };
        let before = draft.attached.len();
        draft.attached.retain(|attached| attached.id != id);
        draft.attached.len() < before
    }

    /// The attachments of a message, in this order.
    pub(crate) fn find(&self, conversation: Uuid, ids: &[Uuid]) -> Result<Vec<Attachment>, ApiError> {
        let entries = self.entries.lock();
        let draft = entries.iter().find(|draft| draft.conversation == conversation);
        let find = |id: &Uuid| draft.and_then(|draft| draft.attached.iter().find(|attached| attached.id == *id));
        let gone = || ApiError::conflict("an attachment of the message is no longer kept").hint("attach it again");
        ids.iter().map(|id| find(id).map(|attached| attached.attachment.clone()).ok_or_else(gone)).collect()
    }

    /// Forgets what was sent.
    pub(crate) fn sent(&self, conversation: Uuid, ids: &[Uuid]) {
        let mut entries = self.entries.lock();
        if let Some(draft) = entries.iter_mut().find(|draft| draft.conversation == conversation) {
            draft.is_new = false;
            draft.attached.retain(|attached| !ids.contains(&attached.id));
        }
        entries.retain(|draft| draft.is_new || !draft.attached.is_empty());
    }

    fn push(&self, draft: Draft) {
        let mut entries = self.entries.lock();
        entries.push_back(draft);
        if MAX_DRAFTS < entries.len() {
            entries.pop_front();
        }
    }
}

/// An attachment as pages see it.
fn view(id: Uuid, attachment: &Attachment) -> Value {
    let kind = match attachment.source() {
        AttachmentSource::File { .. } => "file",
        AttachmentSource::Resource { .. } => "resource",
        AttachmentSource::Prompt { .. } => "prompt",
    };
    json!({ "id": id.to_string(), "kind": kind, "name": attachment.name(), "tokens": attachment.tokens() })
}
