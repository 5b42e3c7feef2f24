//! The routes of the API. A request arrives here signed in, with a CSRF token where it changes something.

mod assistants;
mod attachments;
mod calls;
mod chat;
mod conversations;
mod entries;
mod events;
mod inbox;
mod resources;
mod runs;
mod servers;
mod session;
mod tasks;
mod tools;

use std::{borrow::Cow, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use serde_json::json;
use toolway_agent::Attachment;
use toolway_host::visible;
use toolway_wire::{
    budget::Charge,
    down::http::{Incoming, ResponseBody},
};

use crate::{
    backend::Problem,
    console::{Console, MAX_BODY_BYTES, SignedIn},
    error::ApiError,
    marked, reply,
};

/// Result of a route.
type Answered = Result<Response<ResponseBody>, ApiError>;

/// Maximum time for a request body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Answers a request below `/api/`.
pub(crate) async fn answer(console: &Console, signed_in: SignedIn, request: Request<Incoming>) -> Answered {
    let path = request.uri().path().to_owned();
    let Some(route) = path.strip_prefix("/api/v1/") else { return Err(unknown(&path)) };
    let segments: Vec<&str> = route.split('/').collect();
    let query = Query(request.uri().query().unwrap_or_default().to_owned());
    if *request.method() == Method::GET || *request.method() == Method::HEAD {
        return match *segments {
            ["assistants"] => assistants::list(console).await,
            ["assistants", name, "entry"] => assistants::entry(console, name).await,
            ["assistants", name, "removal"] => assistants::plan_removal(console, name).await,
            ["session"] => session::show(console, signed_in.has_csrf).await,
            ["servers"] => servers::list(console),
            ["servers", name] => servers::show(console, name).await,
            ["servers", name, "entry"] => entries::show(console, name).await,
            ["servers", name, "removal"] => entries::plan_removal(console, name).await,
            ["import"] => entries::importable(console).await,
            ["calls"] => calls::list(console, &query).await,
            ["calls", id] => calls::show(console, id).await,
            ["inbox"] => inbox::list(console).await,
            ["inbox", id, "arguments"] => inbox::arguments(console, id).await,
            ["tools"] => tools::list(console).await,
            ["tools", server, name] => tools::show(console, server, name).await,
            ["runs", id] => runs::show(console, id).await,
            ["runs", id, "parts", part] => runs::part(console, id, part).await,
            ["resources"] => resources::list(console).await,
            ["prompts"] => resources::prompts(console).await,
            ["tasks"] => tasks::list(console).await,
            ["tasks", id] => tasks::show(console, id).await,
            ["conversations"] => conversations::list(console, &query).await,
            ["conversations", id] => conversations::show(console, id).await,
            ["conversations", id, "context"] => chat::context(console, id, &query).await,
            ["conversations", id, "export"] => conversations::export(console, id, &query).await,
            ["events"] => events::stream(console, &signed_in.session, request.headers()),
            _ => Err(unknown(&path)),
        };
    }
    if *request.method() != Method::POST {
        return Err(ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method", "use GET or POST"));
    }
    let most = if segments.last() == Some(&"upload") { Attachment::MAX_BYTES } else { MAX_BODY_BYTES };
    let (body, _charge) = read(console, request.into_body(), most).await?;
    match *segments {
        ["assistants"] => assistants::save(console, parse(&body)?).await,
        ["assistants", "plan"] => assistants::plan(console, parse(&body)?).await,
        ["assistants", name, "remove"] => assistants::remove(console, name, parse(&body)?).await,
        ["servers"] => entries::save(console, parse(&body)?).await,
        ["servers", "parse"] => entries::parse(console, parse(&body)?).await,
        ["servers", "plan"] => entries::plan(console, parse(&body)?).await,
        ["servers", "test"] => entries::test(console, parse(&body)?).await,
        ["servers", name, "remove"] => entries::remove(console, name, parse(&body)?).await,
        ["import"] => entries::import(console, parse(&body)?).await,
        ["servers", name, action] => servers::act(console, name, action).await,
        ["calls", id, "cancel"] => calls::cancel(console, id).await,
        ["calls", id, "settle"] => calls::settle(console, id, &signed_in.session.label, parse(&body)?).await,
        ["inbox", id, "answer"] => inbox::answer(console, id, &signed_in.session.label, parse(&body)?),
        ["runs"] => runs::start(console, parse(&body)?),
        ["resources", "watch"] => resources::watch(console, parse(&body)?).await,
        ["resources", "unwatch"] => resources::unwatch(console, parse(&body)?),
        ["complete"] => resources::complete(console, parse(&body)?).await,
        ["chat"] => chat::start(console, parse(&body)?).await,
        ["chat", "draft"] => attachments::begin(console),
        ["chat", id, "upload"] => attachments::upload(console, id, &query, body).await,
        ["chat", id, "attach"] => attachments::attach(console, id, parse(&body)?).await,
        ["chat", id, "detach"] => attachments::detach(console, id, &parse(&body)?),
        ["chat", id, "queue"] => chat::queue(console, id, &parse(&body)?),
        ["chat", id, "retry"] => chat::retry(console, id, parse(&body)?).await,
        ["chat", id, "cancel"] => chat::cancel(console, id),
        ["chat", id, "resume"] => chat::resume(console, id, parse(&body)?).await,
        ["tasks", id, "cancel"] => tasks::cancel(console, id).await,
        ["tasks", id, "poll"] => tasks::poll(console, id).await,
        _ => Err(unknown(&path)),
    }
}

fn unknown(path: &str) -> ApiError {
    ApiError::not_found(format!("unknown path `{path}`"))
}

/// The response of a route without a result.
fn done() -> Answered {
    reply::json(&json!({}))
}

/// Reads a body within its limits, charged to the byte budget until the request is answered.
async fn read(console: &Console, mut body: Incoming, most: usize) -> Result<(Bytes, Charge), ApiError> {
    let too_large = || {
        let message = format!("the request is larger than {most} bytes");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
    };
    let mut charge = console.limits.memory.charge(0)?;
    let reading = async {
        let mut whole = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| ApiError::bad_request("the request body is incomplete"))?;
            let Ok(piece) = frame.into_data() else { continue };
            if most < whole.len() + piece.len() {
                return Err(too_large());
            }
            charge.grow(piece.len())?;
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    };
    let late = |_| ApiError::new(StatusCode::REQUEST_TIMEOUT, "timed_out", "the request body takes too long");
    let whole = tokio::time::timeout(BODY_TIMEOUT, reading).await.map_err(late)??;
    Ok((whole, charge))
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    let text = std::str::from_utf8(body).map_err(|_| ApiError::bad_request("the request is not UTF-8"))?;
    serde_json::from_str(&marked::incoming(text))
        .map_err(|error| ApiError::bad_request(format!("invalid request: {error}")))
}

/// Runs work of the embedding program that may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| ApiError::internal(error.to_string()))
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        let status = if problem.conflict { StatusCode::CONFLICT } else { StatusCode::UNPROCESSABLE_ENTITY };
        let error = Self::new(status, if problem.conflict { "conflict" } else { "invalid" }, problem.message.clone());
        let error = match problem.field {
            Some(field) => error.fields(serde_json::Map::from_iter([(field, problem.message.into())])),
            None => error,
        };
        match problem.hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

/// One part of the path of a URL.
struct Segment;

impl Segment {
    /// The text of a part, with the hidden characters that marks stand for; `None` if it is not UTF-8.
    fn decode(segment: &str) -> Option<String> {
        let mut bytes = Vec::with_capacity(segment.len());
        let mut rest = segment.bytes();
        while let Some(byte) = rest.next() {
            let digit = |digit: Option<u8>| char::from(digit?).to_digit(16);
            match byte {
                b'%' => {
                    let value = digit(rest.next())? * 16 + digit(rest.next())?;
                    bytes.push(u8::try_from(value).ok()?);
                }
                other => bytes.push(other),
            }
        }
        Some(visible::unmarked(&String::from_utf8(bytes).ok()?))
    }
}

/// The query of a URL.
struct Query(String);

impl Query {
    /// The value of a parameter that is not empty.
    fn get(&self, key: &str) -> Option<String> {
        let mut pairs = url::form_urlencoded::parse(self.0.as_bytes());
        let value = pairs.find(|(known, _)| known == key).map(|(_, value)| value);
        value.filter(|value| !value.is_empty()).map(Cow::into_owned)
    }
}
