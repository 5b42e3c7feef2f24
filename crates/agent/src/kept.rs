//! Results that were too long for the model, kept so that it can read on with `read_result`.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::result;

/// Long results, by id. A surface that makes an agent for each turn keeps them for the conversation.
#[derive(Debug, Default)]
pub struct KeptResults(
    /// No await under its lock.
    Mutex<HashMap<String, String>>,
);

impl KeptResults {
    /// Bytes of long results that are kept.
    pub const MAX_BYTES: usize = 64 * 1024 * 1024;

    /// Bytes of all results.
    pub fn size(&self) -> usize {
        size(&self.0.lock())
    }

    /// Keeps a long result. When all of them exceed the bound, the earlier ones are dropped.
    pub fn keep(&self, id: &str, rest: String) {
        let mut kept = self.0.lock();
        if size(&kept) + rest.len() > Self::MAX_BYTES {
            kept.clear();
        }
        if rest.len() <= Self::MAX_BYTES {
            kept.insert(id.to_owned(), rest);
        }
    }

    /// A part of a kept result from a character on; `None` if the result is not kept.
    pub(crate) fn page(&self, id: &str, offset: usize) -> Option<String> {
        self.0.lock().get(id).map(|whole| result::page(whole, offset, id))
    }
}

fn size(kept: &HashMap<String, String>) -> usize {
    kept.values().map(String::len).sum()
}
