//! Calls of a store in memory that no query has asked for yet.
//!
//! Without a file there is nothing to survive, so a record costs no more than being kept here: calls by id while they are
//! open, then the last ones in order. They go to the database when a query comes or when they are many bytes; beyond a
//! number, the oldest are counted and dropped, and beyond a number of counts the oldest of these too.

use std::collections::{BTreeMap, VecDeque};

use uuid::Uuid;

use crate::{
    calls::{CallBody, CallRow},
    rollup,
    time::Micros,
    write::Write,
};

/// Ends of calls and audit events that are kept.
const MAX_ENDED: usize = 1_000;
/// Counts of dropped calls that are kept: one for each minute, server, tool, caller and state.
const MAX_COUNTS: usize = 10_000;
/// Bytes of bodies from which everything goes to the database.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// What is kept for the next query.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// By id, which is the order of time.
    open: BTreeMap<Uuid, (Box<CallRow>, CallBody)>,
    ended: VecDeque<Write>,
    bytes: usize,
    dropped: Option<Box<Dropped>>,
}

/// Calls that are no longer kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dropped {
    /// All of them began before this time. Older calls in the database are removed with them, so that there is no gap.
    pub(crate) before: Micros,
    /// They stay in the statistics.
    pub(crate) counts: rollup::Pending<'static>,
    /// Calls that are not even counted.
    pub(crate) uncounted: i64,
}

impl Recent {
    /// Keeps a write, or returns it if it is not of this kind.
    pub(crate) fn keep(&mut self, write: Write) -> Result<(), Write> {
        match write {
            Write::Call(call, body) => {
                self.bytes += body.bytes();
                let id = call.id;
                if let Some((_, earlier)) = self.open.insert(id, (call, body))
                    && let Some((_, body)) = self.open.get_mut(&id)
                {
                    *body = merged(Some(earlier), std::mem::take(body));
                }
            }
            Write::CallEnd(call, body) => {
                self.bytes += body.bytes();
                let earlier = self.open.remove(&call.id).map(|(_, body)| body);
                self.ended.push_back(Write::CallEnd(call, merged(earlier, body)));
            }
            Write::Audit(event) => self.ended.push_back(Write::Audit(event)),
            other => return Err(other),
        }
        while MAX_ENDED < self.ended.len() {
            self.drop_oldest();
        }
        Ok(())
    }

    /// Whether so many bytes are kept that they should go to the database.
    pub(crate) fn is_large(&self) -> bool {
        MAX_BYTES < self.bytes
    }

    /// Whether there is nothing to apply.
    pub(crate) fn is_empty(&self) -> bool {
        self.ended.is_empty() && self.open.is_empty()
    }

    /// Takes everything, in the order in which it is to be applied.
    pub(crate) fn take(&mut self) -> Vec<Write> {
        let Self { open, ended, dropped, .. } = std::mem::take(self);
        let open = open.into_values().map(|(call, body)| Write::Call(call, body));
        dropped.map(Write::Dropped).into_iter().chain(ended).chain(open).collect()
    }

    fn drop_oldest(&mut self) {
        if let Some(Write::CallEnd(call, body)) = self.ended.pop_front() {
            self.bytes = self.bytes.saturating_sub(body.bytes());
            let dropped = self.dropped.get_or_insert_default();
            // Ids have milliseconds; a call of the same one may be kept.
            dropped.before = dropped.before.max(call.started_at);
            dropped.counts.count_owned(*call);
            dropped.uncounted += dropped.counts.bound(MAX_COUNTS);
        }
    }
}

/// A body with what was known before.
fn merged(earlier: Option<CallBody>, body: CallBody) -> CallBody {
    let earlier = earlier.unwrap_or_default();
    CallBody { arguments: body.arguments.or(earlier.arguments), result: body.result.or(earlier.result) }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{MAX_COUNTS, MAX_ENDED, Recent};
    use crate::{
        calls::{CallBody, CallRow, CallState},
        write::Write,
    };

    fn end(tool: usize) -> Write {
        let call = CallRow {
            id: Uuid::now_v7(),
            started_at: 0,
            duration: Some(1),
            waited: 0,
            prepared: None,
            caller: "client:editor".to_owned(),
            surface: "gateway".to_owned(),
            kind: "tool".to_owned(),
            name: format!("files__{tool}"),
            server: Some("files".to_owned()),
            tool: Some(format!("files__{tool}")),
            state: CallState::Succeeded,
            outcome: None,
            idempotent: false,
            from_cache: false,
            rule: None,
            approved_by: None,
            error: None,
            code: None,
            conversation: None,
            argument_bytes: 0,
            result_bytes: 0,
            server_requests: 0,
            task: None,
        };
        Write::CallEnd(Box::new(call), CallBody::default())
    }

    /// `serve --no-store` runs for months, and nothing may ask for statistics.
    #[test]
    fn counts_of_dropped_calls_are_bounded() {
        let mut recent = Recent::default();
        (0..MAX_ENDED + MAX_COUNTS + 5).for_each(|tool| recent.keep(end(tool)).unwrap());
        let mut dropped = recent.dropped.unwrap();
        assert_eq!((dropped.uncounted, dropped.counts.bound(0)), (5, MAX_COUNTS as i64));
    }
}
