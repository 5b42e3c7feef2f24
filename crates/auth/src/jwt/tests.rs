//! Keys and signatures that others published: RFC 7515 A.2 to A.4, RFC 6979 A.2.6.

use p521::ecdsa::signature::Verifier as _;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde_json::{Map, Value, json};
use toolway_config::Secret;

use super::*;

/// RFC 7515, A.2, as PKCS#1.
pub(crate) const RSA: &str = "-----BEGIN RSA PRIVATE KEY-----
MIIEowIBAAKCAQEAofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd/wWJcyQoTbji9k0
l8W26mPddxHmfHQp+Vaw+4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL+yRT+SFd2lZS+pC
gNMsD1W/YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb/7OMg0LOL+bSf63kpaSHSX
ndS5z5rexMdbBYUsLA9e+KXBdQOS+UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uD
Zlxvb3qCo5ZwKh9kG4LT6/I5IhlJH7aGhyxXFvUK+DWNmoudF8NAco9/h9iaGNj8
q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQIDAQABAoIBABKucaRpzQorw35S
bEUAVx8dYXUdZOlJcHtiWQ+dC6V8ljxAHj/PLyzTveyI5QO/xkObCyjIL303l2cf
UhPu2MFaJdjVzqACXuOrLot/eSFvxjvqVidTtAZExqFRJ9mylUVAoLvhowVWmC1O
n95fZCXxTUtxNEG1Xcc7m0rtzJKs45J+N/V9DP1edYH6USyPSWGp6wuA+KgHRnKK
Vf9GRx80JQY7nVNkL17eHoTWEwga+lwi0FEoW9Y7lDtWXYmKBWhUE+U8PGxlJf8f
40493HDw1WRQ/aSLoS4QTp3rn7gYgeHEvfJdkkf0UMhlknlo53M09EFPdadQ4TlU
bjqKc50CgYEA4BzEEOtIpmVdVEZNCqS7baC4crd0pqnRH/5IB3jw3bcxGn6QLvnE
tfdUdiYrqBdss1l58BQ3KhooKeQTa9AB0Hw/Py5PJdTJNPY8cQn7ouZ2KKDcmnPG
BY5t7yLc1QlQ5xHdwW1VhvKn+nXqhJTBgIPgtldC+KDV5z+y2XDwGUcCgYEAuQPE
fgmVtjL0Uyyx88GZFF1fOunH3+7cepKmtH4pxhtCoHqpWmT8YAmZxaewHgHAjLYs
p1ZSe7zFYHj7C6ul7TjeLQeZD/YwD66t62wDmpe/HlB+TnBA+njbglfIsRLtXlnD
zQkv5dTltRJ11BKBBypeeF6689rjcJIDEz9RWdcCgYAHAp9XcCSrn8wVkMVkKdb7
DOX4IKjzdahm+ctDAJN4O/y7OW5FKebvUjdAIt2GuoTZ71iTG+7F0F+lP88jtjP4
U4qe7VHoewl4MKOfXZKTe+YCS1XbNvfgwJ3Ltyl1OH9hWvu2yza7q+d5PCsDzqtm
27kxuvULVeya+TEdAB1ijQKBgQCH/3r6YrVH/uCWGy6bzV1nGNOdjKc9tmkfOJmN
54dxdixdpozCQ6U4OxZrsj3FcOhHBsqAHvX2uuYjagqvo3cOj1TRqNocX40omfCC
Mx3bD1yPPf/6TI2XECva/ggqEY2mYzmIiA5LVVmc5nrybr+lssFKneeyxN2Wq93S
0iJMdQKBgCGHewxzoa1r8ZMD0LETNrToK423K377UCYqXfg5XMclbrjPbEC3YI1Z
NqMtuhdBJqUnBi6tjKMF+34Xf0CUN8ncuXGO2CAYvO8PdyCixHX52ybaDjy1FtCE
6yUXjoKNXKvUm7MWGsAYH6f4IegOetN5NvmUMFStCSkh7ixZLkN1
-----END RSA PRIVATE KEY-----";

