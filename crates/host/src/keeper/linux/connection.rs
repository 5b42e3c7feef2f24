//! Our end of the line to the keeper: orders go out, reports come in, and its end is noticed.
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
    HowEnded, Patience, channel, leftovers,
    order::{Inbox, Order, Report, ServerNumber, Start, framed},
    role,
};

/// A running keeper. Dropping it lets go of everything it keeps.
#[derive(Debug)]
pub(crate) struct Link {
    // Held while an order is written, so that orders do not mix; nothing awaits under it.
    orders: Mutex<UnixStream>,
    numbers: AtomicU32,
    wards: Arc<Wards>,
}

/// A program in the keeper's hands. Dropping it lets go of it: the keeper sees it to its end.
#[derive(Debug)]
pub(crate) struct Ward {
    server: ServerNumber,
    link: Arc<Link>,
    patience: Patience,
    news: watch::Receiver<News>,
}

/// What is known of a ward.
#[derive(Debug, Default)]
struct News {
    beginning: Option<Beginning>,
    ended: Option<HowEnded>,
    is_gone: bool,
    /// The keeper is gone, and what it kept is ended by us.
    is_lost: bool,
}

/// What came of the order to start it.
#[derive(Debug)]
enum Beginning {
    Started { pid: i32 },
    Refused { code: Option<i32>, reason: String },
    KeeperLost,
}

/// Why a program could not be started.
#[derive(Debug)]
pub(crate) enum NotStarted {
    /// The system refused it.
    Refused(io::Error),
    /// The keeper is gone; another can be started.
    KeeperLost,
}

/// All wards of a keeper, for whoever reads its reports.
#[derive(Debug, Default)]
struct Wards {
    // Nothing awaits under this lock. `None` when the keeper is gone.
    news: Mutex<Option<BTreeMap<ServerNumber, watch::Sender<News>>>>,
}

/// A keeper starts in milliseconds; an executable that has not answered by then does not know the role.
const TO_BE_READY: Duration = Duration::from_secs(10);
/// A keeper that takes no order for so long is stuck.
const TO_TAKE_AN_ORDER: Duration = Duration::from_secs(5);
/// The reading thread calls nothing deep.
const STACK: usize = 128 * 1024;

// === impl Link ===

