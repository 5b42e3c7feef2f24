//! Metrics, counted as calls end and gathered on request.
//!
//! Label values are fixed strings, ids of configured servers or names of listed tools, never text from a caller.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use http::StatusCode;
use parking_lot::RwLock;
use toolway_config::ServerName;
use toolway_host::{
    Host,
    call::{CallKind, VisibleServers},
    connection::{ConnectionCounts, Phase, ServerStatus, state::Counts},
    record::{CallRecord, CallState, RecorderUsage},
    tallies::{ApprovalCounts, ModelTokens},
    validation::ValidationCounts,
};
use toolway_wire::budget::Kept;

use super::{
    durations::DurationCounts,
    scrape::{Metric, Scrape},
    tool_metrics::ToolMetrics,
};
use crate::{access::Client, cluster::forwarding::ClusterGauges, route::Route, view};

/// Counters of calls and requests.
#[derive(Default)]
pub(crate) struct Metrics {
    // Nothing awaits under this lock; it is write-locked once per server.
    servers: RwLock<BTreeMap<ServerName, Arc<ServerMetrics>>>,
    /// Calls without a matching server, and calls beyond [`MAX_SERVERS`].
    unrouted: ServerMetrics,
    tools: ToolMetrics,
    requests: [[AtomicU64; CLASSES]; ROUTES],
}

/// Counters of one server.
#[derive(Default)]
struct ServerMetrics {
    calls: [[AtomicU64; ENDED.len()]; KINDS.len()],
    server_requests: AtomicU64,
    durations: DurationCounts,
    argument_bytes: AtomicU64,
    result_bytes: AtomicU64,
    cache_hits: AtomicU64,
}

/// Current values of the gateway gauges.
#[derive(Clone, Debug, Default)]
pub(crate) struct GatewayGauges {
    /// `None` if the gateway is alone.
    pub(crate) cluster: Option<ClusterGauges>,
    pub(crate) sessions: usize,
    pub(crate) parked: usize,
    pub(crate) tasks: usize,
    pub(crate) under_way: usize,
    pub(crate) lost_lines: u64,
    /// Bytes charged to the budget, by kind.
    pub(crate) memory: [usize; Kept::ALL.len()],
    /// Charges that did not fit.
    pub(crate) memory_refusals: u64,
    /// Calls without a complete durable record.
    pub(crate) unrecorded: u64,
    pub(crate) validation: ValidationCounts,
    /// Answers to approval requests.
    pub(crate) approvals: ApprovalCounts,
    /// Tokens by model.
    pub(crate) model_tokens: BTreeMap<String, ModelTokens>,
    /// How full the store is; `None` without one.
    pub(crate) store: Option<RecorderUsage>,
}

const KINDS: [CallKind; 4] = [CallKind::Tool, CallKind::Prompt, CallKind::Resource, CallKind::Method];
/// States in which calls of this process end.
const ENDED: [CallState; 6] = [
    CallState::Succeeded,
    CallState::ToolError,
    CallState::Refused,
    CallState::Failed,
    CallState::Cancelled,
    CallState::TimedOut,
];
/// Status classes `1xx` to `5xx`.
const CLASSES: usize = 5;
/// The known routes, and one for all other paths.
const ROUTES: usize = Route::PATHS.len() + 1;
/// States of a server connection.
const STATES: [&str; 7] = ["connecting", "ready", "sign-in-required", "waiting", "failed", "disabled", "stopped"];
/// Name, help and value of a metric of one server.
type ServerMetric = (&'static str, &'static str, fn(&ServerStatus) -> u64);
/// Gauges of each server's connections.
const SERVER_GAUGES: [ServerMetric; 2] = [
    ("toolway_server_ready", "Whether a server is ready (1) or not (0)", |of| u64::from(of.phase == Phase::Ready)),
    ("mcp_connections_active", "Open connections to a server, those for callers included", |of| {
        u64::from(of.phase == Phase::Ready) + of.caller_connections.len() as u64
    }),
];
/// Counters of each server's connections.
const SERVER_COUNTERS: [ServerMetric; 5] = [
    ("mcp_connections", "Connections to a server that were begun, those for callers included", |of| {
        of.connections.attempts
    }),
    ("toolway_server_losses", "Established connections to a server that were lost", |of| of.losses.into()),
    ("toolway_connection_attempts", "Connection attempts, those for callers included", |of| of.connections.attempts),
    ("toolway_connection_failures", "Connection attempts that failed", |of| of.connections.failures),
    ("toolway_authorization_failures", "Requests that a server finally refused with 401 or 403", |of| {
        of.connections.authorization_failures
    }),
];
/// Maximum number of servers with their own counters, over all reloads.
const MAX_SERVERS: usize = 4_096;

