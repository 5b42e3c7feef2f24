//! Peer.
fn main() {}
