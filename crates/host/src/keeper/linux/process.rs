//! The keeper process, from its start to the end of its last descendant.
//!
//! It has its own session, so that signals of a terminal do not reach it, and its own name, so that killing the host by
//! name does not kill it. It prints nothing; its state is in [`super::servers`].

use std::{
    env,
    ffi::CStr,
    fs::File,
    io,
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream, process::CommandExt},
    },
    path::Path,
    process::{self, Command, Stdio},
    thread,
    time::Instant,
};

use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, getpid, getppid, pidfd_open, set_child_subreaper, set_dumpable_behavior, setsid,
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    net, runtime, select,
    signal::unix::{Signal, SignalKind, signal},
    time::sleep_until,
};

use super::{
    ShutdownTimeouts, channel, mark,
    protocol::{FrameBuffer, KeeperCommand, KeeperReport, framed},
    servers::KeptServers,
    termination::AT_ONCE,
};

/// Name of the process.
const NAME: &CStr = c"mcp-keeper";
/// The argument that selects the keeper role, followed by the process id of the host.
const ROLE_ARGUMENT: &str = "keep-the-servers-of";
/// First descriptor after stdin, stdout and stderr.
const FIRST_INHERITED: i32 = 3;

/// Whether a process is a keeper of this user, by its arguments, which no server can change.
pub(super) fn is_keeper(pid: i32) -> bool {
    let role = [NAME.to_bytes(), ROLE_ARGUMENT.as_bytes()];
    std::fs::read(format!("/proc/{pid}/cmdline"))
        .is_ok_and(|arguments| arguments.split(|byte| *byte == 0).take(role.len()).eq(role))
}

/// The keeper's side of the socket to the host.
struct HostSocket {
    socket: net::UnixStream,
    buffer: FrameBuffer,
    unsent: Vec<u8>,
}

/// Everything the keeper waits for.
#[derive(Clone, Copy)]
enum KeeperEvent {
    /// The host is gone or has closed the socket.
    HostGone,
    /// The keeper received a termination signal.
    TerminationSignal,
    Commands,
    RoomForReports,
    ChildEnded,
    Due,
}

/// SIGTERM, SIGINT and SIGHUP.
struct TerminationSignals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

/// The command that runs `executable` as keeper of process `host`, with the socket as its stdin.
pub(super) fn keeper_command(executable: &Path, host: Pid, socket: UnixStream) -> Command {
    let mut command = Command::new(executable);
    command.arg0(&*NAME.to_string_lossy()).args([ROLE_ARGUMENT, &host.to_string()]).current_dir("/");
    // Servers run as the same user and could read our secrets there. Their environment comes with each start command.
    command.env_clear();
    // The keeper must not hold our stdout and stderr open.
    command.stdin(OwnedFd::from(socket)).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Runs the keeper and exits, if the arguments select that role; otherwise returns at once.
pub(in crate::keeper) fn run_if_keeper() {
    let mut arguments = env::args_os();
    if arguments.next().is_none_or(|name| name.as_encoded_bytes() != NAME.to_bytes())
        || arguments.next().is_none_or(|argument| argument != ROLE_ARGUMENT)
    {
        return;
    }
    let host = arguments.next().and_then(|host| Pid::from_raw(host.to_str()?.parse().ok()?));
    // The name of the main thread is that of the process.
    if rustix::thread::set_name(NAME).is_err() {
        tracing::debug!("cannot set the name of the keeper process");
    }
    // The caller may be inside a runtime, which cannot start another.
    let result = match runtime::Handle::try_current() {
        Ok(_) => thread::spawn(move || run(host))
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the keeper thread panicked"))),
        Err(_) => run(host),
    };
    #[expect(clippy::exit, reason = "this role ends here; `main` belongs to the other one")]
    process::exit(i32::from(result.is_err()));
}

fn run(host: Option<Pid>) -> io::Result<()> {
    let host = host.ok_or_else(|| io::Error::other("the process id of the host is missing"))?;
    hide_memory()?;
    mark::mark_descendants()?;
    // Descriptors that the host inherited, for example from a shell, must not reach servers.
    close_fds::set_fds_cloexec(FIRST_INHERITED, &[]);
    let socket = take_socket()?;
    setsid()?;
    set_child_subreaper(Some(getpid()))?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(keep(socket, host))
}

/// Keeps other processes of this user from reading the memory, environment and descriptors of this process: start
/// commands contain the secrets of all servers.
pub(in crate::keeper) fn hide_memory() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Moves the socket from stdin to a descriptor that is not inherited.
fn take_socket() -> io::Result<UnixStream> {
    let socket = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), FIRST_INHERITED)?);
    // Fails if stdin is not a socket, for example if a user typed the arguments.
    socket.peer_addr()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

