//! Decoder of the chunked transfer coding.

use bytes::{Buf, Bytes, BytesMut};

use super::head::invalid_http;
use crate::error::WireError;

/// Largest number of digits of a chunk size.
const DIGITS: usize = 16;

/// Decoder state of a chunked body.
#[derive(Debug)]
pub(super) struct ChunkDecoder {
    state: ChunkState,
    /// Limit for extensions and trailers, in bytes per chunk; their content is ignored.
    bound: usize,
    /// Bytes left of this limit.
    allowance: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkState {
    Size {
        sum: u64,
        digits: usize,
    },
    /// After a size, up to the end of its line.
    Extension {
        size: u64,
    },
    /// Between CR and LF of that line.
    SizeEnd {
        size: u64,
    },
    Data {
        left: u64,
    },
    /// After the data of a chunk: before CR, and between CR and LF.
    DataEnd,
    DataEndLf,
    /// In a line after the last chunk; an empty line ends the body.
    Trailer {
        empty: bool,
    },
    /// Between CR and LF of that line.
    TrailerEnd {
        empty: bool,
    },
    Over,
}

/// Next part of a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BodyPart {
    Piece(Bytes),
    Over,
    /// More input is needed.
    NeedInput,
}

impl ChunkDecoder {
    /// Creates a decoder; `bound` limits extensions and trailers, in bytes per chunk.
    pub(super) fn new(bound: usize) -> Self {
        Self { state: ChunkState::Size { sum: 0, digits: 0 }, bound, allowance: bound }
    }

    /// Decodes the next part from the front of `input`.
    pub(super) fn next(&mut self, input: &mut BytesMut) -> Result<BodyPart, WireError> {
        loop {
            if self.state == ChunkState::Over {
                return Ok(BodyPart::Over);
            }
            if input.is_empty() {
                return Ok(BodyPart::NeedInput);
            }
            if let ChunkState::Data { left } = self.state {
                let size = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                let left = left - size as u64;
                self.state = if left == 0 { ChunkState::DataEnd } else { ChunkState::Data { left } };
                return Ok(BodyPart::Piece(input.split_to(size).freeze()));
            }
            let byte = input.get_u8();
            self.state = self.advance(byte)?;
        }
    }

    /// Returns the state after a framing byte.
    fn advance(&mut self, byte: u8) -> Result<ChunkState, WireError> {
        match (self.state, byte) {
            (ChunkState::Size { sum, digits }, byte) if byte.is_ascii_hexdigit() && digits < DIGITS => {
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                Ok(ChunkState::Size { sum: sum << 4 | u64::from(digit), digits: digits + 1 })
            }
            (ChunkState::Size { sum: size, digits }, b'\r') if 0 < digits => Ok(ChunkState::SizeEnd { size }),
            (ChunkState::Size { sum: size, digits }, b';' | b' ' | b'\t') if 0 < digits => {
                Ok(ChunkState::Extension { size })
            }
            (ChunkState::Extension { size }, b'\r') => Ok(ChunkState::SizeEnd { size }),
            (state @ ChunkState::Extension { .. }, byte) if byte != b'\n' => self.skip(state),
            (ChunkState::SizeEnd { size: 0 }, b'\n') => Ok(ChunkState::Trailer { empty: true }),
            (ChunkState::SizeEnd { size }, b'\n') => Ok(ChunkState::Data { left: size }),
            (ChunkState::DataEnd, b'\r') => Ok(ChunkState::DataEndLf),
            (ChunkState::DataEndLf, b'\n') => {
                self.allowance = self.bound;
                Ok(ChunkState::Size { sum: 0, digits: 0 })
            }
            (ChunkState::Trailer { empty }, b'\r') => Ok(ChunkState::TrailerEnd { empty }),
            (ChunkState::Trailer { .. }, byte) if byte != b'\n' => self.skip(ChunkState::Trailer { empty: false }),
            (ChunkState::TrailerEnd { empty: true }, b'\n') => Ok(ChunkState::Over),
            (ChunkState::TrailerEnd { empty: false }, b'\n') => Ok(ChunkState::Trailer { empty: true }),
            _ => Err(invalid_http("invalid chunk")),
        }
    }

