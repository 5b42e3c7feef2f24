//! Counts the errors that the program logs, so that an error that fails no call is visible in the metrics, whatever the log
//! level is. The program's log subscriber fills it.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::RwLock;

use super::scrape::Scrape;

/// Logged errors by level and module.
#[derive(Debug, Default)]
pub struct LoggedErrors {
    // Nothing awaits under this lock; it is write-locked once for each place in the code that logs.
    counts: RwLock<BTreeMap<(&'static str, &'static str), AtomicU64>>,
}

impl LoggedErrors {
    /// Counts an error logged by `module` at `level`.
    pub fn record(&self, level: &'static str, module: &'static str) {
        let key = (module, level);
        if let Some(count) = self.counts.read().get(&key) {
            count.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.counts.write().entry(key).or_default().fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_to(&self, scrape: &mut Scrape) {
        let metric = scrape.counter("toolway_errors", "Logged errors and warnings, by module and level");
        for ((module, level), count) in &*self.counts.read() {
            metric.series([("module", module), ("level", level)], count.load(Ordering::Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LoggedErrors, Scrape};

    #[test]
    fn errors_are_counted_by_module_and_level() {
        let errors = LoggedErrors::default();
        errors.record("warn", "auth::session");
        errors.record("warn", "auth::session");
        errors.record("error", "host::host");
        let mut scrape = Scrape::default();
        errors.add_to(&mut scrape);
        let text = scrape.text();
        assert!(text.contains("# TYPE toolway_errors counter\n"), "{text}");
        assert!(text.contains("toolway_errors_total{module=\"auth::session\",level=\"warn\"} 2\n"), "{text}");
        assert!(text.contains("toolway_errors_total{module=\"host::host\",level=\"error\"} 1\n"), "{text}");
    }
}
