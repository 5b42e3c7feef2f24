//! The host's connection to the keeper process: sends commands, receives reports, notices its end.
//!
//! A thread reads, not a task: the keeper belongs to the process and outlives any runtime in it.

use std::{
    collections::BTreeMap,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    process::Child,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

use parking_lot::Mutex;
use rustix::process::{getpid, set_child_subreaper};
use tokio::sync::watch;

use super::{
    ProcessExit, ShutdownTimeouts, channel, orphans, process,
    protocol::{FrameBuffer, KeeperCommand, KeeperReport, ProgramSpec, ServerNumber, framed},
};

/// A running keeper process. Dropping it ends all its servers.
#[derive(Debug)]
pub(crate) struct KeeperConnection {
    // Held while a command is written, so that commands do not mix; nothing awaits under it.
    commands: Mutex<UnixStream>,
    next_server: AtomicU32,
    children: Arc<Children>,
}

/// A program started by the keeper. Dropping it makes the keeper end it.
#[derive(Debug)]
pub(crate) struct KeeperChild {
    server: ServerNumber,
    keeper: Arc<KeeperConnection>,
    timeouts: ShutdownTimeouts,
    state: watch::Receiver<ChildState>,
}

/// State of a program.
#[derive(Debug, Default)]
struct ChildState {
    start: Option<StartOutcome>,
    ended: Option<ProcessExit>,
    is_gone: bool,
    /// The keeper is gone, and this process ends its servers.
    is_lost: bool,
}

/// Result of the start command.
#[derive(Debug)]
enum StartOutcome {
    Started { pid: i32 },
    Refused { code: Option<i32>, reason: String },
    KeeperLost,
}

/// Why a program could not be started.
#[derive(Debug)]
pub(crate) enum NotStarted {
    /// The system reported an error.
    Refused(io::Error),
    /// The keeper is gone; another one can be started.
    KeeperLost,
}

/// All programs of a keeper.
#[derive(Debug, Default)]
struct Children {
    // Nothing awaits under this lock. `None` after the keeper is gone.
    states: Mutex<Option<BTreeMap<ServerNumber, watch::Sender<ChildState>>>>,
}

/// How long a keeper may take to start. An executable that does not call `run_if_keeper` never reports.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a keeper may take to accept a command.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// Stack size of the reading thread.
const STACK: usize = 128 * 1024;

// === impl KeeperConnection ===

impl KeeperConnection {
    /// Starts a keeper process. Blocks until it is ready.
    pub(super) fn start(executable: &Path) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let me = getpid();
        // Before any process exists that a killed keeper could orphan.
        set_child_subreaper(Some(me))?;
        let mut keeper = process::keeper_command(executable, me, theirs).spawn()?;
        let mut buffer = FrameBuffer::default();
        if let Err(error) = wait_until_ready(&ours, &mut buffer) {
            drop(keeper.kill());
            drop(keeper.wait());
            return Err(error);
        }
        ours.set_write_timeout(Some(WRITE_TIMEOUT))?;
        let (reading, children) = (ours.try_clone()?, Arc::new(Children::new()));
        let theirs = Arc::clone(&children);
        let read = move || read(&reading, buffer, &theirs, keeper);
        thread::Builder::new().name("keeper".into()).stack_size(STACK).spawn(read)?;
        Ok(Self { commands: Mutex::new(ours), next_server: AtomicU32::new(1), children })
    }

    /// Sends a start command; [`KeeperChild::wait_until_started`] returns its result.
    pub(crate) fn start_program(
        self: &Arc<Self>,
        program: ProgramSpec,
        streams: &[OwnedFd; 3],
        timeouts: ShutdownTimeouts,
    ) -> io::Result<KeeperChild> {
        let server = self.next_server.fetch_add(1, Ordering::Relaxed);
        let command = framed(&KeeperCommand::Start { server, program })?;
        let child = KeeperChild { server, keeper: Arc::clone(self), timeouts, state: self.children.add(server) };
        let streams = streams.each_ref().map(AsFd::as_fd);
        self.send(&command, &streams);
        Ok(child)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.children.states.lock().is_none()
    }

    fn send(&self, command: &[u8], streams: &[std::os::fd::BorrowedFd<'_>]) {
        let commands = self.commands.lock();
        if let Err(error) = channel::send(&*commands, command, streams) {
            tracing::debug!(%error, "the keeper process does not accept commands");
            // Half a command may be written, so the socket is unusable. The keeper then ends its servers.
            drop(commands.shutdown(std::net::Shutdown::Both));
        }
    }
}

impl Drop for KeeperConnection {
    fn drop(&mut self) {
        drop(self.commands.lock().shutdown(std::net::Shutdown::Write));
    }
}

fn wait_until_ready(socket: &UnixStream, buffer: &mut FrameBuffer) -> io::Result<()> {
    socket.set_read_timeout(Some(READY_TIMEOUT))?;
    loop {
        match buffer.next()? {
            Some(KeeperReport::Ready) => return socket.set_read_timeout(None),
            Some(_) => return Err(io::Error::other("the first report of the keeper process is not `Ready`")),
            None if channel::receive(socket, buffer)? == 0 => {
                return Err(io::Error::other("the keeper process exited at startup"));
            }
            None => {}
        }
    }
}

/// Reads reports until the connection ends, then ends the orphans of the keeper.
fn read(socket: &UnixStream, mut buffer: FrameBuffer, children: &Children, mut keeper: Child) {
    loop {
        match buffer.next() {
            Ok(Some(report)) => children.take(report),
            Ok(None) => match channel::receive(socket, &mut buffer) {
                Ok(1..) => {}
                Ok(0) | Err(_) => break,
            },
            Err(_) => break,
        }
    }
    let lost = children.lose();
    drop(keeper.kill());
    drop(keeper.wait());
    orphans::end(keeper.id().cast_signed());
    for state in lost.values() {
        state.send_modify(|state| state.is_gone = true);
    }
}

// === impl Children ===

impl Children {
    fn new() -> Self {
        Self { states: Mutex::new(Some(BTreeMap::new())) }
    }

    fn add(&self, server: ServerNumber) -> watch::Receiver<ChildState> {
        match &mut *self.states.lock() {
            Some(children) => children.entry(server).or_default().subscribe(),
            None => watch::channel(ChildState::lost()).1,
        }
    }

    fn take(&self, report: KeeperReport) {
        let mut children = self.states.lock();
        let Some(children) = &mut *children else { return };
        let tell = |server, change: &mut dyn FnMut(&mut ChildState)| {
            if let Some(state) = children.get(&server) {
                state.send_modify(change);
            }
        };
        match report {
            KeeperReport::Ready => {}
            KeeperReport::Started { server, pid } => {
                tell(server, &mut |state| state.start = Some(StartOutcome::Started { pid }));
            }
            KeeperReport::NotStarted { server, code, reason } => {
                let mut refused = Some(StartOutcome::Refused { code, reason });
                tell(server, &mut |state| (state.start, state.is_gone) = (refused.take(), true));
                children.remove(&server);
            }
            KeeperReport::Ended { server, how } => tell(server, &mut |state| state.ended = Some(how)),
            KeeperReport::Gone { server } => {
                tell(server, &mut |state| state.is_gone = true);
                children.remove(&server);
            }
        }
    }

    /// Marks all programs as lost; returns them, to be marked as gone later.
    fn lose(&self) -> BTreeMap<ServerNumber, watch::Sender<ChildState>> {
        let lost = self.states.lock().take().unwrap_or_default();
        for state in lost.values() {
            state.send_modify(ChildState::lose);
        }
        lost
    }
}

// === impl ChildState ===

impl ChildState {
    fn lost() -> Self {
        let mut state = Self { is_gone: true, ..Self::default() };
        state.lose();
        state
    }

    fn lose(&mut self) {
        self.is_lost = true;
        self.start.get_or_insert(StartOutcome::KeeperLost);
    }
}

// === impl NotStarted ===

impl From<io::Error> for NotStarted {
    fn from(error: io::Error) -> Self {
        Self::Refused(error)
    }
}

// === impl KeeperChild ===

impl KeeperChild {
    /// Waits until the program has started; returns its process id.
    pub(crate) async fn wait_until_started(&mut self) -> Result<Option<u32>, NotStarted> {
        let Ok(state) = self.state.wait_for(|state| state.start.is_some()).await else {
            return Err(NotStarted::KeeperLost);
        };
        match &state.start {
            Some(StartOutcome::Started { pid }) => Ok(u32::try_from(*pid).ok()),
            Some(StartOutcome::Refused { code: Some(code), .. }) => Err(io::Error::from_raw_os_error(*code).into()),
            Some(StartOutcome::Refused { code: None, reason }) => Err(io::Error::other(reason.clone()).into()),
            Some(StartOutcome::KeeperLost) | None => Err(NotStarted::KeeperLost),
        }
    }

    /// Waits until the started process has ended; `None` if the keeper did not report how.
    pub(crate) async fn wait_until_ended(&self) -> Option<ProcessExit> {
        let mut state = self.state.clone();
        let told = state.wait_for(|state| state.ended.is_some() || state.is_lost || state.is_gone).await;
        told.ok().and_then(|state| state.ended)
    }

    /// Whether the started process has ended; its children may still run.
    pub(crate) fn has_ended(&self) -> bool {
        self.state.borrow().ended.is_some()
    }

    /// Waits until no process of it is left.
    pub(crate) async fn wait_until_gone(&self) {
        drop(self.state.clone().wait_for(|state| state.is_gone).await);
    }

    /// Whether the keeper was killed; its servers are ended too.
    pub(crate) fn is_lost(&self) -> bool {
        self.state.borrow().is_lost
    }

    /// Makes the keeper end the program; its stdin is closed by now. Does not wait.
    pub(crate) fn end(&self) {
        let command = KeeperCommand::End { server: self.server, timeouts: self.timeouts };
        if !self.state.borrow().is_gone
            && let Ok(command) = framed(&command)
        {
            self.keeper.send(&command, &[]);
        }
    }
}

impl Drop for KeeperChild {
    fn drop(&mut self) {
        self.end();
    }
}
