//! From a server's refusal to a credential it takes.
//!
//! | read | for |
//! |---|---|
//! | [`challenge`] | what a server says with its refusal |
//! | [`metadata`] | who signs people in to a server, and how |
//! | [`scope`] | what is asked for, and how often |
//! | [`settings`] | what the operator wrote, which wins |
//! | [`registration`] | which client we are |
//! | [`authorize`] | one sign-in under way, and its callback |
//! | [`token`] | one request to a token endpoint |
//! | [`proof`] | tokens that are bound to a key |
//! | [`dpop`] | keys and proofs for them |
//! | [`jwt`] | texts signed with a private key |
//! | [`credential`] | what is kept of a sign-in, and under which key |
//! | [`vault`] | where it is kept, and whose turn it is to renew it |
//! | [`fetch`] | the one way to authorization servers and metadata |
//! | [`dialer`] | that way, with every address checked as it is dialled |
//! | [`range`] | what kind of place an address is in |
//! | [`address`] | which addresses strangers may give |
//!
//! Nothing here knows MCP messages, the terminal or a browser. A credential belongs to one principal, one issuer, one
//! client and one resource; everything that is asked for, kept or sent is bound to all four.

pub mod address;
pub mod authorize;
pub mod challenge;
pub mod credential;
pub mod dialer;
pub mod dpop;
pub mod fetch;
pub mod jwt;
pub mod metadata;
pub mod proof;
pub mod range;
pub mod registration;
pub mod scope;
#[cfg(test)]
mod scripted;
pub mod settings;
pub mod token;
pub mod vault;
