//! The keeper as a process: from its cast to the last descendant's end.
//!
//! It has a session of its own, so that no terminal's signal reaches it, and a name of its own without ours in it, so
//! that whoever kills us by name does not kill it. It says nothing but its reports; what it knows is in
//! [`super::household`].

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

use rustix::process::{Pid, PidfdFlags, getpid, getppid, pidfd_open, set_child_subreaper, setsid};
use tokio::{
    io::{Interest, unix::AsyncFd},
    net, runtime, select,
    signal::unix::{Signal, SignalKind, signal},
    time::sleep_until,
};

use super::{
    Patience, channel,
    ending::AT_ONCE,
    household::Household,
    order::{Inbox, Order, Report, framed},
};

/// What the process is called, where it can be seen.
const NAME: &CStr = c"mcp-keeper";
/// The argument with which the executable is cast, before the number of its host.
const CAST: &str = "keep-the-servers-of";

/// The keeper's end of the line.
struct Line {
    socket: net::UnixStream,
    inbox: Inbox,
    unsent: Vec<u8>,
}

/// All that can wake the keeper.
#[derive(Clone, Copy)]
enum Happening {
    /// The process that cast it is gone, or has hung up.
    HostGone,
    /// Somebody wants it to leave.
    AskedToLeave,
    Orders,
    RoomForReports,
    ChildEnded,
    Due,
}

/// The signals that ask.
struct Askings {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

/// This executable, about to play the keeper of process `host`, with its end of the line as its input.
pub(super) fn cast(executable: &Path, host: Pid, line: UnixStream) -> Command {
    let mut command = Command::new(executable);
    command.arg0(&*NAME.to_string_lossy()).args([CAST, &host.to_string()]).current_dir("/");
    // Whoever waits for our output to end must not wait for the keeper.
    command.stdin(OwnedFd::from(line)).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Returns at once, unless the arguments say that this process is a keeper.
pub(in crate::keeper) fn play_if_cast() {
    let mut arguments = env::args_os();
    if arguments.next().is_none_or(|name| name.as_encoded_bytes() != NAME.to_bytes())
        || arguments.next().is_none_or(|argument| argument != CAST)
    {
        return;
    }
    let host = arguments.next().and_then(|host| Pid::from_raw(host.to_str()?.parse().ok()?));
    // Of this thread, which is the one whose name is shown.
    if rustix::thread::set_name(NAME).is_err() {
        tracing::debug!("the keeper goes without its name");
    }
    // The caller may be inside a runtime, and one cannot be started within another.
    let played = match runtime::Handle::try_current() {
        Ok(_) => thread::spawn(move || play(host)).join().unwrap_or_else(|_| Err(io::Error::other("it panicked"))),
        Err(_) => play(host),
    };
    #[expect(clippy::exit, reason = "this role ends here; `main` belongs to the other one")]
    process::exit(i32::from(played.is_err()));
}

fn play(host: Option<Pid>) -> io::Result<()> {
    let host = host.ok_or_else(|| io::Error::other("nobody to keep for"))?;
    let line = take_line()?;
    setsid()?;
    set_child_subreaper(Some(getpid()))?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(keep(line, host))
}

/// Takes the line away from where it could be inherited.
fn take_line() -> io::Result<UnixStream> {
    let line = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?);
    // Fails where it is no such socket: somebody has typed the arguments by hand.
    line.peer_addr()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    line.set_nonblocking(true)?;
    Ok(line)
}

async fn keep(line: UnixStream, host: Pid) -> io::Result<()> {
    let mut line = Line { socket: net::UnixStream::from_std(line)?, inbox: Inbox::default(), unsent: Vec::new() };
    let mut children = signal(SignalKind::child())?;
    let mut askings = Askings::hear()?;
    let host = watch(host)?;
    let mut household = Household::new(Instant::now());
    line.report(&[Report::Ready]);

    while !(household.is_leaving() && household.is_empty()) {
        let now = Instant::now();
        let next = household.next(now);
        let happening = select! {
            biased;
            _ = host.readable(), if !household.is_leaving() => Happening::HostGone,
            () = askings.next(), if !household.is_leaving() => Happening::AskedToLeave,
            _ = children.recv() => Happening::ChildEnded,
            happening = read(&line.socket, &mut line.inbox), if !household.is_leaving() => happening,
            _ = line.socket.writable(), if !line.unsent.is_empty() => Happening::RoomForReports,
            () = sleep_until(next.unwrap_or(now).into()), if next.is_some() => Happening::Due,
        };
        let mut reports = handle(happening, &mut household, &mut line);
        reports.extend(household.go_on(Instant::now()));
        line.report(&reports);
    }
    Ok(())
}

fn handle(happening: Happening, household: &mut Household, line: &mut Line) -> Vec<Report> {
    let now = Instant::now();
    match happening {
        Happening::HostGone => household.leave(Patience::AT_EXIT, now),
        // Their input is still open: they would not know that they are to leave.
        Happening::AskedToLeave => household.leave(AT_ONCE, now),
        Happening::Orders => return follow_orders(household, line),
        Happening::ChildEnded => return household.reap(now),
        Happening::RoomForReports | Happening::Due => {}
    }
    household.reap(now)
}

fn follow_orders(household: &mut Household, line: &mut Line) -> Vec<Report> {
    let mut reports = Vec::new();
    loop {
        match line.inbox.next() {
            Ok(Some(Order::Start { server, program })) => {
                reports.push(household.start(server, &program, line.inbox.streams()));
            }
            Ok(Some(Order::End { server, patience })) => {
                reports.extend(household.end(server, patience, Instant::now()));
            }
            Ok(None) => return reports,
            // What cannot be read does not come from the host this was built with.
            Err(_) => {
                household.leave(Patience::AT_EXIT, Instant::now());
                return reports;
            }
        }
    }
}

async fn read(socket: &net::UnixStream, inbox: &mut Inbox) -> Happening {
    match socket.async_io(Interest::READABLE, || channel::receive(socket, inbox)).await {
        Ok(1..) => Happening::Orders,
        Ok(0) | Err(_) => Happening::HostGone,
    }
}

/// Becomes readable when the host has ended, or, where it had ended before, has been since.
fn watch(host: Pid) -> io::Result<AsyncFd<OwnedFd>> {
    let watched = pidfd_open(host, PidfdFlags::empty())?;
    // By now its number could be somebody else's, but then it is no longer our parent.
    if getppid() != Some(host) {
        return Err(io::Error::other("the host is gone"));
    }
    #[expect(deprecated, reason = "deprecated for what types other than an owned descriptor can do with it")]
    AsyncFd::with_interest(watched, Interest::READABLE)
}

// === impl Line ===

impl Line {
    /// What does not go out now goes out later. Where nobody listens any more, that is noticed elsewhere.
    fn report(&mut self, reports: &[Report]) {
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

// === impl Askings ===

impl Askings {
    fn hear() -> io::Result<Self> {
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
