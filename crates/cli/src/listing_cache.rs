//! The cache of server listings on disk.

use toolway_config::{Config, Paths, ServerConfig};
use toolway_host::{
    catalog::{Listing, ListingCache},
    connection::WantedServer,
};

/// The cache in the state directory; `None` without one.
pub(crate) fn open(paths: &Paths) -> Option<ListingCache> {
    paths.state.as_ref().map(|folder| ListingCache::in_folder(folder.join("catalog")))
}

/// The last listing of a server as it is defined now. Does not connect to the server.
pub(crate) fn lookup(paths: &Paths, config: &Config, entry: &ServerConfig) -> Option<Listing> {
    let definition = WantedServer::configured(config, entry).definition()?;
    open(paths)?.load(&entry.name, &definition).ok()?
}
