//! Tests of merging listings.

use super::*;
use crate::catalog::test_catalog::{CatalogBuilder, names};

fn reasons(catalog: &Catalog) -> Vec<String> {
    catalog.set_aside().iter().map(ToString::to_string).collect()
}

#[test]
fn entries_are_ordered_by_server_then_as_listed() {
    let catalog = CatalogBuilder::default().named("git", &["log", "add"]).named("files", &["write", "read"]).merge();
    assert_eq!(names(&catalog), ["files__write", "files__read", "git__log", "git__add"]);
    let git = "git".parse().unwrap();
    assert_eq!(
        catalog.tools_of(&git).iter().map(|entry| entry.origin.raw_name.as_str()).collect::<Vec<_>>(),
        ["log", "add"]
    );
    assert!(catalog.tools_of(&"missing".parse().unwrap()).is_empty());
}

#[test]
fn tool_is_found_by_public_name_and_by_raw_name() {
    let catalog = CatalogBuilder::default().named("files", &["read.file", "write"]).named("git", &["write"]).merge();
    let entry = catalog.tool_at(&"files".parse().unwrap(), "read.file").unwrap();
    assert_eq!(entry.origin.raw_name, "read.file", "what goes back is untouched");
    assert_eq!(catalog.find_tool(&entry.public).unwrap().origin, entry.origin);
    assert_eq!(catalog.find_tool(&"git__write".parse().unwrap()).unwrap().origin.server.as_str(), "git");
    assert!(catalog.find_tool(&"git__read".parse().unwrap()).is_none());
    assert!(catalog.tool_at(&"git".parse().unwrap(), "read.file").is_none());
}

#[test]
fn item_text_is_unchanged() {
    let text = r#"{ "name" : "x", "unknown": [1.0, 12345678901234567890123], "inputSchema":{} }"#;
    let raw = toolway_wire::json::Raw::parse(text).unwrap();
    let tool = toolway_wire::message::item::Item::view(&raw).unwrap();
    let catalog = CatalogBuilder::default().change("a", |listing| listing.tools = vec![ListedItem::new(tool)]).merge();
    assert_eq!(catalog.tools()[0].item.raw.to_string(), text);
}

#[test]
fn duplicate_and_nameless_items_are_set_aside() {
    let catalog = CatalogBuilder::default().named("a", &["x", "x", "", "y"]).merge();
    assert_eq!(names(&catalog), ["a__x", "a__y"]);
    assert_eq!(
        reasons(&catalog),
        ["tool `x` of `a`: duplicate; only the first is offered", "tool `` of `a`: the tool has no name",]
    );
}

#[test]
fn unreadable_items_are_among_those_set_aside() {
    let unlisted = super::super::listing::UnreadableItem {
        kind: ItemKind::Tool,
        name: None,
        reason: "tool 3 is malformed: `name` is missing or not a string".to_owned(),
        failed: None,
    };
    let catalog =
        CatalogBuilder::default().named("a", &["x"]).change("a", |listing| listing.set_aside = vec![unlisted]).merge();
    assert_eq!(reasons(&catalog), ["a tool of `a`: tool 3 is malformed: `name` is missing or not a string"]);
}

#[test]
fn filter_matches_raw_names() {
    let filter = Filter { exclude_tools: vec!["delete*".into()], prompts: Switch::Off, ..Filter::default() };
    let catalog = CatalogBuilder::default()
        .named("a", &["delete_all", "read"])
        .prompts("a", &["greet"])
        .named("b", &["delete_all"])
        .filter("a", filter)
        .merge();
    assert_eq!(names(&catalog), ["a__read", "b__delete_all"]);
    assert!(catalog.prompts().is_empty());
    assert_eq!(reasons(&catalog), ["tool `delete_all` of `a`: excluded by pattern `delete*` of the configuration"]);
}

#[test]
fn conflict_names_the_public_name_of_each_item() {
    let test_catalog = CatalogBuilder::default().named("a", &["read", "only"]).named("b", &["read"]);
    assert!(test_catalog.merge().conflicts().is_empty());
    let catalog = test_catalog.merge_with(Naming::Auto);
    assert_eq!(names(&catalog), ["a__read", "only", "b__read"]);
    let [conflict] = catalog.conflicts() else { panic!("{:?}", catalog.conflicts()) };
    assert_eq!((conflict.kind, conflict.wanted.as_str()), (ItemKind::Tool, "read"));
    assert_eq!(conflict.claims.iter().map(|(_, public)| public.as_str()).collect::<Vec<_>>(), ["a__read", "b__read"]);
}

#[test]
fn uri_gets_a_prefix_only_if_two_servers_own_it() {
    let test_catalog = CatalogBuilder::default().resources("a", &["file:///x", "file:///y"]);
    let uris = |catalog: &Catalog| catalog.resources().iter().map(|entry| entry.public.to_string()).collect::<Vec<_>>();
    assert_eq!(uris(&test_catalog.merge()), ["file:///x", "file:///y"]);
    let catalog = test_catalog.resources("b", &["file:///y"]).merge();
    assert_eq!(uris(&catalog), ["file:///x", "toolway+a:file:///y", "toolway+b:file:///y"]);
    assert_eq!(catalog.conflicts().len(), 1);
    assert_eq!(catalog.resources()[1].origin.raw_name, "file:///y");
}

#[test]
fn server_cannot_list_a_uri_of_another_server() {
    let catalog = CatalogBuilder::default().resources("bad", &["toolway+bank:x://1", "Toolway+bank:x"]).merge();
    assert!(catalog.resources().is_empty());
    assert_eq!(catalog.set_aside().len(), 2);
}

#[test]
fn merge_is_deterministic() {
    let test_catalog = CatalogBuilder::default().named("b", &["x", "y"]).named("a", &["x"]).resources("a", &["r://1"]);
    let (one, other) = (test_catalog.merge_with(Naming::Never), test_catalog.merge_with(Naming::Never));
    assert!(super::super::Diff::between(&one, &other).is_empty());
    assert_eq!(one.conflicts(), other.conflicts());
}
