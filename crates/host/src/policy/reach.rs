//! Whether a request reaches something new: a host that is not known, or a resource that its server does not list.

use toolway_config::HostPattern;
use toolway_wire::json::Raw;

use super::{Bare, FoundHost, HostSearch, PolicyInput, SeenUrls};
use crate::call::CallKind;

/// What is known about where a request goes, besides its arguments.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reach<'a> {
    /// Input schema of the tool.
    pub schema: Option<&'a Raw>,
    /// URLs of the user and of earlier results of the conversation.
    pub seen: Option<&'a SeenUrls>,
    /// How the server offers the resource.
    pub resource: ResourceOffer<'a>,
    /// URIs of the folders that the server may be given paths of, if its entry has `allowFileAccess: false`.
    pub roots: &'a [String],
}

/// How a server offers a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResourceOffer<'a> {
    /// Its listing contains the URI; also for what is not a resource.
    #[default]
    Listed,
    /// This URI template matches.
    Template(&'a str),
    /// No listing contains it and no template matches.
    Unlisted,
}

/// What a request reaches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// The hosts that it names, known ones as well.
    pub hosts: Vec<FoundHost>,
    /// A resource that no listing and no template contains.
    pub unlisted: Option<String>,
}

impl Reached {
    /// What a request reaches. A tool that is believed to be closed-world reaches no host.
    pub(super) fn of(input: &PolicyInput<'_>, configured: &[HostPattern]) -> Self {
        let annotations = input.believed_annotations();
        let Reach { schema, seen, resource, .. } = input.reach;
        let bare = if annotations.says_open_world { Bare::Everywhere } else { Bare::ByFormat };
        let search = HostSearch { schema, bare, configured, seen };
        let uri = &input.subject.raw_name;
        match (input.subject.kind, resource) {
            (CallKind::Tool, _) if !annotations.open_world => Self::default(),
            (CallKind::Tool | CallKind::Prompt, _) => Self { hosts: search.find(input.arguments), unlisted: None },
            (CallKind::Resource, ResourceOffer::Unlisted) => Self { hosts: Vec::new(), unlisted: Some(uri.clone()) },
            (CallKind::Resource, ResourceOffer::Template(template)) => {
                let fixed = search.find_in_uri(template);
                let is_fixed = |found: &FoundHost| fixed.iter().any(|fixed| fixed.host == found.host);
                let hosts = search.find_in_uri(uri).into_iter().filter(|found| !is_fixed(found)).collect();
                Self { hosts, unlisted: None }
            }
            (CallKind::Resource, ResourceOffer::Listed) | (CallKind::Method, _) => Self::default(),
        }
    }

    /// Whether a user is asked about it.
    pub fn is_new(&self) -> bool {
        self.unlisted.is_some() || self.new_hosts().next().is_some()
    }

    /// The hosts that are new.
    pub fn new_hosts(&self) -> impl Iterator<Item = &FoundHost> {
        self.hosts.iter().filter(|found| found.status.is_new())
    }

    /// Why a user is asked, in one sentence; `None` if nothing is new.
    pub fn reason(&self) -> Option<String> {
        if let Some(uri) = &self.unlisted {
            let uri = uri.escape_default();
            return Some(format!("no listing and no template of the server contains the resource `{uri}`"));
        }
        let new: Vec<String> = self.new_hosts().map(FoundHost::sentence).collect();
        (!new.is_empty()).then(|| format!("it reaches {}", new.join(", ")))
    }
}
