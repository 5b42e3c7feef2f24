//! As much of DER as the private keys of elliptic curves are written in.

const INTEGER: u8 = 0x02;
const BITS: u8 = 0x03;
const BYTES: u8 = 0x04;
const NAME: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const FIRST: u8 = 0xa0;
const SECOND: u8 = 0xa1;

/// A private key of any kind (RFC 5958).
pub(super) struct Pkcs8<'a> {
    pub(super) algorithm: &'a [u8],
    pub(super) curve: Option<&'a [u8]>,
    pub(super) key: &'a [u8],
}

/// A private key of an elliptic curve (RFC 5915).
pub(super) struct Sec1<'a> {
    pub(super) private: &'a [u8],
    pub(super) curve: Option<&'a [u8]>,
    pub(super) public: Option<&'a [u8]>,
}

/// What is left to read.
struct Der<'a>(&'a [u8]);

impl<'a> Pkcs8<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut outer = Der(bytes).enter(SEQUENCE)?;
        outer.take(INTEGER)?;
        let mut algorithm = outer.enter(SEQUENCE)?;
        Some(Self { algorithm: algorithm.take(NAME)?, curve: algorithm.take(NAME), key: outer.take(BYTES)? })
    }
}

impl<'a> Sec1<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut outer = Der(bytes).enter(SEQUENCE)?;
        outer.take(INTEGER)?;
        let private = outer.take(BYTES)?;
        let curve = outer.enter(FIRST).and_then(|mut inner| inner.take(NAME));
        let public = outer.enter(SECOND).and_then(|mut inner| inner.take(BITS));
        // The first byte of bits says how many of the last are unused: none.
        Some(Self { private, curve, public: public.and_then(|bits| bits.strip_prefix(&[0])) })
    }
}

impl<'a> Der<'a> {
    /// Reads the next value, which has this tag.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (found, rest) = self.0.split_first()?;
        let (length, rest) = length(rest)?;
        if *found != tag || rest.len() < length {
            return None;
        }
        let (value, rest) = rest.split_at(length);
        self.0 = rest;
        Some(value)
    }

    /// The same, for a value that others are inside of.
    fn enter(&mut self, tag: u8) -> Option<Self> {
        self.take(tag).map(Der)
    }
}

/// How long a value is; keys are shorter than 64 KiB.
fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes {
        [short @ 0..=0x7f, rest @ ..] => Some((usize::from(*short), rest)),
        [0x81, length, rest @ ..] => Some((usize::from(*length), rest)),
        [0x82, high, low, rest @ ..] => Some((usize::from(u16::from_be_bytes([*high, *low])), rest)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{BYTES, Der, INTEGER, SEQUENCE};

    #[test]
    fn values_are_read_in_order_and_never_beyond_the_end() {
        let mut outer = Der(&[SEQUENCE, 6, INTEGER, 1, 7, BYTES, 1, 9, 0xff]);
        let mut inner = outer.enter(SEQUENCE).unwrap();
        assert_eq!(inner.take(BYTES), None, "not this tag");
        assert_eq!((inner.take(INTEGER), inner.take(BYTES)), (Some(&[7][..]), Some(&[9][..])));
        assert_eq!(inner.take(BYTES), None);
        for broken in [&[][..], &[4], &[4, 2, 0], &[4, 0x81], &[4, 0x82, 1, 0, 0], &[4, 0x83, 0, 0, 0], &[4, 0x80]] {
            assert_eq!(Der(broken).take(BYTES), None, "{broken:?}");
        }
        assert_eq!(Der(&[&[4, 0x81, 0x80][..], &[1; 128]].concat()).take(BYTES), Some(&[1; 128][..]));
    }
}
