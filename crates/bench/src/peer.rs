//! The server of all loops: hand-written, blocking, with a prepared response for each kind of request.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::Stdio,
    str::FromStr,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, BufReader as AsyncBufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::load::{Load, Target};

/// Bytes of text in the large result.
pub(crate) const BIG: usize = 1_000_000;
/// Tools in the long list.
pub(crate) const TOOLS: usize = 10_000;

/// A transport and an era.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    StdioLegacy,
    StdioModern,
    HttpLegacy,
    HttpModern,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

/// A running server.
pub(crate) struct PeerProcess {
    pub(crate) way: Way,
    child: Child,
    pub(crate) pipes: Option<(ChildStdin, AsyncBufReader<ChildStdout>)>,
    /// `host:port`, over HTTP.
    pub(crate) address: String,
}

impl Way {
    pub(crate) const ALL: [Self; 4] = [Self::StdioLegacy, Self::StdioModern, Self::HttpLegacy, Self::HttpModern];

    pub(crate) fn is_http(self) -> bool {
        matches!(self, Self::HttpLegacy | Self::HttpModern)
    }

    /// The arguments that make this program such a server.
    pub(crate) fn role(self, tools: usize) -> [String; 4] {
        let transport = if self.is_http() { "http" } else { "stdio" };
        ["peer".to_owned(), transport.to_owned(), self.era().word().to_owned(), tools.to_string()]
    }

    pub(crate) fn era(self) -> Era {
        match self {
            Self::StdioLegacy | Self::HttpLegacy => Era::Legacy,
            Self::StdioModern | Self::HttpModern => Era::Modern,
        }
    }
}

impl Era {
    /// Name on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

impl FromStr for Way {
    type Err = io::Error;

    fn from_str(text: &str) -> io::Result<Self> {
        let named = |way: &Self| format!("{way:?}") == text;
        Self::ALL.into_iter().find(named).ok_or_else(|| {
            io::Error::other(format!("unknown transport and era `{text}`: expected one of {:?}", Self::ALL))
        })
    }
}

impl FromStr for Era {
    type Err = io::Error;

    fn from_str(text: &str) -> io::Result<Self> {
        match text {
            "legacy" => Ok(Self::Legacy),
            "modern" => Ok(Self::Modern),
            other => Err(io::Error::other(format!("unknown era `{other}`: expected `legacy` or `modern`"))),
        }
    }
}

impl PeerProcess {
    /// Starts this program again in the role of the server.
    pub(crate) async fn new(way: Way) -> io::Result<Self> {
        Self::with_tools(way, TOOLS).await
    }

    /// As [`PeerProcess::new`], with this number of tools.
    #[expect(clippy::disallowed_methods, reason = "the bench has no host to start programs")]
    pub(crate) async fn with_tools(way: Way, tools: usize) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(way.role(tools))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let missing = || io::Error::other("no pipe");
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let mut stdout = AsyncBufReader::with_capacity(64 * 1024, child.stdout.take().ok_or_else(missing)?);
        let mut address = String::new();
        if way.is_http() {
            stdout.read_line(&mut address).await?;
        }
        let address = address.trim().to_owned();
        Ok(Self { way, child, pipes: Some((stdin, stdout)), address })
    }
}

impl PeerProcess {
    /// A load on the server itself.
    pub(crate) async fn load(&self) -> io::Result<Load> {
        let (address, era) = (self.address.clone(), self.way.era());
        Load::new(Target { address, era, prefix: String::new(), key: None }).await
    }

    /// Stops the process with `SIGSTOP`.
    pub(crate) fn suspend(&self) -> io::Result<()> {
        let process = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let process = process.ok_or_else(|| io::Error::other("the server has ended"))?;
        Ok(kill_process(process, Signal::STOP)?)
    }
}

/// Serves standard input and output.
pub(crate) fn stdio(era: Era, tools: usize) -> io::Result<()> {
    let replies = Replies::new(era, tools);
    let (mut input, mut output) = (BufReader::with_capacity(64 * 1024, io::stdin().lock()), io::stdout().lock());
    let (mut line, mut reply) = (Vec::new(), Vec::new());
    while input.read_until(b'\n', &mut line)? != 0 {
        if replies.write(&line, &mut reply) {
            reply.push(b'\n');
            output.write_all(&reply)?;
            output.flush()?;
        }
        line.clear();
    }
    Ok(())
}

