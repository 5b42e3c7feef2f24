//! A text that arrives in pieces: large ones are kept as they came, small ones are copied together at once.
//!
//! Whoever sends chooses the pieces. Kept as they are, very many small ones would cost many times their sum; copied
//! as they are, large ones would be copied twice.

use bytes::{Bytes, BytesMut};

/// A piece below this is copied; keeping it would cost more than it holds.
const SMALL: usize = 1024;

/// What has arrived so far.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    kept: Vec<Bytes>,
    /// Small pieces behind the last one kept.
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

    /// The whole text. One piece is given as it came; more are copied together once.
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
    fn a_large_piece_alone_is_given_as_it_came() {
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
        fn whatever_the_pieces_the_text_is_the_same(sizes in prop::collection::vec(0..3 * SMALL, 0..20)) {
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
