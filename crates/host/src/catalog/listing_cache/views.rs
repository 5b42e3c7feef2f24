//! Remembers to which client capabilities a server lists something else than to all callers: one file for all servers,
//! beside their listings. Only such servers are waited for at the next start; what they list is not stored.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

use serde::{Deserialize, Serialize};
use toolway_config::ServerName;

use super::ListingCache;
use crate::state_file::StateFile;

/// What a server lists to clients with certain capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerView {
    /// The same as to all callers.
    Shared,
    /// Something else.
    Own,
}

/// Content of the file. A file of another version, or one that cannot be read, counts as empty.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Views {
    version: u64,
    /// Capabilities, as JSON, that get something else; by the name of the file of the listing.
    own: BTreeMap<String, BTreeSet<String>>,
}

const VERSION: u64 = 1;
/// Maximum size of the file in bytes.
const BYTES: usize = 1024 * 1024;

impl ListingCache {
    /// The capabilities to which a server lists something else, as JSON.
    pub fn own_views(&self, server: &ServerName, definition: &str) -> BTreeSet<String> {
        self.views().own.remove(&self.file_name(server, definition)).unwrap_or_default()
    }

    /// Stores what a server lists to clients with these capabilities, given as JSON.
    pub fn store_view(
        &self,
        server: &ServerName,
        definition: &str,
        capabilities: &str,
        view: CallerView,
    ) -> io::Result<()> {
        let is_known = self.own_views(server, definition).contains(capabilities);
        if is_known == (view == CallerView::Own) {
            return Ok(());
        }
        let lock = self.lock()?;
        let mut views = self.views();
        views.own.retain(|name, _| self.folder.join(name).exists());
        let own = views.own.entry(self.file_name(server, definition)).or_default();
        match view {
            CallerView::Own => own.insert(capabilities.to_owned()),
            CallerView::Shared => own.remove(capabilities),
        };
        views.own.retain(|_, own| !own.is_empty());
        let text = serde_json::to_vec(&Views { version: VERSION, ..views }).map_err(io::Error::other)?;
        self.views_file().replace(&lock, &text)
    }

    fn views(&self) -> Views {
        let text = self.views_file().read().ok().flatten();
        let views = text.and_then(|text| serde_json::from_slice(&text).ok());
        views.filter(|views: &Views| views.version == VERSION).unwrap_or_default()
    }

    fn views_file(&self) -> StateFile {
        StateFile::at(self.folder.join("views"), BYTES)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::catalog::Listing;

    const FORMS: &str = r#"{"elicitation":{"form":{}}}"#;

    #[test]
    fn a_view_of_its_own_is_remembered_until_it_equals_the_shared_one() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ListingCache::in_folder(folder.path());
        let server: ServerName = "files".parse().unwrap();
        cache.store(&server, "ab12", &Listing::empty()).unwrap();
        cache.store_view(&server, "ab12", "{}", CallerView::Shared).unwrap();
        assert_eq!(cache.own_views(&server, "ab12"), BTreeSet::new());
        cache.store_view(&server, "ab12", FORMS, CallerView::Own).unwrap();
        assert_eq!(cache.own_views(&server, "ab12"), BTreeSet::from([FORMS.to_owned()]));
        assert_eq!(cache.own_views(&server, "cd34"), BTreeSet::new(), "another definition is another server");
        assert!(cache.load(&server, "ab12").unwrap().is_some());
        cache.store_view(&server, "ab12", FORMS, CallerView::Shared).unwrap();
        assert_eq!(cache.own_views(&server, "ab12"), BTreeSet::new());
    }

    #[test]
    fn a_damaged_file_counts_as_empty_and_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ListingCache::in_folder(folder.path());
        let server: ServerName = "files".parse().unwrap();
        cache.store(&server, "ab12", &Listing::empty()).unwrap();
        std::fs::write(folder.path().join("views"), "{").unwrap();
        assert_eq!(cache.own_views(&server, "ab12"), BTreeSet::new());
        cache.store_view(&server, "ab12", FORMS, CallerView::Own).unwrap();
        assert_eq!(cache.own_views(&server, "ab12").len(), 1);
    }
}
