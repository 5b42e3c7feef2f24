//! Notices: events outside any exchange, such as changes of lists and resources, logs, and protocol faults of a peer.
//!
//! The form is era-neutral; the accents encode it. [`filter`] encodes and parses subscription filters.

pub(crate) mod filter;

use crate::{budget::MemoryBudget, error::WireError, json::Raw};

/// Bytes of the method of a notification that is passed on; those of the protocol are far shorter.
const LONGEST_METHOD: usize = 256;

/// An event that belongs to no request.
#[derive(Clone, Debug)]
pub enum Notice {
    /// A list has changed.
    Changed(List),
    /// A resource has changed; the URI may name a part of the subscribed one.
    Updated {
        /// URI of the resource.
        uri: String,
        /// The params as received.
        params: Raw,
    },
    /// A log message that belongs to no request; the params as received.
    Log(Raw),
    /// What a user was sent to a URL for is completed.
    UrlCompleted {
        /// The server's id of the request, as in [`RequiredUrl`](crate::exchange::RequiredUrl).
        id: String,
        /// The params as received.
        params: Raw,
    },
    /// Any other notification.
    Other {
        /// Method of the notification.
        method: String,
        /// The params as received.
        params: Option<Raw>,
    },
    /// The peer violated the protocol; the connection continues.
    Fault(WireError),
    /// The listener was too slow: this many notices were dropped.
    Missed(u64),
}

/// Lists of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum List {
    /// `tools/list`
    Tools,
    /// `prompts/list`
    Prompts,
    /// `resources/list`, templates included
    Resources,
}

/// Notices that a listener subscribes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionFilter {
    /// Changes of the tool list.
    pub tools: bool,
    /// Changes of the prompt list.
    pub prompts: bool,
    /// Changes of the resource list.
    pub resources: bool,
    /// Updates of the resources with these URIs.
    pub uris: Vec<String>,
}

impl List {
    /// Method of the notification that announces a change.
    pub fn changed_method(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources => "notifications/resources/list_changed",
        }
    }
}

impl Notice {
    /// Converts a notification.
    pub fn read(method: &str, params: Option<Raw>) -> Self {
        match method {
            "notifications/tools/list_changed" => Self::Changed(List::Tools),
            "notifications/prompts/list_changed" => Self::Changed(List::Prompts),
            "notifications/resources/list_changed" => Self::Changed(List::Resources),
            "notifications/message" => Self::Log(params.unwrap_or_else(Raw::empty_object)),
            "notifications/resources/updated" => {
                let params = params.unwrap_or_else(Raw::empty_object);
                let uri = params.get("uri").as_ref().and_then(Raw::as_str).unwrap_or_default().into_owned();
                Self::Updated { uri, params }
            }
            other => Self::Other { method: other.to_owned(), params },
        }
    }
}

impl Notice {
    /// A notification for listeners that may read it late, as `read` converts it. Its params are copied, so that they do not keep the
    /// whole message, and charged until the last listener has read them; what does not fit the budget is a missed notice.
    pub(crate) fn kept(
        method: &str,
        params: Option<Raw>,
        memory: &MemoryBudget,
        read: impl Fn(&str, Option<Raw>) -> Self,
    ) -> Self {
        if LONGEST_METHOD < method.len() {
            return Self::Missed(1);
        }
        // A change of a list has no content, so it is never missed.
        if let changed @ Self::Changed(_) = read(method, None) {
            return changed;
        }
        let Some(params) = params else { return read(method, None) };
        // Twice: the notice may have a member of them as a text of its own.
        match memory.charge(params.as_bytes().len().saturating_mul(2)) {
            Ok(charge) => read(method, Some(params.kept(charge))),
            Err(_) => Self::Missed(1),
        }
    }
}

impl SubscriptionFilter {
    /// All list changes, no resource updates.
    pub fn lists() -> Self {
        Self { tools: true, prompts: true, resources: true, uris: Vec::new() }
    }

    /// Updates of one resource.
    pub fn resource(uri: &str) -> Self {
        Self { uris: vec![uri.to_owned()], ..Self::default() }
    }

    /// Whether this notice matches the filter.
    pub fn covers(&self, notice: &Notice) -> bool {
        match notice {
            Notice::Changed(List::Tools) => self.tools,
            Notice::Changed(List::Prompts) => self.prompts,
            Notice::Changed(List::Resources) => self.resources,
            // A server may name a part of the subscribed resource.
            Notice::Updated { uri, .. } => self.uris.iter().any(|wanted| uri.starts_with(wanted.as_str())),
            Notice::Missed(_) => true,
            Notice::Log(_) | Notice::UrlCompleted { .. } | Notice::Other { .. } | Notice::Fault(_) => false,
        }
    }

    /// Intersection of two filters.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            tools: self.tools && other.tools,
            prompts: self.prompts && other.prompts,
            resources: self.resources && other.resources,
            uris: self.uris.iter().filter(|uri| other.uris.contains(uri)).cloned().collect(),
        }
    }
}
