//! Long results of conversations between their turns, so that a model can read on in a later turn.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use toolway_agent::KeptResults;

/// Long results by conversation, least recently used first; those of running turns are not in it. All of them have at
/// most the size that one conversation may have. No await under its lock.
#[derive(Debug, Default)]
pub(crate) struct KeptByConversation(Mutex<VecDeque<Entry>>);

#[derive(Debug)]
struct Entry {
    id: String,
    kept: Arc<KeptResults>,
    size: usize,
}

impl KeptByConversation {
    /// Takes the results of a conversation for a turn; empty if none are kept.
    pub(crate) fn take(&self, id: &str) -> Arc<KeptResults> {
        let mut entries = self.0.lock();
        let found = entries.iter().position(|entry| entry.id == id);
        found.and_then(|at| entries.remove(at)).map(|entry| entry.kept).unwrap_or_default()
    }

    /// Keeps the results of a conversation after a turn, and drops those of the conversations used least recently.
    pub(crate) fn put(&self, id: &str, kept: Arc<KeptResults>) {
        let size = kept.size();
        if size == 0 {
            return;
        }
        let mut entries = self.0.lock();
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
        assert!(all.0.lock().is_empty());
    }
}
