//! One list of a server as it was received: its items, or why it could not be read.

use std::future::Future;

use toolway_config::ServerName;
use toolway_wire::{
    error::WireError,
    message::{item::MalformedItem, result::CacheHint},
    up,
};

use super::UnreadableItem;
use crate::catalog::{
    ItemKind, SetAsideItem,
    entry::{CatalogItem, ListedItem},
    listing_table::{ServerListings, SharedItem},
};

/// Maximum number of unreadable items that are described. Further ones are only counted.
const DESCRIBED: usize = 100;
/// Maximum length of the description of an unreadable item in bytes.
const REASON: usize = 1_024;

/// Result of one list request.
pub(super) struct ListPart<T> {
    pub(super) items: Vec<ListedItem<T>>,
    pub(super) cache_hint: Option<CacheHint>,
    pub(super) set_aside: Vec<UnreadableItem>,
}

/// Waits for one list; empty if it is not requested.
pub(super) async fn part<T: SharedItem>(
    asked: Option<impl Future<Output = Result<up::Listing<T>, WireError>>>,
    listings: &ServerListings,
) -> Result<ListPart<T>, WireError> {
    let Some(asked) = asked else { return Ok(ListPart::nothing()) };
    match asked.await {
        Ok(listed) => ListPart::whole(listed, listings),
        Err(error) if ends_everything(&error) => Err(error),
        Err(error) => Ok(ListPart::refused(&error)),
    }
}

// === impl ListPart ===

impl<T: SharedItem> ListPart<T> {
    fn nothing() -> Self {
        Self { items: Vec::new(), cache_hint: None, set_aside: Vec::new() }
    }

    pub(super) fn whole(mut listed: up::Listing<T>, listings: &ServerListings) -> Result<Self, WireError> {
        let mut set_aside: Vec<_> =
            listed.malformed.iter().take(DESCRIBED).map(UnreadableItem::malformed::<T>).collect();
        if DESCRIBED < listed.malformed.len() {
            let reason = format!("{} more items are invalid", listed.malformed.len() - DESCRIBED);
            set_aside.push(UnreadableItem { kind: T::KIND, name: None, reason, failed: None });
        }
        let items = listings.items(listed.items, &mut listed.charge)?;
        Ok(Self { items, cache_hint: Some(listed.cache), set_aside })
    }

    fn refused(error: &WireError) -> Self {
        // Many servers with resources have no templates and answer with an error.
        let expected = T::KIND == ItemKind::Template && matches!(error, WireError::Refused(_));
        let reason = cut(&format!("cannot list the {}s of this server: {error}", T::KIND));
        let set_aside =
            (!expected).then_some(UnreadableItem { kind: T::KIND, name: None, reason, failed: Some(error.code()) });
        Self { set_aside: set_aside.into_iter().collect(), ..Self::nothing() }
    }
}

/// Whether an error affects the whole connection, so that requesting other lists is pointless.
fn ends_everything(error: &WireError) -> bool {
    match error {
        WireError::Refused(_)
        | WireError::Protocol(_)
        | WireError::TooLarge { .. }
        | WireError::TimedOut { .. }
        | WireError::Status { .. }
        | WireError::Unsupported(_) => false,
        WireError::Unreachable { .. }
        | WireError::Ended(_)
        | WireError::Unauthorized { .. }
        | WireError::NoToken(_)
        | WireError::Vault(_)
        | WireError::Redirect { .. }
        | WireError::Overloaded { .. }
        | WireError::OverBudget(_)
        | WireError::NoCommonRevision { .. }
        | WireError::Handshake(_) => true,
    }
}

/// A reason within its bound: it may quote the server.
fn cut(reason: &str) -> String {
    reason[..reason.floor_char_boundary(REASON)].to_owned()
}

// === impl UnreadableItem ===

impl UnreadableItem {
    fn malformed<T: CatalogItem>(item: &MalformedItem) -> Self {
        let [name, uri] = item.raw.fields(["name", "uri"]);
        let name = name.or(uri).and_then(|name| name.as_str().map(|name| name.chars().take(200).collect()));
        Self { kind: T::KIND, name, reason: cut(&item.to_string()), failed: None }
    }

    pub(in crate::catalog) fn of(&self, server: &ServerName) -> SetAsideItem {
        let Self { kind, name, reason, failed: _ } = self.clone();
        SetAsideItem { server: server.clone(), kind, name, reason }
    }
}
