//! The task list of a caller: its own tasks of the gateway and of all servers, and no others.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use toolway_host::connection::{ServerAddress, WantedServer, Way};
use toolway_testkit::test_host::{TestHost, name};
use toolway_wire::revision::Revision;

use crate::{
    fairness::TwoClients,
    over_http::OverHttp,
    raw_client::{RawClient, request},
};

/// Two servers that create tasks on request. Both need no credential, so each lists the tasks of all its sessions.
async fn two_task_servers() -> ([OverHttp; 2], TwoClients) {
    let servers = [OverHttp::serve(Revision::V2025_11_25).await, OverHttp::serve(Revision::V2025_11_25).await];
    let mut builder = TestHost::new();
    for (id, server) in ["files", "mail"].iter().zip(&servers) {
        let address = ServerAddress::http(format!("http://{}/mcp", server.address).parse().unwrap());
        builder = builder.wanted(WantedServer::new(name(id), Way::Address(address)));
    }
    let clients = TwoClients::start(builder).await;
    clients.gateway.host.ready("mail").await;
    (servers, clients)
}

async fn start_task(session: &RawClient, tool: &str, arguments: Value) -> String {
    let call = json!({ "name": tool, "arguments": arguments, "task": {} });
    let made = session.post(&request(1, "tools/call", call)).await.answer().await;
    made["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
}

async fn page(session: &RawClient, cursor: Option<&Value>) -> Value {
    let params = cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
    session.post(&request(2, "tasks/list", params)).await.answer().await
}

fn count(page: &Value) -> usize {
    page["result"]["tasks"].as_array().unwrap_or_else(|| panic!("{page}")).len()
}

/// All listed tasks; checks that each can be read by its listed id.
async fn listed(session: &RawClient) -> BTreeSet<(String, String)> {
    let mut tasks = BTreeSet::new();
    let mut cursor = None;
    loop {
        let page = page(session, cursor.as_ref()).await;
        for task in page["result"]["tasks"].as_array().unwrap_or_else(|| panic!("{page}")) {
            let id = task["taskId"].as_str().unwrap();
            let seen = session.post(&request(3, "tasks/get", json!({ "taskId": id }))).await.answer().await;
            assert_eq!(seen["result"]["taskId"], id, "{seen}");
            tasks.insert((id.to_owned(), seen["result"]["createdAt"].to_string()));
        }
        cursor = page["result"].get("nextCursor").cloned();
        if cursor.is_none() {
            return tasks;
        }
    }
}

#[tokio::test]
async fn task_list_contains_own_tasks_of_all_servers_only() {
    let (_servers, clients) = two_task_servers().await;
    let (ada, bob) = (clients.ada("/mcp").start_session().await, clients.bob("/mcp").start_session().await);
    assert_eq!((listed(&ada).await.len(), listed(&bob).await.len()), (0, 0));
    let endless = json!({ "seconds": 600 });
    start_task(&ada, "files__slow_compute", endless.clone()).await;
    start_task(&ada, "mail__slow_compute", endless.clone()).await;
    start_task(&ada, "mail__slow_compute", endless.clone()).await;
    // The server creates no task for this tool, so the gateway hosts it.
    start_task(&ada, "files__test_simple_text", json!({})).await;
    start_task(&bob, "mail__slow_compute", endless.clone()).await;
    assert_eq!(listed(&ada).await.len(), 4);
    assert_eq!(listed(&bob).await.len(), 1);

    // The path of a server lists the tasks of that server.
    let at_mail = clients.ada("/servers/mail/mcp").start_session().await;
    let names: BTreeSet<_> = listed(&at_mail).await;
    assert_eq!(names.len(), 2, "{names:?}");
    let without_tasks = clients.bob("/servers/files/mcp").start_session().await;
    assert_eq!(listed(&without_tasks).await.len(), 0);
}

#[tokio::test]
async fn long_task_list_has_pages_and_cursors_are_bound_to_the_caller() {
    let (_servers, clients) = two_task_servers().await;
    let (ada, bob) = (clients.ada("/mcp").start_session().await, clients.bob("/mcp").start_session().await);
    start_task(&ada, "mail__slow_compute", json!({ "seconds": 600 })).await;
    for _ in 0..101 {
        start_task(&ada, "files__test_simple_text", json!({})).await;
    }
    let first = page(&ada, None).await;
    assert_eq!(count(&first), 101);
    let cursor = &first["result"]["nextCursor"];
    assert!(cursor.is_string(), "{first}");
    let rest = page(&ada, Some(cursor)).await;
    assert_eq!((count(&rest), rest["result"].get("nextCursor")), (1, None), "{rest}");
    for (who, cursor) in [(&bob, cursor), (&ada, &json!("made up")), (&ada, &first["result"]["tasks"][0]["taskId"])] {
        let refused = page(who, Some(cursor)).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
}