    fn skip(&mut self, state: ChunkState) -> Result<ChunkState, WireError> {
        let left = self.allowance.checked_sub(1);
        self.allowance = left.ok_or_else(|| invalid_http("chunk extensions or trailers are too long"))?;
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};
    use proptest::prelude::{any, prop, proptest};

    use super::{BodyPart, ChunkDecoder};
    use crate::property;

    /// Decodes `text` in pieces of `size` bytes; returns the body and the bytes after it.
    fn decode(text: &[u8], size: usize) -> Result<(Vec<u8>, Vec<u8>), Option<String>> {
        let (mut chunks, mut body, mut input) = (ChunkDecoder::new(64), Vec::new(), BytesMut::new());
        let mut pieces = text.chunks(size);
        loop {
            match chunks.next(&mut input).map_err(|error| Some(error.to_string()))? {
                BodyPart::Piece(piece) => body.extend_from_slice(&piece),
                BodyPart::Over => {
                    pieces.for_each(|piece| input.extend_from_slice(piece));
                    return Ok((body, input.to_vec()));
                }
                BodyPart::NeedInput => input.extend_from_slice(pieces.next().ok_or(None)?),
            }
        }
    }

    #[test]
    fn chunks_are_joined_without_extensions_and_trailers() {
        let text = b"5;name=value\r\nhello\r\n6 \r\n world\r\n0\r\nx-trailer: of no interest\r\n\r\nHTTP";
        for size in [1, 2, 3, 7, text.len()] {
            assert_eq!(decode(text, size), Ok((b"hello world".to_vec(), b"HTTP".to_vec())), "in pieces of {size}");
        }
    }

    #[test]
    fn invalid_chunks_are_rejected() {
        let long = [b"1;".as_slice(), &[b'x'; 65], b"\r\n"].concat();
        let trailers = [b"0\r\n".as_slice(), &[b'x'; 65]].concat();
        let rows: [&[u8]; 14] = [
            b"hello",
            b"\r\n",
            b"5\nhello",
            b"5;\nhello",
            b"5 \nhello",
            b"5\rx\nhello",
            b"1\r\nhe",
            b"1\r\nh\n",
            b"0\r\n\n",
            b"0\r\n\r\r\n",
            b"fffffffffffffffff\r\n",
            b"-1\r\n",
            &long,
            &trailers,
        ];
        for text in rows {
            assert!(
                decode(text, 1).is_err_and(|why| why.is_some_and(|why| why.contains("invalid HTTP response"))),
                "{}",
                text.escape_ascii()
            );
        }
    }

    #[test]
    fn truncated_body_is_not_complete() {
        let whole = b"2\r\nok\r\n0\r\n\r\n";
        for size in 0..whole.len() {
            assert_eq!(decode(&whole[..size], 3), Err(None), "after {size} bytes");
        }
    }

    #[test]
    fn any_body_in_any_chunks_is_decoded() {
        let parts = prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..20);
        proptest!(property::cases(), |(parts in parts, size in 1usize..70)| {
            let mut text = Vec::new();
            for part in &parts {
                text.extend_from_slice(format!("{:X}\r\n", part.len()).as_bytes());
                text.extend_from_slice(part);
                text.extend_from_slice(b"\r\n");
            }
            text.extend_from_slice(b"0\r\n\r\n");
            assert_eq!(decode(&text, size), Ok((parts.concat(), Vec::new())));
        });
    }

    #[test]
    fn partial_chunk_is_returned_at_once() {
        let (mut chunks, mut input) = (ChunkDecoder::new(64), BytesMut::from("8\r\nhalf".as_bytes()));
        assert_eq!(chunks.next(&mut input).unwrap(), BodyPart::Piece(Bytes::from_static(b"half")));
        assert_eq!(chunks.next(&mut input).unwrap(), BodyPart::NeedInput);
    }
}
