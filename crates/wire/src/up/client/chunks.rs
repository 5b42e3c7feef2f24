//! A body in chunks, taken off the front of what came.

use bytes::{Buf, Bytes, BytesMut};

use super::head::invalid_http;
use crate::error::WireError;

/// A size has no more digits.
const DIGITS: usize = 16;

/// Where in a body in chunks one stands.
#[derive(Debug)]
pub(super) struct ChunkDecoder {
    at: ChunkState,
    /// What may stand around a chunk: extensions and trailers carry nothing for us.
    bound: usize,
    patience: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkState {
    Size {
        sum: u64,
        digits: usize,
    },
    /// Behind a size, up to the end of its line.
    Extension {
        size: u64,
    },
    /// In the middle of that end.
    SizeEnd {
        size: u64,
    },
    Data {
        left: u64,
    },
    /// Behind a chunk: an end of line, and the middle of it.
    Behind,
    BehindEnd,
    /// Behind the last chunk, in a line; an empty one is the end.
    Trailer {
        empty: bool,
    },
    /// In the middle of its end.
    TrailerEnd {
        empty: bool,
    },
    Over,
}

/// The next of a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BodyPart {
    Piece(Bytes),
    Over,
    /// More has to come first.
    More,
}

impl ChunkDecoder {
    /// ChunkState the beginning; around each chunk so much may stand.
    pub(super) fn new(bound: usize) -> Self {
        Self { at: ChunkState::Size { sum: 0, digits: 0 }, bound, patience: bound }
    }

    /// What comes next of what is there.
    pub(super) fn next(&mut self, input: &mut BytesMut) -> Result<BodyPart, WireError> {
        loop {
            if self.at == ChunkState::Over {
                return Ok(BodyPart::Over);
            }
            if input.is_empty() {
                return Ok(BodyPart::More);
            }
            if let ChunkState::Data { left } = self.at {
                let size = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                let left = left - size as u64;
                self.at = if left == 0 { ChunkState::Behind } else { ChunkState::Data { left } };
                return Ok(BodyPart::Piece(input.split_to(size).freeze()));
            }
            let byte = input.get_u8();
            self.at = self.behind(byte)?;
        }
    }

    /// Where one stands behind this byte, which is none of the body.
    fn behind(&mut self, byte: u8) -> Result<ChunkState, WireError> {
        match (self.at, byte) {
            (ChunkState::Size { sum, digits }, byte) if byte.is_ascii_hexdigit() && digits < DIGITS => {
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                Ok(ChunkState::Size { sum: sum << 4 | u64::from(digit), digits: digits + 1 })
            }
            (ChunkState::Size { sum: size, digits }, b'\r') if 0 < digits => Ok(ChunkState::SizeEnd { size }),
            (ChunkState::Size { sum: size, digits }, b';' | b' ' | b'\t') if 0 < digits => Ok(ChunkState::Extension { size }),
            (ChunkState::Extension { size }, b'\r') => Ok(ChunkState::SizeEnd { size }),
            (at @ ChunkState::Extension { .. }, byte) if byte != b'\n' => self.skip(at),
            (ChunkState::SizeEnd { size: 0 }, b'\n') => Ok(ChunkState::Trailer { empty: true }),
            (ChunkState::SizeEnd { size }, b'\n') => Ok(ChunkState::Data { left: size }),
            (ChunkState::Behind, b'\r') => Ok(ChunkState::BehindEnd),
            (ChunkState::BehindEnd, b'\n') => {
                self.patience = self.bound;
                Ok(ChunkState::Size { sum: 0, digits: 0 })
            }
            (ChunkState::Trailer { empty }, b'\r') => Ok(ChunkState::TrailerEnd { empty }),
            (ChunkState::Trailer { .. }, byte) if byte != b'\n' => self.skip(ChunkState::Trailer { empty: false }),
            (ChunkState::TrailerEnd { empty: true }, b'\n') => Ok(ChunkState::Over),
            (ChunkState::TrailerEnd { empty: false }, b'\n') => Ok(ChunkState::Trailer { empty: true }),
            _ => Err(invalid_http("a chunk that is none")),
        }
    }

    fn skip(&mut self, at: ChunkState) -> Result<ChunkState, WireError> {
        let left = self.patience.checked_sub(1);
        self.patience = left.ok_or_else(|| invalid_http("too much around a chunk"))?;
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};
    use proptest::prelude::{any, prop, proptest};

    use super::{ChunkDecoder, BodyPart};
    use crate::property;

    /// The whole body, decode in pieces of this size; what stands behind it is given too.
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
                BodyPart::More => input.extend_from_slice(pieces.next().ok_or(None)?),
            }
        }
    }

    #[test]
    fn chunks_are_put_together_and_what_stands_around_them_is_not() {
        let text = b"5;name=value\r\nhello\r\n6 \r\n world\r\n0\r\nx-trailer: of no interest\r\n\r\nHTTP";
        for size in [1, 2, 3, 7, text.len()] {
            assert_eq!(decode(text, size), Ok((b"hello world".to_vec(), b"HTTP".to_vec())), "in pieces of {size}");
        }
    }

    #[test]
    fn what_is_no_chunk_is_said_to_be_none() {
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
                decode(text, 1).is_err_and(|why| why.is_some_and(|why| why.contains("not HTTP"))),
                "{}",
                text.escape_ascii()
            );
        }
    }

    #[test]
    fn what_breaks_off_is_not_over() {
        let whole = b"2\r\nok\r\n0\r\n\r\n";
        for size in 0..whole.len() {
            assert_eq!(decode(&whole[..size], 3), Err(None), "after {size} bytes");
        }
    }

    #[test]
    fn any_body_in_any_chunks_arrives() {
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
    fn a_piece_is_given_as_soon_as_it_is_there() {
        let (mut chunks, mut input) = (ChunkDecoder::new(64), BytesMut::from("8\r\nhalf".as_bytes()));
        assert_eq!(chunks.next(&mut input).unwrap(), BodyPart::Piece(Bytes::from_static(b"half")));
        assert_eq!(chunks.next(&mut input).unwrap(), BodyPart::More);
    }
}
