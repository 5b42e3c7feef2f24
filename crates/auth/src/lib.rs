//! From a server's refusal to a credential it takes.
//!
//! | read | for |
//! |---|---|
//! | [`challenge`] | what a server says with its refusal |
//! | [`metadata`] | who signs people in to a server, and how |
//! | [`discovery`] | the two together, with the operator's settings over them |
//! | [`scope`] | what is asked for, and how often |
//! | [`settings`] | what the operator wrote, which wins |
//! | [`registration`] | which client we are |
//! | [`authorize`] | one sign-in under way, and its callback |
//! | [`sign_in`] | the steps of it, from a refusal to a credential |
//! | [`browser`] | the person who signs in, as a port |
//! | [`callback`] | where a browser is sent back to |
//! | [`session`] | a principal at a server over time: the credential of each request, the answer to each refusal |
//! | [`unattended`] | the same without a person |
//! | [`fixed`] | what the operator was given, as it is |
//! | [`needed`] | what a server waits for, as a value |
//! | [`renewal`] | a new token for all who wait |
//! | [`renewals`] | those that are under way, for whoever ends the process |
//! | [`token`] | one request to a token endpoint |
//! | [`grant`] | tokens without a person |
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
pub mod browser;
pub mod callback;
pub mod challenge;
pub mod credential;
pub mod dialer;
pub mod discovery;
pub mod dpop;
pub mod fetch;
pub mod fixed;
pub mod grant;
pub mod jwt;
pub mod metadata;
pub mod needed;
pub mod proof;
pub mod range;
pub mod registration;
pub mod renewal;
pub mod renewals;
mod rest;
pub mod scope;
#[cfg(test)]
mod scripted;
pub mod session;
pub mod settings;
pub mod sign_in;
pub mod token;
pub mod unattended;
pub mod vault;
