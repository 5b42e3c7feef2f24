//! Signed access tokens: created by the authorization server, verified by protected servers.

use std::{
    fmt, io,
    time::{SystemTime, UNIX_EPOCH},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    rand::{SecureRandom, SystemRandom},
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
    },
};
use serde_json::{Value, json};

/// A P-256 key, generated for each server.
pub(super) struct Signer {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

/// Issuer and public key of trusted tokens.
#[derive(Clone, Debug)]
pub(super) struct Trusted {
    pub(super) issuer: String,
    pub(super) key: Vec<u8>,
}

// === impl Signer ===

impl Signer {
    pub(super) fn new() -> io::Result<Self> {
        let random = SystemRandom::new();
        let failed = |_| io::Error::other("cannot generate a key");
        let kept = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).map_err(failed)?;
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, kept.as_ref(), &random)
            .map_err(|_| io::Error::other("the key cannot be read"))?;
        Ok(Self { pair, random })
    }

    pub(super) fn public(&self) -> Vec<u8> {
        self.pair.public_key().as_ref().to_vec()
    }

    /// Public key as JWK set; the two coordinates follow the first byte.
    pub(super) fn keys(&self) -> Value {
        let public = self.public();
        let [x, y] = [&public[1..33], &public[33..]].map(|half| URL_SAFE_NO_PAD.encode(half));
        json!({ "keys": [{ "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "1", "x": x, "y": y }] })
    }

    /// A JWT with these claims.
    pub(super) fn sign(&self, claims: &Value) -> String {
        let header = json!({ "alg": "ES256", "typ": "at+jwt", "kid": "1" });
        let [header, claims] = [&header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let text = format!("{header}.{claims}");
        // Signing fails only without random numbers; the token is invalid then.
        let signature = self.pair.sign(&self.random, text.as_bytes());
        let signature = signature.map(|signature| URL_SAFE_NO_PAD.encode(signature)).unwrap_or_default();
        format!("{text}.{signature}")
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer")
    }
}

/// Claims of a valid token of a trusted issuer for this resource.
pub(super) fn verify(token: &str, trusted: &[Trusted], resource: &str) -> Option<Value> {
    let (text, signature) = token.rsplit_once('.')?;
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    let (_, claims) = text.split_once('.')?;
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
    let maker = trusted.iter().find(|maker| claims["iss"] == maker.issuer.as_str())?;
    let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &maker.key);
    key.verify(text.as_bytes(), &signature).ok()?;
    (claims["aud"] == resource && now() < claims["exp"].as_u64()?).then_some(claims)
}

/// A random text with this prefix.
pub(super) fn unguessable(kind: &str) -> String {
    let mut bytes = [0; 24];
    // Without random numbers the text is predictable, and the test fails elsewhere.
    let _filled = SystemRandom::new().fill(&mut bytes);
    format!("{kind}-{}", URL_SAFE_NO_PAD.encode(bytes))
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Signer, Trusted, now, verify};

    #[test]
    fn token_is_valid_for_its_resource_until_it_expires() {
        let (signer, other) = (Signer::new().unwrap(), Signer::new().unwrap());
        let trusted = [Trusted { issuer: "http://a".to_owned(), key: signer.public() }];
        let claims = |ends: u64, audience: &str| json!({ "iss": "http://a", "aud": audience, "exp": ends });
        let good = signer.sign(&claims(now() + 60, "http://r"));
        assert_eq!(verify(&good, &trusted, "http://r").unwrap()["aud"], "http://r");
        for bad in [
            signer.sign(&claims(now(), "http://r")),
            signer.sign(&claims(now() + 60, "http://other")),
            other.sign(&claims(now() + 60, "http://r")),
            good.replacen('.', ".e", 1),
            "no token".to_owned(),
        ] {
            assert!(verify(&bad, &trusted, "http://r").is_none(), "{bad}");
        }
    }
}
