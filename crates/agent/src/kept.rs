//! Results that were too long for the model, kept so that it can read on with `read_result`.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::result;

/// Bytes of long results that are kept.
const MAX_KEPT: usize = 64 * 1024 * 1024;

/// Long results, by id. No await under its lock.
#[derive(Debug, Default)]
pub(crate) struct KeptResults(Mutex<HashMap<String, String>>);

impl KeptResults {
    /// Keeps a long result. When all of them exceed the bound, the earlier ones are dropped.
    pub(crate) fn keep(&self, id: &str, rest: String) {
        let mut kept = self.0.lock();
        if kept.values().map(String::len).sum::<usize>() + rest.len() > MAX_KEPT {
            kept.clear();
        }
        if rest.len() <= MAX_KEPT {
            kept.insert(id.to_owned(), rest);
        }
    }

    /// A part of a kept result from a character on; `None` if the result is not kept.
    pub(crate) fn page(&self, id: &str, offset: usize) -> Option<String> {
        self.0.lock().get(id).map(|whole| result::page(whole, offset, id))
    }
}
