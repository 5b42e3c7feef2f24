//! The tasks of a caller in one list, whoever keeps them; never another caller's.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use toolway_host::connection::{ServerAddress, WantedServer, Way};
use toolway_testkit::test_host::{TestHost, name};
use toolway_wire::revision::Revision;

use crate::{
    fairness::Two,
    knocking::{Knocker, request},
    over_http::OverHttp,
};

/// Two servers that keep tasks where they are asked to. Both are reached without a credential, so that each lists the tasks
/// of all its sessions.
async fn two_keepers() -> ([OverHttp; 2], Two) {
    let servers = [OverHttp::serve(Revision::V2025_11_25).await, OverHttp::serve(Revision::V2025_11_25).await];
    let mut builder = TestHost::new();
    for (id, server) in ["files", "mail"].iter().zip(&servers) {
        let address = ServerAddress::http(format!("http://{}/mcp", server.address).parse().unwrap());
        builder = builder.wanted(WantedServer::new(name(id), Way::Address(address)));
    }
    let two = Two::start(builder).await;
    two.stage.host.ready("mail").await;
    (servers, two)
}

async fn begun(session: &Knocker, tool: &str, arguments: Value) -> String {
    let call = json!({ "name": tool, "arguments": arguments, "task": {} });
    let made = session.post(&request(1, "tools/call", call)).await.answer().await;
    made["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
}

async fn page(session: &Knocker, cursor: Option<&Value>) -> Value {
    let params = cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
    session.post(&request(2, "tasks/list", params)).await.answer().await
}

fn count(page: &Value) -> usize {
    page["result"]["tasks"].as_array().unwrap_or_else(|| panic!("{page}")).len()
}

/// Every task that is listed, looked at under the name it is listed by.
async fn listed(session: &Knocker) -> BTreeSet<(String, String)> {
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
async fn a_list_of_tasks_has_those_of_all_servers_and_nobody_elses() {
    let (_servers, two) = two_keepers().await;
    let (ada, bob) = (two.ada("/mcp").begun().await, two.bob("/mcp").begun().await);
    assert_eq!((listed(&ada).await.len(), listed(&bob).await.len()), (0, 0));
    let endless = json!({ "seconds": 600 });
    begun(&ada, "files__slow_compute", endless.clone()).await;
    begun(&ada, "mail__slow_compute", endless.clone()).await;
    begun(&ada, "mail__slow_compute", endless.clone()).await;
    // The server makes no task of this one, so that it is kept here.
    begun(&ada, "files__test_simple_text", json!({})).await;
    begun(&bob, "mail__slow_compute", endless.clone()).await;
    assert_eq!(listed(&ada).await.len(), 4);
    assert_eq!(listed(&bob).await.len(), 1);

    // At a server's own path there are those of that server.
    let at_mail = two.ada("/servers/mail/mcp").begun().await;
    let names: BTreeSet<_> = listed(&at_mail).await;
    assert_eq!(names.len(), 2, "{names:?}");
    let nobodys = two.bob("/servers/files/mcp").begun().await;
    assert_eq!(listed(&nobodys).await.len(), 0);
}

#[tokio::test]
async fn a_long_list_of_tasks_comes_in_pages_and_a_place_in_it_is_its_callers() {
    let (_servers, two) = two_keepers().await;
    let (ada, bob) = (two.ada("/mcp").begun().await, two.bob("/mcp").begun().await);
    begun(&ada, "mail__slow_compute", json!({ "seconds": 600 })).await;
    for _ in 0..101 {
        begun(&ada, "files__test_simple_text", json!({})).await;
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
