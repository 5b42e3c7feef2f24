//! `mcp-server-time`, whose SDK supports both eras.

use serde_json::{Value, json};
use toolway_wire::up::EraChoice;

use crate::{peers, stage::Stage};

#[tokio::test]
async fn mcp_server_time_tells_the_time_in_both_eras() {
    let stage = Stage::new();
    for (choice, revision) in [(EraChoice::Auto, "2026-07-28"), (EraChoice::Legacy, "2025-11-25")] {
        let server = stage.start(peers::time(), choice).await;
        assert_eq!(server.revision(), revision);
        assert_eq!(server.tool_names().await, ["get_current_time", "convert_time"]);

        let noon = json!({ "source_timezone": "Asia/Kolkata", "time": "12:30", "target_timezone": "Asia/Tokyo" });
        let text = server.call("convert_time", noon).await.text();
        let converted: Value = serde_json::from_str(&text).unwrap();
        assert!(converted["target"]["datetime"].as_str().unwrap().contains("T16:00:00"), "{converted}");
        let nowhere = server.call("get_current_time", json!({ "timezone": "Moon/Tycho" })).await.result();
        assert_eq!(nowhere["isError"], true);
    }
}
