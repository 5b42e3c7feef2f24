//! What the embedding program supplies: six small traits, each beside its concept, each with a safe default that
//! remembers in memory, refuses, or offers nothing.

use std::{fmt, sync::Arc};

use toolway_auth::vault::{MemoryVault, Vault};

use crate::{
    connection::client_face::{Elicitor, NobodyAnswers, Sampler},
    policy::{Approver, MemoryTrust, NobodyApproves, TrustLedger},
    record::{CallLog, MemoryCallLog},
};

/// The six ports. A port that panics answers its caller all the same: with a refusal, or not at all.
#[derive(Clone)]
pub struct HostPorts {
    /// Where calls are written down; in memory, the last thousand or four megabytes of them.
    pub calls: Arc<dyn CallLog>,
    /// Who is asked before a call; nobody, which is a refusal.
    pub approver: Arc<dyn Approver>,
    /// Which definitions were accepted; in memory.
    pub trust: Arc<dyn TrustLedger>,
    /// Where credentials are kept; in memory.
    pub vault: Arc<dyn Vault>,
    /// Which model answers servers; none, and none is offered.
    pub sampler: Arc<dyn Sampler>,
    /// Who fills in servers' forms; nobody, and nobody is offered.
    pub elicitor: Arc<dyn Elicitor>,
}

impl Default for HostPorts {
    fn default() -> Self {
        Self {
            calls: Arc::new(MemoryCallLog::default()),
            approver: Arc::new(NobodyApproves),
            trust: Arc::new(MemoryTrust::default()),
            vault: Arc::new(MemoryVault::default()),
            sampler: Arc::new(NobodyAnswers),
            elicitor: Arc::new(NobodyAnswers),
        }
    }
}

impl fmt::Debug for HostPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostPorts")
    }
}
