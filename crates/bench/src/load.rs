//! Load generator: connections that send one request after another and read complete responses.
//!
//! It parses only the framing and the status of a response, so that it costs little and the same for every target.

use std::{
    io,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

use crate::{
    peer::Era,
    raw_client::{connect_tcp, message},
};

/// Address, protocol era and key of the target of a load.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Address, `host:port`.
    pub(crate) address: String,
    /// Protocol era of the load.
    pub(crate) era: Era,
    /// Prefix of the tool names.
    pub(crate) prefix: String,
    /// Client key.
    pub(crate) key: Option<String>,
}

/// A load on one target.
pub(crate) struct Load {
    target: Target,
    session: Option<String>,
    sockets: Vec<LoadSocket>,
}

struct LoadSocket {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Load {
    /// Starts a session if the era requires it.
    pub(crate) async fn new(target: Target) -> io::Result<Self> {
        let mut load = Self { target, session: None, sockets: Vec::new() };
        if load.target.era == Era::Legacy {
            load.session = load.begin_session().await?;
        }
        Ok(load)
    }

    /// Starts another session and returns its id, if there is one.
    pub(crate) async fn begin_session(&mut self) -> io::Result<Option<String>> {
        let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"load","version":"1"}}}"#;
        let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let mut socket = self.take().await?;
        socket.round_trip(&self.target.post(None, hello, "initialize", "")).await?;
        let session = header(socket.head()?, "mcp-session-id").map(str::to_owned);
        socket.round_trip(&self.target.post(session.as_deref(), ready, "notifications/initialized", "")).await?;
        self.sockets.push(socket);
        Ok(session)
    }

    /// Makes `count` round trips on each of `width` connections.
    pub(crate) async fn round_trips(&mut self, what: &'static str, count: usize, width: usize) -> io::Result<()> {
        let mut tasks = JoinSet::new();
        for number in 0..width {
            let (mut socket, request) = (self.take().await?, self.request(what, number));
            tasks.spawn(async move {
                for _ in 0..count {
                    socket.round_trip(&request).await?;
                    socket.check_result()?;
                }
                io::Result::Ok(socket)
            });
        }
        while let Some(done) = tasks.join_next().await {
            self.sockets.push(done.map_err(io::Error::other)??);
        }
        Ok(())
    }

    /// Makes round trips on each of `width` connections for this time; returns the milliseconds of each.
    pub(crate) async fn latencies(&mut self, what: &'static str, time: Duration, width: usize) -> io::Result<Vec<f64>> {
        let mut tasks = JoinSet::new();
        for number in 0..width {
            let mut socket = self.take().await?;
            let request = self.request(what, number);
            tasks.spawn(async move {
                let begun = Instant::now();
                let mut took = Vec::new();
                while begun.elapsed() < time {
                    let sent = Instant::now();
                    socket.round_trip(&request).await?;
                    took.push(sent.elapsed().as_secs_f64() * 1e3);
                    socket.check_result()?;
                }
                io::Result::Ok((socket, took))
            });
        }
        let mut all = Vec::new();
        while let Some(done) = tasks.join_next().await {
            let (socket, took) = done.map_err(io::Error::other)??;
            self.sockets.push(socket);
            all.extend(took);
        }
        Ok(all)
    }

    /// Seconds until the first byte of a response, and the whole response.
    pub(crate) async fn first_byte(&mut self, what: &'static str) -> io::Result<(f64, Vec<u8>)> {
        let (mut socket, request) = (self.take().await?, self.request(what, 0));
        let begun = Instant::now();
        socket.stream.write_all(&request).await?;
        socket.stream.readable().await?;
        let waited = begun.elapsed().as_secs_f64();
        socket.read_whole().await?;
        socket.check_result()?;
        let reply = socket.buffer.clone();
        self.sockets.push(socket);
        Ok((waited, reply))
    }

    /// Reads a whole list, page by page, on one connection; returns the seconds, and the number of tools.
    pub(crate) async fn list_all(&mut self) -> io::Result<(f64, usize)> {
        let mut socket = self.take().await?;
        let (mut took, mut tools, mut cursor) = (0.0, 0, None);
        loop {
            let body = with_cursor(message(self.target.era, "list"), cursor.as_deref());
            let begun = Instant::now();
            socket.round_trip(&self.target.post(self.session.as_deref(), &body, "tools/list", "")).await?;
            took += begun.elapsed().as_secs_f64();
            socket.check_result()?;
            tools += memchr::memmem::find_iter(&socket.buffer, b"\"inputSchema\"").count();
            cursor = next_cursor(&socket.buffer);
            if cursor.is_none() {
                self.sockets.push(socket);
                return Ok((took, tools));
            }
        }
    }

    /// A request. Ids in flight must be unique in a session, so each connection has its own.
    fn request(&self, what: &str, number: usize) -> Vec<u8> {
        let (method, name) = match what {
            "list" => ("tools/list", String::new()),
            name => ("tools/call", format!("{}{name}", self.target.prefix)),
        };
        let body = message(self.target.era, if what == "list" { what } else { &name });
        let body = body.replacen("\"id\":7", &format!("\"id\":{}", 100 + number), 1);
        self.target.post(self.session.as_deref(), &body, method, &name)
    }

    async fn take(&mut self) -> io::Result<LoadSocket> {
        match self.sockets.pop() {
            Some(socket) => Ok(socket),
            None => Ok(LoadSocket { stream: connect_tcp(&self.target.address).await?, buffer: Vec::new() }),
        }
    }
}

