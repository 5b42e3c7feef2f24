//! What a client hears that keeps a session and never said which logs it wants, of a server that logs only when told to.

use serde_json::json;
use toolway_gateway::{GatewayOptions, access::Access};
use toolway_host::connection::{ServerAddress, WantedServer, Way};
use toolway_testkit::test_host::{TestHost, name, within};
use toolway_wire::{
    exchange::{Happening, LogLevel, Request, Terms},
    json::Raw,
    revision::{Era, Revision},
    up::Peer,
};

use crate::{over_http::OverHttp, stage::Stage};

async fn lines(client: &Peer) -> usize {
    let params = Raw::of(&json!({ "name": "files__test_tool_with_logging", "arguments": {} }));
    let call = Request::new("tools/call", Some(params)).unwrap();
    let mut lines = 0;
    let outcome = client
        .open(call, Terms::call())
        .outcome_with(None, |happening| lines += usize::from(matches!(happening, Happening::Log(_))));
    within("a call", outcome).await;
    lines
}

#[tokio::test]
async fn who_never_said_hears_what_the_operator_chose() {
    let server = OverHttp::serve(Revision::V2026_07_28).await;
    // Its lines are of the level `info`.
    for (usual_log_level, heard) in [(Some(LogLevel::Info), 3), (Some(LogLevel::Notice), 0), (None, 0)] {
        let address = ServerAddress::http(format!("http://{}/mcp", server.address).parse().unwrap());
        let builder = TestHost::new().wanted(WantedServer::new(name("files"), Way::Address(address)));
        let (access, key) = Access::of_keys(None).unwrap();
        let options = GatewayOptions { usual_log_level, ..GatewayOptions::of(access) };
        let stage = Stage::behind(builder, options, key).await;
        stage.host.ready("files").await;
        let client = stage.client("/mcp", Era::Legacy).await;
        assert_eq!(lines(&client).await, heard, "{usual_log_level:?}");
        within("a level", client.set_log_level(LogLevel::Debug)).await.unwrap();
        assert_eq!(lines(&client).await, 3, "{usual_log_level:?}: what it says itself counts");
    }
}
