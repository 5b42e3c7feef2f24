//! A [`Fetch`] for tests: answers requests from a script and records them.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use parking_lot::Mutex;
use url::form_urlencoded;

use crate::fetch::{Fetch, FetchError};

/// Responses by URL; a URL without a response is not found.
#[derive(Default)]
pub(crate) struct ScriptedFetch {
    answers: Mutex<Vec<(String, u16, String)>>,
    pub(crate) requests: Mutex<Vec<Request<Bytes>>>,
    /// URLs that never answer.
    hangs: Mutex<Vec<String>>,
}

/// Time after which a request to a hanging URL times out.
pub(crate) const SCRIPTED_TIMEOUT: Duration = Duration::from_secs(30);

impl std::fmt::Debug for ScriptedFetch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ScriptedFetch")
    }
}

impl ScriptedFetch {
    /// Adds a response for this URL. Responses are used in order; the last one stays.
    pub(crate) fn answer(self: &Arc<Self>, address: &str, status: u16, body: impl Into<String>) -> Arc<Self> {
        self.answers.lock().push((address.to_owned(), status, body.into()));
        Arc::clone(self)
    }

    /// From now on this URL does not answer.
    pub(crate) fn hang_at(self: &Arc<Self>, address: &str) -> Arc<Self> {
        self.hangs.lock().push(address.to_owned());
        Arc::clone(self)
    }

    /// Requested URLs, in order.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.requests.lock().iter().map(|request| request.uri().to_string()).collect()
    }

    /// Form fields of the request at this index.
    pub(crate) fn form(&self, place: usize) -> Vec<(String, String)> {
        form_urlencoded::parse(self.requests.lock()[place].body()).into_owned().collect()
    }

    /// One form field of the request at this index.
    pub(crate) fn field(&self, place: usize, name: &str) -> Option<String> {
        self.form(place).into_iter().find(|(found, _)| found == name).map(|(_, value)| value)
    }

    fn next(&self, address: &str) -> (u16, String) {
        let mut answers = self.answers.lock();
        let mut fitting = (0..answers.len()).filter(|place| answers[*place].0 == address);
        match (fitting.next(), fitting.next()) {
            (Some(first), Some(_)) => {
                let (_, status, body) = answers.remove(first);
                (status, body)
            }
            (Some(only), None) => (answers[only].1, answers[only].2.clone()),
            (None, _) => (404, String::new()),
        }
    }
}

impl Fetch for ScriptedFetch {
    fn fetch(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Bytes>, FetchError>> {
        let target = request.uri().to_string();
        if self.hangs.lock().contains(&target) {
            self.requests.lock().push(request);
            return Box::pin(async {
                tokio::time::sleep(SCRIPTED_TIMEOUT).await;
                Err(FetchError::TimedOut { target })
            });
        }
        let (status, body) = self.next(&target);
        self.requests.lock().push(request);
        let response = Response::builder().status(status).body(Bytes::from(body)).unwrap();
        Box::pin(async { Ok(response) })
    }
}
