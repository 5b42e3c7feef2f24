//! The origin of an item among those of all servers, and whether it comes from the cache; both are added to its `_meta`.

use toolway_host::catalog::Origin;
use toolway_wire::{
    json::Raw,
    message::splice::{self, Edit},
};

use super::MultiServerHost;

/// Whether an item was listed in this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListingAge {
    /// Listed by its server in this run.
    Current,
    /// From the listing cache; its server is unavailable.
    Cached,
}

impl MultiServerHost {
    /// Whether an item of this origin was listed in this run.
    pub(crate) fn listing_age(&self, origin: &Origin) -> ListingAge {
        let is_copied = self.outcomes.iter().any(|outcome| outcome.cached && outcome.status.server == origin.server);
        if is_copied { ListingAge::Cached } else { ListingAge::Current }
    }
}

impl ListingAge {
    /// Suffix of the item's text line.
    pub(crate) fn remark(self) -> &'static str {
        match self {
            Self::Current => "",
            Self::Cached => "  (cached)",
        }
    }

    /// The protocol object with its origin in `_meta`, and with `name` as its name if given.
    pub(crate) fn with_origin(self, item: &Raw, origin: &Origin, name: Option<&str>) -> Raw {
        let mut said = serde_json::json!({ "server": origin.server.as_str(), "name": origin.raw_name });
        if self == Self::Cached {
            said["cached"] = true.into();
        }
        let meta = item.get("_meta").unwrap_or_else(Raw::empty_object);
        let meta = splice::edited(&meta, &[Edit::Set("toolway/origin", Raw::of(&said))]);
        let name = name.map(|name| Edit::Set("name", Raw::of(name)));
        splice::edited(item, &name.into_iter().chain([Edit::Set("_meta", meta)]).collect::<Vec<_>>())
    }
}
