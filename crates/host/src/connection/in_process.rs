//! A server in this process, without a program or a socket.

use std::sync::Arc;

use toolway_wire::{
    down::{DownstreamOptions, Service},
    up::{in_process, transport::Transport},
};

/// Creates a transport to a service in this process. Each connection has its own state.
pub(super) fn transport(service: &Arc<dyn Service>) -> Arc<dyn Transport> {
    Arc::new(in_process::transport(Arc::clone(service), DownstreamOptions::default()))
}
