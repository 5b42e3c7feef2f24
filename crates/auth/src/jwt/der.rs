//! The subset of DER that private keys on elliptic curves use.

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OBJECT_ID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const CONTEXT_0: u8 = 0xa0;
const CONTEXT_1: u8 = 0xa1;

/// A private key of any algorithm (RFC 5958).
pub(super) struct Pkcs8<'a> {
    pub(super) algorithm: &'a [u8],
    pub(super) curve: Option<&'a [u8]>,
    pub(super) key: &'a [u8],
}

/// A private key on an elliptic curve (RFC 5915).
pub(super) struct Sec1<'a> {
    pub(super) private: &'a [u8],
    pub(super) curve: Option<&'a [u8]>,
    pub(super) public: Option<&'a [u8]>,
}

/// Unread input.
struct Der<'a>(&'a [u8]);

impl<'a> Pkcs8<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut outer = Der(bytes).enter(SEQUENCE)?;
        outer.take(INTEGER)?;
        let mut algorithm = outer.enter(SEQUENCE)?;
        Some(Self {
            algorithm: algorithm.take(OBJECT_ID)?,
            curve: algorithm.take(OBJECT_ID),
            key: outer.take(OCTET_STRING)?,
        })
    }
}

impl<'a> Sec1<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut outer = Der(bytes).enter(SEQUENCE)?;
        outer.take(INTEGER)?;
        let private = outer.take(OCTET_STRING)?;
        let curve = outer.enter(CONTEXT_0).and_then(|mut inner| inner.take(OBJECT_ID));
        let public = outer.enter(CONTEXT_1).and_then(|mut inner| inner.take(BIT_STRING));
        // The first byte of a bit string is the number of unused bits, which is zero here.
        Some(Self { private, curve, public: public.and_then(|bits| bits.strip_prefix(&[0])) })
    }
}

impl<'a> Der<'a> {
    /// Reads the next value, which must have this tag.
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

    /// The same, for a constructed value.
    fn enter(&mut self, tag: u8) -> Option<Self> {
        self.take(tag).map(Der)
    }
}

/// Length of a value; keys are shorter than 64 KiB.
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
    use super::{Der, INTEGER, OCTET_STRING, SEQUENCE};

    #[test]
    fn values_are_read_in_order_and_never_beyond_the_end() {
        let mut outer = Der(&[SEQUENCE, 6, INTEGER, 1, 7, OCTET_STRING, 1, 9, 0xff]);
        let mut inner = outer.enter(SEQUENCE).unwrap();
        assert_eq!(inner.take(OCTET_STRING), None, "another tag");
        assert_eq!((inner.take(INTEGER), inner.take(OCTET_STRING)), (Some(&[7][..]), Some(&[9][..])));
        assert_eq!(inner.take(OCTET_STRING), None);
        for broken in [&[][..], &[4], &[4, 2, 0], &[4, 0x81], &[4, 0x82, 1, 0, 0], &[4, 0x83, 0, 0, 0], &[4, 0x80]] {
            assert_eq!(Der(broken).take(OCTET_STRING), None, "{broken:?}");
        }
        assert_eq!(Der(&[&[4, 0x81, 0x80][..], &[1; 128]].concat()).take(OCTET_STRING), Some(&[1; 128][..]));
    }
}
