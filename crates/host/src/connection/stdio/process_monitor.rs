//! A program's signs of life: its number, and how much it has taken from us.
//!
//! A pipe takes nothing once its reader is gone. So a request after which nothing was taken has reached nobody, and can
//! be sent again to whoever is started next.

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

/// Feels the pulse of one server's program. Cloning is cheap; every clone feels the same.
#[derive(Clone, Default)]
pub struct Pulse {
    // Nothing awaits under this lock. Each process has its own.
    now: Arc<Mutex<Arc<Life>>>,
    begun: Arc<Notify>,
}

/// One process.
#[derive(Debug, Default)]
pub(crate) struct Life {
    process: Option<u32>,
    taken: AtomicU64,
}

/// A process's standard input, with what it takes counted.
struct Counted {
    inner: WriteStream,
    life: Arc<Life>,
}

// === impl Pulse ===

impl Pulse {
    /// The number of the process, or of the last one.
    pub fn process(&self) -> Option<u32> {
        self.now.lock().process
    }

    /// The process of this moment.
    pub(crate) fn now(&self) -> Arc<Life> {
        Arc::clone(&self.now.lock())
    }

    /// Resolves when another process has begun, from now on.
    pub(crate) fn begins(&self) -> impl Future<Output = ()> + Send + 'static {
        Arc::clone(&self.begun).notified_owned()
    }

    /// Another process begins; this is its standard input.
    pub(super) fn begin(&self, process: Option<u32>, input: WriteStream) -> WriteStream {
        let life = Arc::new(Life { process, taken: AtomicU64::new(0) });
        *self.now.lock() = Arc::clone(&life);
        self.begun.notify_waiters();
        Box::new(Counted { inner: input, life })
    }
}

impl fmt::Debug for Pulse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pulse").field("process", &self.process()).finish()
    }
}

// === impl Life ===

impl Life {
    /// Bytes it has taken so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }
}

// === impl Counted ===

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        if let Poll::Ready(Ok(taken)) = written {
            self.life.taken.fetch_add(taken as u64, Ordering::Release);
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

    use super::Pulse;

    #[tokio::test]
    async fn what_nobody_reads_any_more_is_not_taken() {
        let (read, write) = std::io::pipe().unwrap();
        let pulse = Pulse::default();
        let sender = Sender::from_owned_fd(write.into()).unwrap();
        let begun = pulse.begins();
        let mut input = pulse.begin(Some(7), Box::new(sender));
        begun.await;
        let reader = Receiver::from_owned_fd(read.into()).unwrap();
        input.write_all(b"hello").await.unwrap();
        let life = pulse.now();
        assert_eq!((pulse.process(), life.taken()), (Some(7), 5));

        drop(reader);
        assert!(input.write_all(b"anybody?").await.is_err());
        assert_eq!(life.taken(), 5, "a dead reader takes nothing");
    }

    #[test]
    fn each_process_has_a_life_of_its_own() {
        let pulse = Pulse::default();
        let before = pulse.now();
        drop(pulse.begin(Some(8), Box::new(tokio::io::sink())));
        assert_eq!(pulse.process(), Some(8));
        assert!(!std::sync::Arc::ptr_eq(&before, &pulse.now()));
    }
}
