//! Which member a session of a client is at, as far as this gateway knows.
//!
//! The store knows it. What it said is used for a third of the lease, so that a session in use asks it every few seconds and
//! not with every request; a member that is not the home says so ([`super::PeerService`]).

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::time::Instant;
use toolway_host::cluster::{LeaseClaim, LeaseError, LeaseHolder, LeaseKey, Member, PeerAddress};
use uuid::Uuid;

use super::ClusterMembership;

/// The homes of sessions.
#[derive(Debug)]
pub(crate) struct SessionHomes {
    membership: ClusterMembership,
    // Nothing awaits under this lock.
    known: Mutex<HashMap<Uuid, KnownHome>>,
}

#[derive(Clone, Debug)]
struct KnownHome {
    /// The member that asked.
    by: Member,
    home: SessionHome,
    asked: Instant,
}

/// Where the requests of a session go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionHome {
    /// It is at this gateway.
    Here,
    /// It is at another one.
    At {
        /// Its registration.
        member: Member,
        /// Where it is reached.
        address: PeerAddress,
    },
}

/// The home of a session is not known now.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum HomeUnknown {
    /// This gateway may not serve any session.
    #[error("this gateway is no member of the cluster now")]
    NoMember,
    /// The store did not say.
    #[error("the home of the session is not known: {0}")]
    Store(#[from] LeaseError),
}

/// Homes that are kept; others are asked for again.
const MAX_KNOWN: usize = 65_536;
/// How much of a lease a home is used for without asking again.
const KNOWN_SHARE: u32 = 3;

impl SessionHomes {
    pub(crate) fn new(membership: ClusterMembership) -> Self {
        Self { membership, known: Mutex::default() }
    }

    /// The home of a session. One that has none is at this gateway from now on.
    pub(crate) async fn find(&self, session: Uuid) -> Result<SessionHome, HomeUnknown> {
        let by = self.member()?;
        let known = self.known.lock().get(&session).filter(|known| known.by == by).cloned();
        match known.filter(|known| known.asked.elapsed() < self.membership.lease() / KNOWN_SHARE) {
            Some(known) => Ok(known.home),
            None => self.ask(session).await,
        }
    }

    /// The home of a session as the store knows it now.
    pub(crate) async fn ask(&self, session: Uuid) -> Result<SessionHome, HomeUnknown> {
        let by = self.member()?;
        let leases = self.membership.leases();
        let claim = self.membership.answer(leases.claim(by, LeaseKey::Session { session })).await?;
        match self.note(by, session, claim) {
            Noted::Home(home) => Ok(home),
            // It was taken over just now.
            Noted::Ended(member) => self.take(session, member).await,
        }
    }

    /// Moves a session to this gateway from a member that is gone. Another gateway may have been faster.
    pub(crate) async fn take(&self, session: Uuid, from: Member) -> Result<SessionHome, HomeUnknown> {
        let by = self.member()?;
        let claim = self
            .membership
            .answer(self.membership.leases().take_server(by, LeaseKey::Session { session }, from))
            .await?;
        match self.note(by, session, claim) {
            Noted::Home(home) => Ok(home),
            Noted::Ended(_) => Err(HomeUnknown::NoMember),
        }
    }

    /// Frees a session that has ended, so that nothing is kept for it.
    pub(crate) async fn release(&self, session: Uuid) {
        self.known.lock().remove(&session);
        let Some(by) = self.membership.current() else { return };
        let released = self.membership.leases().release(by, LeaseKey::Session { session });
        if let Err(error) = self.membership.answer(released).await {
            tracing::debug!(%error, "the home of a session that has ended is freed with this member");
        }
    }

    /// Nothing that was known is valid any more.
    pub(crate) fn forget_all(&self) {
        self.known.lock().clear();
    }

    fn member(&self) -> Result<Member, HomeUnknown> {
        self.membership.current().ok_or(HomeUnknown::NoMember)
    }

    fn note(&self, by: Member, session: Uuid, claim: LeaseClaim) -> Noted {
        let home = match claim {
            LeaseClaim::Granted => SessionHome::Here,
            LeaseClaim::Held(LeaseHolder::Current { member, address }) => SessionHome::At { member, address },
            LeaseClaim::Held(LeaseHolder::Ended { member, .. }) => return Noted::Ended(member),
        };
        let mut known = self.known.lock();
        if MAX_KNOWN <= known.len() {
            known.retain(|_, known| known.asked.elapsed() < self.membership.lease() / KNOWN_SHARE);
        }
        if known.len() < MAX_KNOWN {
            known.insert(session, KnownHome { by, home: home.clone(), asked: Instant::now() });
        }
        Noted::Home(home)
    }
}

/// What a claim said.
enum Noted {
    Home(SessionHome),
    /// The home was taken over.
    Ended(Member),
}
