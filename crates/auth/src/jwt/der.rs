//! The envelope of private keys (PKCS#8, RFC 5958). Keys on elliptic curves inside it are read by `sec1`.

use der::{
    AnyRef, Decode, Reader, SliceReader,
    asn1::{ObjectIdentifier, OctetStringRef},
};

/// A private key of any algorithm.
pub(super) struct Pkcs8<'a> {
    pub(super) algorithm: ObjectIdentifier,
    /// Named curve of a key on an elliptic curve.
    pub(super) curve: Option<ObjectIdentifier>,
    pub(super) key: &'a [u8],
}

impl<'a> Pkcs8<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> der::Result<Self> {
        SliceReader::new(bytes)?.sequence(|outer| {
            let _version = u8::decode(outer)?;
            let (algorithm, curve) = outer.sequence(|inner| {
                let algorithm = ObjectIdentifier::decode(inner)?;
                let parameters = Option::<AnyRef<'_>>::decode(inner)?;
                der::Result::Ok((algorithm, parameters.and_then(|parameters| parameters.decode_as().ok())))
            })?;
            let key = <&OctetStringRef>::decode(outer)?.as_bytes();
            // Attributes and a public key may follow.
            while !outer.is_finished() {
                AnyRef::decode(outer)?;
            }
            Ok(Self { algorithm, curve, key })
        })
    }
}
