//! HTTP/1.1 responses: independent of the chunk sizes, and read as hyper reads them.
//!
//! Our client may refuse more than hyper. What both accept is the same response, a response that only our client accepts
//! differs in its trailers alone, and a connection that our client would use again, hyper would use again too.
#![no_main]

use std::{
    io,
    pin::pin,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use libfuzzer_sys::fuzz_target;
use toolway_fuzz::{
    Input,
    memory::{End, MemoryStream},
    up::client::{Response, request},
};

/// Largest number of headers, for both.
const HEADERS: usize = 100;
/// Body of the request.
const BODY: &[u8] = b"{}";
/// How often hyper is polled; it needs one poll for each chunk of a body, and no input has more.
const POLLS: usize = 256;

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let end = if input.parameter(0) == 0 { End::Closed } else { End::Silent };
    let [whole, others @ ..] = input.cuts().map(|chunks| ours(chunks, end));
    for other in &others {
        assert_eq!(described(other), described(&whole), "depends on the chunks");
    }
    let theirs = theirs(input.cuts()[0].clone(), end);
    match (&whole, &theirs) {
        (Some(Ok(ours)), Some(Ok(theirs))) => compare(ours, theirs),
        // Trailers are ignored here and checked by hyper.
        (Some(Ok(ours)), _) => assert!(is_chunked(&ours.headers), "accepted against hyper: {ours:?} {theirs:?}"),
        (Some(Err(_)) | None, _) => {}
    }
});

fn compare(ours: &Response, theirs: &Response) {
    assert_eq!((ours.status, &ours.body), (theirs.status, &theirs.body));
    let fields = |headers: &HeaderMap| {
        // Without meaning next to a transfer coding; hyper removes it.
        let ignored = headers.contains_key(header::TRANSFER_ENCODING).then_some(header::CONTENT_LENGTH);
        let kept = headers.iter().filter(|(name, _)| Some(*name) != ignored.as_ref());
        kept.map(|(name, value)| (name.clone(), value.clone())).collect::<Vec<_>>()
    };
    assert_eq!(fields(&ours.headers), fields(&theirs.headers));
    assert!(!ours.reusable || theirs.reusable, "used again against hyper: {ours:?}");
}

fn is_chunked(headers: &HeaderMap) -> bool {
    headers.contains_key(header::TRANSFER_ENCODING)
}

/// What must not depend on the chunks.
fn described(read: &Option<io::Result<Response>>) -> Option<Result<(StatusCode, &HeaderMap, &[u8], bool), String>> {
    read.as_ref().map(|read| match read {
        Ok(response) => Ok((response.status, &response.headers, &response.body[..], response.reusable)),
        Err(error) => Err(error.to_string()),
    })
}

/// Reads a response with our client; `None` if it waits for more.
fn ours(chunks: Vec<Bytes>, end: End) -> Option<io::Result<Response>> {
    let reading = pin!(request(MemoryStream::new(chunks, end), BODY, HEADERS));
    match reading.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(read) => Some(read),
        Poll::Pending => None,
    }
}

/// Reads a response with hyper; `None` if it waits for more.
fn theirs(chunks: Vec<Bytes>, end: End) -> Option<hyper::Result<Response>> {
    let context = &mut Context::from_waker(Waker::noop());
    let handshake = http1::Builder::new().max_headers(HEADERS).handshake(MemoryStream::new(chunks, end));
    let Poll::Ready(Ok((mut sender, connection))) = pin!(handshake).poll(context) else { panic!("no handshake") };
    let mut connection = pin!(connection);
    let request = Request::post("/").header(header::HOST, "localhost").body(Full::new(Bytes::from_static(BODY)));
    let mut exchange = pin!(async {
        let response = sender.send_request(request.expect("a valid request")).await?;
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes().to_vec();
        hyper::Result::Ok(Response { status: head.status, headers: head.headers, body, reusable: false })
    });
    let (mut connected, mut read) = (true, None);
    for _ in 0..POLLS {
        if let Poll::Ready(done) = exchange.as_mut().poll(context) {
            read = Some(done);
            break;
        }
        connected = connected && connection.as_mut().poll(context).is_pending();
    }
    connected = connected && connection.as_mut().poll(context).is_pending();
    read.map(|read| read.map(|response| Response { reusable: connected, ..response }))
}
