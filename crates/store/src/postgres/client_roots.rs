//! Roots that clients of a gateway supplied over HTTP.

use toolway_host::roots::ClientRootList;

use super::{
    batch::Filling,
    pipeline::{Value, text},
    reader::PostgresReader,
};
use crate::{
    StoreError,
    client_roots::{MAX_LISTS, roots, written},
    time,
};

pub(super) async fn write<'a>(filling: &mut Filling<'a>, list: &'a ClientRootList) -> Result<(), StoreError> {
    if list.roots.is_empty() {
        return filling.send("DELETE FROM client_roots WHERE client = $1", vec![Box::new(text(&list.client))]).await;
    }
    let sql = "INSERT INTO client_roots (client, roots, updated_at) VALUES ($1, $2, $3) \
               ON CONFLICT (client) DO UPDATE SET roots = excluded.roots, updated_at = excluded.updated_at";
    let values: Vec<Value<'a>> =
        vec![Box::new(text(&list.client)), Box::new(written(&list.roots)), Box::new(time::now())];
    filling.send(sql, values).await
}

impl PostgresReader {
    pub(crate) async fn client_roots(&self) -> Result<Vec<ClientRootList>, StoreError> {
        let sql = "SELECT client, roots FROM client_roots ORDER BY client LIMIT $1";
        let rows = self.rows(sql, &[Box::new(MAX_LISTS)]).await?;
        let list = |row: &tokio_postgres::Row| {
            let text: String = row.try_get(1)?;
            Ok(ClientRootList { client: row.try_get(0)?, roots: roots(&text) })
        };
        rows.iter().map(list).collect()
    }
}
