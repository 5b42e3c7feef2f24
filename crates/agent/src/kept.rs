//! Results that were too long for the model, kept so that it can read on with `read_result`.

use std::collections::HashMap;

use parking_lot::Mutex;
use toolway_wire::budget::{Charge, MemoryBudget};

use crate::result;

/// Long results, by id. A surface that makes an agent for each turn keeps them for the conversation.
#[derive(Debug, Default)]
pub struct KeptResults(
    /// No await under its lock.
    Mutex<Results>,
);

#[derive(Debug, Default)]
struct Results {
    by_id: HashMap<String, String>,
    charge: Charge,
}

impl KeptResults {
    /// Bytes of long results that are kept.
    pub const MAX_BYTES: usize = 64 * 1024 * 1024;

    /// Results that are charged to this budget. One that does not fit is not kept.
    pub fn charged_to(memory: MemoryBudget) -> Self {
        Self(Mutex::new(Results { by_id: HashMap::new(), charge: Charge::empty(memory) }))
    }

    /// Bytes of all results.
    pub fn size(&self) -> usize {
        self.0.lock().size()
    }

    /// Keeps a long result. When all of them exceed the bound or the budget, the earlier ones are dropped.
    pub fn keep(&self, id: &str, rest: String) {
        let mut kept = self.0.lock();
        if kept.size() + rest.len() > Self::MAX_BYTES || kept.charge.grow(rest.len()).is_err() {
            kept.by_id.clear();
            if rest.len() > Self::MAX_BYTES || kept.charge.set(rest.len()).is_err() {
                kept.charge.shrink(usize::MAX);
                return;
            }
        }
        kept.by_id.insert(id.to_owned(), rest);
    }

    /// A part of a kept result, of at most so many characters, from a character on; `None` if the result is not kept.
    pub(crate) fn page(&self, id: &str, offset: usize, most: usize) -> Option<String> {
        self.0.lock().by_id.get(id).map(|whole| result::page(whole, offset, id, most))
    }
}

impl Results {
    fn size(&self) -> usize {
        self.by_id.values().map(String::len).sum()
    }
}