impl Link {
    /// Starts a keeper. Waits until it is ready.
    pub(super) fn start(executable: &Path) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let me = getpid();
        // Before there is anything that a killed keeper could leave.
        set_child_subreaper(Some(me))?;
        let mut keeper = role::cast(executable, me, theirs).spawn()?;
        let mut inbox = Inbox::default();
        if let Err(error) = hear_ready(&ours, &mut inbox) {
            drop(keeper.kill());
            drop(keeper.wait());
            return Err(error);
        }
        ours.set_write_timeout(Some(TO_TAKE_AN_ORDER))?;
        let (reading, wards) = (ours.try_clone()?, Arc::new(Wards::new()));
        let theirs = Arc::clone(&wards);
        let read = move || read(&reading, inbox, &theirs, keeper);
        thread::Builder::new().name("keeper".into()).stack_size(STACK).spawn(read)?;
        Ok(Self { orders: Mutex::new(ours), numbers: AtomicU32::new(1), wards })
    }

    /// Has a program started; whether it could be is the ward's to say.
    pub(crate) fn order(
        self: &Arc<Self>,
        program: Start,
        streams: &[OwnedFd; 3],
        patience: Patience,
    ) -> io::Result<Ward> {
        let server = self.numbers.fetch_add(1, Ordering::Relaxed);
        let order = framed(&Order::Start { server, program })?;
        let ward = Ward { server, link: Arc::clone(self), patience, news: self.wards.add(server) };
        let streams = streams.each_ref().map(AsFd::as_fd);
        self.send(&order, &streams);
        Ok(ward)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.wards.news.lock().is_none()
    }

    fn send(&self, order: &[u8], streams: &[std::os::fd::BorrowedFd<'_>]) {
        let orders = self.orders.lock();
        if let Err(error) = channel::send(&*orders, order, streams) {
            tracing::debug!(%error, "the keeper takes no orders");
            // Half an order may be out: nothing more can be said on this line. It ends what it has, as we do.
            drop(orders.shutdown(std::net::Shutdown::Both));
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        drop(self.orders.lock().shutdown(std::net::Shutdown::Write));
    }
}

fn hear_ready(line: &UnixStream, inbox: &mut Inbox) -> io::Result<()> {
    line.set_read_timeout(Some(TO_BE_READY))?;
    loop {
        match inbox.next()? {
            Some(Report::Ready) => return line.set_read_timeout(None),
            Some(_) => return Err(io::Error::other("the keeper does not begin with being ready")),
            None if channel::receive(line, inbox)? == 0 => return Err(io::Error::other("the keeper ended at once")),
            None => {}
        }
    }
}

/// Reads reports until there are none, and ends what the keeper has left.
fn read(line: &UnixStream, mut inbox: Inbox, wards: &Wards, mut keeper: Child) {
    loop {
        match inbox.next() {
            Ok(Some(report)) => wards.take(report),
            Ok(None) => match channel::receive(line, &mut inbox) {
                Ok(1..) => {}
                Ok(0) | Err(_) => break,
            },
            Err(_) => break,
        }
    }
    let lost = wards.lose();
    drop(keeper.kill());
    drop(keeper.wait());
    leftovers::end(keeper.id().cast_signed());
    for news in lost.values() {
        news.send_modify(|news| news.is_gone = true);
    }
}

// === impl Wards ===

impl Wards {
    fn new() -> Self {
        Self { news: Mutex::new(Some(BTreeMap::new())) }
    }

    fn add(&self, server: ServerNumber) -> watch::Receiver<News> {
        match &mut *self.news.lock() {
            Some(wards) => wards.entry(server).or_default().subscribe(),
            None => watch::channel(News::lost()).1,
        }
    }

    fn take(&self, report: Report) {
        let mut wards = self.news.lock();
        let Some(wards) = &mut *wards else { return };
        let tell = |server, change: &mut dyn FnMut(&mut News)| {
            if let Some(news) = wards.get(&server) {
                news.send_modify(change);
            }
        };
        match report {
            Report::Ready => {}
            Report::Started { server, pid } => {
                tell(server, &mut |news| news.beginning = Some(Beginning::Started { pid }));
            }
            Report::NotStarted { server, code, reason } => {
                let mut refused = Some(Beginning::Refused { code, reason });
                tell(server, &mut |news| (news.beginning, news.is_gone) = (refused.take(), true));
                wards.remove(&server);
            }
            Report::Ended { server, how } => tell(server, &mut |news| news.ended = Some(how)),
            Report::Gone { server } => {
                tell(server, &mut |news| news.is_gone = true);
                wards.remove(&server);
            }
        }
    }

    /// The keeper is gone. Those that were in its hands are told when they are gone too.
    fn lose(&self) -> BTreeMap<ServerNumber, watch::Sender<News>> {
        let lost = self.news.lock().take().unwrap_or_default();
        for news in lost.values() {
            news.send_modify(News::lose);
        }
        lost
    }
}

// === impl News ===

impl News {
    fn lost() -> Self {
        let mut news = Self { is_gone: true, ..Self::default() };
        news.lose();
        news
    }

    fn lose(&mut self) {
        self.is_lost = true;
        self.beginning.get_or_insert(Beginning::KeeperLost);
    }
}

// === impl NotStarted ===

impl From<io::Error> for NotStarted {
    fn from(error: io::Error) -> Self {
        Self::Refused(error)
    }
}

// === impl Ward ===

impl Ward {
    /// It runs, under this number, or it could not be started.
    pub(crate) async fn started(&mut self) -> Result<Option<u32>, NotStarted> {
        let Ok(news) = self.news.wait_for(|news| news.beginning.is_some()).await else {
            return Err(NotStarted::KeeperLost);
        };
        match &news.beginning {
            Some(Beginning::Started { pid }) => Ok(u32::try_from(*pid).ok()),
            Some(Beginning::Refused { code: Some(code), .. }) => Err(io::Error::from_raw_os_error(*code).into()),
            Some(Beginning::Refused { code: None, reason }) => Err(io::Error::other(reason.clone()).into()),
            Some(Beginning::KeeperLost) | None => Err(NotStarted::KeeperLost),
        }
    }

    /// The process that was started has ended; how, where the keeper lived to tell.
    pub(crate) async fn ended(&self) -> Option<HowEnded> {
        let mut news = self.news.clone();
        let told = news.wait_for(|news| news.ended.is_some() || news.is_lost || news.is_gone).await;
        told.ok().and_then(|news| news.ended)
    }

    /// The process that was started has ended; what it started may go on.
    pub(crate) fn has_ended(&self) -> bool {
        self.news.borrow().ended.is_some()
    }

    /// Nothing of it is left.
    pub(crate) async fn gone(&self) {
        drop(self.news.clone().wait_for(|news| news.is_gone).await);
    }

    /// The keeper was killed; what it kept is ended too.
    pub(crate) fn is_lost(&self) -> bool {
        self.news.borrow().is_lost
    }

    /// Lets go of it; its input is closed by now. The keeper sees it to its end, whether or not anybody waits.
    pub(crate) fn let_go(&self) {
        let order = Order::End { server: self.server, patience: self.patience };
        if !self.news.borrow().is_gone
            && let Ok(order) = framed(&order)
        {
            self.link.send(&order, &[]);
        }
    }
}

impl Drop for Ward {
    fn drop(&mut self) {
        self.let_go();
    }
}
