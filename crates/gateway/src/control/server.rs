//! The gateway side of the control socket.

use std::{fs::File, io, os::unix::fs::PermissionsExt, path::PathBuf, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt,
    net::{UnixListener, UnixStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use toolway_config::{Config, ServerName};
use toolway_host::{
    Host,
    connection::{ServerStatus, sign_in::SignInChange},
    host::HostError,
    inbox::{ParkError, ParkedRequest},
    private_file,
};

use crate::Gateway;

use super::{
    ControlError, ControlRequest, ControlResponse, ControlSocket, Failure, Greeting, INBOX_WAIT, VERSION, failure,
    inbox::{self, HiddenCharacters},
    peer::{self, PeerOrigin, PeerProcess, PeerReader},
    tasks::{self, DetachedCall},
    view,
};

/// Reloads the configuration; returns the reason if it is invalid.
pub type Reload = dyn Fn() -> Result<Config, String> + Send + Sync;
/// Makes a link that signs one browser in to the console; returns the reason if there is no console.
pub type ConsoleLink = dyn Fn() -> Result<String, String> + Send + Sync;

/// The bound control socket. Its file is removed on drop.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    socket: PathBuf,
    /// Locked as long as we own the socket.
    _lock: File,
}

/// Executes control requests on the host.
struct CommandHandler {
    gateway: Arc<Gateway>,
    host: Host,
    reload: Arc<Reload>,
    console: Arc<ConsoleLink>,
    parked: Semaphore,
}

/// Maximum number of concurrent control connections, without those of parked requests.
const MAX_CONNECTIONS: usize = 16;
/// Maximum number of forms and URLs of commands that wait in the inbox, each on its connection.
const MAX_PARKED: usize = 64;
/// Maximum time to wait for the next request on a connection.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

// === impl Control ===

impl Control {
    /// Binds the socket; fails with [`ControlError::AlreadyRunning`] if another gateway owns it.
    pub fn bind(control: &ControlSocket) -> Result<Self, ControlError> {
        let broken = |problem| ControlError::Broken { socket: control.socket(), problem };
        private_file::make_folder(&control.folder).map_err(broken)?;
        control.check()?;
        let lock = private_file::to_write().create(true).open(control.lock()).map_err(broken)?;
        lock.try_lock().map_err(|_| ControlError::AlreadyRunning)?;
        // We hold the lock, so an existing socket file is stale.
        match std::fs::remove_file(control.socket()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(broken(error)),
            _ => {}
        }
        let listener = UnixListener::bind(control.socket()).map_err(broken)?;
        peer::require_credentials(&listener).map_err(broken)?;
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(control.socket(), private).map_err(broken)?;
        Ok(Self { listener, socket: control.socket(), _lock: lock })
    }

    /// Serves control requests until `stop` is cancelled.
    pub async fn serve(
        self,
        gateway: Arc<Gateway>,
        reload: Arc<Reload>,
        console: Arc<ConsoleLink>,
        stop: CancellationToken,
    ) {
        let host = gateway.host().clone();
        let parked = Semaphore::new(MAX_PARKED);
        let handler = Arc::new(CommandHandler { gateway, host, reload, console, parked });
        let tasks = TaskTracker::new();
        let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else { continue };
            let (handler, stop) = (Arc::clone(&handler), stop.clone());
            tasks.spawn(async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    served = handler.serve_connection(stream, permit) => if let Err(error) = served {
                        tracing::debug!(%error, "control connection failed");
                    }
                }
            });
        }
        tasks.close();
        tasks.wait().await;
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // The file may be gone already.
        drop(std::fs::remove_file(&self.socket));
    }
}

// === impl CommandHandler ===

