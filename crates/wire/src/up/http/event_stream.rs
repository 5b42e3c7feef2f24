//! HTTP+SSE of 2024-11-05: one long stream to us, and an address it names for everything from us.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Method, header};
use parking_lot::Mutex;
use tokio::{runtime::Handle, sync::oneshot, task::AbortHandle};
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};
use url::Url;

use super::{Endpoint, lane, mark_revision, request::Headers, taken};
use crate::{
    error::{Clock, WireError},
    revision::Revision,
    sse::Decoder,
    up::{
        client::Reply,
        handshake,
        transport::{Lane, LaneEnd, Link, Outbound, Sink},
    },
};

/// How long the stream may take to name the address.
const ADDRESS: Duration = Duration::from_secs(30);

struct EventStreamLink {
    endpoint: Arc<Endpoint>,
    /// Where our messages go.
    address: Url,
    sink: Arc<dyn Sink>,
    // Nothing awaits under these locks.
    revision: Mutex<Option<Revision>>,
    reading: Mutex<Option<AbortOnDropHandle<()>>>,
    /// What is being posted, and for which request.
    posts: Arc<Mutex<HashMap<u64, Option<AbortHandle>>>>,
    tasks: TaskTracker,
    runtime: Handle,
    closed: CancellationToken,
}

/// Opens the stream and waits for the address.
pub(super) async fn open(endpoint: Arc<Endpoint>, sink: Arc<dyn Sink>) -> Result<Arc<dyn Link>, WireError> {
    let headers = vec![(header::ACCEPT, HeaderValue::from_static("text/event-stream"))];
    let response = endpoint.send(Method::GET, &headers, Bytes::new()).await?;
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !response.status().is_success() || !kind.starts_with("text/event-stream") {
        let kind = kind.to_owned();
        return Err(match lane::acknowledged(response, &endpoint.limits).await {
            LaneEnd::Accepted => WireError::protocol(format!("no event stream but `{kind}`")),
            end => handshake::lane_error(end),
        });
    }
    let runtime = Handle::current();
    let (found, address) = oneshot::channel();
    let reading = read(Arc::clone(&endpoint), response, Arc::clone(&sink), found);
    let reading = AbortOnDropHandle::new(runtime.spawn(reading));
    let address = match tokio::time::timeout(ADDRESS, address).await {
        Ok(Ok(address)) => address?,
        Ok(Err(_)) => return Err(WireError::Ended("the stream closed before it named an address".to_owned())),
        Err(_) => return Err(WireError::TimedOut { clock: Clock::Handshake, limit: ADDRESS }),
    };
    Ok(Arc::new(EventStreamLink {
        endpoint,
        address,
        sink,
        revision: Mutex::default(),
        reading: Mutex::new(Some(reading)),
        posts: Arc::default(),
        tasks: TaskTracker::new(),
        runtime,
        closed: CancellationToken::new(),
    }))
}

/// Reads the stream: first the address, then messages.
async fn read(
    endpoint: Arc<Endpoint>,
    mut response: Reply,
    sink: Arc<dyn Sink>,
    found: oneshot::Sender<Result<Url, WireError>>,
) {
    let mut decoder = Decoder::new(endpoint.limits.event_bytes);
    let mut found = Some(found);
    let mut why = WireError::Ended("the event stream closed".to_owned());
    'stream: while let Some(Ok(chunk)) = response.chunk().await {
        let events = match decoder.push(chunk) {
            Ok(events) => events,
            Err(error) => {
                why = error;
                break 'stream;
            }
        };
        for event in events {
            match (event.name.as_deref(), found.take()) {
                (Some("endpoint"), Some(found)) => {
                    let address = address(&endpoint, &event.data);
                    let bad = address.is_err();
                    // Whoever opens may have given up.
                    drop(found.send(address));
                    if bad {
                        return;
                    }
                }
                (_, waiting) => {
                    found = waiting;
                    if let Some(message) = lane::message(event) {
                        sink.message(Lane::Shared, message);
                    }
                }
            }
        }
    }
    sink.closed(why);
}

/// The address a server names; on another origin it would receive our credentials.
fn address(endpoint: &Endpoint, data: &[u8]) -> Result<Url, WireError> {
    let text = String::from_utf8_lossy(data);
    let address = endpoint.url.join(text.trim());
    match address {
        Ok(address) if endpoint.same_origin(&address) => Ok(address),
        Ok(address) => Err(WireError::Refused(format!("the server wants our messages on another origin, {address}"))),
        Err(error) => Err(WireError::protocol(format!("the server names an address that is none: {error}"))),
    }
}

impl Link for EventStreamLink {
    fn send(&self, outbound: Outbound) -> Result<(), WireError> {
        if self.reading.lock().is_none() {
            return Err(WireError::Ended("closed by us".to_owned()));
        }
        let request = outbound.request;
        let (sink, post) = (Arc::clone(&self.sink), taken(request, self.post(outbound)));
        let (posts, closed) = (Arc::clone(&self.posts), self.closed.clone());
        let work = async move {
            let end = tokio::select! {
                () = closed.cancelled() => return,
                end = post => end,
            };
            match (request, end) {
                (Some(request), end) => {
                    posts.lock().remove(&request);
                    if !matches!(end, LaneEnd::Accepted) {
                        sink.lane_ended(request, end);
                    }
                }
                (None, LaneEnd::Accepted) => {}
                (None, end) => tracing::debug!(?end, "a message did not reach the server"),
            }
        };
        // The place is taken first, for the post may be finished, or abandoned, before its task is known here.
        if let Some(request) = request {
            self.posts.lock().insert(request, None);
        }
        let task = self.tasks.spawn_on(work, &self.runtime).abort_handle();
        if let Some(request) = request {
            match self.posts.lock().get_mut(&request) {
                Some(place) => *place = Some(task),
                None => task.abort(),
            }
        }
        Ok(())
    }

    fn deliver(&self, outbound: Outbound) -> BoxFuture<'_, Result<(), WireError>> {
        let post = self.post(outbound);
        Box::pin(async move {
            match post.await {
                LaneEnd::Accepted => Ok(()),
                end => Err(handshake::lane_error(end)),
            }
        })
    }

    fn abandon(&self, request: u64) {
        let post = self.posts.lock().remove(&request);
        if let Some(Some(post)) = post {
            post.abort();
        }
    }

    fn settle(&self, revision: Revision) {
        *self.revision.lock() = Some(revision);
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.reading.lock().take();
        self.closed.cancel();
        Box::pin(async {})
    }
}

impl EventStreamLink {
    fn post(&self, outbound: Outbound) -> impl Future<Output = LaneEnd> + Send + 'static {
        let (endpoint, address, revision) = (Arc::clone(&self.endpoint), self.address.clone(), *self.revision.lock());
        async move {
            let mut headers = Headers::new();
            headers.push((header::CONTENT_TYPE, HeaderValue::from_static("application/json")));
            mark_revision(&mut headers, revision);
            match endpoint.send_to(&address, Method::POST, &headers, outbound.message).await {
                Ok(response) => lane::acknowledged(response, &endpoint.limits).await,
                Err(error) => LaneEnd::Failed(error),
            }
        }
    }
}

impl fmt::Debug for EventStreamLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStreamLink").field("address", &self.address.as_str()).finish_non_exhaustive()
    }
}
