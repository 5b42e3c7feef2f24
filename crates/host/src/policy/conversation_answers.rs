//! Answers that hold until a conversation or a session of a client ends, and what was approved in it so far.
//!
//! In memory, charged to the caller, and bounded: what does not fit is asked about again. A conversation that a program ends
//! is forgotten at once; one that is only left, as in the console, when it was not used for [`IDLE`].

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use toolway_wire::budget::{Charge, MemoryBudget};

use super::{ApprovalKey, AskedCall, Scope, proposal::Earlier};

/// The conversations of a host.
#[derive(Debug)]
pub(crate) struct ConversationAnswers {
    // No await under this lock.
    items: Mutex<Items>,
    memory: MemoryBudget,
}

type Items = HashMap<(Arc<str>, ApprovalKey), ItemAnswers>;

/// What is known of one item in one conversation.
#[derive(Debug)]
struct ItemAnswers {
    earlier: Earlier,
    /// What "for this conversation" covers.
    scopes: Vec<Scope>,
    used: Instant,
    charge: Option<Charge>,
}

/// How long the answers of a conversation without approval requests hold: as long as a session of the console.
const IDLE: Duration = Duration::from_secs(12 * 60 * 60);

/// Maximum number of items of all conversations. Further ones are not kept.
const MAX_ITEMS: usize = 10_000;
/// Maximum number of items of one caller, so that one caller cannot use all of them.
const MAX_ITEMS_OF_CALLER: usize = MAX_ITEMS / 4;
/// Answers for one item of a conversation.
const MAX_SCOPES: usize = 64;
/// About what an item costs besides its texts.
const ITEM_COST: usize = 512;

impl ConversationAnswers {
    pub(crate) fn new(memory: MemoryBudget) -> Self {
        Self { items: Mutex::default(), memory }
    }

    /// Whether an answer of the conversation covers a call. Answers about hosts are about every tool of the server.
    pub(crate) fn covers(&self, conversation: &Arc<str>, key: &ApprovalKey, call: AskedCall<'_>) -> bool {
        let items = self.used_items(conversation);
        let is_covered = |answers: &ItemAnswers| answers.scopes.iter().any(|scope| scope.covers(call));
        let of_item = items.get(&(Arc::clone(conversation), key.clone()));
        if of_item.is_some_and(is_covered) {
            return true;
        }
        let is_of_server = |of: &Arc<str>, other: &ApprovalKey| {
            of == conversation && other.server == key.server && other.entry == key.entry && other.caller == key.caller
        };
        let covers_host = |scope: &Scope| scope.is_about_hosts() && scope.covers(call);
        call.reached.is_new()
            && items
                .iter()
                .any(|((of, other), answers)| is_of_server(of, other) && answers.scopes.iter().any(covers_host))
    }

    /// What was approved for an item of the conversation so far.
    pub(crate) fn earlier(&self, conversation: &Arc<str>, key: &ApprovalKey) -> Option<Earlier> {
        let items = self.used_items(conversation);
        items.get(&(Arc::clone(conversation), key.clone())).map(|answers| answers.earlier.clone())
    }

    /// Keeps an approval. `covers` is what it covers for the conversation, if it was given for that.
    pub(crate) fn add(&self, conversation: &Arc<str>, key: &ApprovalKey, approved: Approved<'_>) {
        let mut items = self.used_items(conversation);
        let id = (Arc::clone(conversation), key.clone());
        let is_full = || {
            let of_caller = items.keys().filter(|(_, other)| other.caller == key.caller).count();
            MAX_ITEMS <= items.len() || MAX_ITEMS_OF_CALLER <= of_caller
        };
        if !items.contains_key(&id) && is_full() {
            return;
        }
        let answers = items.entry(id).or_insert_with(|| ItemAnswers {
            earlier: Earlier { count: 0, common: Scope::same(approved.arguments) },
            scopes: Vec::new(),
            used: Instant::now(),
            charge: None,
        });
        answers.earlier.count += 1;
        answers.earlier.common = answers.earlier.common.widened(approved.arguments);
        let is_new = |scope: &Scope| !answers.scopes.contains(scope) && answers.scopes.len() < MAX_SCOPES;
        if let Some(scope) = approved.covers.filter(is_new) {
            answers.scopes.push(scope);
        }
        let texts: usize = answers.scopes.iter().map(Scope::kept_bytes).sum();
        let names = conversation.len() + key.caller.len() + key.tool.len() + key.digest.len();
        let bytes = ITEM_COST + names + answers.earlier.common.kept_bytes() + texts;
        answers.charge = None;
        let memory = match key.caller.strip_prefix("client:") {
            Some(principal) => self.memory.of_principal(principal),
            None => self.memory.clone(),
        };
        match memory.charge(bytes) {
            Ok(charge) => answers.charge = Some(charge),
            Err(_) => {
                items.remove(&(Arc::clone(conversation), key.clone()));
            }
        }
    }

