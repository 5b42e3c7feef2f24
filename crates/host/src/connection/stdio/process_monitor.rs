//! Monitors the process of a server: its id, and how many bytes it has accepted on stdin.
//!
//! A pipe accepts nothing once its reader is gone. So if nothing was accepted after a request was sent, the server did not
//! receive it, and it can be sent again to the next process.

use std::{
    fmt, io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use parking_lot::Mutex;
use tokio::{io::AsyncWrite, sync::Notify};
use toolway_wire::up::stdio::WriteStream;

/// Monitors the current process of one server. Clones share their state.
#[derive(Clone, Default)]
pub struct ProcessMonitor {
    // Nothing awaits under this lock.
    current: Arc<Mutex<Arc<ProcessInstance>>>,
    started: Arc<Notify>,
}

/// One process of a server.
#[derive(Debug, Default)]
pub(crate) struct ProcessInstance {
    process: Option<u32>,
    bytes_read: AtomicU64,
}

/// The stdin of a process, counting the accepted bytes.
struct CountedInput {
    inner: WriteStream,
    process: Arc<ProcessInstance>,
}

// === impl ProcessMonitor ===

impl ProcessMonitor {
    /// Id of the current or last process.
    pub fn process(&self) -> Option<u32> {
        self.current.lock().process
    }

    /// The current or last process.
    pub(crate) fn current(&self) -> Arc<ProcessInstance> {
        Arc::clone(&self.current.lock())
    }

    /// Resolves when the next process has started.
    pub(crate) fn next_start(&self) -> impl Future<Output = ()> + Send + 'static {
        Arc::clone(&self.started).notified_owned()
    }

    /// Registers a started process; returns its stdin with counting.
    pub(super) fn start(&self, process: Option<u32>, input: WriteStream) -> WriteStream {
        let instance = Arc::new(ProcessInstance { process, bytes_read: AtomicU64::new(0) });
        *self.current.lock() = Arc::clone(&instance);
        self.started.notify_waiters();
        Box::new(CountedInput { inner: input, process: instance })
    }
}

impl fmt::Debug for ProcessMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessMonitor").field("process", &self.process()).finish()
    }
}

// === impl ProcessInstance ===

impl ProcessInstance {
    /// Bytes it has accepted so far.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Acquire)
    }
}

// === impl CountedInput ===

impl AsyncWrite for CountedInput {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        if let Poll::Ready(Ok(count)) = written {
            self.process.bytes_read.fetch_add(count as u64, Ordering::Release);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::AsyncWriteExt,
        net::unix::pipe::{Receiver, Sender},
    };

    use super::ProcessMonitor;

    #[tokio::test]
    async fn bytes_are_not_accepted_after_the_reader_is_gone() {
        let (read, write) = std::io::pipe().unwrap();
        let monitor = ProcessMonitor::default();
        let sender = Sender::from_owned_fd(write.into()).unwrap();
        let started = monitor.next_start();
        let mut input = monitor.start(Some(7), Box::new(sender));
        started.await;
        let reader = Receiver::from_owned_fd(read.into()).unwrap();
        input.write_all(b"hello").await.unwrap();
        let process = monitor.current();
        assert_eq!((monitor.process(), process.bytes_read()), (Some(7), 5));

        drop(reader);
        assert!(input.write_all(b"more").await.is_err());
        assert_eq!(process.bytes_read(), 5, "a closed pipe accepts nothing");
    }

    #[test]
    fn each_process_is_counted_separately() {
        let monitor = ProcessMonitor::default();
        let before = monitor.current();
        drop(monitor.start(Some(8), Box::new(tokio::io::sink())));
        assert_eq!(monitor.process(), Some(8));
        assert!(!std::sync::Arc::ptr_eq(&before, &monitor.current()));
    }
}
