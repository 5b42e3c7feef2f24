//! DPoP (RFC 9449): one key per credential, a new proof for each request, one nonce per origin.
//!
//! The port is [`crate::proof`]. The senders of requests decide when to retry after `use_dpop_nonce`.

use std::{collections::VecDeque, fmt, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderValue, Method};
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value};
use toolway_config::Secret;
use url::{Origin, Url};

use crate::{
    address,
    credential::now,
    jwt::{self, Algorithm, Header, KeyError, SigningKey, encode},
    proof::{DPOP_NONCE, Presented, ProofError, ProofKeys, Prover},
};

/// Creates P-256 keys, a new one for each credential.
#[derive(Clone, Copy, Debug, Default)]
pub struct DpopKeys;

/// One key, and the nonces for its proofs by origin.
pub struct DpopKey {
    key: SigningKey,
    jwk: Value,
    kept: Secret,
    // Nothing awaits under this lock.
    nonces: Mutex<Nonces>,
}

/// Last nonce of each origin, the newest at the end.
#[derive(Default)]
struct Nonces(VecDeque<(Origin, HeaderValue)>);

/// A credential involves one server and one authorization server; more origins come from redirects.
const MAX_ORIGINS: usize = 8;
/// Maximum length of a nonce in bytes; a longer one is ignored.
const MAX_NONCE: usize = 1024;

// === impl DpopKeys ===

impl ProofKeys for DpopKeys {
    fn prover(&self, kept: Option<&Secret>) -> Result<Arc<dyn Prover>, ProofError> {
        Ok(Arc::new(DpopKey::new(kept)?))
    }
}

// === impl DpopKey ===

impl DpopKey {
    /// Loads a stored key; generates a new one for `None`.
    pub fn new(kept: Option<&Secret>) -> Result<Self, ProofError> {
        let kept = kept.cloned().map_or_else(SigningKey::generate, Ok)?;
        let key = SigningKey::from_pem(&kept)?;
        let jwk = key.public_jwk().ok_or_else(|| ProofError("the stored key is not an ES256 key".to_owned()))?;
        Ok(Self { key, jwk, kept, nonces: Mutex::default() })
    }

    fn claims(
        &self,
        method: &Method,
        url: &Url,
        with: Option<Presented<'_>>,
    ) -> Result<Map<String, Value>, ProofError> {
        let mut claims = Map::new();
        let mut claim = |name: &str, value: Value| claims.insert(name.to_owned(), value);
        claim("jti", jwt::fresh_id()?.into());
        claim("htm", method.as_str().into());
        // Without query and fragment, which may hold secrets.
        claim("htu", address::redacted(url).into());
        claim("iat", now().into());
        if let Some(Presented { token, body }) = with {
            claim("ath", encode(digest(&SHA256, token.expose().as_bytes())).into());
            claim("content_digest", format!("sha-256=:{}:", STANDARD.encode(digest(&SHA256, body))).into());
        }
        if let Some(nonce) = self.nonces.lock().of(url) {
            claim("nonce", nonce.into());
        }
        Ok(claims)
    }
}

impl Prover for DpopKey {
    fn proof(&self, method: &Method, url: &Url, with: Option<Presented<'_>>) -> Result<HeaderValue, ProofError> {
        let claims = self.claims(method, url, with)?;
        let header = Header { kind: Some("dpop+jwt"), jwk: Some(self.jwk.clone()), ..Header::default() };
        let proof = jwt::sign(&self.key, Algorithm::Es256, &header, &claims)?;
        let mut value = HeaderValue::from_str(proof.expose())
            .map_err(|_| ProofError("it contains characters that are not valid in a header".to_owned()))?;
        value.set_sensitive(true);
        Ok(value)
    }

    fn record_nonce(&self, url: &Url, headers: &HeaderMap) {
        if let Some(nonce) = headers.get(DPOP_NONCE) {
            self.nonces.lock().remember(url, nonce);
        }
    }

    fn key(&self) -> Secret {
        self.kept.clone()
    }
}

impl fmt::Debug for DpopKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DpopKey").field("origins", &self.nonces.lock().0.len()).finish_non_exhaustive()
    }
}

impl From<KeyError> for ProofError {
    fn from(error: KeyError) -> Self {
        Self(error.to_string())
    }
}

// === impl Nonces ===

impl Nonces {
    fn of(&self, url: &Url) -> Option<&str> {
        let origin = url.origin();
        self.0.iter().find(|(known, _)| *known == origin).and_then(|(_, nonce)| nonce.to_str().ok())
    }

