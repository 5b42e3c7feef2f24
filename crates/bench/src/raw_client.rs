//! Baseline: loops that send a request and read the complete response, on the same runtime as the wire client.
//!
//! [`JsonCheck::Validate`] does the minimum of a client: it writes each request with its own id, frames it, over HTTP with
//! the same library as the wire client, and validates the JSON of the response. [`JsonCheck::Skip`] only moves prepared
//! bytes over bare sockets; it is printed for comparison.

use std::{
    future::poll_fn,
    io,
    pin::{Pin, pin},
    task::Poll,
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    body::{Body, Incoming},
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use serde_json::value::RawValue;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    process::{ChildStdin, ChildStdout},
    task::JoinSet,
};

use crate::peer::{Era, PeerProcess, Way};

/// Whether the JSON of a response is validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonCheck {
    Validate,
    Skip,
}

pub(crate) enum RawClient {
    Stdio { era: Era, stdin: ChildStdin, stdout: BufReader<ChildStdout>, line: Vec<u8> },
    Http { era: Era, address: String, bare: Vec<Socket>, connections: Vec<HttpConnection> },
}

/// A bare connection.
pub(crate) struct Socket {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A connection of the HTTP library, driven in place.
pub(crate) struct HttpConnection {
    sender: SendRequest<Full<Bytes>>,
    driver: Pin<Box<http1::Connection<TokioIo<TcpStream>, Full<Bytes>>>>,
}

impl RawClient {
    pub(crate) async fn connect(server: &mut PeerProcess) -> io::Result<Self> {
        let era = server.way.era();
        match (server.way, server.pipes.take()) {
            (Way::StdioLegacy | Way::StdioModern, Some((stdin, stdout))) => {
                Ok(Self::Stdio { era, stdin, stdout, line: Vec::new() })
            }
            (_, pipes) => {
                server.pipes = pipes;
                Ok(Self::Http { era, address: server.address.clone(), bare: Vec::new(), connections: Vec::new() })
            }
        }
    }

