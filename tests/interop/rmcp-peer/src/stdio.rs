//! The standard streams, until input ends.
//!
//! The SDK gives running requests five seconds once input has ended. A `subscriptions/listen` would use all of them,
//! so the end of stdin is detected here and reported to the [`World`](crate::server::World).

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use rmcp::transport::io::{StdioReader, stdio_pipes};
use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::sync::CancellationToken;

use crate::args::Era;
use crate::server::{Server, World};

pub(crate) async fn serve(era: Era) -> Result<(), Box<dyn Error>> {
    let world = Arc::new(World::default());
    let (reader, writer) = stdio_pipes();
    let input = Input { reader, ended: world.ended.clone() };
    match Server::new(era, world).serve((input, writer)).await {
        Ok(running) => {
            running.waiting().await?;
            Ok(())
        }
        // An empty stdin is a normal end.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Stdin that reports its end.
struct Input {
    reader: StdioReader,
    ended: CancellationToken,
}

impl AsyncRead for Input {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.remaining();
        let outcome = ready!(Pin::new(&mut self.reader).poll_read(cx, buf));
        if outcome.is_err() || buf.remaining() == before {
            self.ended.cancel();
        }
        Poll::Ready(outcome)
    }
}
