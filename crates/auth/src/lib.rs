//! Authentication to MCP servers: from a 401 or 403 response to a credential that the server accepts.
//!
//! | module | responsibility |
//! |---|---|
//! | [`challenge`] | parses `WWW-Authenticate` |
//! | [`metadata`] | protected resource metadata and authorization server metadata |
//! | [`discovery`] | combines both with the operator's settings |
//! | [`scope`] | requested scopes, and limits on repeated requests |
//! | [`settings`] | the operator's settings, which override discovery |
//! | [`registration`] | client registration |
//! | [`authorize`] | an interactive sign-in in progress, and its callback |
//! | [`sign_in`] | steps of an interactive sign-in |
//! | [`browser`] | port to the user's browser |
//! | [`callback`] | HTTP listener for the redirect |
//! | [`session`] | credentials of one principal at one server: headers of requests, reactions to refusals |
//! | [`unattended`] | the same without a user |
//! | [`static_credential`] | tokens, keys and passwords from the configuration |
//! | [`sign_in_required`] | why a sign-in is required |
//! | [`refresh`] | token refresh |
//! | [`refresh_tracker`] | refreshes in progress, to await at shutdown |
//! | [`token`] | one request to a token endpoint |
//! | [`grant`] | grants without a user |
//! | [`proof`] | port for DPoP proofs |
//! | [`dpop`] | DPoP keys and proofs |
//! | [`jwt`] | signed JWTs and private keys |
//! | [`credential`] | stored credentials and their keys |
//! | [`vault`] | port for credential storage and locks |
//! | [`fetch`] | port for requests to authorization servers |
//! | [`dialer`] | its implementation, which checks every address that it dials |
//! | [`range`] | classification of IP addresses |
//! | [`address`] | validation of URLs that servers supply |
//!
//! This crate knows nothing about MCP messages, the terminal or a browser. A credential belongs to one principal, one
//! issuer, one client and one resource; everything that is requested, stored or sent is bound to all four.

pub mod address;
pub mod authorize;
pub mod browser;
pub mod callback;
pub mod challenge;
mod cooldown;
pub mod counters;
pub mod credential;
pub mod dialer;
pub mod discovery;
pub mod dpop;
pub mod fetch;
pub mod grant;
pub mod jwt;
pub mod metadata;
pub mod proof;
pub mod range;
pub mod refresh;
pub mod refresh_tracker;
pub mod registration;
pub mod scope;
#[cfg(test)]
mod scripted;
pub mod session;
pub mod settings;
pub mod sign_in;
pub mod sign_in_required;
pub mod static_credential;
pub mod token;
pub mod unattended;
pub mod vault;