/// RFC 7515, A.3, as SEC1.
pub(crate) const P256: &str = "-----BEGIN EC PRIVATE KEY-----
MHcCAQEEII6bEJ5xkJi/mASH3x9dd+nLKWBuvtImO19XwhPfhPSyoAoGCCqGSM49
AwEHoUQDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEXH8UTNG72b
focs3+257rn0s2ldbqkLJK2KRiMohYjlrQ==
-----END EC PRIVATE KEY-----";

/// The same as PKCS#8.
const P256_PKCS8: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgjpsQnnGQmL+YBIff
H1136cspYG6+0iY7X1fCE9+E9LKhRANCAAR/zc4ncPbEXUGDy+5v20t7WAczNXvp
7xO6z248e9FURcfxRM0bvZt+hyzf7bnuufSzaV1uqQskrYpGIyiFiOWt
-----END PRIVATE KEY-----";

/// The same without the public half.
const P256_BARE: &str = "-----BEGIN EC PRIVATE KEY-----
MDECAQEEII6bEJ5xkJi/mASH3x9dd+nLKWBuvtImO19XwhPfhPSyoAoGCCqGSM49
AwEH
-----END EC PRIVATE KEY-----";

/// RFC 6979, A.2.6, as SEC1.
const P384: &str = "-----BEGIN EC PRIVATE KEY-----
MIGkAgEBBDBrnT2tLhuMHAWxmHW2ZZ9N4jw7Znvyl7qapHdAeHE32JbVck5McKgl
+HLJ6mDS7fWgBwYFK4EEACKhZANiAATsOk5BW04ZpFaGGAKfQn+l2pqLxK6S4C4G
quUoazAMZN748OqQVYZgZKJUUVSAvBOAFdm3LX1XJE6o75rAxiGJZwilk2f537n1
TKhLPxydsSiLIxw64NT+c0T9JTMmRyA=
-----END EC PRIVATE KEY-----";

/// RFC 7515, A.4, as SEC1.
const P521: &str = "-----BEGIN EC PRIVATE KEY-----
MIHcAgEBBEIBjmlvsDRQWIHdEQtIPrh9Ms5JX+NrN0Xt8tjK5PDyU59GFaDpjqtS
s8DF6sTOB1GFqOe7R96sHR3ne8z2YTXmPYKgBwYFK4EEACOhgYkDgYYABAHpKQUP
Ek/GvFXH1TkzZd+d70qwwiyyV5j5NOsE48a643AaV6eRDp2BvzYxWejryxVdY0n0
vbbM+KlMXFnHqsEBpAA0pkQON2dQ0jcf0b3CyPO3HS9O5eo0MsgVzKMVYP5dk4fs
d0tVg4Yw5cu/Woy+CpHdAGTGmZofbm5n+t3t5MjI9g==
-----END EC PRIVATE KEY-----";

/// The same as PKCS#8.
const P521_PKCS8: &str = "-----BEGIN PRIVATE KEY-----
MIHuAgEAMBAGByqGSM49AgEGBSuBBAAjBIHWMIHTAgEBBEIBjmlvsDRQWIHdEQtI
Prh9Ms5JX+NrN0Xt8tjK5PDyU59GFaDpjqtSs8DF6sTOB1GFqOe7R96sHR3ne8z2
YTXmPYKhgYkDgYYABAHpKQUPEk/GvFXH1TkzZd+d70qwwiyyV5j5NOsE48a643Aa
V6eRDp2BvzYxWejryxVdY0n0vbbM+KlMXFnHqsEBpAA0pkQON2dQ0jcf0b3CyPO3
HS9O5eo0MsgVzKMVYP5dk4fsd0tVg4Yw5cu/Woy+CpHdAGTGmZofbm5n+t3t5MjI
9g==
-----END PRIVATE KEY-----";

const A2: &str = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb29\
                  0Ijp0cnVlfQ";
const A2_SIGNATURE: &str = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5juj\
                            Gbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe\
                            7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8\
                            np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";

fn key(pem: &str) -> SigningKey {
    SigningKey::from_pem(&Secret::new(pem)).unwrap()
}

fn decode(text: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text).unwrap()
}

/// Bytes between the markers of a PEM text.
fn der(pem: &str) -> Vec<u8> {
    let lines: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    base64::engine::general_purpose::STANDARD.decode(lines).unwrap()
}