// === impl Metrics ===

impl Metrics {
    /// Counts a finished call.
    pub(crate) fn record_call(&self, record: &CallRecord) {
        match &record.server {
            Some(server) => self.of(server, |metrics| metrics.record_call(record)),
            None => self.unrouted.record_call(record),
        }
        self.tools.record_call(record);
    }

    /// Counts an answered request.
    pub(crate) fn record_request(&self, route: Option<&Route>, status: StatusCode) {
        let route = route.map_or(ROUTES - 1, Route::index);
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES) - 1;
        if let Some(count) = self.requests.get(route).and_then(|classes| classes.get(class)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Adds the metrics that this client may see: those of its visible servers, and gateway metrics if it sees all
    /// servers.
    pub(super) fn add_to(&self, scrape: &mut Scrape, host: &Host, client: &Client, gauges: &GatewayGauges) {
        let catalog = host.catalog();
        let servers = host.servers().into_iter().filter(|status| client.sees(&status.server));
        let servers: Vec<_> = servers.map(|status| view::with_visible_counts(status, &catalog)).collect();
        self.add_calls(scrape, client);
        add_servers(scrape, &servers);
        if client.servers == VisibleServers::All {
            self.add_requests(scrape);
            add_gauges(scrape, gauges);
        }
    }

    fn of(&self, server: &ServerName, count: impl FnOnce(&ServerMetrics)) {
        if let Some(metrics) = self.servers.read().get(server) {
            return count(metrics);
        }
        let mut servers = self.servers.write();
        if MAX_SERVERS <= servers.len() && !servers.contains_key(server) {
            return count(&self.unrouted);
        }
        count(servers.entry(server.clone()).or_default());
    }

    fn add_calls(&self, scrape: &mut Scrape, client: &Client) {
        let servers: Vec<_> = self.servers.read().iter().map(|(name, of)| (name.clone(), Arc::clone(of))).collect();
        let seen = servers.iter().filter(|(name, _)| client.sees(name)).map(|(name, of)| (name.as_str(), &**of));
        let unrouted = (client.servers == VisibleServers::All).then_some(("", &self.unrouted));
        let all: Vec<(&str, &ServerMetrics)> = seen.chain(unrouted).collect();
        let calls = scrape.counter("toolway_calls", "Finished calls, by server, kind and state");
        all.iter().for_each(|(server, of)| of.add_calls(calls, server));
        let name = "toolway_call_duration_seconds";
        let durations = scrape.histogram(name, "Duration of calls since they were received");
        for (server, of) in all.iter().filter(|(_, of)| 0 < of.durations.count()) {
            durations.durations([("server", server)], of.durations.read());
        }
        for (name, what, count) in [
            ("toolway_server_requests", "Server requests during calls", ServerMetrics::server_requests as Count),
            ("toolway_call_argument_bytes", "Bytes of call arguments", ServerMetrics::argument_bytes),
            ("toolway_call_result_bytes", "Bytes of call results", ServerMetrics::result_bytes),
            ("mcp_resource_cache_hits", "Resources that an earlier result answered", ServerMetrics::cache_hits),
        ] {
            let metric = scrape.counter(name, what);
            for (server, of) in all.iter().filter(|(_, of)| 0 < of.durations.count()) {
                metric.series([("server", server)], load(count(of)));
            }
        }
        for (name, what, kind) in [
            ("mcp_prompts_invoked", "Prompts that were requested", CallKind::Prompt),
            ("mcp_resources_read", "Resources that were read", CallKind::Resource),
        ] {
            let metric = scrape.counter(name, what);
            for (server, count) in all.iter().map(|(server, of)| (server, of.of_kind(kind))).filter(|(_, of)| 0 < *of) {
                metric.series([("server", server)], count);
            }
        }
        self.tools.add_to(scrape, client);
    }

    fn add_requests(&self, scrape: &mut Scrape) {
        let metric = scrape.counter("toolway_http_requests", "Answered HTTP requests, by route and status class");
        for (route, classes) in Route::PATHS.iter().chain(&["other"]).zip(&self.requests) {
            for (class, count) in (1..).zip(classes).filter(|(_, count)| 0 < load(count)) {
                metric.series([("route", route), ("code", &format!("{class}xx"))], load(count));
            }
        }
    }
}

/// Accessor of one counter of a server.
type Count = fn(&ServerMetrics) -> &AtomicU64;

// === impl ServerMetrics ===

impl ServerMetrics {
    fn record_call(&self, record: &CallRecord) {
        let kind = KINDS.iter().position(|kind| *kind == record.kind).unwrap_or_default();
        let state = ENDED.iter().position(|state| *state == record.state).unwrap_or_default();
        let add = |count: &AtomicU64, by: u64| count.fetch_add(by, Ordering::Relaxed);
        add(&self.calls[kind][state], 1);
        self.durations.observe(record.duration());
        add(&self.argument_bytes, record.argument_bytes as u64);
        add(&self.result_bytes, record.result_bytes as u64);
        add(&self.server_requests, u64::from(record.server_requests));
        add(&self.cache_hits, u64::from(record.from_cache));
    }