/// As [`stdio`], after a delay.
pub(crate) fn late(milliseconds: usize) -> io::Result<()> {
    std::thread::sleep(std::time::Duration::from_millis(milliseconds as u64));
    stdio(Era::Modern, 2)
}

/// Serves connections on a free port, a thread each; prints the address.
pub(crate) fn http(era: Era, tools: usize) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    let replies = std::sync::Arc::new(Replies::new(era, tools));
    std::thread::spawn(|| {
        // The parent has ended when its end of the pipe closes.
        let _gone = io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    for stream in listener.incoming() {
        let (stream, replies) = (stream?, std::sync::Arc::clone(&replies));
        std::thread::spawn(move || connection(stream, &replies));
    }
    Ok(())
}

fn connection(mut stream: TcpStream, replies: &Replies) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut input = BufReader::with_capacity(64 * 1024, stream.try_clone()?);
    let (mut line, mut body, mut reply, mut head) = (String::new(), Vec::new(), Vec::new(), Vec::new());
    loop {
        let (mut length, mut post) = (0, false);
        loop {
            line.clear();
            if input.read_line(&mut line)? == 0 {
                return Ok(());
            }
            post |= line.starts_with("POST ");
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
            if line == "\r\n" {
                break;
            }
        }
        body.resize(length, 0);
        input.read_exact(&mut body)?;
        head.clear();
        if post && replies.write(&body, &mut reply) {
            write!(
                head,
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                reply.len()
            )?;
            head.extend_from_slice(&reply);
        } else {
            let status = if post { "202 Accepted" } else { "405 Method Not Allowed" };
            write!(head, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")?;
        }
        stream.write_all(&head)?;
    }
}

/// Prepared results.
struct Replies {
    hello: String,
    small: String,
    big: String,
    list: String,
}

impl Replies {
    fn new(era: Era, tools: usize) -> Self {
        let complete = if era == Era::Modern { "\"resultType\":\"complete\"," } else { "" };
        let cached = if era == Era::Modern { "\"ttlMs\":0,\"cacheScope\":\"private\"," } else { "" };
        let hello = match era {
            Era::Legacy => r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"peer","version":"1"}}"#.to_owned(),
            Era::Modern => format!("{{{complete}{cached}\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{{\"tools\":{{}}}}}}"),
        };
        let text = |text: &str| {
            format!("{{{complete}\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}],\"isError\":false}}")
        };
        let tool = |number: usize| {
            // The first two have the names that the loops call.
            let name = ["small", "big"].get(number).map_or_else(|| format!("tool_{number}"), |name| (*name).to_owned());
            format!(
                r#"{{"name":"{name}","title":"Tool {number}","description":"Does the thing number {number} with a path and an optional limit, and says what came of it.","inputSchema":{{"type":"object","properties":{{"path":{{"type":"string","description":"Where"}},"limit":{{"type":"integer"}}}},"required":["path"]}}}}"#
            )
        };
        let tools: Vec<String> = (0..tools).map(tool).collect();
        let list = format!("{{{complete}{cached}\"tools\":[{}]}}", tools.join(","));
        Self { hello, small: text("hello Ada, this is a small result"), big: text(&"x".repeat(BIG)), list }
    }

    /// Writes the response to one message; returns `false` for a notification.
    fn write(&self, message: &[u8], reply: &mut Vec<u8>) -> bool {
        let has = |text: &str| memchr::memmem::find(message, text.as_bytes()).is_some();
        let Some(id) = memchr::memmem::find(message, b"\"id\":") else { return false };
        let digits: Vec<u8> = message[id + 5..].iter().copied().take_while(u8::is_ascii_digit).collect();
        let result = if has("\"initialize\"") || has("\"server/discover\"") {
            &self.hello
        } else if has("\"tools/list\"") {
            &self.list
        } else if has("\"big\"") {
            &self.big
        } else {
            &self.small
        };
        reply.clear();
        reply.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
        reply.extend_from_slice(&digits);
        reply.extend_from_slice(b",\"result\":");
        reply.extend_from_slice(result.as_bytes());
        reply.push(b'}');
        true
    }
}
