//! What happens outside any exchange: changes of lists and resources, logs nobody asked for, faults of a peer.
//!
//! One era-neutral form for both faces; how a change is announced on the wire is the accents' business. What a listener
//! wants is written and read in [`filter`].

pub(crate) mod filter;

use crate::{error::WireError, json::Raw};

/// Something that concerns no request in particular.
#[derive(Clone, Debug)]
pub enum Notice {
    /// A list is not what it was.
    Changed(List),
    /// A resource is not what it was; the URI may name a part of what was subscribed.
    Updated {
        /// Its URI.
        uri: String,
        /// All that was said.
        params: Raw,
    },
    /// A log line without a request it belongs to.
    Log(Raw),
    /// Any other notification, as it came.
    Other {
        /// The method.
        method: String,
        /// The params.
        params: Option<Raw>,
    },
    /// The peer broke a rule; the connection lives on.
    Fault(WireError),
    /// The listener was too slow: so many notices are gone.
    Missed(u64),
}

/// The lists a server keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum List {
    /// `tools/list`
    Tools,
    /// `prompts/list`
    Prompts,
    /// `resources/list`, templates included
    Resources,
}

/// What a listener wants to hear of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Changes of the tools.
    pub tools: bool,
    /// Changes of the prompts.
    pub prompts: bool,
    /// Changes of the resources.
    pub resources: bool,
    /// Updates of these resources.
    pub uris: Vec<String>,
}

impl List {
    /// The notification that announces a change.
    pub fn changed_method(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources => "notifications/resources/list_changed",
        }
    }
}

impl Notice {
    /// The notice a notification is.
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

impl Wanted {
    /// All list changes, no resource in particular.
    pub fn lists() -> Self {
        Self { tools: true, prompts: true, resources: true, uris: Vec::new() }
    }

    /// Updates of one resource.
    pub fn resource(uri: &str) -> Self {
        Self { uris: vec![uri.to_owned()], ..Self::default() }
    }

    /// Whether this notice is one of those.
    pub fn covers(&self, notice: &Notice) -> bool {
        match notice {
            Notice::Changed(List::Tools) => self.tools,
            Notice::Changed(List::Prompts) => self.prompts,
            Notice::Changed(List::Resources) => self.resources,
            // A server may name a part of what was subscribed.
            Notice::Updated { uri, .. } => self.uris.iter().any(|wanted| uri.starts_with(wanted.as_str())),
            Notice::Missed(_) => true,
            Notice::Log(_) | Notice::Other { .. } | Notice::Fault(_) => false,
        }
    }

    /// What both want.
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
