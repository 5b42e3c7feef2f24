//! Benchmark of large catalogs: parsing, merging, comparing and searching.
//!
//! `cargo run --release -p toolway-host --example catalog_cost -- 10000`

use std::{
    collections::BTreeMap,
    io::{self, Write},
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use toolway_config::ServerName;
use toolway_host::catalog::{Catalog, Diff, Freshness, Listing, Naming, Offer, PublicName, entry::ListedItem, merge};
use toolway_wire::{
    json::Raw,
    message::item::{self, Tool},
};

/// Number of servers.
const SERVERS: usize = 50;
/// Number of rounds; the minimum and the median are printed.
const ROUNDS: usize = 9;

fn main() -> io::Result<()> {
    let tools = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(10_000);
    let texts: Vec<Vec<u8>> = (0..SERVERS).map(|server| answer(server, tools / SERVERS)).collect();
    let size: usize = texts.iter().map(Vec::len).sum();
    say(&format!("{tools} tools of {SERVERS} servers, {size} bytes"))?;

    let offers = read(&texts);
    timed("parse the lists and compute fingerprints", || drop(read(&texts)))?;
    timed("merge", || drop(merge(&offers, Naming::Always, 1)))?;
    timed("merge, prefix only on collision", || drop(merge(&offers, Naming::Auto, 1)))?;

    let before = merge(&offers, Naming::Always, 1);
    let one_changed = merge(&changed(&offers), Naming::Always, 2);
    let all_again = merge(&read(&texts), Naming::Always, 3);
    timed("compare, one server changed", || drop(Diff::between(&before, &one_changed)))?;
    timed("compare, all listed again", || drop(Diff::between(&before, &all_again)))?;
    say(&format!("  ({} changes in the first)", Diff::between(&before, &one_changed).changes.len()))?;

    timed("build the index", || merged_anew(&offers).prepare_search())?;
    say("  (a merge included)")?;
    for words in ["create issue", "list all the files of a repository", "zebra"] {
        timed(&format!("search `{words}`"), || drop(before.search(words, 10)))?;
    }
    let name: PublicName = before.tools()[tools / 2].public.clone();
    timed("find a thousand by name", || (0..1_000).for_each(|_| assert!(before.find_tool(&name).is_some())))
}

fn merged_anew(offers: &BTreeMap<ServerName, Offer>) -> Catalog {
    merge(offers, Naming::Always, 1)
}

fn timed(what: &str, mut act: impl FnMut()) -> io::Result<()> {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            act();
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    say(&format!("{what}: {:?}, mostly {:?}", times[0], times[ROUNDS / 2]))
}

fn say(text: &str) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{text}")
}

fn read(texts: &[Vec<u8>]) -> BTreeMap<ServerName, Offer> {
    let offer = |(number, text): (usize, &Vec<u8>)| Some((format!("server-{number}").parse().ok()?, offer(text)));
    texts.iter().enumerate().filter_map(offer).collect()
}

fn offer(text: &[u8]) -> Offer {
    let raw = Raw::parse(text.to_vec()).unwrap_or_else(|_| Raw::empty_object());
    let (tools, _) = item::read_items::<Tool>(&raw).unwrap_or_default();
    let listing = Listing { tools: tools.into_iter().map(ListedItem::new).collect(), ..Listing::empty() };
    Offer { listing: Arc::new(listing), filter: Arc::default(), freshness: Freshness::Verified, guard: None }
}

/// The same offers, with half of the tools of one server.
fn changed(offers: &BTreeMap<ServerName, Offer>) -> BTreeMap<ServerName, Offer> {
    let mut offers = offers.clone();
    if let Some(offer) = offers.values_mut().next() {
        let listing = Arc::make_mut(&mut offer.listing);
        listing.tools.truncate(listing.tools.len() / 2);
    }
    offers
}

/// Result of a server for `tools/list`.
fn answer(server: usize, tools: usize) -> Vec<u8> {
    const VERBS: [&str; 8] = ["create", "list", "get", "update", "delete", "search", "merge", "export"];
    const NOUNS: [&str; 10] =
        ["issue", "file", "repository", "branch", "comment", "release", "user", "label", "project", "secret"];
    let tool = |number: usize| -> Value {
        let (verb, noun) = (VERBS[number % VERBS.len()], NOUNS[number / VERBS.len() % NOUNS.len()]);
        json!({
            "name": format!("{verb}_{noun}_{number}"),
            "title": format!("{verb} a {noun}"),
            "description": format!("Use this to {verb} one {noun} of server {server}, by its id. It waits until the \
                server has done it and says what came of it; a {noun} that does not exist is an error."),
            "inputSchema": { "type": "object", "required": ["id"], "additionalProperties": false, "properties": {
                "id": { "type": "string", "description": format!("Which {noun}.") },
                "owner": { "type": "string", "description": "Whose it is." },
                "limit": { "type": "integer", "minimum": 1, "maximum": 100, "default": 30 },
                "labels": { "type": "array", "items": { "type": "string" } } } },
            "annotations": { "readOnlyHint": verb == "get", "openWorldHint": true },
        })
    };
    json!({ "tools": (0..tools).map(tool).collect::<Vec<_>>() }).to_string().into_bytes()
}
