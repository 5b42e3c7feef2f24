//! Shared code of the fuzz targets: the modules of `toolway-wire` and
//! `toolway-host` that parse remote input, and the format of an input.
//!
//! The modules are compiled from their sources instead of linking the crate: they need no network, and an instrumented
//! build of the network stack takes minutes. The targets can therefore also use private items.

#[path = "../../crates/host/src/roots"]
pub mod roots {
    pub mod fence;
}

#[path = "../../crates/wire/src"]
mod wire {
    pub mod budget;
    pub mod error;
    pub mod header;
    pub mod json;
    pub mod limit;
    pub mod line;
    pub mod message;
    pub mod pieces;
    pub mod revision;
    pub mod sse;
    pub mod up {
        pub mod client {
            mod chunks;
            mod connection;
            mod head;

            use std::{future::poll_fn, io};

            use bytes::Bytes;
            use http::{HeaderMap, HeaderValue, Method, StatusCode};

            use self::{connection::HttpConnection, head::HeadLimits};
            use super::connector::HttpStream;

            /// A complete response.
            #[derive(Debug)]
            pub struct Response {
                /// Status code.
                pub status: StatusCode,
                /// Header fields.
                pub headers: HeaderMap,
                /// Whole body.
                pub body: Vec<u8>,
                /// Whether the connection can be used for another request.
                pub reusable: bool,
            }

            /// Sends a request over this stream and reads the response.
            pub async fn request(stream: HttpStream, body: &'static [u8], headers: usize) -> io::Result<Response> {
                let limits = HeadLimits { bytes: 64 * 1024, count: headers };
                let mut connection = HttpConnection::new(stream, limits);
                let host = HeaderValue::from_static("localhost");
                connection.begin(&Method::POST, "/", &host, b"", &Bytes::from_static(body));
                let head = poll_fn(|context| connection.poll_head(context)).await;
                let head = head.map_err(|failure| io::Error::other(failure.error))?;
                let mut body = Vec::new();
                while let Some(piece) = poll_fn(|context| connection.poll_piece(context)).await {
                    body.extend_from_slice(&piece.map_err(io::Error::other)?);
                }
                let reusable = connection.is_reusable();
                Ok(Response { status: head.status, headers: head.headers, body, reusable })
            }
        }

        /// Replaces the connector: a stream in memory.
        pub mod connector {
            pub use crate::memory::MemoryStream as HttpStream;
        }
    }
}

pub mod memory;
pub mod private;

use bytes::Bytes;

pub use wire::{budget, error, header, json, limit, message, revision, sse, up};
pub(crate) use wire::{line, pieces};

/// One input: `text`, and after the first 0xff byte, which no text contains, the parameters of the target.
///
/// Every message of the corpus is therefore a valid input, without parameters.
pub struct Input<'a> {
    /// Input of the code under test.
    pub text: &'a [u8],
    parameters: &'a [u8],
}

impl<'a> Input<'a> {
    /// Splits an input into text and parameters.
    pub fn new(data: &'a [u8]) -> Self {
        match data.iter().position(|byte| *byte == 0xff) {
            Some(at) => Self { text: &data[..at], parameters: &data[at + 1..] },
            None => Self { text: data, parameters: &[] },
        }
    }

    /// Returns the next parameter, or a default after the last one.
    pub fn parameter(&mut self, otherwise: u8) -> usize {
        match self.parameters.split_first() {
            Some((parameter, rest)) => {
                self.parameters = rest;
                usize::from(*parameter)
            }
            None => usize::from(otherwise),
        }
    }

    /// Splits `text` in three ways: whole, into single bytes, and by the remaining parameters.
    pub fn cuts(&self) -> [Vec<Bytes>; 3] {
        [cut(self.text, &[]), cut(self.text, &[1]), cut(self.text, self.parameters)]
    }
}

fn cut(text: &[u8], sizes: &[u8]) -> Vec<Bytes> {
    let mut text = Bytes::copy_from_slice(text);
    let mut sizes = sizes.iter().map(|size| usize::from(*size).max(1)).cycle();
    let mut chunks = Vec::new();
    while !text.is_empty() {
        let size = sizes.next().unwrap_or(text.len()).min(text.len());
        chunks.push(text.split_to(size));
    }
    chunks
}
