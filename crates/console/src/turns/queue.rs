//! Messages that a user sends while the model works. Each begins a turn when the turn before has ended; after a turn that
//! failed or was stopped they wait for the user.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;
use serde_json::{Value, json};
use toolway_agent::{Attachment, Conversation, model::Message};
use toolway_wire::budget::Charge;
use uuid::Uuid;

use super::{NotStarted, TurnSettings, Turns, publisher::Publisher};
use crate::{error::ApiError, view::cut};

/// Messages that wait in one conversation.
const MAX_QUEUED: usize = 32;

/// Bytes of a message in the event that begins its turn; the stored conversation has the rest.
const MAX_SHOWN: usize = 64 * 1024;

/// Messages that wait, by conversation.
pub(super) type Queues = HashMap<String, Queue>;

/// The messages that wait in one conversation.
#[derive(Debug, Default)]
pub(super) struct Queue {
    messages: VecDeque<QueuedMessage>,
    /// Whether they wait for the user.
    pub(super) is_held: bool,
}

/// A message that waits for the end of a turn.
#[derive(Debug)]
struct QueuedMessage {
    id: Uuid,
    message: UserMessage,
    settings: TurnSettings,
    _charge: Charge,
}

/// A message of the user, with what is attached to it.
#[derive(Clone, Debug)]
pub(crate) struct UserMessage {
    pub(crate) text: String,
    pub(crate) attachments: Vec<Attachment>,
}

impl UserMessage {
    /// The messages that the model gets.
    pub(crate) fn messages(self, conversation: &Conversation) -> Vec<Message> {
        let attached = self.attachments.into_iter().map(|attachment| attachment.message(conversation));
        attached.chain([Message::user(self.text)]).collect()
    }

    /// The message as pages see it at the beginning of its turn.
    pub(super) fn view(&self) -> Value {
        json!({ "text": &self.text[..self.text.floor_char_boundary(MAX_SHOWN)], "attached": self.attached() })
    }

    fn attached(&self) -> Vec<&str> {
        self.attachments.iter().map(Attachment::name).collect()
    }
}

impl Queue {
    fn view(&self) -> Value {
        let message = |queued: &QueuedMessage| {
            let QueuedMessage { id, message, .. } = queued;
            json!({ "id": id.to_string(), "text": cut(&message.text), "attached": message.attached() })
        };
        json!({ "held": self.is_held, "messages": self.messages.iter().map(message).collect::<Vec<_>>() })
    }
}

/// Lets the messages of a conversation wait for the user.
pub(super) fn hold(queues: &Mutex<Queues>, publisher: &Publisher) {
    let mut queues = queues.lock();
    let Some(queue) = queues.get_mut(&publisher.id) else { return };
    queue.is_held = true;
    publisher.queue(queue.view());
}

impl Turns {
    /// Whether a message of this conversation has to wait.
    pub(crate) fn must_wait(&self, id: &str) -> bool {
        let is_running = self.running.lock().contains_key(id);
        is_running || self.queues.lock().get(id).is_some_and(|queue| !queue.is_held && !queue.messages.is_empty())
    }

    /// Lets a message wait for the end of the turn.
    pub(crate) fn enqueue(&self, id: &str, message: UserMessage, settings: TurnSettings) -> Result<Uuid, ApiError> {
        if self.stop.is_cancelled() {
            return Err(NotStarted::Stopping.into());
        }
        let bytes = message.text.len() + message.attachments.iter().map(Attachment::bytes).sum::<usize>();
        let charge = self.memory.charge(bytes)?;
        let mut queues = self.queues.lock();
        let queue = queues.entry(id.to_owned()).or_default();
        if MAX_QUEUED <= queue.messages.len() {
            return Err(ApiError::conflict(format!("{MAX_QUEUED} messages wait already")).hint("wait for the model"));
        }
        let queued = Uuid::now_v7();
        queue.messages.push_back(QueuedMessage { id: queued, message, settings, _charge: charge });
        drop(queues);
        self.publish_queue(id);
        // The turn may have ended meanwhile.
        self.waiting.turn_ended.notify_one();
        Ok(queued)
    }

    /// Takes a message back.
    pub(crate) fn take_back(&self, id: &str, queued: Uuid) -> Option<UserMessage> {
        let mut queues = self.queues.lock();
        let queue = queues.get_mut(id)?;
        let at = queue.messages.iter().position(|message| message.id == queued)?;
        let taken = queue.messages.remove(at)?.message;
        queues.retain(|_, queue| !queue.messages.is_empty());
        drop(queues);
        self.publish_queue(id);
        Some(taken)
    }

    /// Sends the messages that wait for the user; returns whether there are any.
    pub(crate) fn release(&self, id: &str) -> bool {
        let is_there = self.queues.lock().get_mut(id).map(|queue| queue.is_held = false).is_some();
        self.publish_queue(id);
        self.waiting.turn_ended.notify_one();
        is_there
    }

    /// The messages that wait in a conversation, as pages see them.
    pub(crate) fn queue_view(&self, id: &str) -> Value {
        self.queues.lock().get(id).map_or_else(|| Queue::default().view(), Queue::view)
    }

    pub(super) fn publish_queue(&self, id: &str) {
        let mut view = self.queue_view(id);
        view["conversation"] = json!(id);
        self.ring.publish("queue", &view);
    }

    /// Conversations at rest in which a message can be sent.
    pub(super) fn ready_queues(&self) -> Vec<String> {
        let queues = self.queues.lock();
        let ready = queues.iter().filter(|(_, queue)| !queue.is_held && !queue.messages.is_empty());
        let running = self.running.lock();
        ready.map(|(id, _)| id.clone()).filter(|id| !running.contains_key(id)).collect()
    }

    /// Begins a turn with the message that waits longest.
    pub(super) async fn send_next(&self, id: &str) {
        // A turn that was begun meanwhile comes first.
        let Ok(reserved) = self.reserve(id) else { return };
        let loaded = match id.parse() {
            Ok(uuid) => self.load(uuid).await,
            Err(_) => Ok(None),
        };
        let next = || {
            let mut queues = self.queues.lock();
            let next = queues.get_mut(id).and_then(|queue| queue.messages.pop_front());
            queues.retain(|_, queue| !queue.messages.is_empty());
            next
        };
        let why = match loaded {
            Ok(Some(conversation)) => {
                let Some(QueuedMessage { message, settings, .. }) = next() else { return };
                let kept = (message.clone(), settings.clone());
                let started = self.start(reserved, conversation, Some(message), settings);
                self.publish_queue(id);
                let Err(why) = started else { return };
                let (message, settings) = kept;
                self.put_back(id, message, settings);
                ApiError::from(why)
            }
            Ok(None) => ApiError::unknown_conversation(),
            Err(error) => error,
        };
        tracing::warn!(conversation = id, ?why, "a message that waited is not sent");
        if let Some(queue) = self.queues.lock().get_mut(id) {
            queue.is_held = true;
        }
        self.publish_queue(id);
    }

    /// A message that could not be sent is the next one again.
    fn put_back(&self, id: &str, message: UserMessage, settings: TurnSettings) {
        let queued =
            QueuedMessage { id: Uuid::now_v7(), message, settings, _charge: self.memory.charge(0).unwrap_or_default() };
        self.queues.lock().entry(id.to_owned()).or_default().messages.push_front(queued);
    }
}
