//! Which tools and prompts of a server are hidden, because their definitions are not what was seen first and policy hides
//! them (`policy.changedTools`, `policy.newTools`). `host/hiding.rs` makes a guard for each merge.

use std::{collections::HashMap, fmt, sync::Arc};

use super::{Fingerprint, ItemKind, Listing, Origin};
use crate::policy::baseline::{SeenItem, SeenServer, Sight};

/// What policy hides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hides {
    /// What has changed since it was first seen.
    pub(crate) changed: bool,
    /// What the server did not have then.
    pub(crate) new: bool,
}

/// A tool or prompt that a server lists and no model or client is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiddenItem {
    /// Tool or prompt.
    pub kind: ItemKind,
    /// Server and name at that server.
    pub origin: Origin,
    /// How it differs from what was seen first, for the operator: it may name files of this machine.
    pub reason: String,
}

/// Decides about the items of one server. Cloning is cheap.
#[derive(Clone)]
pub struct DefinitionGuard {
    shared: Arc<Decided>,
    audience: Audience,
}

/// Whose listing is looked at.
#[derive(Clone)]
enum Audience {
    Everyone,
    /// Clients to which the server lists something else than this to all.
    SomeClients(Arc<HashMap<(ItemKind, String), Fingerprint>>),
}

struct Decided {
    hides: Hides,
    seen: SeenServer,
    /// How the entry of the server has changed.
    entry: Option<String>,
    /// How single definitions have changed.
    reasons: HashMap<(ItemKind, String), String>,
}

/// Said where the difference is not at hand.
const CHANGED: &str = "its definition has changed since it was first seen";
/// Why a new tool is hidden.
pub(crate) const NEW: &str = "the server did not have it when it was first seen";

impl DefinitionGuard {
    /// A guard by what was seen. `entry`: how the entry of the server has changed; `reasons`: how its definitions have.
    pub(crate) fn new(
        hides: Hides,
        seen: SeenServer,
        entry: Option<String>,
        reasons: HashMap<(ItemKind, String), String>,
    ) -> Self {
        Self { shared: Arc::new(Decided { hides, seen, entry, reasons }), audience: Audience::Everyone }
    }

    /// The same for a listing that only some clients get. `all` is the one of all others.
    pub(super) fn of_some_clients(&self, all: &Listing) -> Self {
        let tools = all.tools.iter().map(|tool| ((ItemKind::Tool, tool.item.name.clone()), tool.fingerprint));
        let prompts =
            all.prompts.iter().map(|prompt| ((ItemKind::Prompt, prompt.item.name.clone()), prompt.fingerprint));
        Self { audience: Audience::SomeClients(Arc::new(tools.chain(prompts).collect())), ..self.clone() }
    }

    /// Why an item is hidden; `None` if it is shown.
    pub(super) fn objection(&self, kind: ItemKind, raw_name: &str, fingerprint: Fingerprint) -> Option<String> {
        let Decided { hides, seen, entry, reasons } = &*self.shared;
        if !matches!(kind, ItemKind::Tool | ItemKind::Prompt) {
            return None;
        }
        if let Some(entry) = entry.as_ref().filter(|_| hides.changed) {
            return Some(entry.clone());
        }
        let digest = fingerprint.to_string();
        let key = (kind, raw_name.to_owned());
        let is_own = match &self.audience {
            Audience::Everyone => false,
            Audience::SomeClients(all) => all.get(&key) != Some(&fingerprint),
        };
        let sight = match is_own {
            false => seen.item(&SeenItem::shared(kind, raw_name), &digest),
            true => seen.of_any_client(kind, raw_name, &digest),
        };
        match sight {
            Sight::Changed if hides.changed => {
                let known = reasons.get(&key).filter(|_| !is_own);
                Some(known.cloned().unwrap_or_else(|| CHANGED.to_owned()))
            }
            Sight::New if hides.new => Some(NEW.to_owned()),
            Sight::First | Sight::Same | Sight::Changed | Sight::New => None,
        }
    }
}

impl fmt::Debug for DefinitionGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DefinitionGuard")
    }
}
