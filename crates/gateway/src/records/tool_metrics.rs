//! Executions of single tools: how often, how they ended and how long they took.
//!
//! A tool is counted by its own name only if its server lists it, and only the first [`MAX_TOOLS`]; all others of a server
//! share one series. So neither a caller nor a server can make the scrape grow without end.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use parking_lot::RwLock;
use toolway_config::ServerName;
use toolway_host::{
    call::CallKind,
    record::{CallRecord, CallState},
};

use super::{durations::DurationCounts, scrape::Scrape};
use crate::access::Client;

/// Counters of tools.
#[derive(Default)]
pub(super) struct ToolMetrics {
    // Nothing awaits under this lock; it is write-locked once per tool.
    servers: RwLock<HashMap<ServerName, ToolsOfServer>>,
    named: AtomicUsize,
}

#[derive(Default)]
struct ToolsOfServer {
    tools: HashMap<Box<str>, Arc<ToolCounts>>,
    others: Arc<ToolCounts>,
}

/// Counters of one tool.
#[derive(Default)]
struct ToolCounts {
    succeeded: AtomicU64,
    tool_errors: AtomicU64,
    failed: AtomicU64,
    durations: DurationCounts,
}

/// Maximum number of tools with series of their own, over all servers and reloads.
const MAX_TOOLS: usize = 1_000;
/// The label of all other tools of a server; no tool name has it.
const OTHERS: &str = "(other)";

// === impl ToolMetrics ===

impl ToolMetrics {
    /// Counts a call of a tool that was sent to its server.
    pub(super) fn record_call(&self, record: &CallRecord) {
        let is_execution = record.kind == CallKind::Tool && record.state != CallState::Refused;
        let Some(server) = record.server.as_ref().filter(|_| is_execution) else { return };
        // Only listed tools have a public name.
        let name = record.tool.as_ref().and(record.raw_name.as_deref());
        self.of(server, name).record(record);
    }

    pub(super) fn add_to(&self, scrape: &mut Scrape, client: &Client) {
        let mut seen: Vec<(ServerName, Box<str>, Arc<ToolCounts>)> = Vec::new();
        for (server, of) in self.servers.read().iter().filter(|(server, _)| client.sees(server)) {
            let named = of.tools.iter().map(|(name, counts)| (name.clone(), Arc::clone(counts)));
            let others = (0 < of.others.durations.count()).then(|| (OTHERS.into(), Arc::clone(&of.others)));
            seen.extend(named.chain(others).map(|(name, counts)| (server.clone(), name, counts)));
        }
        seen.sort_unstable_by(|(server, name, _), (other, other_name, _)| (server, name).cmp(&(other, other_name)));
        let executions = scrape.counter("mcp_tool_executions", "Executions of tools, by how they ended");
        for (server, name, of) in &seen {
            for (status, count) in [("success", &of.succeeded), ("error", &of.tool_errors), ("failure", &of.failed)] {
                let count = count.load(Ordering::Relaxed);
                if 0 < count {
                    executions.series([("server", server.as_str()), ("tool", name), ("status", status)], count);
                }
            }
        }
        let name = "mcp_tool_execution_duration_seconds";
        let durations = scrape.histogram(name, "Duration of tool executions, without the time a person was waited for");
        for (server, name, of) in &seen {
            durations.durations([("server", server.as_str()), ("tool", name)], of.durations.read());
        }
    }

    fn of(&self, server: &ServerName, name: Option<&str>) -> Arc<ToolCounts> {
        if let Some(of) = self.servers.read().get(server) {
            match name.map(|name| of.tools.get(name)) {
                Some(Some(counts)) => return Arc::clone(counts),
                Some(None) if self.named.load(Ordering::Relaxed) < MAX_TOOLS => {}
                _ => return Arc::clone(&of.others),
            }
        }
        let mut servers = self.servers.write();
        let of = servers.entry(server.clone()).or_default();
        let Some(name) = name else { return Arc::clone(&of.others) };
        if let Some(counts) = of.tools.get(name) {
            return Arc::clone(counts);
        }
        if MAX_TOOLS <= self.named.load(Ordering::Relaxed) {
            return Arc::clone(&of.others);
        }
        // Under the write lock, so that the number is exact.
        self.named.fetch_add(1, Ordering::Relaxed);
        Arc::clone(of.tools.entry(name.into()).or_default())
    }
}

impl ToolCounts {
    fn record(&self, record: &CallRecord) {
        let count = match record.state {
            CallState::Succeeded => &self.succeeded,
            CallState::ToolError => &self.tool_errors,
            _ => &self.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
        self.durations.observe(record.duration());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{MAX_TOOLS, ToolMetrics};

    #[test]
    fn tools_beyond_the_limit_share_one_series_of_their_server() {
        let metrics = ToolMetrics::default();
        let [files, mail] = ["files", "mail"].map(|name| name.parse().unwrap());
        let named: Vec<_> = (0..MAX_TOOLS).map(|tool| metrics.of(&files, Some(&format!("tool{tool}")))).collect();
        let others = metrics.of(&files, None);
        assert!(named.iter().all(|counts| !Arc::ptr_eq(counts, &others)), "each has its own");
        for beyond in ["one_more", "another"] {
            assert!(Arc::ptr_eq(&metrics.of(&files, Some(beyond)), &others), "{beyond}");
            assert!(Arc::ptr_eq(&metrics.of(&mail, Some(beyond)), &metrics.of(&mail, None)), "over all servers");
        }
        assert!(Arc::ptr_eq(&metrics.of(&files, Some("tool7")), &named[7]), "a counted tool keeps its series");
        let series: usize = metrics.servers.read().values().map(|of| of.tools.len()).sum();
        assert_eq!(series, MAX_TOOLS);
    }
}
