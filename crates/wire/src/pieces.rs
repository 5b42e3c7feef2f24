//! Collects a body that arrives in pieces: large pieces are kept as they are, small ones are copied into one buffer.
//!
//! The sender chooses the sizes. Keeping many small pieces would cost many times their sum; copying large pieces on
//! arrival would copy them twice.

use bytes::{Bytes, BytesMut};

/// Pieces smaller than this many bytes are copied.
const SMALL: usize = 1024;

/// The pieces received so far.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    kept: Vec<Bytes>,
    /// Small pieces after the last large one.
    tail: BytesMut,
    length: usize,
}

impl Pieces {
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn push(&mut self, piece: Bytes) {
        self.length += piece.len();
        if piece.len() < SMALL {
            return self.tail.extend_from_slice(&piece);
        }
        if !self.tail.is_empty() {
            self.kept.push(self.tail.split().freeze());
        }
        self.kept.push(piece);
    }

    /// Returns the whole body. A single piece is returned without a copy; several are copied together once.
    pub(crate) fn whole(self) -> Bytes {
        let Self { mut kept, tail, length } = self;
        match (kept.len(), tail.is_empty()) {
            (0, _) => tail.freeze(),
            (1, true) => kept.swap_remove(0),
            _ => {
                let mut whole = BytesMut::with_capacity(length);
                kept.iter().for_each(|piece| whole.extend_from_slice(piece));
                whole.extend_from_slice(&tail);
                whole.freeze()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::{prop, proptest};

    use super::{Pieces, SMALL};
    use crate::property;

    #[test]
    fn single_large_piece_is_not_copied() {
        let mut pieces = Pieces::default();
        let piece = Bytes::from(vec![b'x'; SMALL]);
        pieces.push(piece.clone());
        assert_eq!(pieces.whole().as_ptr(), piece.as_ptr());
    }

    #[test]
    fn small_pieces_are_not_kept_one_by_one() {
        let mut pieces = Pieces::default();
        (0..100_000).for_each(|_| pieces.push(Bytes::from_static(b"x")));
        assert!(pieces.kept.is_empty());
        assert_eq!(pieces.whole().len(), 100_000);
    }

    proptest! {
        #![proptest_config(property::cases())]
        #[test]
        fn result_does_not_depend_on_the_piece_sizes(sizes in prop::collection::vec(0..3 * SMALL, 0..20)) {
            let mut pieces = Pieces::default();
            let mut whole = Vec::new();
            for (number, size) in sizes.into_iter().enumerate() {
                let piece = vec![number as u8; size];
                whole.extend_from_slice(&piece);
                pieces.push(piece.into());
            }
            assert_eq!(pieces.len(), whole.len());
            assert_eq!(&pieces.whole()[..], &whole[..]);
        }
    }
}
