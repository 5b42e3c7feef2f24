//! The connection to one server, from its address to its last close. A [`Connection`] is a cheap handle; the supervisor
//! behind it owns the process or the session.
//!
//! [`crate::catalog`] keeps what a server offers; [`crate::policy`] decides whether a call may be sent. Nothing here
//! knows tools by name. Every connection is opened by `dial`; [`toolway_wire::up`] implements the protocol
//! and the transports.

pub mod address;
pub mod backoff;
pub mod client_features;
mod client_sessions;
mod counters;
mod dial;
mod dial_error;
pub mod environment;
pub mod era_memory;
mod handle;
mod in_flight_call;
mod in_process;
pub mod installer;
pub mod pool;
pub mod process_memory;
mod response_text;
mod server_requests;
pub mod session_store;
pub mod set;
pub mod sign_in;
pub mod state;
pub mod stderr_tail;
pub mod stdio;
mod supervisor;
pub mod tap;
mod usage;
pub mod view;
mod wake;
pub mod wanted;
pub(crate) mod withheld;

pub use address::ServerAddress;
pub use counters::ConnectionCounts;
pub use dial::{DialError, TapFactory};
pub use era_memory::DiskEraMemory;
pub use pool::{CallerConnectionStatus, CallerListChange, CallerLog, CapabilityProfile, RootsOffer};
pub use session_store::{ClaimedSession, SessionOwner, SessionStore, StoredSession};
pub use set::{AppliedPlan, Effect, Plan, ServerChange, ServerPlanResult, WantedSet};
pub use state::{ErrorId, LastError, NotConnected, Phase, ServerStatus, StopReason, TransportKind};
pub use stderr_tail::StderrTail;
pub use stdio::Program;
pub use wanted::{Lists, WantedServer, Way};

pub(crate) use counters::ConnectionCounters;
pub(crate) use dial::Dialer;
pub(crate) use handle::{Connection, ListingLookup, SupervisorCommand};
pub(crate) use in_flight_call::{InFlightCall, Lease};
pub(crate) use supervisor::{CatalogSink, HostContext, StartLimiter, supervise};
pub(crate) use usage::ListenerGuard;
pub(crate) use wake::ReadyPeer;
