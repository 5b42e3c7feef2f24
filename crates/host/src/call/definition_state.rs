//! How a tool or prompt compares with what was seen first or accepted last, for a person who looks at it. Nothing is decided
//! or kept here; `drift.rs` does that in a call.

use std::{sync::Arc, time::SystemTime};

use super::{Caller, drift::entry_baseline};
use crate::{
    catalog::{Catalog, Fingerprint, ItemKind, Origin},
    connection::Way,
    host::Host,
    policy::baseline::{Baseline, SeenItem, SeenServer, Sight},
    record::RecordsError,
};
use toolway_wire::json::Raw;

/// How a definition and the entry of its server compare with what was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionState {
    /// Whether it is the same.
    pub standing: DefinitionStanding,
    /// When it was seen first, or accepted last; `None` if it was not seen yet.
    pub seen_at: Option<SystemTime>,
    /// How it differs, one change in each line; those of the server's entry begin with `server: `.
    pub difference: Vec<String>,
}

/// Whether a definition is what was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionStanding {
    /// Nothing of its server was seen yet.
    Unseen,
    /// It is what was seen first, or accepted last.
    Same,
    /// It, or the entry of its server, differs.
    Changed,
    /// The server did not have it when its others were seen.
    New,
}

/// A definition as it is listed now.
struct ListedDefinition {
    raw: Raw,
    fingerprint: Fingerprint,
}

impl Host {
    /// Compares a tool or prompt with what was seen; `None` if it is not listed to the user of this process.
    pub async fn definition_state(
        &self,
        kind: ItemKind,
        origin: &Origin,
    ) -> Result<Option<DefinitionState>, RecordsError> {
        let Some(connection) = self.inner().connection(&origin.server) else { return Ok(None) };
        let Some(now) = ListedDefinition::of(&self.own_catalog(), kind, origin) else { return Ok(None) };
        let shared = ListedDefinition::of(&self.catalog(), kind, origin);
        let is_shared = shared.is_some_and(|shared| shared.fingerprint == now.fingerprint);
        let name = origin.raw_name.clone();
        let item = if is_shared {
            SeenItem::Shared { kind, name }
        } else {
            SeenItem::Own { kind, name, caller: Caller::Console.label() }
        };
        let context = &self.inner().context;
        let baselines = Arc::clone(&context.ports.baselines);
        let wanted = connection.wanted();
        let seen = SeenServer::new(baselines.digests(&origin.server).await?);
        let listed = Baseline::of(&origin.server, item, &now.raw, now.fingerprint);
        let sight = seen.item(&listed.item, &listed.digest);
        let entry = match &wanted.way {
            // The files that it names are read.
            Way::Configured(_) => {
                let environment = context.dialer.environment.clone();
                tokio::task::spawn_blocking(move || entry_baseline(&wanted, &environment)).await.ok()
            }
            _ => Some(entry_baseline(&wanted, &context.dialer.environment)),
        };
        let mut before = baselines.find(&origin.server, &listed.item).await?;
        if before.is_none() && !is_shared {
            // What all callers saw under this name is what its user expects.
            before = baselines.find(&origin.server, &SeenItem::shared(kind, &origin.raw_name)).await?;
        }
        let mut difference = Vec::new();
        if let Some(entry) = entry.filter(|entry| seen.entry(&entry.digest) == Sight::Changed)
            && let Some(known) = baselines.find(&origin.server, &SeenItem::Entry).await?
        {
            difference.extend(known.difference(&entry).into_iter().map(|line| format!("server: {line}")));
        }
        if let Some(before) = before.as_ref().filter(|_| sight == Sight::Changed) {
            difference.extend(before.difference(&listed));
        }
        let standing = match sight {
            Sight::New => DefinitionStanding::New,
            Sight::Changed => DefinitionStanding::Changed,
            _ if !difference.is_empty() => DefinitionStanding::Changed,
            Sight::First => DefinitionStanding::Unseen,
            Sight::Same => DefinitionStanding::Same,
        };
        Ok(Some(DefinitionState { standing, seen_at: before.map(|before| before.seen_at), difference }))
    }
}

impl ListedDefinition {
    fn of(catalog: &Catalog, kind: ItemKind, origin: &Origin) -> Option<Self> {
        let Origin { server, raw_name } = origin;
        match kind {
            ItemKind::Tool => catalog
                .tool_at(server, raw_name)
                .map(|entry| Self { raw: entry.item.raw.clone(), fingerprint: entry.fingerprint }),
            ItemKind::Prompt => catalog
                .prompt_at(server, raw_name)
                .map(|entry| Self { raw: entry.item.raw.clone(), fingerprint: entry.fingerprint }),
            ItemKind::Resource | ItemKind::Template => None,
        }
    }
}

impl DefinitionStanding {
    /// Stable identifier.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unseen => "unseen",
            Self::Same => "same",
            Self::Changed => "changed",
            Self::New => "new",
        }
    }
}
