//! A server that lives in this process: the whole way of a call, without a program or a socket.

use std::sync::Arc;

use toolway_wire::{
    down::{FaceOptions, Service},
    up::{in_process, transport::Transport},
};

/// A way to a service in this process; each connection is a conversation of its own with it.
pub(super) fn transport(service: &Arc<dyn Service>) -> Arc<dyn Transport> {
    Arc::new(in_process::transport(Arc::clone(service), FaceOptions::default()))
}
