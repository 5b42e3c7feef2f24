//! Makes the guards of a catalog: compares what servers list with what was seen first, where policy hides what differs.
//!
//! Without such a policy nothing is read. The first sight of a server is kept here, too, so that what it lists later is
//! compared before any call.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use parking_lot::Mutex;
use toolway_config::{Environment, ServerName};

use super::known_entries::KnownEntries;
use crate::{
    call::{EntryNow, entry_baseline, first_sight},
    catalog::{
        ItemKind, Listing,
        entry::{CatalogItem, ListedItem},
        guard::{DefinitionGuard, Hides},
    },
    connection::{WantedServer, Way},
    policy::baseline::{Baseline, Baselines, SeenItem, SeenServer, Sight},
};

/// Compares listings with baselines.
pub(crate) struct Hiding {
    baselines: Arc<dyn Baselines>,
    environment: Arc<Environment>,
    // No await under this lock.
    hides: Mutex<Hides>,
    entries: Arc<KnownEntries>,
}

/// A listing of a server, and how the server is reached.
#[derive(Clone)]
pub(crate) struct GuardedListing {
    pub(crate) wanted: Arc<WantedServer>,
    pub(crate) listing: Arc<Listing>,
}

impl Hiding {
    pub(crate) fn new(baselines: Arc<dyn Baselines>, environment: Arc<Environment>, hides: Hides) -> Self {
        Self { baselines, environment, hides: Mutex::new(hides), entries: Arc::default() }
    }

    /// Sets what policy hides.
    pub(crate) fn set(&self, hides: Hides) {
        *self.hides.lock() = hides;
    }

    /// Whether anything is hidden.
    pub(crate) fn is_on(&self) -> bool {
        let Hides { changed, new } = *self.hides.lock();
        changed || new
    }

    /// The guards of these servers.
    pub(crate) async fn guards(
        &self,
        servers: &BTreeMap<ServerName, GuardedListing>,
    ) -> BTreeMap<ServerName, DefinitionGuard> {
        let hides = *self.hides.lock();
        self.entries.retain(|server| servers.contains_key(server));
        let mut guards = BTreeMap::new();
        for (server, guarded) in servers {
            guards.insert(server.clone(), self.guard(hides, guarded).await);
        }
        guards
    }

    async fn guard(&self, hides: Hides, guarded: &GuardedListing) -> DefinitionGuard {
        let GuardedListing { wanted, listing } = guarded;
        let server = &wanted.name;
        let entry = match &wanted.way {
            Way::Configured(_) => {
                let wanted = Arc::clone(wanted);
                let environment = Arc::clone(&self.environment);
                let entries = Arc::clone(&self.entries);
                let read = move || {
                    let known = entries.current(&wanted);
                    known.unwrap_or_else(|| entries.keep(&wanted, EntryNow::read(&wanted, &environment, 0)))
                };
                tokio::task::spawn_blocking(read).await.ok()
            }
            _ => Some(entry_baseline(wanted, &self.environment)),
        };
        let seen = self.baselines.digests(server).await.ok();
        let Some((entry, seen)) = entry.zip(seen) else {
            tracing::error!(%server, "what was seen of the server cannot be compared; it is hidden");
            let unknown = Some("what was seen before cannot be read".to_owned());
            return DefinitionGuard::new(
                Hides { changed: true, ..hides },
                SeenServer::default(),
                unknown,
                HashMap::new(),
            );
        };
        let seen = SeenServer::new(seen);
        let first = first_sight(server, &seen, &entry, listing);
        if !first.is_empty()
            && let Err(error) = self.baselines.save(first).await
        {
            tracing::error!(%error, "definitions that were seen cannot be kept");
        }
        let changed = match seen.entry(&entry.digest) {
            Sight::Changed => {
                let lines = self.difference(&entry).await;
                Some(lines.into_iter().map(|line| format!("server: {line}")).collect::<Vec<_>>().join(";\n"))
            }
            Sight::First | Sight::Same | Sight::New => None,
        };
        let mut reasons = HashMap::new();
        if hides.changed && changed.is_none() {
            self.compare(server, &seen, &listing.tools, &mut reasons).await;
            self.compare(server, &seen, &listing.prompts, &mut reasons).await;
        }
        DefinitionGuard::new(hides, seen, changed, reasons)
    }

    /// How the definitions of one kind differ from what was seen.
    async fn compare<T: CatalogItem>(
        &self,
        server: &ServerName,
        seen: &SeenServer,
        listed: &[ListedItem<T>],
        reasons: &mut HashMap<(ItemKind, String), String>,
    ) {
        for listed in listed {
            let name = listed.item.raw_name();
            let item = SeenItem::shared(T::KIND, name);
            if seen.item(&item, &listed.fingerprint.to_string()) == Sight::Changed {
                let now = Baseline::of(server, item, listed.item.raw(), listed.fingerprint);
                reasons.insert((T::KIND, name.to_owned()), self.difference(&now).await.join(";\n"));
            }
        }
    }

    async fn difference(&self, now: &Baseline) -> Vec<String> {
        match self.baselines.find(&now.server, &now.item).await {
            Ok(Some(before)) => before.difference(now),
            Ok(None) | Err(_) => vec!["what was seen before cannot be read".to_owned()],
        }
    }
}
