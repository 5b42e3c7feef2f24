//! Many servers, one catalog: what is asked, what is offered, what changes, and what is known at the next start.
//!
//! The servers live in this process and speak the wire; both eras tell the same stories.

mod librarian;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::json;
use toolway_config::ServerName;
use toolway_host::catalog::{
    Catalog, Diff, DiskCopy, Filter, Freshness, ItemKind, Listing, Naming, Offer, diff::What, filter::Switch, merge,
};
use toolway_wire::{
    error::WireError,
    notice::{List, Notice, Wanted},
    up::EraChoice,
};

use librarian::Librarian;

const ERAS: [EraChoice; 2] = [EraChoice::Legacy, EraChoice::Modern];

fn name(text: &str) -> ServerName {
    text.parse().unwrap()
}

fn offer(listing: Listing) -> Offer {
    Offer { listing: Arc::new(listing), filter: Arc::default(), freshness: Freshness::Verified }
}

fn merged(listings: impl IntoIterator<Item = (&'static str, Listing)>) -> Catalog {
    let offers: BTreeMap<_, _> = listings.into_iter().map(|(server, listing)| (name(server), offer(listing))).collect();
    merge(&offers, Naming::Always, 1)
}

#[tokio::test]
async fn two_servers_become_one_catalog_in_either_era() {
    for era in ERAS {
        let files = Librarian::new().tools(&["read", "write"]).resources(&["file:///a"]).prompts(&["explain"]);
        let notes = Librarian::new().tools(&["read"]).templates(&["note:///{id}"]);
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
async fn what_a_server_did_not_declare_is_not_asked() {
    for era in ERAS {
        let server = Librarian::new().tools(&["read"]);
        let peer = server.connect(era).await;
        Listing::take(&peer, &Filter::default()).await.unwrap();
        assert_eq!(server.asked(), ["tools/list"]);
    }
}

#[tokio::test]
async fn what_the_operator_switched_off_is_not_asked_either() {
    let server = Librarian::new().tools(&["read"]).prompts(&["explain"]);
    let peer = server.connect(EraChoice::Modern).await;
    let filter = Filter { prompts: Switch::Off, ..Filter::default() };
    assert_eq!(Listing::take(&peer, &filter).await.unwrap().count(), 1);
    assert_eq!(server.asked(), ["tools/list"]);
}

#[tokio::test]
async fn a_malformed_item_hides_none_of_the_others() {
    for era in ERAS {
        let server =
            Librarian::new().raw("tools", json!([{ "name": "one" }, { "title": "nameless" }, 7, { "name": "two" }]));
        let listing = Listing::take(&server.connect(era).await, &Filter::default()).await.unwrap();
        let catalog = merged([("odd", listing)]);
        assert_eq!(catalog.tools().len(), 2);
        let reasons: Vec<_> = catalog.set_aside().iter().map(ToString::to_string).collect();
        assert_eq!(reasons.len(), 2, "{reasons:?}");
        assert_eq!(reasons[0], "a tool of `odd`: tool 1 is malformed: `name` is missing or not a string");
    }
}

#[tokio::test]
async fn a_list_that_is_refused_hides_none_of_the_others() {
    let server =
        Librarian::new().tools(&["read"]).prompts(&["explain"]).resources(&["file:///a"]).refusing("prompts/list");
    // Templates are refused by many who have none, and nobody has to hear of it.
    let server = server.refusing("resources/templates/list");
    let listing = Listing::take(&server.connect(EraChoice::Legacy).await, &Filter::default()).await.unwrap();
    assert_eq!((listing.tools.len(), listing.resources.len(), listing.prompts.len()), (1, 1, 0));
    let [unlisted] = listing.set_aside.as_slice() else { panic!("{:?}", listing.set_aside) };
    assert_eq!(unlisted.kind, ItemKind::Prompt);
    assert!(unlisted.reason.starts_with("the prompts of this server cannot be listed: "), "{}", unlisted.reason);
}

#[tokio::test]
async fn a_server_that_is_gone_is_an_error_and_not_an_empty_listing() {
    let server = Librarian::new().tools(&["read"]);
    let peer = server.connect(EraChoice::Legacy).await;
    peer.close().await;
    let error = Listing::take(&peer, &Filter::default()).await.unwrap_err();
    assert!(matches!(error, WireError::Ended(_) | WireError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn a_change_is_heard_and_only_that_list_is_asked_again() {
    for era in ERAS {
        let server = Librarian::new().tools(&["read", "write"]).prompts(&["explain"]);
        let peer = server.connect(era).await;
        let before = Listing::take(&peer, &Filter::default()).await.unwrap();
        let mut listening = peer.listen(Wanted { tools: true, ..Wanted::default() }).await.unwrap();

        server.change("tools", json!([{ "name": "read", "description": "and mail it" }, { "name": "append" }]));
        server.announce(List::Tools);
        let heard = tokio::time::timeout(Duration::from_secs(20), listening.next()).await.unwrap().unwrap();
        assert!(matches!(heard, Notice::Changed(List::Tools)), "{heard:?}");

        let after = before.again(&peer, &Filter::default(), List::Tools).await.unwrap();
        let diff = Diff::between(&merged([("files", before)]), &merged([("files", after)]));
        let said: Vec<_> = diff.changes.iter().map(|change| (change.public.as_str(), change.what)).collect();
        assert_eq!(
            said,
            [("files__append", What::Added), ("files__read", What::Redefined), ("files__write", What::Removed)]
        );
        assert_eq!(server.asked().iter().filter(|method| *method == "prompts/list").count(), 1);
    }
}

#[tokio::test]
async fn the_next_start_knows_what_the_last_one_heard() {
    let folder = tempfile::tempdir().unwrap();
    let copies = DiskCopy::in_folder(folder.path().join("catalog"));
    let server = Librarian::new().tools(&["read"]).resources(&["file:///a"]);
    let heard = Listing::take(&server.connect(EraChoice::Modern).await, &Filter::default()).await.unwrap();
    copies.keep(&name("files"), "0a0b", &heard).unwrap();

    let recalled = copies.recall(&name("files"), "0a0b").unwrap().unwrap();
    let unverified = Offer { freshness: Freshness::Unverified, ..offer(recalled) };
    let at_start = merge(&BTreeMap::from([(name("files"), unverified)]), Naming::Always, 1);
    assert_eq!(at_start.freshness_of(&name("files")), Some(Freshness::Unverified));
    assert_eq!(at_start.tools()[0].public.as_str(), "files__read");

    // The server answers, and is as it was: whoever looked at the copy has nothing to learn.
    let again = Listing::take(&server.connect(EraChoice::Modern).await, &Filter::default()).await.unwrap();
    assert!(Diff::between(&at_start, &merged([("files", again)])).is_empty());
}
