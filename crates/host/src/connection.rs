//! One server, from where it is to the last close. A [`Connection`] is a cheap handle; what owns the process or the
//! session is the supervisor behind it.
//!
//! What a server *offers* is kept in [`crate::catalog`]; whether a call may go out is decided in [`crate::policy`].
//! Nothing here knows tools by name. [`dial`](mod@dial) is the one way in; the words and the wire are
//! [`toolway_wire::up`]'s.

pub mod address;
pub mod backoff;
pub mod client_face;
pub mod dial;
pub mod environment;
pub mod era_memory;
mod in_process;
pub mod last_words;
pub mod lines;
mod live;
mod sent;
pub mod session_memory;
pub mod set;
pub mod sign_in;
pub mod state;
pub mod stdio;
mod supervisor;
pub mod tap;
mod uses;
pub mod view;
mod waking;
pub mod wanted;

pub use address::ServerAddress;
pub use dial::{DialError, DialOptions, dial};
pub use era_memory::DiskEraMemory;
pub use last_words::LastWords;
pub use lines::{CapabilityProfile, LineStatus, OwnChange, OwnLog};
pub use live::Connection;
pub use sent::Sent;
pub use session_memory::SessionMemory;
pub use set::{Applied, Changed, Effect, Happened, Plan, WantedSet};
pub use state::{NotConnected, Phase, ServerStatus, Stopped, TransportKind};
pub use stdio::Program;
pub use wanted::{Lists, WantedServer, Way};

pub(crate) use dial::Dialler;
pub(crate) use live::{Hearing, Order};
pub(crate) use sent::Seat;
pub(crate) use supervisor::{Cataloguing, Surroundings, Turns, supervise};
pub(crate) use uses::Ear;
pub(crate) use waking::Ready;
