//! Clients of a gateway whose forms and URLs wait in the inbox, because they answer none themselves.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde_json::json;
use toolway_config::Settings;
use toolway_wire::{
    json::Raw,
    message::{
        ClientCapabilities,
        splice::{self, Edit},
    },
};

use crate::call::Caller;

/// Whether forms and URLs wait, for all clients and for single ones (`inbox.wait`).
#[derive(Debug, Default)]
pub(crate) struct WaitingClients {
    // Nothing awaits under this lock.
    settings: Mutex<WaitSettings>,
}

#[derive(Debug, Default)]
struct WaitSettings {
    all: bool,
    single: BTreeMap<String, bool>,
}

impl WaitingClients {
    /// Replaces what the configuration says.
    pub(crate) fn configure(&self, settings: &Settings) {
        let clients = settings.gateway.clients.value.iter();
        let single = clients.filter_map(|(name, client)| Some((name.clone(), client.inbox_wait.value?))).collect();
        *self.settings.lock() = WaitSettings { all: settings.inbox_wait.value, single };
    }

    /// Whether the forms and URLs in calls of this caller wait.
    pub(crate) fn waits(&self, caller: &Caller) -> bool {
        let Some(client) = caller.client() else { return false };
        let settings = self.settings.lock();
        settings.single.get(client).copied().unwrap_or(settings.all)
    }
}

/// Whether a caller answers forms itself.
pub(crate) fn answers_forms(capabilities: &ClientCapabilities) -> bool {
    capabilities.0.get("elicitation").is_some()
}

/// The capabilities with forms and URLs.
pub(crate) fn with_forms(capabilities: &ClientCapabilities) -> ClientCapabilities {
    let modes = Raw::of(&json!({ "form": {}, "url": {} }));
    ClientCapabilities(splice::edited(&capabilities.0, &[Edit::Set("elicitation", modes)]))
}
