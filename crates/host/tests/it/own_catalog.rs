//! What the user of a gateway's own process sees: also the tools that a server lists only to a client whose user answers.

use std::sync::Arc;

use serde_json::json;
use toolway_host::{
    call::{CallRequest, Caller},
    catalog::Catalog,
    connection::{ServerAddress, WantedServer, Way},
    inbox::{ElicitationAnswer, ElicitationModes, InboxAnswer, InboxAnswerer},
    policy::Surface,
};
use toolway_testkit::test_host::{TestHost, name, within};
use toolway_wire::message::ClientCapabilities;

use crate::peers;

const TOOL: &str = "trigger-elicitation-request";

fn lists(catalog: &Catalog) -> bool {
    catalog.tools().iter().any(|tool| tool.origin.raw_name == TOOL)
}

#[tokio::test]
async fn the_user_of_a_gateway_sees_and_calls_a_tool_that_its_clients_do_not_get() {
    let mut program = peers::everything();
    program.variables.insert("PATH".into(), peers::search_path());
    let every = WantedServer::new(name("every"), Way::Address(ServerAddress::Process(program)));
    let mut builder = TestHost::new().wanted(every);
    // As `serve` does.
    builder.options.declared = Some(ClientCapabilities::none());
    builder.ports.answerer = Arc::new(InboxAnswerer { modes: ElicitationModes::FormsAndUrls });
    let host = builder.start().await;
    host.ready("every").await;
    let mut changes = host.host.caller_list_changes();
    if !lists(&host.host.own_catalog()) {
        within("the lists for the user", changes.recv()).await.unwrap();
    }
    assert!(lists(&host.host.own_catalog()));
    assert!(!lists(&host.host.catalog()), "clients that declare nothing share this one");

    let request = host.request(&format!("every__{TOOL}"), Some(json!({})));
    let calling = host.call_of(CallRequest { caller: Caller::Console, surface: Surface::Console, ..request });
    let declining = async {
        let inbox = host.host.inbox();
        let mut items = inbox.changes();
        let item = loop {
            match inbox.list().pop() {
                Some(item) => break item,
                None => items.changed().await.unwrap(),
            }
        };
        inbox.answer(&item.id, InboxAnswer::Elicitation(ElicitationAnswer::Decline)).unwrap();
    };
    let (outcome, ()) = within("the call", async { tokio::join!(calling, declining) }).await;
    assert!(outcome.result().unwrap().to_string().contains("declined"), "{outcome}");
}

#[tokio::test]
async fn where_connections_say_what_the_user_answers_there_is_one_catalog() {
    let host = TestHost::new().start().await;
    assert!(Arc::ptr_eq(&host.host.own_catalog(), &host.host.catalog()));
}