    fn remember(&mut self, url: &Url, nonce: &HeaderValue) {
        let origin = url.origin();
        if MAX_NONCE < nonce.len() || nonce.is_empty() || nonce.to_str().is_err() || !origin.is_tuple() {
            return;
        }
        self.0.retain(|(known, _)| *known != origin);
        self.0.push_back((origin, nonce.clone()));
        if MAX_ORIGINS < self.0.len() {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    use http::{HeaderMap, HeaderValue, Method};
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
    use serde_json::{Value, json};
    use toolway_config::Secret;
    use url::Url;

    use super::{DpopKey, MAX_NONCE, MAX_ORIGINS};
    use crate::{
        credential::now,
        proof::{DPOP_NONCE, Presented, Prover},
    };

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn decode(text: &str) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(text).unwrap()
    }

    /// Header and claims of a proof, after its signature was verified with the key in its header.
    fn opened(proof: &HeaderValue) -> (Value, Value) {
        let text = proof.to_str().unwrap();
        let (message, signature) = text.rsplit_once('.').unwrap();
        let (header, claims) = message.split_once('.').unwrap();
        let header: Value = serde_json::from_slice(&decode(header)).unwrap();
        let half = |name: &str| decode(header["jwk"][name].as_str().unwrap());
        let public = [vec![4], half("x"), half("y")].concat();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, public)
            .verify(message.as_bytes(), &decode(signature))
            .expect("signed with the key it names");
        (header, serde_json::from_slice(&decode(claims)).unwrap())
    }

    fn nonce(text: &str) -> HeaderMap {
        HeaderMap::from_iter([(DPOP_NONCE, HeaderValue::from_str(text).unwrap())])
    }

    #[test]
    fn proof_names_request_and_key_and_contains_no_secret() {
        let key = DpopKey::new(None).unwrap();
        let asked = url("https://u:p@Example.org:443/mcp?key=s3cret#top");
        let proof = key.proof(&Method::POST, &asked, None).unwrap();
        assert!(proof.is_sensitive());
        let (header, claims) = opened(&proof);
        assert_eq!((&header["typ"], &header["alg"]), (&json!("dpop+jwt"), &json!("ES256")));
        assert_eq!(header["jwk"].get("d"), None);
        assert_eq!((&claims["htm"], &claims["htu"]), (&json!("POST"), &json!("https://example.org/mcp")));
        assert!(claims["iat"].as_u64().unwrap().abs_diff(now()) < 5);
        assert_eq!((claims.get("ath"), claims.get("nonce")), (None, None));
        let (_, next) = opened(&key.proof(&Method::POST, &asked, None).unwrap());
        assert_ne!(next["jti"], claims["jti"], "each proof is new");
    }

    /// RFC 9449, 7.1 and RFC 9421, B.2: this token and this body have these hashes.
    #[test]
    fn proof_with_a_token_contains_hashes_of_token_and_body() {
        let token = Secret::new("Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU");
        let key = DpopKey::new(None).unwrap();
        let with = Presented { token: &token, body: br#"{"hello": "world"}"# };
        let (_, claims) = opened(&key.proof(&Method::POST, &url("https://example.org/mcp"), Some(with)).unwrap());
        assert_eq!(claims["ath"], json!("fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo"));
        assert_eq!(claims["content_digest"], json!("sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:"));
    }

    #[test]
    fn latest_nonce_is_used_for_its_origin_only() {
        let (key, server, login) =
            (DpopKey::new(None).unwrap(), url("https://example.org/mcp"), url("https://login.example/token"));
        let told = |at: &Url| opened(&key.proof(&Method::POST, at, None).unwrap()).1.get("nonce").cloned();
        key.record_nonce(&server, &nonce("one"));
        key.record_nonce(&server, &nonce("two"));
        key.record_nonce(&server, &HeaderMap::new());
        assert_eq!((told(&server), told(&login)), (Some(json!("two")), None));
        assert_eq!(told(&url("https://example.org/other?x")), Some(json!("two")));
        key.record_nonce(&login, &nonce(&"n".repeat(MAX_NONCE + 1)));
        assert_eq!(told(&login), None, "too long");
        for port in 0..MAX_ORIGINS {
            key.record_nonce(&url(&format!("https://other.example:{}/", 1000 + port)), &nonce("x"));
        }
        assert_eq!(key.nonces.lock().0.len(), MAX_ORIGINS, "no more are remembered");
    }

    #[test]
    fn stored_key_is_loaded_unchanged() {
        let first = DpopKey::new(None).unwrap();
        let again = DpopKey::new(Some(&first.key())).unwrap();
        assert_eq!(again.jwk, first.jwk);
        assert_ne!(DpopKey::new(None).unwrap().jwk, first.jwk);
        let broken = DpopKey::new(Some(&Secret::new("s3cret"))).unwrap_err();
        assert!(!format!("{broken} {broken:?} {first:?}").contains("s3cret"));
    }
}
