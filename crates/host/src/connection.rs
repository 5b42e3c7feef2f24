//! One server, from where it is to a peer that has shaken hands.
//!
//! [`dial`](mod@dial) is the one way in. A server is a program that is started here ([`stdio`]) or an address; the
//! words and the wire are [`toolway_wire::up`]'s.

pub mod dial;
pub mod environment;
pub mod era_memory;
pub mod last_words;
pub mod stdio;
pub mod tap;

pub use dial::{DialOptions, ServerAddress, dial};
pub use era_memory::DiskEraMemory;
pub use last_words::LastWords;
pub use stdio::Program;