impl Target {
    /// A POST request, head and body.
    fn post(&self, session: Option<&str>, body: &str, method: &str, name: &str) -> Vec<u8> {
        let mut head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: {}\r\n",
            self.address,
            body.len()
        );
        let mut add = |name: &str, value: &str| head.push_str(&format!("{name}: {value}\r\n"));
        if let Some(key) = &self.key {
            add("Authorization", &format!("Bearer {key}"));
        }
        match self.era {
            Era::Legacy if method == "initialize" => {}
            Era::Legacy => add("MCP-Protocol-Version", "2025-11-25"),
            Era::Modern => {
                add("MCP-Protocol-Version", "2026-07-28");
                add("Mcp-Method", method);
                if !name.is_empty() {
                    add("Mcp-Name", name);
                }
            }
        }
        if let Some(session) = session {
            add("Mcp-Session-Id", session);
        }
        format!("{head}\r\n{body}").into_bytes()
    }
}

impl LoadSocket {
    async fn round_trip(&mut self, request: &[u8]) -> io::Result<()> {
        self.stream.write_all(request).await?;
        self.read_whole().await
    }

    async fn read_whole(&mut self) -> io::Result<()> {
        self.buffer.clear();
        let mut end = None;
        loop {
            self.buffer.reserve(64 * 1024);
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if end.is_none() {
                end = End::of(&self.buffer)?;
            }
            match end {
                Some(End::At(end)) if end <= self.buffer.len() => return Ok(()),
                Some(End::LastChunk) if self.buffer.ends_with(b"\r\n0\r\n\r\n") => return Ok(()),
                _ => {}
            }
        }
    }

    fn head(&self) -> io::Result<&str> {
        let end = memchr::memmem::find(&self.buffer, b"\r\n\r\n").unwrap_or_default();
        std::str::from_utf8(&self.buffer[..end]).map_err(io::Error::other)
    }

    /// Fails unless the response is a result.
    fn check_result(&self) -> io::Result<()> {
        let begin = &self.buffer[..self.buffer.len().min(600)];
        if begin.starts_with(b"HTTP/1.1 200") && memchr::memmem::find(begin, b"\"result\":").is_some() {
            return Ok(());
        }
        Err(io::Error::other(format!("expected a result, got: {}", String::from_utf8_lossy(begin))))
    }
}

/// A list request for the page at this cursor, a JSON string.
fn with_cursor(body: String, cursor: Option<&str>) -> String {
    const PARAMS: &str = "\"params\":{";
    let Some(cursor) = cursor else { return body };
    let comma = if body.contains("\"params\":{}") { "" } else { "," };
    body.replacen(PARAMS, &format!("{PARAMS}\"cursor\":{cursor}{comma}"), 1)
}

/// The cursor of the next page, a JSON string.
fn next_cursor(response: &[u8]) -> Option<String> {
    const NAME: &[u8] = b"\"nextCursor\":";
    let value = &response[memchr::memmem::rfind(response, NAME)? + NAME.len()..];
    let end = memchr::memchr(b'"', value.get(1..)?)?;
    String::from_utf8(value[..end + 2].to_vec()).ok()
}

/// Where a response ends.
#[derive(Clone, Copy)]
enum End {
    At(usize),
    LastChunk,
}

impl End {
    /// `None` until the head is complete.
    fn of(bytes: &[u8]) -> io::Result<Option<Self>> {
        let Some(end) = memchr::memmem::find(bytes, b"\r\n\r\n") else { return Ok(None) };
        let head = std::str::from_utf8(&bytes[..end]).map_err(io::Error::other)?;
        match header(head, "content-length") {
            Some(length) => {
                let length: usize = length.parse().map_err(io::Error::other)?;
                Ok(Some(Self::At(end + 4 + length)))
            }
            None if header(head, "transfer-encoding").is_some() => Ok(Some(Self::LastChunk)),
            None => Ok(Some(Self::At(end + 4))),
        }
    }
}

/// The value of a header.
fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let named = |line: &&str| line.len() > name.len() && line.as_bytes()[name.len()] == b':';
    let line = head.lines().filter(named).find(|line| line[..name.len()].eq_ignore_ascii_case(name))?;
    Some(line[name.len() + 1..].trim())
}
