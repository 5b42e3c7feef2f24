//! `server-memory`: data of one session is available in the next one.

use serde_json::json;
use toolway_wire::up::EraChoice;

use crate::{
    peers,
    stage::{Stage, within},
};

#[tokio::test]
async fn server_memory_remembers_from_one_session_to_the_next() {
    let stage = Stage::new();
    let file = stage.path("memory.jsonl");

    let server = stage.start(peers::memory(&file), EraChoice::Auto).await;
    assert_eq!(server.revision(), "2025-11-25");
    let ada = json!({ "name": "Ada", "entityType": "person", "observations": ["wrote notes", "ünï©ode"] });
    let created = server.call("create_entities", json!({ "entities": [ada] })).await.result();
    assert_eq!(created["structuredContent"]["entities"][0]["name"], "Ada");
    within("the end", server.peer.close()).await;

    let server = stage.start(peers::memory(&file), EraChoice::Auto).await;
    let graph = server.call("read_graph", json!({})).await.result();
    assert_eq!(graph["structuredContent"]["entities"], json!([ada]));
}