impl CommandHandler {
    async fn serve_connection(&self, stream: UnixStream, permit: OwnedSemaphorePermit) -> io::Result<()> {
        if stream.peer_cred()?.uid() != private_file::user() {
            return Err(io::Error::other("the client belongs to another user"));
        }
        let process = PeerProcess::accept(&stream)?;
        let (read, mut write) = stream.into_split();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let greeting = Greeting { toolway: version, control: VERSION, process: std::process::id() };
        write.write_all(&json_line(&greeting)?).await?;
        let mut reader = PeerReader::new(read, process);
        while let Some(text) = next_line(&mut reader).await? {
            let reply = match serde_json::from_slice(&text) {
                Ok(ControlRequest::Park { request }) if reader.origin() == PeerOrigin::User => {
                    drop(permit);
                    let Some(reply) = self.park(request, &mut reader).await else { return Ok(()) };
                    return write.write_all(&json_line(&reply)?).await;
                }
                Ok(request) => self.handle_from(reader.origin(), request).await,
                Err(error) => Err(failure("order", &error.to_string())),
            };
            let reply = reply.map_or_else(ControlResponse::Failed, ControlResponse::Done);
            write.write_all(&json_line(&reply)?).await?;
        }
        Ok(())
    }

    /// A server must not approve its own calls, reload what it wrote, or read what others print: it gets the status only.
    async fn handle_from(&self, origin: PeerOrigin, request: ControlRequest) -> Result<Value, Failure> {
        match (origin, request) {
            (PeerOrigin::User, request) => self.handle(request).await,
            (PeerOrigin::Server, ControlRequest::Status { servers }) => self.status(&servers).map(view::without_stderr),
            (PeerOrigin::Server, _) => {
                tracing::warn!("refused a control request of a server's process");
                let message = "a process of a server can only ask the gateway for its status";
                Err(failure("own_server", message))
            }
        }
    }

    async fn handle(&self, request: ControlRequest) -> Result<Value, Failure> {
        let host = &self.host;
        match request {
            ControlRequest::Status { servers } => self.status(&servers),
            ControlRequest::Connect { server } => {
                self.change_server(&server, async |name| host.connect(&name).await).await
            }
            ControlRequest::Disconnect { server } => {
                self.change_server(&server, async |name| host.disconnect(&name).await).await
            }
            ControlRequest::Restart { server } => {
                self.change_server(&server, async |name| host.reconnect(&name).await).await
            }
            ControlRequest::Signed { server, client, signed_in } => {
                let signing = if signed_in { SignInChange::SignedIn } else { SignInChange::SignedOut };
                self.change_server(&server, async |name| host.apply_sign_in_change(&name, &client, signing)).await
            }
            ControlRequest::Refresh { server } => {
                self.change_server(&server, async |name| host.refresh(&name).await).await
            }
            ControlRequest::Logs { server, lines } => {
                let status = self.find_server(&server)?;
                let lines = &status.stderr[status.stderr.len().saturating_sub(lines)..];
                Ok(json!({ "server": status.server.as_str(), "lines": lines }))
            }
            ControlRequest::Keys { client } => {
                self.gateway.reload_keys().map_err(|error| failure("keys", &error.to_string()))?;
                let file = self.gateway.key_file();
                Ok(json!({ "client": client, "accepted": self.gateway.accepts_client(&client), "file": file }))
            }
            ControlRequest::Limits {} => {
                let uses = host.limit_uses().await.map_err(|error| failure("store", &error.to_string()))?;
                Ok(json!({ "limits": uses.iter().map(view::limit).collect::<Vec<_>>() }))
            }
            ControlRequest::Reload {} => self.reload().await,
            ControlRequest::Console {} => {
                let link = (self.console)().map_err(|problem| failure("console", &problem))?;
                Ok(json!({ "console": link }))
            }
            ControlRequest::Inbox { after } => {
                self.wait_for_inbox(after).await;
                Ok(inbox::list(host.inbox()))
            }
            ControlRequest::Detach { server, tool, arguments, ttl } => {
                let server = self.find_server(&server)?.server;
                let detached = DetachedCall { server, tool, arguments, ttl: ttl.map(Duration::from_millis) };
                detached.start(host).await
            }
            ControlRequest::CancelTask { id } => tasks::cancel(host, &id),
            ControlRequest::InboxItem { id } => inbox::item(host.inbox(), &id),
            // It needs its connection, which `serve_connection` has.
            ControlRequest::Park { .. } => Err(failure("order", "a request is parked on a connection of its own")),
            ControlRequest::Answer { id, answer, allow_hidden } => {
                let hidden = if allow_hidden { HiddenCharacters::Allowed } else { HiddenCharacters::Refused };
                inbox::answer(host.inbox(), &id, answer, hidden)
            }
        }
    }

