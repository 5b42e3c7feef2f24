//! A stranger for tests: answers requests from a script and remembers them.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use parking_lot::Mutex;
use url::form_urlencoded;

use crate::fetch::{Fetch, FetchError};

/// Answers by address; whatever has no answer is not found.
#[derive(Default)]
pub(crate) struct Scripted {
    answers: Mutex<Vec<(String, u16, String)>>,
    pub(crate) heard: Mutex<Vec<Request<Bytes>>>,
    /// Whoever is asked at such an address never answers.
    hangs: Mutex<Vec<String>>,
}

/// How long nobody answers until that is given up.
pub(crate) const GIVEN_UP: Duration = Duration::from_secs(30);

impl std::fmt::Debug for Scripted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scripted")
    }
}

impl Scripted {
    /// The next request to this address gets this answer; the last answer to an address stays.
    pub(crate) fn answer(self: &Arc<Self>, address: &str, status: u16, body: impl Into<String>) -> Arc<Self> {
        self.answers.lock().push((address.to_owned(), status, body.into()));
        Arc::clone(self)
    }

    /// From now on nothing is answered at this address.
    pub(crate) fn hangs_at(self: &Arc<Self>, address: &str) -> Arc<Self> {
        self.hangs.lock().push(address.to_owned());
        Arc::clone(self)
    }

    /// The addresses asked for, in order.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.heard.lock().iter().map(|request| request.uri().to_string()).collect()
    }

    /// The form fields of a request, by its place in the order.
    pub(crate) fn form(&self, place: usize) -> Vec<(String, String)> {
        form_urlencoded::parse(self.heard.lock()[place].body()).into_owned().collect()
    }

    /// A form field of a request.
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

impl Fetch for Scripted {
    fn fetch(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Bytes>, FetchError>> {
        let target = request.uri().to_string();
        if self.hangs.lock().contains(&target) {
            self.heard.lock().push(request);
            return Box::pin(async {
                tokio::time::sleep(GIVEN_UP).await;
                Err(FetchError::TimedOut { target })
            });
        }
        let (status, body) = self.next(&target);
        self.heard.lock().push(request);
        let response = Response::builder().status(status).body(Bytes::from(body)).unwrap();
        Box::pin(async { Ok(response) })
    }
}
