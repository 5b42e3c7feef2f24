//! Roots that clients of a gateway supply over HTTP, as the host keeps them.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;
use toolway_host::{
    record::RecordsError,
    roots::{ClientRootList, ClientRootStore, Root},
};
use toolway_testkit::test_host::TestHost;

/// Stores a list when it is given, and says so of the first one only when it is told to.
#[derive(Default)]
struct SlowStore {
    lists: Mutex<Vec<ClientRootList>>,
    first_is_stored: Notify,
}

impl ClientRootStore for SlowStore {
    fn load(&self) -> BoxFuture<'_, Result<Vec<ClientRootList>, RecordsError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn put(&self, list: ClientRootList) -> BoxFuture<'_, Result<(), RecordsError>> {
        let is_first = {
            let mut lists = self.lists.lock();
            lists.push(list);
            lists.len() == 1
        };
        Box::pin(async move {
            if is_first {
                self.first_is_stored.notified().await;
            }
            Ok(())
        })
    }
}

fn roots(folder: &str) -> Vec<Root> {
    vec![Root { uri: format!("file:///{folder}"), name: None }]
}

#[tokio::test]
async fn of_two_lists_that_a_client_supplies_at_once_memory_and_store_keep_the_same() {
    let store = Arc::<SlowStore>::default();
    let mut builder = TestHost::new();
    builder.ports.client_roots = Arc::clone(&store) as _;
    let host = builder.start().await;
    let tasks = TaskTracker::new();
    let supply = |client: &'static str, folder: &'static str| {
        let host = host.host.clone();
        tasks.spawn(async move { host.set_client_roots(client, roots(folder)).await.unwrap() })
    };
    let first = supply("ada", "one");
    while store.lists.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    // Another client does not wait for her.
    supply("ben", "three").await.unwrap();
    let mut second = supply("ada", "two");
    let early = tokio::time::timeout(Duration::from_millis(300), &mut second).await.is_ok();
    store.first_is_stored.notify_one();
    first.await.unwrap();
    if !early {
        second.await.unwrap();
    }
    let stored = store.lists.lock().iter().rfind(|list| list.client == "ada").cloned().unwrap();
    assert_eq!((stored.roots, early), (host.host.client_roots("ada").await, false));
    assert_eq!(host.host.client_roots("ada").await, roots("two"));
}
