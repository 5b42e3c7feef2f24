//! Listing servers and building the catalog: requests, offers, changes and stored copies.
//!
//! The servers run in this process and use the protocol; the tests cover both eras.

mod list_server;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::json;
use toolway_config::ServerName;
use toolway_host::catalog::{
    Catalog, Diff, Filter, Freshness, ItemKind, Listing, ListingCache, Naming, Offer, diff::ChangeKind, filter::Switch,
    merge,
};
use toolway_wire::{
    error::WireError,
    notice::{List, Notice, SubscriptionFilter},
    up::EraChoice,
};

use list_server::ListServer;

const ERAS: [EraChoice; 2] = [EraChoice::Legacy, EraChoice::Modern];

fn name(text: &str) -> ServerName {
    text.parse().unwrap()
}

fn offer(listing: Listing) -> Offer {
    Offer { listing: Arc::new(listing), filter: Arc::default(), freshness: Freshness::Verified, guard: None }
}

fn merged(listings: impl IntoIterator<Item = (&'static str, Listing)>) -> Catalog {
    let offers: BTreeMap<_, _> = listings.into_iter().map(|(server, listing)| (name(server), offer(listing))).collect();
    merge(&offers, Naming::Always, 1)
}

#[tokio::test]
async fn two_servers_are_merged_in_either_era() {
    for era in ERAS {
        let files = ListServer::new().tools(&["read", "write"]).resources(&["file:///a"]).prompts(&["explain"]);
        let notes = ListServer::new().tools(&["read"]).templates(&["note:///{id}"]);
        let (one, other) = (files.connect(era).await, notes.connect(era).await);
        let listing = Listing::take(&one, &Filter::default()).await.unwrap();
        assert_eq!(listing.instructions.as_deref(), Some("handle with care"));
        let catalog = merged([("files", listing), ("notes", Listing::take(&other, &Filter::default()).await.unwrap())]);
        let tools: Vec<_> = catalog.tools().iter().map(|entry| entry.public.as_str()).collect();
        assert_eq!(tools, ["files__read", "files__write", "notes__read"]);
        assert_eq!(catalog.owner("file:///a").unwrap().server, name("files"));
        assert_eq!(catalog.owner("note:///7").unwrap().server, name("notes"));
        assert_eq!(catalog.prompts()[0].public.as_str(), "files__explain");
        assert_eq!(catalog.set_aside(), []);
    }
}

#[tokio::test]
async fn undeclared_features_are_not_requested() {
    for era in ERAS {
        let server = ListServer::new().tools(&["read"]);
        let peer = server.connect(era).await;
        Listing::take(&peer, &Filter::default()).await.unwrap();
        assert_eq!(server.asked(), ["tools/list"]);
    }
}

#[tokio::test]
async fn disabled_kinds_are_not_requested() {
    let server = ListServer::new().tools(&["read"]).prompts(&["explain"]);
    let peer = server.connect(EraChoice::Modern).await;
    let filter = Filter { prompts: Switch::Off, ..Filter::default() };
    assert_eq!(Listing::take(&peer, &filter).await.unwrap().count(), 1);
    assert_eq!(server.asked(), ["tools/list"]);
}

#[tokio::test]
async fn malformed_item_does_not_affect_the_others() {
    for era in ERAS {
        let server =
            ListServer::new().raw("tools", json!([{ "name": "one" }, { "title": "nameless" }, 7, { "name": "two" }]));
        let listing = Listing::take(&server.connect(era).await, &Filter::default()).await.unwrap();
        let catalog = merged([("odd", listing)]);
        assert_eq!(catalog.tools().len(), 2);
        let reasons: Vec<_> = catalog.set_aside().iter().map(ToString::to_string).collect();
        assert_eq!(reasons.len(), 2, "{reasons:?}");
        assert_eq!(reasons[0], "a tool of `odd`: tool 1 is malformed: `name` is missing or not a string");
    }
}

#[tokio::test]
async fn refused_list_does_not_affect_the_others() {
    let server =
        ListServer::new().tools(&["read"]).prompts(&["explain"]).resources(&["file:///a"]).refusing("prompts/list");
    // Many servers without templates refuse this request; that is not reported.
    let server = server.refusing("resources/templates/list");
    let listing = Listing::take(&server.connect(EraChoice::Legacy).await, &Filter::default()).await.unwrap();
    assert_eq!((listing.tools.len(), listing.resources.len(), listing.prompts.len()), (1, 1, 0));
    let [unlisted] = listing.set_aside.as_slice() else { panic!("{:?}", listing.set_aside) };
    assert_eq!(unlisted.kind, ItemKind::Prompt);
    assert!(unlisted.reason.starts_with("cannot list the prompts of this server: "), "{}", unlisted.reason);
}

#[tokio::test]
async fn closed_connection_is_an_error_not_an_empty_listing() {
    let server = ListServer::new().tools(&["read"]);
    let peer = server.connect(EraChoice::Legacy).await;
    peer.close().await;
    let error = Listing::take(&peer, &Filter::default()).await.unwrap_err();
    assert!(matches!(error, WireError::Ended(_) | WireError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn only_the_changed_list_is_requested_again() {
    for era in ERAS {
        let server = ListServer::new().tools(&["read", "write"]).prompts(&["explain"]);
        let peer = server.connect(era).await;
        let before = Listing::take(&peer, &Filter::default()).await.unwrap();
        let mut listening =
            peer.listen(SubscriptionFilter { tools: true, ..SubscriptionFilter::default() }).await.unwrap();

        server.change("tools", json!([{ "name": "read", "description": "and mail it" }, { "name": "append" }]));
        server.announce(List::Tools);
        let heard = tokio::time::timeout(Duration::from_secs(20), listening.next()).await.unwrap().unwrap();
        assert!(matches!(heard, Notice::Changed(List::Tools)), "{heard:?}");

        let after = before.again(&peer, &Filter::default(), List::Tools).await.unwrap();
        let diff = Diff::between(&merged([("files", before)]), &merged([("files", after)]));
        let said: Vec<_> = diff.changes.iter().map(|change| (change.public.as_str(), change.change)).collect();
        assert_eq!(
            said,
            [
                ("files__append", ChangeKind::Added),
                ("files__read", ChangeKind::Redefined),
                ("files__write", ChangeKind::Removed)
            ]
        );
        assert_eq!(server.asked().iter().filter(|method| *method == "prompts/list").count(), 1);
    }
}

#[tokio::test]
async fn stored_listing_is_used_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let cache = ListingCache::in_folder(folder.path().join("catalog"));
    let server = ListServer::new().tools(&["read"]).resources(&["file:///a"]);
    let heard = Listing::take(&server.connect(EraChoice::Modern).await, &Filter::default()).await.unwrap();
    cache.store(&name("files"), "0a0b", &heard).unwrap();

    let recalled = cache.load(&name("files"), "0a0b").unwrap().unwrap();
    let unverified = Offer { freshness: Freshness::Unverified, ..offer(recalled) };
    let at_start = merge(&BTreeMap::from([(name("files"), unverified)]), Naming::Always, 1);
    assert_eq!(at_start.freshness_of(&name("files")), Some(Freshness::Unverified));
    assert_eq!(at_start.tools()[0].public.as_str(), "files__read");

    // The server lists the same as before, so there are no changes.
    let again = Listing::take(&server.connect(EraChoice::Modern).await, &Filter::default()).await.unwrap();
    assert!(Diff::between(&at_start, &merged([("files", again)])).is_empty());
}
