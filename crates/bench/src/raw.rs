//! The limit: a loop that writes prepared bytes and reads until the reply is whole, on the same runtime as ours.

use std::io;

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    process::{ChildStdin, ChildStdout},
    task::JoinSet,
};

use crate::peer::{Era, Started, Way};

pub(crate) enum Client {
    Stdio { era: Era, stdin: ChildStdin, stdout: BufReader<ChildStdout>, line: Vec<u8> },
    Http { era: Era, address: String, connections: Vec<Connection> },
}

pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(server: &mut Started) -> io::Result<Self> {
        let era = server.way.era();
        match (server.way, server.pipes.take()) {
            (Way::StdioLegacy | Way::StdioModern, Some((stdin, stdout))) => {
                Ok(Self::Stdio { era, stdin, stdout, line: Vec::new() })
            }
            (_, pipes) => {
                server.pipes = pipes;
                Ok(Self::Http { era, address: server.address.clone(), connections: Vec::new() })
            }
        }
    }

    /// Makes `count` round trips on each of `width` connections.
    pub(crate) async fn round_trips(&mut self, what: &'static str, count: usize, width: usize) -> io::Result<()> {
        match self {
            Self::Stdio { era, stdin, stdout, line } => {
                let mut request = message(*era, what);
                request.push('\n');
                for _ in 0..count * width {
                    stdin.write_all(request.as_bytes()).await?;
                    stdin.flush().await?;
                    line.clear();
                    stdout.read_until(b'\n', line).await?;
                }
                Ok(())
            }
            Self::Http { era, address, connections } => {
                let request = post(*era, address, what);
                let mut tasks = JoinSet::new();
                while connections.len() < width {
                    let stream = TcpStream::connect(address.as_str()).await?;
                    stream.set_nodelay(true)?;
                    connections.push(Connection { stream, buffer: Vec::new() });
                }
                for mut connection in connections.drain(..).take(width).collect::<Vec<_>>() {
                    let request = request.clone();
                    tasks.spawn(async move {
                        for _ in 0..count {
                            connection.round_trip(&request).await?;
                        }
                        io::Result::Ok(connection)
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

impl Connection {
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

/// Where the response ends, once its head is there.
fn whole(bytes: &[u8]) -> Option<usize> {
    let head = memchr::memmem::find(bytes, b"\r\n\r\n")? + 4;
    let length = memchr::memmem::find(&bytes[..head], b"Content-Length: ")? + 16;
    let digits = bytes[length..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(head + digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0')))
}

fn message(era: Era, what: &str) -> String {
    let meta = match era {
        Era::Legacy => "",
        Era::Modern => {
            r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"toolway","version":"0.1.0"}}"#
        }
    };
    match what {
        "list" => {
            format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{{{}}}}}"#, meta.trim_start_matches(','))
        }
        name => format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"{name}","arguments":{{"path":"/srv/demo","limit":10}}{meta}}}}}"#
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
