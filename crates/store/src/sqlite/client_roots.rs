//! Roots that clients of a gateway supplied over HTTP, as the store of roots of the host.

use futures_util::future::BoxFuture;
use rusqlite::{Connection, params};
use serde_json::{Value, json};
use toolway_host::{
    record::RecordsError,
    roots::{ClientRootList, ClientRootStore, Root},
};

use crate::{SqliteReader, Store, StoreError, store::Freshness, time};

/// Lists that are read. Each belongs to a key of the gateway.
pub(crate) const MAX_LISTS: i64 = 10_000;

pub(crate) fn write(connection: &Connection, list: &ClientRootList) -> Result<(), StoreError> {
    if list.roots.is_empty() {
        connection.execute("DELETE FROM client_roots WHERE client = ?", [&list.client])?;
        return Ok(());
    }
    connection.execute(
        "INSERT OR REPLACE INTO client_roots VALUES (?, ?, ?)",
        params![list.client, written(&list.roots), time::now()],
    )?;
    Ok(())
}

/// About the bytes that a list adds to the database.
pub(crate) fn bytes(list: &ClientRootList) -> usize {
    list.roots.iter().map(|root| root.uri.len() + root.name.as_ref().map_or(0, String::len)).sum()
}

/// Roots as text.
pub(crate) fn written(roots: &[Root]) -> String {
    let root = |root: &Root| json!({ "uri": root.uri, "name": root.name });
    Value::Array(roots.iter().map(root).collect()).to_string()
}

/// The roots of a row; none if a later version wrote them in another form.
pub(crate) fn roots(text: &str) -> Vec<Root> {
    let listed: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
    let root = |root: &Value| {
        Some(Root { uri: root["uri"].as_str()?.to_owned(), name: root["name"].as_str().map(str::to_owned) })
    };
    listed.iter().filter_map(root).collect()
}

impl SqliteReader {
    pub(crate) fn client_roots(&self) -> Result<Vec<ClientRootList>, StoreError> {
        self.rows("SELECT client, roots FROM client_roots ORDER BY client LIMIT ?", [MAX_LISTS], |row| {
            Ok(ClientRootList { client: row.get(0)?, roots: roots(&row.get::<_, String>(1)?) })
        })
    }
}

impl Store {
    /// Removes the roots of a client whose key was revoked.
    pub fn remove_roots_of(&self, client: String) -> impl Future<Output = Result<(), StoreError>> + use<> {
        self.write_client_roots(ClientRootList { client, roots: Vec::new() })
    }
}

impl ClientRootStore for Store {
    fn load(&self) -> BoxFuture<'_, Result<Vec<ClientRootList>, RecordsError>> {
        Box::pin(async { Ok(self.query(Freshness::Committed, |reader| reader.client_roots()).await?) })
    }

    fn put(&self, list: ClientRootList) -> BoxFuture<'_, Result<(), RecordsError>> {
        let written = self.write_client_roots(list);
        Box::pin(async move { Ok(written.await?) })
    }
}
