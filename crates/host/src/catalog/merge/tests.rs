//! What becomes of many listings.

use super::*;
use crate::catalog::sketch::{Sketch, names};

fn reasons(catalog: &Catalog) -> Vec<String> {
    catalog.set_aside().iter().map(ToString::to_string).collect()
}

#[test]
fn entries_stand_by_server_and_then_as_they_were_listed() {
    let catalog = Sketch::default().named("git", &["log", "add"]).named("files", &["write", "read"]).merge();
    assert_eq!(names(&catalog), ["files__write", "files__read", "git__log", "git__add"]);
    let git = "git".parse().unwrap();
    assert_eq!(
        catalog.tools_of(&git).iter().map(|entry| entry.origin.raw_name.as_str()).collect::<Vec<_>>(),
        ["log", "add"]
    );
    assert!(catalog.tools_of(&"nobody".parse().unwrap()).is_empty());
}

#[test]
fn a_tool_is_found_by_its_public_name_and_by_its_own() {
    let catalog = Sketch::default().named("files", &["read.file", "write"]).named("git", &["write"]).merge();
    let entry = catalog.tool_at(&"files".parse().unwrap(), "read.file").unwrap();
    assert_eq!(entry.origin.raw_name, "read.file", "what goes back is untouched");
    assert_eq!(catalog.find_tool(&entry.public).unwrap().origin, entry.origin);
    assert_eq!(catalog.find_tool(&"git__write".parse().unwrap()).unwrap().origin.server.as_str(), "git");
    assert!(catalog.find_tool(&"git__read".parse().unwrap()).is_none());
    assert!(catalog.tool_at(&"git".parse().unwrap(), "read.file").is_none());
}

#[test]
fn an_item_is_carried_as_it_came() {
    let text = r#"{ "name" : "x", "unknown": [1.0, 12345678901234567890123], "inputSchema":{} }"#;
    let raw = toolway_wire::json::Raw::parse(text).unwrap();
    let tool = toolway_wire::message::item::Item::view(&raw).unwrap();
    let catalog = Sketch::default().change("a", |listing| listing.tools = vec![Listed::new(tool)]).merge();
    assert_eq!(catalog.tools()[0].item.raw.to_string(), text);
}

#[test]
fn what_is_listed_twice_or_has_no_name_is_set_aside() {
    let catalog = Sketch::default().named("a", &["x", "x", "", "y"]).merge();
    assert_eq!(names(&catalog), ["a__x", "a__y"]);
    assert_eq!(
        reasons(&catalog),
        [
            "tool `x` of `a`: the server lists it twice; the first is offered",
            "tool `` of `a`: a tool without a name cannot be asked for",
        ]
    );
}

#[test]
fn what_could_not_be_read_is_said_with_the_rest() {
    let unlisted = super::super::listing::Unlisted {
        kind: ItemKind::Tool,
        name: None,
        reason: "tool 3 is malformed: `name` is missing or not a string".to_owned(),
        failed: None,
    };
    let catalog =
        Sketch::default().named("a", &["x"]).change("a", |listing| listing.set_aside = vec![unlisted]).merge();
    assert_eq!(reasons(&catalog), ["a tool of `a`: tool 3 is malformed: `name` is missing or not a string"]);
}

#[test]
fn a_filter_leaves_out_by_the_name_the_server_gave() {
    let filter = Filter { exclude_tools: vec!["delete*".into()], prompts: Switch::Off, ..Filter::default() };
    let catalog = Sketch::default()
        .named("a", &["delete_all", "read"])
        .prompts("a", &["greet"])
        .named("b", &["delete_all"])
        .filter("a", filter)
        .merge();
    assert_eq!(names(&catalog), ["a__read", "b__delete_all"]);
    assert!(catalog.prompts().is_empty());
    assert_eq!(reasons(&catalog), ["tool `delete_all` of `a`: left out by `delete*` of the configuration"]);
}

#[test]
fn a_conflict_says_what_each_is_called_now() {
    let sketch = Sketch::default().named("a", &["read", "only"]).named("b", &["read"]);
    assert!(sketch.merge().conflicts().is_empty());
    let catalog = sketch.merge_with(Naming::Auto);
    assert_eq!(names(&catalog), ["a__read", "only", "b__read"]);
    let [conflict] = catalog.conflicts() else { panic!("{:?}", catalog.conflicts()) };
    assert_eq!((conflict.kind, conflict.wanted.as_str()), (ItemKind::Tool, "read"));
    assert_eq!(conflict.claims.iter().map(|(_, public)| public.as_str()).collect::<Vec<_>>(), ["a__read", "b__read"]);
}

#[test]
fn a_uri_is_unchanged_until_two_servers_own_it() {
    let sketch = Sketch::default().resources("a", &["file:///x", "file:///y"]);
    let uris = |catalog: &Catalog| catalog.resources().iter().map(|entry| entry.public.to_string()).collect::<Vec<_>>();
    assert_eq!(uris(&sketch.merge()), ["file:///x", "file:///y"]);
    let catalog = sketch.resources("b", &["file:///y"]).merge();
    assert_eq!(uris(&catalog), ["file:///x", "toolway+a:file:///y", "toolway+b:file:///y"]);
    assert_eq!(catalog.conflicts().len(), 1);
    assert_eq!(catalog.resources()[1].origin.raw_name, "file:///y");
}

#[test]
fn a_server_cannot_list_a_uri_in_the_name_of_another() {
    let catalog = Sketch::default().resources("bad", &["toolway+bank:x://1", "Toolway+bank:x"]).merge();
    assert!(catalog.resources().is_empty());
    assert_eq!(catalog.set_aside().len(), 2);
}

#[test]
fn the_same_offers_give_the_same_catalog() {
    let sketch = Sketch::default().named("b", &["x", "y"]).named("a", &["x"]).resources("a", &["r://1"]);
    let (one, other) = (sketch.merge_with(Naming::Never), sketch.merge_with(Naming::Never));
    assert!(super::super::Diff::between(&one, &other).is_empty());
    assert_eq!(one.conflicts(), other.conflicts());
}
