//! The model that each conversation uses now: it answers servers that ask in a call of the conversation.

use std::{collections::VecDeque, fmt, sync::Arc};

use parking_lot::Mutex;
use toolway_model::Model;

/// Conversations that are remembered; the oldest are forgotten.
const CONVERSATIONS: usize = 1_000;

/// The models of conversations, as their agents last used them. Cheap to clone.
#[derive(Clone, Default)]
pub struct ConversationModels {
    // Nothing awaits under this lock.
    used: Arc<Mutex<VecDeque<UsedModel>>>,
}

struct UsedModel {
    conversation: String,
    model: Arc<dyn Model>,
}

impl ConversationModels {
    /// A conversation goes on with this model.
    pub(crate) fn use_for(&self, conversation: &str, model: &Arc<dyn Model>) {
        let mut used = self.used.lock();
        used.retain(|known| known.conversation != conversation);
        if CONVERSATIONS <= used.len() {
            used.pop_front();
        }
        used.push_back(UsedModel { conversation: conversation.to_owned(), model: Arc::clone(model) });
    }

    /// The model of a conversation; `None` if no agent of this process has made calls in it.
    pub(super) fn of(&self, conversation: &str) -> Option<Arc<dyn Model>> {
        let used = self.used.lock();
        let found = used.iter().find(|known| known.conversation == conversation);
        found.map(|known| Arc::clone(&known.model))
    }
}

impl fmt::Debug for ConversationModels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConversationModels").field("conversations", &self.used.lock().len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use toolway_model::ScriptedModel;

    use super::*;

    fn model(name: &str) -> Arc<dyn Model> {
        Arc::new(ScriptedModel::parse(name, r#"{ "turns": [] }"#).unwrap())
    }

    #[test]
    fn each_conversation_has_the_model_that_it_used_last_and_old_ones_are_forgotten() {
        let models = ConversationModels::default();
        let name = |conversation: &str| models.of(conversation).map(|model| model.name().to_owned());
        models.use_for("a", &model("one"));
        models.use_for("b", &model("two"));
        models.use_for("a", &model("three"));
        assert_eq!([name("a"), name("b"), name("c")], [Some("three".to_owned()), Some("two".to_owned()), None]);
        (0..CONVERSATIONS - 1).for_each(|number| models.use_for(&number.to_string(), &model("four")));
        assert_eq!([name("a"), name("b")], [Some("three".to_owned()), None], "the one that was used longest ago");
        assert_eq!(models.used.lock().len(), CONVERSATIONS);
    }
}
