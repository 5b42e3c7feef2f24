//! The ports of a host: traits that the embedding program can implement. Each is defined next to its concept and
//! has a safe default, which stores in memory, refuses, or offers nothing.

use std::{fmt, sync::Arc};

use toolway_auth::vault::{MemoryVault, Vault};
use toolway_config::Bodies;

use crate::{
    inbox::{Answerer, NoAnswerer},
    policy::{Baselines, CallDays, MemoryBaselines, MemoryCallDays, MemorySavedApprovals, SavedApprovals},
    record::{CallLog, CallObserver, CallRecorder, MemoryCallLog},
    roots::{ClientRootStore, NoClientRootStore},
    sampling::{NoSampler, NoSamplingLedger, Sampler, SamplingLedger},
    task::{NoTaskLog, TaskLog},
};

/// The ports. A panic in a port is caught: the call is refused, or the server request stays unanswered.
#[derive(Clone)]
pub struct HostPorts {
    /// Log of finished calls. Default: in memory, the last 1000 calls or 4 MiB.
    pub calls: Arc<dyn CallLog>,
    /// Answers approval requests of policy, and forms and URLs of servers. Default: none, so calls that require approval
    /// are refused, and elicitation is not offered.
    pub answerer: Arc<dyn Answerer>,
    /// Sees each call with its arguments and its result. Default: none.
    pub observer: Option<Arc<dyn CallObserver>>,
    /// Durable records of calls. Default: none.
    pub recorder: Option<Arc<dyn CallRecorder>>,
    /// Durable rows of tasks. Default: none, so that a task is known to this process only.
    pub tasks: Arc<dyn TaskLog>,
    /// Which parts of arguments and results reach the recorder and the observer. Default: everything, with secrets of servers replaced.
    pub bodies: Bodies,
    /// Approvals that hold beyond a call. Default: in memory.
    pub approvals: Arc<dyn SavedApprovals>,
    /// Definitions of tools as they were first seen. Default: in memory.
    pub baselines: Arc<dyn Baselines>,
    /// Store of credentials. Default: in memory.
    pub vault: Arc<dyn Vault>,
    /// Model that answers sampling requests of servers. Default: none, and sampling is not offered.
    pub sampler: Arc<dyn Sampler>,
    /// Counts what models answer against the quotas of sampling. Default: none, and a request with a quota is refused.
    pub sampling: Arc<dyn SamplingLedger>,
    /// Counts the calls of each day against limits. Default: in memory.
    pub call_days: Arc<dyn CallDays>,
    /// Keeps the roots that clients of a gateway supply over HTTP. Default: they end with the process.
    pub client_roots: Arc<dyn ClientRootStore>,
}

impl Default for HostPorts {
    fn default() -> Self {
        Self {
            calls: Arc::new(MemoryCallLog::default()),
            answerer: Arc::new(NoAnswerer),
            observer: None,
            recorder: None,
            tasks: Arc::new(NoTaskLog),
            bodies: Bodies::default(),
            approvals: Arc::new(MemorySavedApprovals::default()),
            baselines: Arc::new(MemoryBaselines::default()),
            vault: Arc::new(MemoryVault::default()),
            sampler: Arc::new(NoSampler),
            sampling: Arc::new(NoSamplingLedger),
            call_days: Arc::new(MemoryCallDays::default()),
            client_roots: Arc::new(NoClientRootStore),
        }
    }
}

impl fmt::Debug for HostPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostPorts")
    }
}
