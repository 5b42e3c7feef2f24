//! Sign-ins against real servers, correct and malicious. Tests name the vulnerability that they cover.
#![expect(clippy::unwrap_used, reason = "test helpers")]

mod audience;
mod codes;
mod issuer;
mod limits;
mod principals;
mod redirects;
mod refreshing;
mod sdk_servers;
mod signing_in;
mod stage;
mod stepping_up;
mod untrusted_urls;
