//! Compiled schemas by the digest of their definition, within bounds, and the notice about those that cannot be checked.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use toolway_wire::json::Raw;

use super::{
    ToolCheck,
    check::{CheckResult, Checked, CompiledSchema, Quoting},
};
use crate::catalog::Fingerprint;

/// Schemas that are kept compiled.
const KEPT: usize = 128;
/// Bytes of a schema that is kept compiled; larger ones are compiled for each check.
const KEPT_BYTES: usize = 32 * 1024;
/// Definitions that were reported as not checkable.
const REPORTED: usize = 1_024;
/// Bytes of a value that is checked in place if its schema is small; others go to a thread for blocking work.
const IN_PLACE: usize = 4 * 1024;
/// Bytes of a value times those of its schema, if it is checked in place: each element may be compared with a whole list.
const IN_PLACE_PRODUCT: usize = 8 * 1024 * 1024;
/// Checks that calls wait for at once. Each may keep a processor busy.
const AT_ONCE: usize = 2;
/// How long a call waits for its check. What takes longer is not checked, and rejects nothing.
const PATIENCE: Duration = Duration::from_secs(2);

/// A schema of a definition.
type Key = (Fingerprint, Checked);

/// Compiled schemas.
#[derive(Debug)]
pub(super) struct Schemas {
    // No await under this lock.
    state: Mutex<State>,
    /// Held by a check until it has ended, also if its call does not wait any more.
    slots: Arc<Semaphore>,
}

impl Default for Schemas {
    fn default() -> Self {
        Self { state: Mutex::default(), slots: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

#[derive(Debug, Default)]
struct State {
    compiled: BTreeMap<Key, Arc<CompiledSchema>>,
    /// Keys from the oldest to the newest.
    order: VecDeque<Key>,
    reported: HashSet<Key>,
}

impl Schemas {
    /// Checks a value off the runtime.
    pub(super) async fn check(
        self: &Arc<Self>,
        about: &ToolCheck,
        what: Checked,
        value: Raw,
        quoting: Quoting,
    ) -> CheckResult {
        if self.is_certainly_valid(about, what, &value) {
            return CheckResult::Valid;
        }
        let checking = async {
            let slot = Arc::clone(&self.slots).acquire_owned().await.map_err(|error| error.to_string())?;
            let schemas = Arc::clone(self);
            let checked = about.clone();
            let checking = tokio::task::spawn_blocking(move || {
                let checked = schemas.check_now(&checked, what, &value, quoting);
                drop(slot);
                checked
            });
            checking.await.map_err(|error| error.to_string())
        };
        // Boxed: most values are looked at in place.
        let checked = Box::pin(tokio::time::timeout(PATIENCE, checking)).await;
        let checked = checked.unwrap_or_else(|_| Err("the check takes too long".to_owned()));
        checked.unwrap_or_else(|why| {
            self.report(about, what, &why);
            CheckResult::Unchecked(why)
        })
    }

    /// Checks a value on this thread. A schema that cannot be checked is reported once.
    pub(super) fn check_now(&self, about: &ToolCheck, what: Checked, value: &Raw, quoting: Quoting) -> CheckResult {
        let Some(schema) = about.schema(what) else { return CheckResult::Valid };
        let checked = self.compiled((about.fingerprint, what), schema).check(value, what, quoting);
        if let CheckResult::Unchecked(why) = &checked {
            self.report(about, what, why);
        }
        checked
    }

    /// Whether a value is valid, if it and its schema are so small that they can be looked at in place.
    pub(super) fn is_certainly_valid(&self, about: &ToolCheck, what: Checked, value: &Raw) -> bool {
        let Some(schema) = about.schema(what) else { return true };
        let (of_value, of_schema) = (value.as_bytes().len(), schema.as_bytes().len());
        let is_small = of_value <= IN_PLACE && of_schema <= KEPT_BYTES && of_value * of_schema <= IN_PLACE_PRODUCT;
        is_small && self.compiled((about.fingerprint, what), schema).is_certainly_valid(value)
    }

    fn compiled(&self, key: Key, schema: &Raw) -> Arc<CompiledSchema> {
        if let Some(known) = self.state.lock().compiled.get(&key) {
            return Arc::clone(known);
        }
        let compiled = Arc::new(CompiledSchema::new(schema));
        if KEPT_BYTES < schema.as_bytes().len() {
            return compiled;
        }
        let mut state = self.state.lock();
        if state.compiled.insert(key, Arc::clone(&compiled)).is_none() {
            state.order.push_back(key);
        }
        if KEPT < state.order.len()
            && let Some(oldest) = state.order.pop_front()
        {
            state.compiled.remove(&oldest);
        }
        compiled
    }

    fn report(&self, about: &ToolCheck, what: Checked, why: &str) {
        let mut state = self.state.lock();
        if state.reported.len() < REPORTED && state.reported.insert((about.fingerprint, what)) {
            let (server, tool) = (&about.server, &about.tool);
            tracing::warn!(%server, tool, why, "{} of this tool are not checked", what.plural());
        }
    }
}

impl ToolCheck {
    fn schema(&self, what: Checked) -> Option<&Raw> {
        match what {
            Checked::Arguments => Some(&self.input),
            Checked::Result => self.output.as_ref(),
        }
    }
}
