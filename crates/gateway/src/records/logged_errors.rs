//! Counts the errors that the program logs, so that an error that fails no call is visible in the metrics, whatever the log
//! level is. The program's log subscriber fills it.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::RwLock;

use super::metrics::{head, line};

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

    pub(super) fn write(&self, text: &mut String) {
        let name = "toolway_errors_total";
        head(text, name, "counter", "Logged errors and warnings, by module and level.");
        for ((module, level), count) in &*self.counts.read() {
            let labels = format!("module=\"{module}\",level=\"{level}\"");
            line(text, &format!("{name}{{{labels}}}"), count.load(Ordering::Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LoggedErrors;

    #[test]
    fn errors_are_counted_by_module_and_level() {
        let errors = LoggedErrors::default();
        errors.record("warn", "auth::session");
        errors.record("warn", "auth::session");
        errors.record("error", "host::host");
        let mut text = String::new();
        errors.write(&mut text);
        assert!(text.contains("# TYPE toolway_errors_total counter\n"), "{text}");
        assert!(text.contains("toolway_errors_total{module=\"auth::session\",level=\"warn\"} 2\n"), "{text}");
        assert!(text.contains("toolway_errors_total{module=\"host::host\",level=\"error\"} 1\n"), "{text}");
    }
}
