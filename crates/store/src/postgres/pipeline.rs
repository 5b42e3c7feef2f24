//! Statements and their values. Statements of one connection can be sent without waiting for the results of earlier ones.

use std::{
    borrow::Cow,
    future::{poll_fn, ready},
    task::Poll,
};

use deadpool_postgres::Object;
use futures_util::future::BoxFuture;
use tokio_postgres::{Row, types::ToSql};

use crate::StoreError;

/// A value of a statement.
pub(crate) type Value<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// A text. Postgres has no character NUL; U+FFFD stands for it.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}

/// A text that may be absent.
pub(crate) fn maybe(value: Option<&str>) -> Option<Cow<'_, str>> {
    value.map(text)
}

/// A number of rows.
pub(crate) fn limit(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// Sends a statement now; its result comes with the future.
pub(crate) async fn send<'a>(
    client: &'a Object,
    sql: &str,
    values: Vec<Value<'a>>,
) -> Result<BoxFuture<'a, Result<u64, StoreError>>, StoreError> {
    let statement = client.prepare_cached(sql).await?;
    Ok(begin(Box::pin(async move { Ok(client.execute_raw(&statement, values).await?) })).await)
}

/// Sends statements without values now.
pub(crate) async fn send_raw<'a>(client: &'a Object, sql: &'static str) -> BoxFuture<'a, Result<u64, StoreError>> {
    begin(Box::pin(async move { Ok(client.batch_execute(sql).await.map(|()| 0)?) })).await
}

/// Sends a query now; its rows come with the future.
pub(crate) async fn send_query<'a>(
    client: &'a Object,
    sql: &str,
) -> Result<BoxFuture<'a, Result<Vec<Row>, StoreError>>, StoreError> {
    let statement = client.prepare_cached(sql).await?;
    Ok(begin(Box::pin(async move { Ok(client.query(&statement, &[]).await?) })).await)
}

/// Polls a future once: that sends its statement.
async fn begin<'a, T: Send + 'a>(mut future: BoxFuture<'a, T>) -> BoxFuture<'a, T> {
    match poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await {
        Poll::Ready(result) => Box::pin(ready(result)),
        Poll::Pending => future,
    }
}

/// Runs a statement and waits for its result: how many rows it changed.
pub(crate) async fn execute(client: &Object, sql: &str, values: Vec<Value<'_>>) -> Result<u64, StoreError> {
    let statement = client.prepare_cached(sql).await?;
    Ok(client.execute_raw(&statement, values).await?)
}

/// The rows of a query.
pub(crate) async fn rows(client: &Object, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
    let statement = client.prepare_cached(sql).await?;
    let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
    Ok(client.query(&statement, &values).await?)
}

/// Conditions of a query that is composed, with their values.
#[derive(Default)]
pub(crate) struct Conditions<'a> {
    terms: Vec<String>,
    pub(crate) values: Vec<Value<'a>>,
}

impl<'a> Conditions<'a> {
    /// Adds a condition without a value.
    pub(crate) fn fixed(&mut self, term: impl Into<String>) {
        self.terms.push(term.into());
    }

    /// Adds a condition; `?` in it stands for the value.
    pub(crate) fn add(&mut self, term: &str, value: impl ToSql + Sync + Send + 'a) {
        let mark = self.mark(value);
        self.terms.push(term.replace('?', &mark));
    }

    /// Adds a value without a condition, and returns its place in the query.
    pub(crate) fn mark(&mut self, value: impl ToSql + Sync + Send + 'a) -> String {
        self.values.push(Box::new(value));
        format!("${}", self.values.len())
    }

    /// All conditions.
    pub(crate) fn sql(&self) -> String {
        if self.terms.is_empty() { "TRUE".to_owned() } else { self.terms.join(" AND ") }
    }
}
