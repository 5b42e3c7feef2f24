//! Whose a thing is among those of all servers, and whether its server says so now: in `_meta`, where what is ours
//! stands.

use toolway_host::catalog::Origin;
use toolway_wire::{
    json::Raw,
    message::splice::{self, Edit},
};

use super::Gathering;

/// Whether a server says now that it has something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// It does.
    Now,
    /// It is not there; it said so when it was last listed.
    LastTime,
}

impl Gathering {
    /// Whether what is shown of a thing is what its server says now.
    pub(crate) fn news_of(&self, origin: &Origin) -> News {
        let is_copied = self.seen.iter().any(|seen| seen.copied && seen.status.server == origin.server);
        if is_copied { News::LastTime } else { News::Now }
    }
}

impl News {
    /// What stands behind a line for people.
    pub(crate) fn remark(self) -> &'static str {
        match self {
            Self::Now => "",
            Self::LastTime => "  (as last listed)",
        }
    }

    /// The protocol's own object with its origin in `_meta`, under another name where it has one here.
    pub(crate) fn marked(self, item: &Raw, origin: &Origin, name: Option<&str>) -> Raw {
        let mut said = serde_json::json!({ "server": origin.server.as_str(), "name": origin.raw_name });
        if self == Self::LastTime {
            said["fromLastTime"] = true.into();
        }
        let meta = item.get("_meta").unwrap_or_else(Raw::empty_object);
        let meta = splice::edited(&meta, &[Edit::Set("toolway/origin", Raw::of(&said))]);
        let name = name.map(|name| Edit::Set("name", Raw::of(name)));
        splice::edited(item, &name.into_iter().chain([Edit::Set("_meta", meta)]).collect::<Vec<_>>())
    }
}