    /// Makes `count` round trips on each of `width` connections.
    pub(crate) async fn round_trips(
        &mut self,
        check: JsonCheck,
        what: &'static str,
        count: usize,
        width: usize,
    ) -> io::Result<()> {
        match (self, check) {
            (Self::Stdio { era, stdin, stdout, line }, check) => {
                let mut request = message(*era, what) + "\n";
                for number in 0..count * width {
                    if check == JsonCheck::Validate {
                        request = numbered(number, *era, what) + "\n";
                    }
                    stdin.write_all(request.as_bytes()).await?;
                    stdin.flush().await?;
                    line.clear();
                    stdout.read_until(b'\n', line).await?;
                    if check == JsonCheck::Validate {
                        check_json(line)?;
                    }
                }
                Ok(())
            }
            (Self::Http { era, address, bare, .. }, JsonCheck::Skip) => {
                let request = post(*era, address, what);
                while bare.len() < width {
                    bare.push(Socket { stream: connect_tcp(address).await?, buffer: Vec::new() });
                }
                let mut tasks = JoinSet::new();
                for mut socket in bare.drain(..).take(width).collect::<Vec<_>>() {
                    let request = request.clone();
                    tasks.spawn(async move {
                        for _ in 0..count {
                            socket.round_trip(&request).await?;
                        }
                        io::Result::Ok(socket)
                    });
                }
                while let Some(done) = tasks.join_next().await {
                    bare.push(done.map_err(io::Error::other)??);
                }
                Ok(())
            }
            (Self::Http { era, address, connections, .. }, JsonCheck::Validate) => {
                while connections.len() < width {
                    connections.push(HttpConnection::dial(address).await?);
                }
                let mut tasks = JoinSet::new();
                for mut line in connections.drain(..).take(width).collect::<Vec<_>>() {
                    let (era, address) = (*era, address.clone());
                    tasks.spawn(async move {
                        for number in 0..count {
                            line.round_trip(request(number, era, &address, what)?).await?;
                        }
                        io::Result::Ok(line)
                    });
                }
                while let Some(done) = tasks.join_next().await {
                    connections.push(done.map_err(io::Error::other)??);
                }
                Ok(())
            }
        }
    }
}

pub(crate) async fn connect_tcp(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Fails unless the message is valid JSON.
fn check_json(message: &[u8]) -> io::Result<()> {
    serde_json::from_slice::<&RawValue>(message).map(drop).map_err(io::Error::other)
}

impl HttpConnection {
    /// Opens a connection.
    pub(crate) async fn dial(address: &str) -> io::Result<Self> {
        let stream = TokioIo::new(connect_tcp(address).await?);
        let (sender, driver) = http1::handshake(stream).await.map_err(io::Error::other)?;
        Ok(Self { sender, driver: Box::pin(driver) })
    }

    async fn round_trip(&mut self, request: http::Request<Full<Bytes>>) -> io::Result<()> {
        check_json(&self.exchange(request).await?.1)
    }

    /// Sends a request; returns the head of the response and its whole body.
    pub(crate) async fn exchange(
        &mut self,
        request: http::Request<Full<Bytes>>,
    ) -> io::Result<(http::response::Parts, Vec<u8>)> {
        let mut sending = pin!(self.sender.send_request(request));
        let driver = &mut self.driver;
        let response = poll_fn(|context| {
            if let Poll::Ready(sent) = sending.as_mut().poll(context) {
                return Poll::Ready(sent);
            }
            let _ended = driver.as_mut().poll(context);
            sending.as_mut().poll(context)
        });
        let (head, mut body) = response.await.map_err(io::Error::other)?.into_parts();
        let mut whole = Vec::with_capacity(usize::try_from(body.size_hint().lower()).unwrap_or_default());
        while let Some(chunk) = self.chunk(&mut body).await? {
            whole.extend_from_slice(&chunk);
        }
        Ok((head, whole))
    }

    async fn chunk(&mut self, body: &mut Incoming) -> io::Result<Option<Bytes>> {
        let driver = &mut self.driver;
        let frame = poll_fn(|context| {
            if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(context) {
                return Poll::Ready(frame);
            }
            let _ended = driver.as_mut().poll(context);
            Pin::new(&mut *body).poll_frame(context)
        });
        match frame.await {
            None => Ok(None),
            Some(Ok(frame)) => Ok(Some(frame.into_data().unwrap_or_default())),
            Some(Err(error)) => Err(io::Error::other(error)),
        }
    }
}

impl Socket {
    async fn round_trip(&mut self, request: &[u8]) -> io::Result<()> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let mut wanted = None;
        loop {
            self.buffer.reserve(64 * 1024);
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if wanted.is_none() {
                wanted = whole(&self.buffer);
            }
            if wanted.is_some_and(|wanted| wanted <= self.buffer.len()) {
                return Ok(());
            }
        }
    }
}

/// Length of the response, once its head is complete.
fn whole(bytes: &[u8]) -> Option<usize> {
    let head = memchr::memmem::find(bytes, b"\r\n\r\n")? + 4;
    let length = memchr::memmem::find(&bytes[..head], b"Content-Length: ")? + 16;
    let digits = bytes[length..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(head + digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0')))
}

/// The request the HTTP library sends.
fn request(number: usize, era: Era, address: &str, what: &str) -> io::Result<http::Request<Full<Bytes>>> {
    let mut request = http::Request::post("/mcp")
        .header("host", address)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    request = match era {
        Era::Legacy => request.header("mcp-protocol-version", "2025-11-25"),
        Era::Modern => request
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", what),
    };
    request.body(Full::new(Bytes::from(numbered(number, era, what)))).map_err(io::Error::other)
}

/// A request with a fixed id.
pub(crate) fn message(era: Era, what: &str) -> String {
    numbered(7, era, what)
}

fn numbered(number: usize, era: Era, what: &str) -> String {
    let meta = match era {
        Era::Legacy => "",
        Era::Modern => {
            r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"toolway","version":"0.1.0"}}"#
        }
    };
    match what {
        "list" => {
            let meta = meta.trim_start_matches(',');
            format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"tools/list","params":{{{meta}}}}}"#)
        }
        name => format!(
            r#"{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{{"name":"{name}","arguments":{{"path":"/srv/demo","limit":10}}{meta}}}}}"#
        ),
    }
}

fn post(era: Era, address: &str, what: &str) -> Vec<u8> {
    let body = message(era, what);
    let headers = match era {
        Era::Legacy => "MCP-Protocol-Version: 2025-11-25\r\n".to_owned(),
        Era::Modern => format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {what}\r\n"),
    };
    format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