async fn keep(socket: UnixStream, host: Pid) -> io::Result<()> {
    let mut host_socket =
        HostSocket { socket: net::UnixStream::from_std(socket)?, buffer: FrameBuffer::default(), unsent: Vec::new() };
    let mut children = signal(SignalKind::child())?;
    let mut signals = TerminationSignals::register()?;
    let host = watch(host)?;
    let mut servers = KeptServers::new(Instant::now());
    host_socket.report(&[KeeperReport::Ready]);

    while !(servers.is_shutting_down() && servers.is_empty()) {
        let now = Instant::now();
        let next = servers.next(now);
        let event = select! {
            biased;
            _ = host.readable(), if !servers.is_shutting_down() => KeeperEvent::HostGone,
            () = signals.next(), if !servers.is_shutting_down() => KeeperEvent::TerminationSignal,
            _ = children.recv() => KeeperEvent::ChildEnded,
            event = read(&host_socket.socket, &mut host_socket.buffer), if !servers.is_shutting_down() => event,
            _ = host_socket.socket.writable(), if !host_socket.unsent.is_empty() => KeeperEvent::RoomForReports,
            () = sleep_until(next.unwrap_or(now).into()), if next.is_some() => KeeperEvent::Due,
        };
        let mut reports = handle(event, &mut servers, &mut host_socket);
        reports.extend(servers.advance(Instant::now()));
        host_socket.report(&reports);
    }
    Ok(())
}

fn handle(event: KeeperEvent, servers: &mut KeptServers, host_socket: &mut HostSocket) -> Vec<KeeperReport> {
    let now = Instant::now();
    match event {
        KeeperEvent::HostGone => servers.shut_down(ShutdownTimeouts::AT_EXIT, now),
        // Their stdin is still open, so they would not notice the shutdown.
        KeeperEvent::TerminationSignal => servers.shut_down(AT_ONCE, now),
        KeeperEvent::Commands => return execute_commands(servers, host_socket),
        KeeperEvent::ChildEnded => return servers.reap(now),
        KeeperEvent::RoomForReports | KeeperEvent::Due => {}
    }
    servers.reap(now)
}

fn execute_commands(servers: &mut KeptServers, host_socket: &mut HostSocket) -> Vec<KeeperReport> {
    let mut reports = Vec::new();
    loop {
        match host_socket.buffer.next() {
            Ok(Some(KeeperCommand::Start { server, program })) => {
                reports.push(servers.start(server, &program, host_socket.buffer.streams()));
            }
            Ok(Some(KeeperCommand::End { server, timeouts })) => {
                reports.extend(servers.end(server, timeouts, Instant::now()));
            }
            Ok(None) => return reports,
            // An invalid command does not come from a host of the same build.
            Err(_) => {
                servers.shut_down(ShutdownTimeouts::AT_EXIT, Instant::now());
                return reports;
            }
        }
    }
}

async fn read(socket: &net::UnixStream, buffer: &mut FrameBuffer) -> KeeperEvent {
    match socket.async_io(Interest::READABLE, || channel::receive(socket, buffer)).await {
        Ok(1..) => KeeperEvent::Commands,
        Ok(0) | Err(_) => KeeperEvent::HostGone,
    }
}

/// Returns a pidfd that becomes readable when the host ends; fails if it has ended.
fn watch(host: Pid) -> io::Result<AsyncFd<OwnedFd>> {
    let watched = pidfd_open(host, PidfdFlags::empty())?;
    // The id may have been reused, but then it is not that of our parent.
    if getppid() != Some(host) {
        return Err(io::Error::other("the host process has ended"));
    }
    #[expect(deprecated, reason = "deprecated for what types other than an owned descriptor can do with it")]
    AsyncFd::with_interest(watched, Interest::READABLE)
}

// === impl HostSocket ===

impl HostSocket {
    /// Writes reports; what the socket does not accept now is sent later. A closed socket is noticed by `read`.
    fn report(&mut self, reports: &[KeeperReport]) {
        self.unsent.extend(reports.iter().filter_map(|report| framed(report).ok()).flatten());
        while !self.unsent.is_empty() {
            let send = || channel::send_some(&self.socket, &self.unsent, &[]);
            let sent = self.socket.try_io(Interest::WRITABLE, send);
            match sent {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.unsent.clear(),
            }
        }
    }
}

// === impl TerminationSignals ===

impl TerminationSignals {
    fn register() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) {
        select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
