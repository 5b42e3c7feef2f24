//! Connections to other gateways that carry no request now. The proof of the key is made once for each connection, so a
//! connection that is used again saves the handshake.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// Idle connections by address. Clones share them.
#[derive(Clone, Default)]
pub(super) struct IdleConnections {
    // Nothing awaits under this lock.
    by_address: Arc<Mutex<HashMap<String, Vec<Idle>>>>,
}

/// A connection that was proven.
pub(super) struct ProvenConnection {
    pub(super) sender: SendRequest<Full<Bytes>>,
    /// Drives it; ends with it.
    pub(super) _task: AbortOnDropHandle<()>,
}

struct Idle {
    connection: ProvenConnection,
    since: Instant,
}

/// Idle connections to one gateway.
const MOST: usize = 64;
/// How long one is kept: less than the other side waits for a request.
const KEPT: Duration = Duration::from_secs(10);

impl IdleConnections {
    /// The connection that was used last; `None` if no open one is idle.
    pub(super) fn take(&self, address: &str) -> Option<ProvenConnection> {
        let mut by_address = self.by_address.lock();
        let idle = by_address.get_mut(address)?;
        idle.retain(|idle| idle.since.elapsed() < KEPT && !idle.connection.sender.is_closed());
        let taken = idle.pop().map(|idle| idle.connection);
        if idle.is_empty() {
            by_address.remove(address);
        }
        taken
    }

    /// Keeps a connection whose response was read to its end.
    pub(super) fn keep(&self, address: &str, connection: ProvenConnection) {
        if connection.sender.is_closed() {
            return;
        }
        let mut by_address = self.by_address.lock();
        let idle = by_address.entry(address.to_owned()).or_default();
        if idle.len() < MOST {
            idle.push(Idle { connection, since: Instant::now() });
        }
    }
}
