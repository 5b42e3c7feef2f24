//! Long results of conversations between their turns, so that a model can read on in a later turn.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use toolway_agent::KeptResults;
use toolway_wire::budget::MemoryBudget;

/// Long results by conversation, least recently used first; those of running turns are not in it. All of them have at
/// most the size that one conversation may have. No await under its lock.
#[derive(Debug, Default)]
pub(crate) struct KeptByConversation {
    entries: Mutex<VecDeque<Entry>>,
    memory: MemoryBudget,
}

#[derive(Debug)]
struct Entry {
    id: String,
    kept: Arc<KeptResults>,
    size: usize,
}

impl KeptByConversation {
    /// Results that are charged to this budget.
    pub(crate) fn new(memory: MemoryBudget) -> Self {
        Self { entries: Mutex::default(), memory }
    }

    /// Takes the results of a conversation for a turn; empty if none are kept.
    pub(crate) fn take(&self, id: &str) -> Arc<KeptResults> {
        let mut entries = self.entries.lock();
        let found = entries.iter().position(|entry| entry.id == id);
        let new = || Arc::new(KeptResults::charged_to(self.memory.clone()));
        found.and_then(|at| entries.remove(at)).map_or_else(new, |entry| entry.kept)
    }

    /// Keeps the results of a conversation after a turn, and drops those of the conversations used least recently.
    pub(crate) fn put(&self, id: &str, kept: Arc<KeptResults>) {
        let size = kept.size();
        if size == 0 {
            return;
        }
        let mut entries = self.entries.lock();
        entries.push_back(Entry { id: id.to_owned(), kept, size });
        let mut total: usize = entries.iter().map(|entry| entry.size).sum();
        while total > KeptResults::MAX_BYTES {
            let Some(dropped) = entries.pop_front() else { break };
            total -= dropped.size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(bytes: usize) -> Arc<KeptResults> {
        let kept = Arc::new(KeptResults::default());
        kept.keep("result", "x".repeat(bytes));
        kept
    }

    #[test]
    fn conversations_used_least_recently_are_dropped_when_all_exceed_the_bound() {
        let (all, third) = (KeptByConversation::default(), KeptResults::MAX_BYTES / 3);
        for id in ["a", "b", "c"] {
            all.put(id, results(third));
        }
        all.put("a", all.take("a"));
        all.put("d", results(third));
        assert_eq!(["a", "b", "c", "d"].map(|id| all.take(id).size()), [third, 0, third, third]);
    }

    #[test]
    fn conversation_without_long_results_has_no_entry() {
        let all = KeptByConversation::default();
        all.put("a", all.take("a"));
        assert!(all.entries.lock().is_empty());
    }
}
