//! What the console reads and writes of the store.

use std::{fmt, sync::Arc};

use toolway_host::{
    conversation::ConversationLog,
    record::{RecordChanges, Records},
};

/// Recorded calls and conversations. Cheap to clone.
#[derive(Clone)]
pub struct ConsoleRecords {
    /// Calls and conversations.
    pub records: Arc<dyn Records>,
    /// What a person changes of them.
    pub changes: Arc<dyn RecordChanges>,
    /// Where the conversations of its chat are stored.
    pub conversations: Arc<dyn ConversationLog>,
}

impl fmt::Debug for ConsoleRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsoleRecords").finish_non_exhaustive()
    }
}