    fn server_requests(&self) -> &AtomicU64 {
        &self.server_requests
    }

    fn cache_hits(&self) -> &AtomicU64 {
        &self.cache_hits
    }

    fn argument_bytes(&self) -> &AtomicU64 {
        &self.argument_bytes
    }

    fn result_bytes(&self) -> &AtomicU64 {
        &self.result_bytes
    }

    fn of_kind(&self, kind: CallKind) -> u64 {
        let states = KINDS.iter().position(|of| *of == kind).and_then(|kind| self.calls.get(kind));
        states.map_or(0, |states| states.iter().map(load).sum())
    }

    fn add_calls(&self, metric: &mut Metric, server: &str) {
        for (kind, states) in KINDS.iter().zip(&self.calls) {
            for (state, count) in ENDED.iter().zip(states).filter(|(_, count)| 0 < load(count)) {
                let labels = [("server", server), ("kind", &kind.to_string()), ("state", &state.to_string())];
                metric.series(labels, load(count));
            }
        }
    }
}

fn add_servers(scrape: &mut Scrape, servers: &[ServerStatus]) {
    let metric = scrape.gauge("toolway_servers", "Servers, by connection state");
    for state in STATES {
        let count = servers.iter().filter(|status| status.phase.word() == state).count();
        metric.series([("state", state)], count as u64);
    }
    for (name, what, value) in SERVER_GAUGES {
        let metric = scrape.gauge(name, what);
        for status in servers {
            metric.series([("server", status.server.as_str())], value(status));
        }
    }
    for (name, what, count) in SERVER_COUNTERS {
        let metric = scrape.counter(name, what);
        for status in servers {
            metric.series([("server", status.server.as_str())], count(status));
        }
    }
    let metric = scrape.counter("toolway_token_refreshes", "Token refreshes, by server and outcome");
    for status in servers {
        let ConnectionCounts { refreshes, refresh_failures, .. } = status.connections;
        for (outcome, count) in [("succeeded", refreshes), ("failed", refresh_failures)] {
            metric.series([("server", status.server.as_str()), ("outcome", outcome)], count);
        }
    }
    let metric = scrape.gauge("toolway_catalog_items", "Listed items, by server and kind");
    for (status, counts) in servers.iter().filter_map(|status| Some((status, status.counts?))) {
        let Counts { tools, resources, templates, prompts, set_aside } = counts;
        for (kind, count) in [
            ("tool", tools),
            ("resource", resources),
            ("template", templates),
            ("prompt", prompts),
            ("ignored", set_aside),
        ] {
            metric.series([("server", status.server.as_str()), ("kind", kind)], count as u64);
        }
    }
}

fn add_cluster(scrape: &mut Scrape, cluster: &ClusterGauges) {
    for (name, what, value) in [
        ("toolway_cluster_member", "Whether this gateway has a valid lease", u64::from(cluster.is_member)),
        ("toolway_cluster_members", "Gateways with a valid lease", cluster.live as u64),
    ] {
        scrape.gauge(name, what).value(value);
    }
    let metric = scrape.counter("toolway_cluster_forwarded", "Requests forwarded to other gateways, by their end");
    for count in &cluster.forwarded {
        metric.series([("end", count.end)], count.requests);
    }
}

fn add_gauges(scrape: &mut Scrape, gauges: &GatewayGauges) {
    if let Some(cluster) = &gauges.cluster {
        add_cluster(scrape, cluster);
    }
    for (name, what, value) in [
        ("toolway_calls_under_way", "Calls in flight at servers", gauges.under_way),
        ("toolway_sessions", "Open client sessions", gauges.sessions),
        ("toolway_parked_calls", "Calls that wait for answers to server requests", gauges.parked),
        ("toolway_hosted_tasks", "Tasks hosted by the gateway", gauges.tasks),
    ] {
        scrape.gauge(name, what).value(value as u64);
    }
    let help = "Bytes charged to the memory budget, by what they are kept for";
    let metric = scrape.gauge("toolway_memory_bytes", help);
    for (kind, bytes) in Kept::ALL.iter().zip(gauges.memory) {
        metric.series([("kind", &kind.to_string())], bytes as u64);
    }
    for (name, what, value) in [
        ("toolway_log_lines_lost", "Access log lines dropped because the queue was full", gauges.lost_lines),
        ("toolway_memory_refusals", "Charges that did not fit into the memory budget", gauges.memory_refusals),
        ("toolway_unrecorded_calls", "Calls without a complete record in the store", gauges.unrecorded),
    ] {
        scrape.counter(name, what).value(value);
    }
    let help = "Calls and results checked against the schemas of their tools, by what was found";
    let metric = scrape.counter("toolway_validation", help);
    let ValidationCounts { rejected, invalid_arguments, invalid_results, skipped } = gauges.validation;
    for (found, count) in [
        ("rejected", rejected),
        ("invalid-arguments", invalid_arguments),
        ("invalid-results", invalid_results),
        ("skipped", skipped),
    ] {
        metric.series([("found", found)], count);
    }
    let ApprovalCounts { approved, refused } = gauges.approvals;
    let metric = scrape.counter("toolway_approvals", "Approval requests, by their answer");
    metric.series([("answer", "approved")], approved).series([("answer", "refused")], refused);
    let help = "Tokens of models as their vendors report them, in conversations and for servers, by direction";
    let metric = scrape.counter("toolway_model_tokens", help);
    for (model, ModelTokens { input, output }) in &gauges.model_tokens {
        metric.series([("model", model), ("direction", "input")], *input);
        metric.series([("model", model), ("direction", "output")], *output);
    }
    if let Some(store) = gauges.store {
        add_store(scrape, store);
    }
}

fn add_store(scrape: &mut Scrape, store: RecorderUsage) {
    let RecorderUsage { bytes, max_bytes, removed_bodies, removed_calls } = store;
    scrape.gauge("toolway_store_bytes", "Bytes of the store's files").value(bytes);
    if let Some(max_bytes) = max_bytes {
        let help = "Limit of the store's files in bytes (`store.maxBytes`)";
        scrape.gauge("toolway_store_max_bytes", help).value(max_bytes);
    }
    scrape.counter("toolway_store_removed_bodies", "Bodies that retention removed").value(removed_bodies);
    scrape.counter("toolway_store_removed_calls", "Calls that retention removed").value(removed_calls);
}

fn load(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}
