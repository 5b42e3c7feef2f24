//! A program in the hands of the keeper: we hold its streams, the keeper holds the process.

use std::{env, io, path, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::{
    net::unix::pipe::{Receiver, Sender},
    time::timeout,
};
use toolway_wire::up::stdio::{Keeper, Streams};

use super::{Launcher, hearing::Hearing};
use crate::keeper::{Link, NotStarted, Patience, Start, Ward};

/// A running process. Dropping it lets go of it: the keeper sees it to its end.
#[derive(Debug)]
struct KeptProcess {
    ward: Ward,
    patience: Patience,
    hearing: Hearing,
}

/// Keepers tried before the program is given up: one can be killed between its start and an order.
const KEEPERS: usize = 2;
/// Bytes of a program's output that wait to be read: four times the usual, and little enough for hundreds of programs
/// within what the system gives one user.
const OUTPUT: usize = 256 * 1024;
/// How much longer than its own patience the keeper is waited for.
const TO_REPORT: Duration = Duration::from_secs(2);

/// `None` where there is no keeper.
pub(super) async fn start(launcher: &Launcher) -> Option<io::Result<Streams>> {
    for _ in 0..KEEPERS {
        let custodian = launcher.custodian.clone();
        let link = match custodian.running() {
            Some(link) => link,
            None => tokio::task::spawn_blocking(move || custodian.link()).await.ok()??,
        };
        match start_with(launcher, &link).await {
            Err(NotStarted::KeeperLost) => {}
            Err(NotStarted::Refused(error)) => return Some(Err(error)),
            Ok(streams) => return Some(Ok(streams)),
        }
    }
    Some(Err(io::Error::other("its keeper was killed while it was started")))
}

async fn start_with(launcher: &Launcher, link: &Arc<Link>) -> Result<Streams, NotStarted> {
    let (input, write) = io::pipe()?;
    let (read, output) = io::pipe()?;
    // A large result then takes fewer turns. Where the system gives no more, it is the usual size.
    let _usual = rustix::pipe::fcntl_setpipe_size(&read, OUTPUT);
    let (hear, errors) = io::pipe()?;
    let theirs = [input.into(), output.into(), errors.into()];
    let mut ward = link.order(order(launcher)?, &theirs, launcher.patience)?;
    // As long as we hold them too, nobody's end of them is seen.
    drop(theirs);
    let number = ward.started().await?;
    let (read, hear) = (Receiver::from_owned_fd(read.into())?, Receiver::from_owned_fd(hear.into())?);
    let write = launcher.pulse.begin(number, Box::new(Sender::from_owned_fd(write.into())?));
    let hearing = Hearing::new(launcher.last_words.clone(), hear);
    let process = KeptProcess { ward, patience: launcher.patience, hearing };
    Ok(Streams { read: Box::new(read), write, keeper: Some(Box::new(process)) })
}

/// The keeper runs elsewhere: where nothing is said, the directory is ours.
fn order(launcher: &Launcher) -> io::Result<Start> {
    let program = &launcher.program;
    let directory = match &program.directory {
        Some(directory) => path::absolute(directory)?,
        None => env::current_dir()?,
    };
    Ok(Start {
        command: program.command.clone(),
        arguments: program.arguments.clone(),
        directory: directory.into_os_string(),
        environment: launcher.environment.clone().into_iter().collect(),
    })
}

// === impl KeptProcess ===

impl Keeper for KeptProcess {
    fn epitaph(&self) -> BoxFuture<'_, String> {
        Box::pin(async move {
            let epitaph = self.hearing.epitaph(async { self.ward.ended().await.ok_or(self.why_unknown()) }).await;
            // Nobody speaks for it any more: what it has left behind goes too.
            if self.ward.has_ended() {
                self.ward.let_go();
            }
            epitaph
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.ward.let_go();
            let Patience { to_leave, when_asked } = self.patience;
            if timeout(to_leave + when_asked + TO_REPORT, self.ward.gone()).await.is_err() {
                tracing::warn!("something of a server does not end");
            }
        })
    }
}

impl KeptProcess {
    fn why_unknown(&self) -> &'static str {
        if self.ward.is_lost() { "its keeper was killed, so it was ended" } else { "it was ended" }
    }
}