/// Public key: the last bytes of SEC1.
fn public(sec1: &str, length: usize) -> Vec<u8> {
    let der = der(sec1);
    der[der.len() - length..].to_vec()
}

fn claims() -> Map<String, Value> {
    let Value::Object(claims) = json!({ "iss": "joe", "exp": 1_300_819_380 }) else { unreachable!() };
    claims
}

/// Signed message and signature.
fn signed(pem: &str, algorithm: Algorithm) -> (String, Vec<u8>) {
    let text = sign(&key(pem), algorithm, &Header::default(), &claims()).unwrap();
    let (message, signature) = text.expose().rsplit_once('.').unwrap();
    (message.to_owned(), decode(signature))
}

/// Modulus of the key of A.2, from its offset in PKCS#1.
fn modulus() -> Vec<u8> {
    der(RSA)[12..12 + 256].to_vec()
}

#[test]
fn published_rsa_signature_is_reproduced() {
    let signature = key(RSA).sign(Algorithm::Rs256, A2.as_bytes()).unwrap();
    assert_eq!(encode(signature), A2_SIGNATURE);
    let wrapped = wrapped_rsa();
    let signature = key(&wrapped).sign(Algorithm::Rs256, A2.as_bytes()).unwrap();
    assert_eq!(encode(signature), A2_SIGNATURE, "the same key as PKCS#8");
}

/// PKCS#1 inside PKCS#8.
fn wrapped_rsa() -> String {
    let inner = der(RSA);
    let sized = |tag: u8, body: Vec<u8>| {
        let length = u16::try_from(body.len()).unwrap().to_be_bytes();
        [vec![tag, 0x82], length.to_vec(), body].concat()
    };
    let name = [0x30, 0x0d, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 5, 0];
    let outer = sized(0x30, [vec![2, 1, 0], name.to_vec(), sized(4, inner)].concat());
    let text = base64::engine::general_purpose::STANDARD.encode(outer);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"))
}

#[test]
fn rsa_key_signs_with_each_hash_length() {
    let public = RsaPublicKeyComponents { n: modulus(), e: vec![1, 0, 1] };
    let (message, signature) = signed(RSA, Algorithm::Rs384);
    public.verify(&RSA_PKCS1_2048_8192_SHA384, message.as_bytes(), &signature).unwrap();
    let (message, signature) = signed(RSA, Algorithm::Rs512);
    public.verify(&RSA_PKCS1_2048_8192_SHA512, message.as_bytes(), &signature).unwrap();
    let header = message.split('.').next().unwrap();
    assert_eq!(decode(header), br#"{"alg":"RS512"}"#);
}

#[test]
fn curve_signatures_verify_with_the_public_key() {
    let verified = |pem, algorithm, public: Vec<u8>, verifier: &'static dyn VerificationAlgorithm| {
        let (message, signature) = signed(pem, algorithm);
        UnparsedPublicKey::new(verifier, public).verify(message.as_bytes(), &signature).unwrap();
    };
    verified(P256, Algorithm::Es256, public(P256, 65), &ECDSA_P256_SHA256_FIXED);
    verified(P256_PKCS8, Algorithm::Es256, public(P256, 65), &ECDSA_P256_SHA256_FIXED);
    verified(P384, Algorithm::Es384, public(P384, 97), &ECDSA_P384_SHA384_FIXED);
}

#[test]
fn p521_signatures_verify_with_the_public_key() {
    let public = p521::ecdsa::VerifyingKey::from_sec1_bytes(&public(P521, 133)).unwrap();
    let published = "AdwMgeerwtHoh-l192l60hp9wAHZFVJbLfD_UxMi70cwnZOYaRI1bKPWROc-mZZqwqT2SI-KGDKB34XO0aw_7XdtAG8GaSwFKdCA\
                     PZgoXD2YBJZCPEX3xKpRwcdOO8KpEHwJjyqOgzDO7iKvU8vcnwNrmxYbSW9ERBXukOXolLzeO_Jn";
    let published = p521::ecdsa::Signature::from_slice(&decode(published)).unwrap();
    public.verify(b"eyJhbGciOiJFUzUxMiJ9.UGF5bG9hZA", &published).expect("the published signature verifies");
    for pem in [P521, P521_PKCS8] {
        let (message, signature) = signed(pem, Algorithm::Es512);
        assert_eq!(signature.len(), 132);
        public.verify(message.as_bytes(), &p521::ecdsa::Signature::from_slice(&signature).unwrap()).unwrap();
    }
}