    /// Lets a form or URL of a command wait until it is answered; `None` if the command has ended or says something else.
    async fn park(&self, request: ParkedRequest, reader: &mut PeerReader) -> Option<ControlResponse> {
        let answered = async {
            let Ok(_place) = self.parked.try_acquire() else {
                return Err(failure("park", &ParkError::Full.to_string()));
            };
            let answer = self.host.inbox().park(request).await.map_err(|error| failure("park", &error.to_string()))?;
            serde_json::to_value(answer).map_err(|error| failure("park", &error.to_string()))
        };
        tokio::select! {
            answered = answered => Some(answered.map_or_else(ControlResponse::Failed, ControlResponse::Done)),
            _ended = reader.next_line() => None,
        }
    }

    /// Waits until the inbox has changed since `after`.
    async fn wait_for_inbox(&self, after: Option<u64>) {
        let Some(after) = after else { return };
        let mut changes = self.host.inbox().changes();
        let changed = changes.wait_for(|version| *version != after);
        // Without a change, the same list is returned again.
        drop(tokio::time::timeout(INBOX_WAIT, changed).await);
    }

    fn status(&self, servers: &[String]) -> Result<Value, Failure> {
        let statuses = match servers {
            [] => self.host.servers(),
            named => named.iter().map(|server| self.find_server(server)).collect::<Result<Vec<_>, _>>()?,
        };
        let views: Vec<Value> = statuses.iter().map(view::server).collect();
        let mut status = json!({ "servers": views });
        if let Some(cluster) = self.gateway.members() {
            status["cluster"] = cluster;
        }
        Ok(status)
    }

    async fn change_server(
        &self,
        server: &str,
        change: impl AsyncFnOnce(ServerName) -> Result<ServerStatus, HostError>,
    ) -> Result<Value, Failure> {
        let name = self.find_server(server)?.server;
        let status = change(name).await.map_err(|error| failure("unknown_server", &error.to_string()))?;
        Ok(json!({ "servers": [view::server(&status)] }))
    }

    /// Finds a server by its name or its label.
    fn find_server(&self, server: &str) -> Result<ServerStatus, Failure> {
        let unknown = || failure("unknown_server", &format!("unknown server `{server}`"));
        let name = ServerName::from_label(server).map_err(|_| unknown())?;
        self.host.status(&name).map_err(|_| unknown())
    }

    async fn reload(&self) -> Result<Value, Failure> {
        let reload = Arc::clone(&self.reload);
        let read = tokio::task::spawn_blocking(move || reload()).await;
        let config = read.map_err(|error| error.to_string()).flatten();
        let config = config.map_err(|problem| failure("config", &problem))?;
        let applied = self.host.reload(&config).map_err(|error| failure("config", &error.to_string()))?;
        self.gateway.apply_client_bounds();
        let happened = |(name, happened): (&ServerName, &toolway_host::connection::ServerPlanResult)| json!({ "name": name.as_str(), "happened": happened.to_string() });
        Ok(json!({ "servers": applied.results.iter().map(happened).collect::<Vec<_>>() }))
    }
}

/// The next line, which must come in time; `None` at the end of the stream.
async fn next_line(reader: &mut PeerReader) -> io::Result<Option<Vec<u8>>> {
    tokio::time::timeout(REQUEST_TIMEOUT, reader.next_line()).await.map_err(|_| io::ErrorKind::TimedOut)?
}

fn json_line(value: &impl serde::Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}
