//! What the modules keep to themselves and the targets reach into: lines as they are read, and how headers spell.

use bytes::Bytes;
use http::HeaderValue;
use tokio::io::AsyncRead;

use crate::{
    header,
    line::{self, LineReader},
    message::Id,
};

/// Something read from a stream of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// One message's text.
    Message(Bytes),
    /// A line over the bound, with the id it carried.
    TooLong(Option<Id>),
}

/// All lines of a stream, until it ends or fails.
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

/// A value as a header spells it.
pub fn encode_header(value: &str) -> Option<Vec<u8>> {
    header::encode(value).map(|header| header.as_bytes().to_vec())
}

/// The value a header spells; `None` where it is malformed, or no header at all.
pub fn decode_header(header: &[u8]) -> Option<String> {
    header::decode(&HeaderValue::from_bytes(header).ok()?)
}
