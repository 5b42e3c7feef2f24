//! Transport to a service in the same process, through wire format and accents, without a process or a socket.

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::stdio::{ProcessHandle, ServerStreams, StdioTransport, StreamOpener};
use crate::{
    down::{self, DownstreamOptions, Service},
    error::WireError,
};

/// Buffer size in each direction, in bytes.
const PIPE: usize = 256 * 1024;

/// Creates a transport to a service in this process.
pub fn transport(service: Arc<dyn Service>, options: DownstreamOptions) -> StdioTransport {
    let limits = options.limits.clone();
    StdioTransport::new(Arc::new(InProcess { service, options }), limits)
}

struct InProcess {
    service: Arc<dyn Service>,
    options: DownstreamOptions,
}

#[derive(Debug)]
struct Serving {
    stop: CancellationToken,
    _task: AbortOnDropHandle<()>,
}

impl StreamOpener for InProcess {
    fn target(&self) -> String {
        "in-process server".to_owned()
    }

    fn open(&self) -> BoxFuture<'_, Result<ServerStreams, WireError>> {
        Box::pin(async move {
            let (ours, theirs) = tokio::io::duplex(PIPE);
            let (read, write) = tokio::io::split(ours);
            let (their_read, their_write) = tokio::io::split(theirs);
            let stop = CancellationToken::new();
            let serving = down::stdio::serve(
                their_read,
                their_write,
                Arc::clone(&self.service),
                self.options.clone(),
                stop.clone(),
            );
            let task = tokio::runtime::Handle::current().spawn(async move {
                if let Err(error) = serving.await {
                    tracing::error!(%error, "in-process server failed");
                }
            });
            let process = Serving { stop, _task: AbortOnDropHandle::new(task) };
            Ok(ServerStreams { read: Box::new(read), write: Box::new(write), process: Some(Box::new(process)) })
        })
    }
}

impl ProcessHandle for Serving {
    fn exit_reason(&self) -> BoxFuture<'_, String> {
        Box::pin(async { "the in-process server stopped".to_owned() })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.stop.cancel();
        Box::pin(async {})
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcess")
    }
}
