//! Tests of the listing table: sharing, charges and refusals.

use std::sync::Arc;

use serde_json::json;
use toolway_wire::{
    budget::{Charge, Exhausted, Kept, MemoryBudget, OverBudget},
    json::Raw,
    message::item::{Item, Tool},
};

use super::{Audience, Listing, ListingTable, ServerListings};

/// Tools as they arrive: slices of one page.
fn page(names: &[&str], description: &str) -> Vec<Tool> {
    let tools: Vec<_> = names.iter().map(|name| json!({ "name": name, "description": description })).collect();
    Raw::of(&tools).elements().iter().map(|raw| Tool::view(raw).unwrap()).collect()
}

fn listing(listings: &ServerListings, names: &[&str], description: &str) -> Result<Arc<Listing>, OverBudget> {
    let tools = listings.items(page(names, description), &mut Charge::default())?;
    listings.listing(Listing { tools, ..Listing::empty() }, Audience::SomeCallers)
}

fn table(memory: &MemoryBudget) -> ListingTable {
    ListingTable::new(memory.clone())
}

#[test]
fn equal_listings_of_many_connections_are_kept_once() {
    let memory = MemoryBudget::new(1_000_000);
    let table = table(&memory);
    let files = table.of(&"files".parse().unwrap());
    let first = listing(&files, &["read", "write"], "A tool.").unwrap();
    let charged = memory.used();
    let others: Vec<_> = (0..32).map(|_| listing(&files, &["read", "write"], "A tool.").unwrap()).collect();
    assert!(others.iter().all(|other| Arc::ptr_eq(other, &first)));
    assert_eq!((memory.used(), memory.used_by(Kept::Listing)), (charged, charged));

    let more = listing(&files, &["read", "write", "remove"], "A tool.").unwrap();
    assert!(Arc::ptr_eq(&more.tools[1].item, &first.tools[1].item), "equal items are shared");
    let elsewhere = listing(&table.of(&"other".parse().unwrap()), &["read"], "A tool.").unwrap();
    assert!(!Arc::ptr_eq(&elsewhere.tools[0].item, &first.tools[0].item), "another server pays for its own");
    drop((first, others, more, elsewhere));
    assert_eq!(memory.used(), 0);
}

#[test]
fn item_keeps_its_own_text_alive_and_not_the_page() {
    let memory = MemoryBudget::new(1_000_000);
    let files = table(&memory).of(&"files".parse().unwrap());
    let tools = page(&["read", "write"], &"x".repeat(10_000));
    let arrived = tools[0].raw.as_bytes().as_ptr();
    let mut kept = files.items(tools, &mut Charge::default()).unwrap();
    assert_ne!(kept[0].item.raw.as_bytes().as_ptr(), arrived);
    let both = memory.used();
    assert!(40_000 < both && both < 42_000, "text and description: {both}");
    kept.pop();
    assert_eq!(memory.used(), (both - 1) / 2, "one letter less");
    drop(kept);
    assert_eq!(memory.used(), 0);
}

#[test]
fn parts_of_an_item_are_parts_of_its_copy() {
    let files = table(&MemoryBudget::new(1_000_000)).of(&"files".parse().unwrap());
    let raw =
        r#"[{"name":"a","inputSchema":{"title":"in"},"annotations":{"title":"hint"},"outputSchema":{"title":"out"}}]"#;
    let tools = Raw::parse(raw).unwrap().elements().iter().map(|raw| Tool::view(raw).unwrap()).collect();
    let kept = files.items(tools, &mut Charge::default()).unwrap();
    let tool = &*kept[0].item;
    let within = tool.raw.as_bytes().as_ptr_range();
    for (part, text) in [
        (Some(&tool.input_schema), r#"{"title":"in"}"#),
        (tool.output_schema.as_ref(), r#"{"title":"out"}"#),
        (tool.annotations.as_ref(), r#"{"title":"hint"}"#),
    ] {
        assert_eq!(part.unwrap().as_bytes(), text.as_bytes());
        assert!(within.contains(&part.unwrap().as_bytes().as_ptr()), "{text}");
    }
}

#[test]
fn listing_beyond_the_share_of_its_server_is_refused_and_leaves_others_alone() {
    let memory = MemoryBudget::new(100_000);
    let [hostile, files] = ["hostile", "files"].map(|name| table(&memory).of(&name.parse().unwrap()));
    let before = listing(&hostile, &["one"], "small").unwrap();
    let charged = memory.used();
    let refused = listing(&hostile, &["one", "two", "three"], &"x".repeat(20_000)).unwrap_err();
    assert_eq!(refused, OverBudget(Exhausted::Server));
    assert_eq!(memory.used(), charged, "nothing of it stays");
    assert_eq!(before.tools[0].item.name, "one");
    listing(&files, &["read"], "A tool.").unwrap();
}

#[test]
fn many_small_items_are_charged_for_more_than_their_text() {
    let memory = MemoryBudget::new(10_000_000);
    let files = table(&memory).of(&"files".parse().unwrap());
    let names: Vec<String> = (0..1_000).map(|number| number.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let tools = files.items(page(&names, ""), &mut Charge::default()).unwrap();
    let kept = files.listing(Listing { tools, ..Listing::empty() }, Audience::Everyone).unwrap();
    assert!(400_000 < memory.used_by(Kept::Listing), "{}", memory.used_by(Kept::Listing));
    assert!(200_000 < memory.used_by(Kept::Catalog), "{}", memory.used_by(Kept::Catalog));
    drop(kept);
    assert_eq!(memory.used(), 0);
}

#[test]
fn released_items_leave_the_table() {
    let table = ListingTable::default();
    let files = table.of(&"files".parse().unwrap());
    for round in 0..10_000 {
        drop(files.items(page(&[&round.to_string()], ""), &mut Charge::default()).unwrap());
    }
    assert!(table.shared.tools.lock().items.len() <= super::LEAST_ENTRIES);
}
