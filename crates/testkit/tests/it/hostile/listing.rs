//! Endless, circular and oversized lists.

use toolway_wire::{
    limit::Limits,
    up::{ConnectOptions, EraChoice},
};

use super::{ERAS, call, outcome_code, pinned};
use crate::dialling::{Record, process};

#[tokio::test]
async fn list_limits_are_enforced_and_the_connection_survives() {
    let few = Limits { listing_pages: 5, listing_items: 300, ..Limits::default() };
    for era in ERAS {
        check("pages", era, few.clone(), Err("too_large")).await;
        check("circle", era, few.clone(), Err("protocol")).await;
        check("crowd:300", era, few.clone(), Ok(300)).await;
        check("crowd:301", era, few.clone(), Err("too_large")).await;
        let narrow = Limits { listing_bytes: 1_000, ..few.clone() };
        check("crowd:300", era, narrow, Err("too_large")).await;
        check("crowd:0", era, few.clone(), Ok(0)).await;
        check("no-tools", era, few.clone(), Err("protocol")).await;
    }
}

#[tokio::test]
async fn list_over_the_default_limit_is_refused() {
    check("crowd:20000", EraChoice::Modern, Limits::default(), Ok(20_000)).await;
    check("crowd:20001", EraChoice::Modern, Limits::default(), Err("too_large")).await;
}

async fn check(server: &str, era: EraChoice, limits: Limits, expected: Result<usize, &str>) {
    let record = Record::new();
    let peer = process(server, &record, ConnectOptions { limits, ..pinned(era) }, None).await.unwrap();
    let found = peer.list_tools().await.map(|listing| listing.items.len());
    assert_eq!(found.map_err(|error| error.code()), expected, "{server}, {era:?}");
    assert_eq!(outcome_code(&call(&peer, "hello").await), "answered", "{server}, {era:?}");
    let pages = record.lines().iter().filter(|line| *line == "tools/list").count();
    assert!(pages <= 5, "{server}, {era:?}: {pages} pages");
    peer.close().await;
}
