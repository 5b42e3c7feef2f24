//! A TCP proxy that records what the client sends.

use std::{net::SocketAddr, sync::Arc};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::task::AbortOnDropHandle;

/// The running proxy; stops on drop.
pub(crate) struct Tap {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<u8>>>,
    _serving: AbortOnDropHandle<()>,
}

impl Tap {
    /// Starts a proxy to the server at this URL.
    pub(crate) async fn before(url: &str) -> Self {
        let server = url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, seen) = (listener.local_addr().unwrap(), Arc::default());
        let serving = tokio::runtime::Handle::current().spawn(serve(listener, server, Arc::clone(&seen)));
        Self { address, seen, _serving: AbortOnDropHandle::new(serving) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Everything that was sent to the server.
    pub(crate) fn seen(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock()).into_owned()
    }
}

async fn serve(listener: TcpListener, server: String, seen: Arc<Mutex<Vec<u8>>>) {
    let mut pipes = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let server = TcpStream::connect(&server).await.unwrap();
        let (mut from, mut back) = client.into_split();
        let (mut answers, mut to) = server.into_split();
        let seen = Arc::clone(&seen);
        pipes.spawn(async move {
            let mut chunk = vec![0; 16 * 1024];
            while let Ok(length @ 1..) = from.read(&mut chunk).await {
                seen.lock().extend_from_slice(&chunk[..length]);
                if to.write_all(&chunk[..length]).await.is_err() {
                    return;
                }
            }
        });
        pipes.spawn(async move { drop(tokio::io::copy(&mut answers, &mut back).await) });
    }
}