    /// The items, without those of idle conversations; this conversation is used now.
    fn used_items(&self, conversation: &Arc<str>) -> MutexGuard<'_, Items> {
        let mut items = self.items.lock();
        items.retain(|_, answers| answers.used.elapsed() < IDLE);
        let of_conversation = items.iter_mut().filter(|((of, _), _)| of == conversation);
        of_conversation.for_each(|(_, answers)| answers.used = Instant::now());
        items
    }

    /// Forgets the answers of a caller, of one conversation or session or of all.
    pub(crate) fn forget_caller(&self, caller: &str, conversation: Option<&str>) {
        let is_of = |of: &str| conversation.is_none_or(|conversation| of == conversation);
        self.items.lock().retain(|(of, key), _| key.caller != caller || !is_of(of));
    }

    /// Forgets the answers of a conversation.
    pub(crate) fn forget(&self, conversation: &str) {
        self.items.lock().retain(|(of, _), _| &**of != conversation);
    }
}

/// An approval in a conversation.
pub(crate) struct Approved<'a> {
    /// Arguments of the call.
    pub(crate) arguments: Option<&'a toolway_wire::json::Raw>,
    /// What it covers until the conversation ends; `None` if it was given for one call.
    pub(crate) covers: Option<Scope>,
}

#[cfg(test)]
mod tests {
    use toolway_config::ServerName;
    use toolway_wire::json::Raw;

    use super::*;
    use crate::policy::Reached;

    fn key(tool: &str) -> ApprovalKey {
        let server: ServerName = "files".parse().unwrap();
        let (caller, entry) = ("agent".to_owned(), "e".to_owned());
        ApprovalKey { caller, server, entry, tool: tool.to_owned(), digest: "d".to_owned() }
    }

    fn covers(answers: &ConversationAnswers, conversation: &str, tool: &str, arguments: &'static str) -> bool {
        let (arguments, reached) = (Raw::parse(arguments).unwrap(), Reached::default());
        let call = AskedCall { arguments: Some(&arguments), reached: &reached };
        answers.covers(&conversation.into(), &key(tool), call)
    }

    #[test]
    fn an_answer_holds_in_its_conversation_for_its_item_until_that_ends() {
        let answers = ConversationAnswers::new(MemoryBudget::new(1_000_000));
        let arguments = Raw::parse(r#"{"a":1}"#).unwrap();
        let approved = || Approved { arguments: Some(&arguments), covers: Some(Scope::same(Some(&arguments))) };
        answers.add(&"one".into(), &key("write"), approved());
        assert!(covers(&answers, "one", "write", r#"{"a":1}"#));
        assert!(!covers(&answers, "one", "write", r#"{"a":2}"#));
        assert!(!covers(&answers, "one", "move", r#"{"a":1}"#));
        assert!(!covers(&answers, "two", "write", r#"{"a":1}"#));
        assert_eq!(answers.earlier(&"one".into(), &key("write")).map(|earlier| earlier.count), Some(1));
        answers.forget("one");
        assert!(!covers(&answers, "one", "write", r#"{"a":1}"#));
    }

    #[test]
    fn one_caller_takes_neither_the_places_nor_the_memory_of_others() {
        let of = |caller: &str, tool: &str| ApprovalKey { caller: caller.to_owned(), ..key(tool) };
        let approved = || Approved { arguments: None, covers: Some(Scope::Any) };
        let is_kept = |answers: &ConversationAnswers, key| answers.earlier(&"one".into(), &key).is_some();
        let answers = ConversationAnswers::new(MemoryBudget::new(100_000_000));
        for number in 0..MAX_ITEMS + 1 {
            answers.add(&"one".into(), &of("client:hostile", &number.to_string()), approved());
        }
        answers.add(&"one".into(), &of("client:other", "write"), approved());
        assert!(is_kept(&answers, of("client:other", "write")));
        assert!(is_kept(&answers, of("client:hostile", "0")) && !is_kept(&answers, of("client:hostile", "10000")));
        let answers = ConversationAnswers::new(MemoryBudget::new(100_000));
        for number in 0..20 {
            answers.add(&number.to_string().into(), &of("client:hostile", &"x".repeat(10_000)), approved());
        }
        answers.add(&"one".into(), &of("client:other", "write"), approved());
        assert!(is_kept(&answers, of("client:other", "write")));
    }

    #[tokio::test(start_paused = true)]
    async fn answers_end_when_their_conversation_was_not_used_for_long() {
        let answers = ConversationAnswers::new(MemoryBudget::new(1_000_000));
        let approved = || Approved { arguments: None, covers: Some(Scope::Any) };
        answers.add(&"one".into(), &key("write"), approved());
        answers.add(&"two".into(), &key("write"), approved());
        for _ in 0..3 {
            tokio::time::advance(IDLE / 2).await;
            assert!(covers(&answers, "one", "write", "{}"), "it is in use");
        }
        assert!(!covers(&answers, "two", "write", "{}"));
    }

    #[test]
    fn an_answer_that_does_not_fit_the_budget_is_not_kept() {
        let answers = ConversationAnswers::new(MemoryBudget::new(100));
        answers.add(&"one".into(), &key("write"), Approved { arguments: None, covers: Some(Scope::Any) });
        assert!(!covers(&answers, "one", "write", "{}"));
        assert!(answers.items.lock().is_empty());
    }
}
