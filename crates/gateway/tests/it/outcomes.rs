//! What a client is told about a call without an answer, in both eras: in words, and as `outcome`.

use serde_json::json;
use toolway_host::connection::{ServerAddress, WantedServer, Way};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    odd::{
        compliant::SupportedEras,
        http::{Act, OddHttp, Reply, compliant_http},
    },
    test_host::{TestHost, name, within},
};
use toolway_wire::{exchange::Outcome, json::Raw, revision::Era};

use crate::test_gateway::TestGateway;

#[tokio::test]
async fn a_cut_call_is_unknown_and_an_unknown_tool_is_not_sent() {
    let odd = OddHttp::start(|seen| match seen.method() {
        "tools/call" => Reply::events(String::new()).then(Act::HalfClose),
        _ => compliant_http(SupportedEras::Modern, seen),
    });
    let odd = odd.await.unwrap();
    let server = WantedServer::new(name("odd"), Way::Address(ServerAddress::http(odd.url().parse().unwrap())));
    let gateway = TestGateway::with(TestHost::new().wanted(server)).await;
    gateway.host.ready("odd").await;
    for era in [Era::Legacy, Era::Modern] {
        let client = gateway.client("/mcp", era).await;
        let cut = within("the call", client.call_tool("odd__hello", None).unwrap().outcome()).await;
        let Outcome::Answered(result) = &cut else { panic!("{cut:?}") };
        let meta = result.get("_meta").and_then(|meta| meta.get("toolway/outcome"));
        assert_eq!(meta.as_ref().and_then(Raw::as_str).as_deref(), Some("unknown"), "{era:?} {result}");
        assert!(result.to_string().contains("outcome unknown: the server may have acted on the call"), "{result}");
        let none = within("the call", client.call_tool("odd__none", None).unwrap().outcome()).await;
        let Outcome::Refused(error) = &none else { panic!("{none:?}") };
        assert_eq!(error.data().unwrap().to_string(), json!({ "outcome": "not-sent" }).to_string(), "{era:?}");
        assert!(error.message().ends_with("; not sent"), "{error}");
        client.close().await;
    }
}

#[tokio::test]
async fn an_error_of_the_server_is_passed_on_as_it_is() {
    let files = FixtureServer::new("files").tool_that("refuse", "Refuse", Behaviour::Refuse);
    let gateway = TestGateway::with(TestHost::with(&files, "files")).await;
    gateway.host.ready("files").await;
    let client = gateway.client("/mcp", Era::Modern).await;
    let outcome = within("the call", client.call_tool("files__refuse", None).unwrap().outcome()).await;
    assert!(matches!(&outcome, Outcome::Refused(error) if error.data().is_none()), "{outcome:?}");
}
