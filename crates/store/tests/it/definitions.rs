//! Definitions of tools as they were seen first: how many are kept.

use std::time::SystemTime;

use toolway_host::{
    catalog::ItemKind,
    policy::{Baseline, Baselines, SeenItem, baseline::MAX_ITEMS},
    record::Requirement,
};
use toolway_store::StoreRecorder;

use crate::stage::Stage;

fn baseline(server: &str, item: SeenItem) -> Baseline {
    let server = server.parse().unwrap();
    Baseline { server, item, digest: "d".to_owned(), text: String::new(), seen_at: SystemTime::now() }
}

fn tool(server: &str, number: usize) -> Baseline {
    baseline(server, SeenItem::Shared { kind: ItemKind::Tool, name: format!("tool{number}") })
}

#[tokio::test]
async fn definitions_of_a_server_are_bounded_and_leave_room_for_its_entry_and_for_other_servers() {
    let stage = Stage::new();
    let recorder = StoreRecorder::new(stage.open(), Requirement::Required, "test");
    for server in ["one", "two"] {
        recorder.save((0..MAX_ITEMS + 10).map(|number| tool(server, number)).collect()).await.unwrap();
        let of_server = [SeenItem::Entry, SeenItem::Instructions].map(|item| baseline(server, item));
        recorder.save(of_server.into()).await.unwrap();
        let seen = recorder.digests(&server.parse().unwrap()).await.unwrap();
        assert_eq!(seen.len(), MAX_ITEMS + 2);
        assert!(seen.iter().any(|seen| seen.item == SeenItem::Entry));
    }
    let changed = Baseline { digest: "e".to_owned(), ..tool("one", 7) };
    recorder.save(vec![changed, tool("three", 0)]).await.unwrap();
    let seven = recorder.find(&"one".parse().unwrap(), &tool("one", 7).item).await.unwrap();
    assert_eq!(seven.unwrap().digest, "e", "what is kept is replaced");
    assert_eq!(recorder.digests(&"three".parse().unwrap()).await.unwrap().len(), 1);
}
