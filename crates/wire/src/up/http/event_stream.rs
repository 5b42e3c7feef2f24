//! HTTP+SSE of 2024-11-05: one long event stream from the server, and a POST URL that it announces.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use http::{HeaderValue, header};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;
use url::Url;

use super::{
    Endpoint, lane,
    lanes::ActiveLanes,
    request::{Headers, OutgoingHttp, SessionHeaders},
};
use crate::{
    error::{TimeoutKind, WireError},
    revision::Revision,
    sse::SseDecoder,
    up::{
        client::{HttpResponse, display_url},
        handshake,
        transport::{Lane, LaneEnd, Link, Outbound, Sink},
    },
};

/// Timeout for the `endpoint` event.
const ENDPOINT_TIMEOUT: Duration = Duration::from_secs(30);

struct EventStreamLink {
    endpoint: Arc<Endpoint>,
    /// URL for our messages.
    address: Url,
    // No await under these locks.
    revision: Mutex<Option<Revision>>,
    reading: Mutex<Option<AbortOnDropHandle<()>>>,
    lanes: Arc<ActiveLanes>,
}

/// Opens the stream and waits for the `endpoint` event.
pub(super) async fn open(endpoint: Arc<Endpoint>, sink: Arc<dyn Sink>) -> Result<Arc<dyn Link>, WireError> {
    let headers = vec![(header::ACCEPT, HeaderValue::from_static("text/event-stream"))];
    let mut response = endpoint.send(OutgoingHttp::get(&headers, &SessionHeaders::default())).await?;
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !response.status().is_success() || !kind.starts_with("text/event-stream") {
        let kind = kind.to_owned();
        return Err(match lane::read_acknowledgement(&mut response, &endpoint.limits).await {
            LaneEnd::Accepted => WireError::protocol(format!("expected `text/event-stream`, got `{kind}`")),
            end => handshake::lane_error(end),
        });
    }
    let lanes = ActiveLanes::new(Arc::clone(&sink), &endpoint.limits);
    let (found, address) = oneshot::channel();
    let reading = read(Arc::clone(&endpoint), response, sink, found);
    let reading = AbortOnDropHandle::new(lanes.runtime().spawn(reading));
    let address = match tokio::time::timeout(ENDPOINT_TIMEOUT, address).await {
        Ok(Ok(address)) => address?,
        Ok(Err(_)) => return Err(WireError::Ended("the event stream closed before its `endpoint` event".to_owned())),
        Err(_) => return Err(WireError::TimedOut { kind: TimeoutKind::Handshake, limit: ENDPOINT_TIMEOUT }),
    };
    Ok(Arc::new(EventStreamLink {
        endpoint,
        address,
        revision: Mutex::default(),
        reading: Mutex::new(Some(reading)),
        lanes,
    }))
}

/// Reads the stream: the `endpoint` event, then messages.
async fn read(
    endpoint: Arc<Endpoint>,
    mut response: HttpResponse,
    sink: Arc<dyn Sink>,
    found: oneshot::Sender<Result<Url, WireError>>,
) {
    let mut decoder = SseDecoder::new(endpoint.limits.event_bytes);
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
                    // The opening task may have been dropped.
                    drop(found.send(address));
                    if bad {
                        return;
                    }
                }
                (_, waiting) => {
                    found = waiting;
                    if let Some(message) = lane::event_message(event) {
                        sink.message(Lane::Shared, message);
                    }
                }
            }
        }
    }
    sink.closed(why);
}

/// Parses the URL of the `endpoint` event; another origin is refused, because it would receive our credentials.
fn address(endpoint: &Endpoint, data: &[u8]) -> Result<Url, WireError> {
    let text = String::from_utf8_lossy(data);
    let address = endpoint.url.join(text.trim());
    match address {
        Ok(address) if endpoint.same_origin(&address) => Ok(address),
        Ok(address) => Err(WireError::Refused(format!("the `endpoint` event names another origin: {address}"))),
        Err(error) => Err(WireError::protocol(format!("the `endpoint` event has an invalid URL: {error}"))),
    }
}

impl Link for EventStreamLink {
    fn send(&self, mut outbound: Outbound) -> Result<(), WireError> {
        outbound.message = self.endpoint.charged(outbound.message)?;
        let (request, post) = (outbound.request, self.post(outbound));
        // The response comes on the stream; only a refused POST ends the lane.
        let post = async move { Some(post.await).filter(|end| !matches!(end, LaneEnd::Accepted)) };
        self.lanes.begin(request, Box::pin(post))
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

    fn marks_writes(&self) -> bool {
        true
    }

    fn abandon(&self, request: u64) {
        self.lanes.abandon(request);
    }

    fn set_revision(&self, revision: Revision) {
        *self.revision.lock() = Some(revision);
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.reading.lock().take();
        self.lanes.close();
        Box::pin(async {})
    }
}

impl EventStreamLink {
    fn post(&self, outbound: Outbound) -> impl Future<Output = LaneEnd> + Send + 'static {
        let (endpoint, address, revision) = (Arc::clone(&self.endpoint), self.address.clone(), *self.revision.lock());
        async move {
            let (headers, session_headers) = (Headers::new(), SessionHeaders::new(revision, None));
            let outgoing =
                OutgoingHttp::post(&headers, &session_headers, outbound.message).with_mark(outbound.mark.as_ref());
            match endpoint.send_to(&address, outgoing).await {
                Ok(mut response) => lane::read_acknowledgement(&mut response, &endpoint.limits).await,
                Err(error) => LaneEnd::Failed(error),
            }
        }
    }
}

impl fmt::Debug for EventStreamLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStreamLink").field("address", &display_url(&self.address)).finish_non_exhaustive()
    }
}
