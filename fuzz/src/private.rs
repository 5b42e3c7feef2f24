//! Access to private items of the modules: line framing and header encoding.

use bytes::Bytes;
use http::HeaderValue;
use tokio::io::AsyncRead;

use crate::{
    header,
    line::{self, LineReader},
    message::Id,
};

/// One line of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// Text of one message.
    Message(Bytes),
    /// A line over the limit, with its id.
    TooLong(Option<Id>),
}

/// Reads all lines of a stream until it ends or fails.
pub async fn lines<R: AsyncRead + Unpin>(stream: R, limit: usize) -> Vec<Line> {
    let mut reader = LineReader::new(stream, limit);
    let mut lines = Vec::new();
    while let Ok(Some(line)) = reader.next().await {
        lines.push(match line {
            line::FramedLine::Message(text) => Line::Message(text),
            line::FramedLine::TooLong(skimmed) => Line::TooLong(skimmed.id),
        });
    }
    lines
}

/// Encodes a header value.
pub fn encode_header(value: &str) -> Option<Vec<u8>> {
    header::encode(value).map(|header| header.as_bytes().to_vec())
}

/// Decodes a header value; `None` if it is malformed or not a valid header.
pub fn decode_header(header: &[u8]) -> Option<String> {
    header::decode(&HeaderValue::from_bytes(header).ok()?)
}
