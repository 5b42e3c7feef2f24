//! The body of a small request of a client, as JSON: bounded in bytes and time, and charged to the client while it is read.

use std::time::Duration;

use http::{Request, Response, StatusCode};
use serde::de::DeserializeOwned;
use toolway_wire::{
    budget::MemoryBudget,
    down::http::{BodyError, Incoming, ResponseBody, read_body},
};

use crate::{access::Client, reply};

/// Longest time that a body takes.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What a body must be.
pub(crate) struct Expected {
    /// Its name in messages, such as `answer`.
    pub(crate) what: &'static str,
    /// Its longest length in bytes.
    pub(crate) most: usize,
    /// How it is written.
    pub(crate) form: &'static str,
}

/// Reads a body. The error is the response that says what is wrong with it.
pub(crate) async fn read<T: DeserializeOwned>(
    request: Request<Incoming>,
    client: &Client,
    memory: &MemoryBudget,
    expected: &Expected,
) -> Result<T, Box<Response<ResponseBody>>> {
    let Expected { what, most, form } = expected;
    let refused = |status, problem: String| Err(Box::new(reply::text(status, problem)));
    let memory = memory.of_principal(&client.name);
    let reading = read_body(request.into_body(), *most, &memory);
    let body = match tokio::time::timeout(TIMEOUT, reading).await {
        Ok(Ok(body)) => body,
        Ok(Err(BodyError::TooLarge)) => {
            return refused(StatusCode::PAYLOAD_TOO_LARGE, format!("invalid {what}: it has at most {most} bytes"));
        }
        Ok(Err(error @ BodyError::OverBudget(_))) => {
            return refused(StatusCode::SERVICE_UNAVAILABLE, error.to_string());
        }
        Ok(Err(error @ BodyError::Incomplete)) => return refused(StatusCode::BAD_REQUEST, error.to_string()),
        Err(_) => {
            return refused(StatusCode::REQUEST_TIMEOUT, "the request body was not received in time".to_owned());
        }
    };
    serde_json::from_slice(&body)
        .or_else(|error| refused(StatusCode::BAD_REQUEST, format!("invalid {what}: {error}; {form} is expected")))
}
