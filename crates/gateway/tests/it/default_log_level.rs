//! Default log level for sessions whose client set none, with a server that logs only on request.

use serde_json::json;
use toolway_gateway::{GatewayOptions, access::Access};
use toolway_host::connection::{ServerAddress, WantedServer, Way};
use toolway_testkit::test_host::{TestHost, name, within};
use toolway_wire::{
    exchange::{ExchangeEvent, ExchangeTimeouts, LogLevel, Request},
    json::Raw,
    revision::{Era, Revision},
    up::Peer,
};

use crate::{over_http::OverHttp, test_gateway::TestGateway};

async fn lines(client: &Peer) -> usize {
    let params = Raw::of(&json!({ "name": "files__test_tool_with_logging", "arguments": {} }));
    let call = Request::new("tools/call", Some(params)).unwrap();
    let mut lines = 0;
    let outcome = client
        .open(call, ExchangeTimeouts::call())
        .outcome_with(None, |happening| lines += usize::from(matches!(happening, ExchangeEvent::Log(_))));
    within("a call", outcome).await;
    lines
}

#[tokio::test]
async fn session_without_a_log_level_gets_the_configured_default() {
    let server = OverHttp::serve(Revision::V2026_07_28).await;
    // The server logs at level `info`.
    for (default_log_level, heard) in [(Some(LogLevel::Info), 3), (Some(LogLevel::Notice), 0), (None, 0)] {
        let address = ServerAddress::http(format!("http://{}/mcp", server.address).parse().unwrap());
        let builder = TestHost::new().wanted(WantedServer::new(name("files"), Way::Address(address)));
        let (access, key) = Access::with_keys(None).unwrap();
        let options = GatewayOptions { default_log_level, ..GatewayOptions::of(access) };
        let gateway = TestGateway::behind(builder, options, key).await;
        gateway.host.ready("files").await;
        let client = gateway.client("/mcp", Era::Legacy).await;
        assert_eq!(lines(&client).await, heard, "{default_log_level:?}");
        within("a level", client.set_log_level(LogLevel::Debug)).await.unwrap();
        assert_eq!(lines(&client).await, 3, "{default_log_level:?}: the level set by the client has priority");
    }
}