#[test]
fn headers_and_claims_are_serialized_as_given() {
    let header = Header { kind: Some("dpop+jwt"), key_id: Some("7".to_owned()), jwk: key(P256).public_jwk() };
    let text = sign(&key(P256), Algorithm::Es256, &header, &claims()).unwrap();
    let parts: Vec<_> = text.expose().split('.').collect();
    assert_eq!(
        serde_json::from_slice::<Value>(&decode(parts[0])).unwrap(),
        json!({
            "alg": "ES256", "typ": "dpop+jwt", "kid": "7",
            "jwk": {
                "crv": "P-256", "kty": "EC",
                "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
                "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"
            }
        }),
        "RFC 7515, A.3"
    );
    assert_eq!(decode(parts[1]), br#"{"exp":1300819380,"iss":"joe"}"#);
    assert_ne!(fresh_id().unwrap(), fresh_id().unwrap());
}

#[test]
fn algorithm_is_the_configured_one_or_one_that_both_sides_support() {
    let taken = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let rsa = key(RSA);
    assert_eq!(rsa.choose(None, &[]), Ok(Algorithm::Rs256));
    assert_eq!(rsa.choose(None, &taken(&["PS256", "RS512", "RS384"])), Ok(Algorithm::Rs384));
    assert_eq!(rsa.choose(Some(Algorithm::Rs512), &taken(&["RS256"])), Ok(Algorithm::Rs512));
    let refused = key(P256).choose(None, &taken(&["RS256", "PS256"])).unwrap_err();
    assert_eq!(refused.to_string(), "the private key signs with ES256, not with RS256, PS256");
    assert!(key(P521).choose(Some(Algorithm::Es256), &[]).is_err());
    assert!(key(P384).sign(Algorithm::Es256, b"x").is_err());
    for algorithm in Algorithm::ALL {
        assert_eq!(algorithm.name().parse(), Ok(algorithm));
    }
    assert_eq!("none".parse::<Algorithm>(), Err(UnknownAlgorithm));
}

#[test]
fn key_is_found_among_other_text_and_in_one_line() {
    let parameters = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";
    key(&format!("Bag Attributes\n{parameters}{P256}"));
    key(&P256.replace('\n', "\\n"));
    key(&P256.replace('\n', "\r\n"));
}

#[test]
fn key_errors_do_not_show_the_key() {
    let wrong = |pem: &str| SigningKey::from_pem(&Secret::new(pem)).unwrap_err();
    assert_eq!(wrong("c2VjcmV0"), KeyError::NotPem);
    assert_eq!(wrong("-----BEGIN CERTIFICATE-----\nc2VjcmV0\n-----END CERTIFICATE-----\n"), KeyError::NotPem);
    assert_eq!(
        wrong("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----"),
        KeyError::Encrypted
    );
    assert_eq!(wrong(&"a".repeat(32 * 1024 + 1)), KeyError::TooLong);
    assert!(wrong(P256_BARE).to_string().contains("its public key is missing"));
    let cut = P256_PKCS8.replace("MIGHAgEAMBMGByqGSM49", "MIGHAgEAMBMGByqGSM50");
    for broken in [cut.as_str(), &RSA.replace("MIIEowIBAAKCAQEA", "MIIEowIBAAKCAQEB")] {
        let said = format!("{0} {0:?}", wrong(broken));
        assert!(said.contains("cannot be used"), "{said}");
        assert!(!said.contains("jpsQ") && !said.contains("ofgW"), "{said}");
    }
    assert_eq!(format!("{:?} {:?}", key(RSA), key(P521)), "SigningKey(RS256, RS384, RS512) SigningKey(ES512)");
}

#[test]
fn generated_key_signs_after_it_was_stored() {
    let kept = SigningKey::generate().unwrap();
    let key = SigningKey::from_pem(&kept).unwrap();
    assert_eq!(key.algorithms(), [Algorithm::Es256]);
    assert!(key.public_jwk().is_some());
    assert_ne!(SigningKey::generate().unwrap(), kept);
}
