//! The gateway's side of its socket.

use std::{fs::File, io, os::unix::fs::PermissionsExt, path::PathBuf, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream, unix::OwnedReadHalf},
    sync::Semaphore,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use toolway_config::{Config, ServerName};
use toolway_host::{
    Host,
    connection::{ServerStatus, sign_in::Signing},
    host::HostError,
    private_file,
};

use super::{ControlError, Failure, Greeting, ORDER_BYTES, Order, Place, Reply, VERSION, view};

/// Reads the configuration again; else says why it cannot be taken.
pub type Reload = dyn Fn() -> Result<Config, String> + Send + Sync;

/// A socket that is bound. Its file goes with it.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    socket: PathBuf,
    /// Held as long as the socket is ours.
    _lock: File,
}

/// Whoever works for those who ask.
struct Clerk {
    host: Host,
    reload: Arc<Reload>,
}

/// Commands that are heard at the same time.
const MOST_LINES: usize = 16;
/// How long a command may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(10);

// === impl Control ===

impl Control {
    /// Takes the place; refused where another gateway has it.
    pub fn bind(place: &Place) -> Result<Self, ControlError> {
        let broken = |problem| ControlError::Broken { socket: place.socket(), problem };
        private_file::make_folder(&place.folder).map_err(broken)?;
        place.check()?;
        let lock = private_file::to_write().create(true).open(place.lock()).map_err(broken)?;
        lock.try_lock().map_err(|_| ControlError::Taken)?;
        // Whoever has the lock has the socket: one that is there was left behind.
        match std::fs::remove_file(place.socket()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(broken(error)),
            _ => {}
        }
        let listener = UnixListener::bind(place.socket()).map_err(broken)?;
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(place.socket(), private).map_err(broken)?;
        Ok(Self { listener, socket: place.socket(), _lock: lock })
    }

    /// Answers the user's commands until told to stop.
    pub async fn serve(self, host: Host, reload: Arc<Reload>, stop: CancellationToken) {
        let (clerk, tasks) = (Arc::new(Clerk { host, reload }), TaskTracker::new());
        let lines = Arc::new(Semaphore::new(MOST_LINES));
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let Ok(line) = Arc::clone(&lines).try_acquire_owned() else { continue };
            let (clerk, stop) = (Arc::clone(&clerk), stop.clone());
            tasks.spawn(async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    heard = clerk.hear(stream) => if let Err(error) = heard {
                        tracing::debug!(%error, "a command hung up");
                    }
                }
                drop(line);
            });
        }
        tasks.close();
        tasks.wait().await;
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // Where it is gone already, that is as well.
        drop(std::fs::remove_file(&self.socket));
    }
}

// === impl Clerk ===

impl Clerk {
    async fn hear(&self, stream: UnixStream) -> io::Result<()> {
        if stream.peer_cred()?.uid() != private_file::user() {
            return Err(io::Error::other("it belongs to another user"));
        }
        let (read, mut write) = stream.into_split();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let greeting = Greeting { toolway: version, control: VERSION, process: std::process::id() };
        write.write_all(&line_of(&greeting)?).await?;
        let mut read = BufReader::new(read);
        while let Some(text) = next_line(&mut read).await? {
            let reply = match serde_json::from_slice(&text) {
                Ok(order) => self.carry_out(order).await,
                Err(error) => Err(failure("order", &error.to_string())),
            };
            let reply = reply.map_or_else(Reply::Failed, Reply::Done);
            write.write_all(&line_of(&reply)?).await?;
        }
        Ok(())
    }

    async fn carry_out(&self, order: Order) -> Result<Value, Failure> {
        let host = &self.host;
        match order {
            Order::Status { servers } => self.status(&servers),
            Order::Connect { server } => self.told(&server, async |name| host.connect(&name).await).await,
            Order::Disconnect { server } => self.told(&server, async |name| host.disconnect(&name).await).await,
            Order::Restart { server } => self.told(&server, async |name| host.reconnect(&name).await).await,
            Order::Signed { server, client, signed_in } => {
                let signing = if signed_in { Signing::In } else { Signing::Out };
                self.told(&server, async |name| host.signed_in(&name, &client, signing)).await
            }
            Order::Refresh { server } => self.told(&server, async |name| host.refresh(&name).await).await,
            Order::Logs { server, lines } => {
                let status = self.known(&server)?;
                let said = &status.stderr[status.stderr.len().saturating_sub(lines)..];
                Ok(json!({ "server": status.server.as_str(), "lines": said }))
            }
            Order::Reload {} => self.reload().await,
        }
    }

    fn status(&self, servers: &[String]) -> Result<Value, Failure> {
        let statuses = match servers {
            [] => self.host.servers(),
            named => named.iter().map(|server| self.known(server)).collect::<Result<Vec<_>, _>>()?,
        };
        let views: Vec<Value> = statuses.iter().map(view::server).collect();
        Ok(json!({ "servers": views }))
    }

    async fn told(
        &self,
        server: &str,
        tell: impl AsyncFnOnce(ServerName) -> Result<ServerStatus, HostError>,
    ) -> Result<Value, Failure> {
        let name = self.known(server)?.server;
        let status = tell(name).await.map_err(|error| failure("unknown_server", &error.to_string()))?;
        Ok(json!({ "servers": [view::server(&status)] }))
    }

    /// The server a person means, by its name or its label.
    fn known(&self, server: &str) -> Result<ServerStatus, Failure> {
        let unknown = || failure("unknown_server", &format!("there is no server `{server}`"));
        let name = ServerName::from_label(server).map_err(|_| unknown())?;
        self.host.status(&name).map_err(|_| unknown())
    }

    async fn reload(&self) -> Result<Value, Failure> {
        let reload = Arc::clone(&self.reload);
        let read = tokio::task::spawn_blocking(move || reload()).await;
        let config = read.map_err(|error| error.to_string()).flatten();
        let config = config.map_err(|problem| failure("config", &problem))?;
        let applied = self.host.reload(&config).map_err(|error| failure("config", &error.to_string()))?;
        let happened = |(name, happened): (&ServerName, &toolway_host::connection::Happened)| json!({ "name": name.as_str(), "happened": happened.to_string() });
        Ok(json!({ "servers": applied.results.iter().map(happened).collect::<Vec<_>>() }))
    }
}

/// The next line, without its end; none where there is no other.
async fn next_line(read: &mut BufReader<OwnedReadHalf>) -> io::Result<Option<Vec<u8>>> {
    let mut text = Vec::new();
    let mut bounded = read.take(ORDER_BYTES as u64);
    let reading = bounded.read_until(b'\n', &mut text);
    let length = tokio::time::timeout(PATIENCE, reading).await.map_err(|_| io::ErrorKind::TimedOut)??;
    match text.pop() {
        None if length == 0 => Ok(None),
        Some(b'\n') => Ok(Some(text)),
        _ => Err(io::Error::other("no line, or one that is too long")),
    }
}

fn line_of(value: &impl serde::Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

fn failure(code: &str, message: &str) -> Failure {
    Failure { code: code.to_owned(), message: message.to_owned() }
}
