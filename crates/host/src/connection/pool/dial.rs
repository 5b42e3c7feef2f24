//! How a line is connected: when it is first needed, as its server is wanted, and not again and again where it cannot be.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt;
use tokio::time::Instant;
use toolway_wire::up::{EraChoice, Peer};

use super::{
    Ground, Lines, disconnected,
    line::{Line, Stands},
    trouble::Rest,
};
use crate::connection::{
    client_face::ClientFace,
    dial::{DialError, Dialled, Session},
    state::NotConnected,
    wanted::{Lists, WantedServer},
};

impl Lines {
    /// Connects a line; whoever waits for it meanwhile takes the same answer.
    pub(super) async fn dial(&self, line: &Arc<Line>, ground: &Ground<'_>) -> Result<Stands, NotConnected> {
        loop {
            let (rest, last) = {
                let pool = self.pool.lock();
                (pool.trouble.rest(Instant::now()), pool.trouble.last())
            };
            match rest {
                // Somebody else has tried.
                _ if line.ended.is_cancelled() => {
                    return Err(line.why_not.get().cloned().or(last).unwrap_or_else(disconnected));
                }
                Rest::No => break,
                Rest::For(pause) => tokio::time::sleep(pause).await,
                Rest::Refused(why) => return self.not_dialled(line, why),
            }
        }
        let Ground { wanted, base, account, listing } = ground;
        let wanted = WantedServer { era: era_of(base, wanted), lists: Lists::Ignored, ..WantedServer::clone(wanted) };
        let face = ClientFace { declared: Some(line.key.profile.capabilities()), ..self.base_face() };
        let senses = (line.last_words.clone(), line.pulse.clone());
        let dialling =
            self.room.dialler.connect(&wanted, line.key.caller.client(), Arc::new(face), senses, Session::New);
        let dialling = self.room.starting.take(line.pulse.begins(), AssertUnwindSafe(dialling).catch_unwind());
        let Dialled { redactor, peer } = tokio::select! {
            dialled = dialling => dialled.unwrap_or_else(|_| Dialled::failed(DialError::panicked())),
            () = line.ended.cancelled() => return Err(disconnected()),
        };
        match peer {
            Ok((peer, own)) => {
                let following = self.follow(&peer, line);
                // What is listed to one person's sign-in is nobody else's.
                if account.is_nobodys() && own.is_nobodys() {
                    self.learn(&peer, line.key.profile, listing()).await;
                }
                Ok(Stands::new(peer, redactor, following))
            }
            Err(error) => {
                let why = NotConnected::after(&error, &redactor);
                tracing::warn!(server = %self.server, error = %why.because, "cannot connect for a caller");
                // Who has not signed in, or whose sign-in is of no use, keeps nobody else waiting.
                if !error.is_of_sign_in() {
                    self.pool.lock().trouble.fail(why.clone(), Instant::now());
                }
                self.not_dialled(line, why)
            }
        }
    }

    /// Whoever comes next begins another one.
    fn not_dialled(&self, line: &Arc<Line>, why: NotConnected) -> Result<Stands, NotConnected> {
        // Said before it ends: those who wait for it take this for an answer.
        let why = line.why_not.get_or_init(|| why).clone();
        self.pool.lock().end(line);
        Err(why)
    }
}

fn era_of(base: &Peer, wanted: &WantedServer) -> EraChoice {
    if wanted.era == EraChoice::Auto { base.found().choice() } else { wanted.era }
}
