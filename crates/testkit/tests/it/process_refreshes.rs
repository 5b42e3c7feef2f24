//! Several processes with one sign-in, some of which are killed during a refresh.
//!
//! `TOOLWAY_TEST_LONG=1` kills many more; `TOOLWAY_RENEWAL_SEED` makes the choices of an earlier run.

use std::{collections::BTreeSet, time::Duration};

use futures_util::future::join_all;
use tokio::time::{sleep, timeout};
use toolway_testkit::{
    authorization::{Endpoint, Quirk, TestUser},
    seeded_random::SeededRandom,
};

use crate::signed_in::{Calls, LONG, SharedHome};

/// A free lock is available at once.
const SOON: Duration = Duration::from_secs(5);

/// Long enough to kill a process that waits for it.
const A_WHILE: Duration = Duration::from_millis(200);

fn rounds() -> usize {
    if std::env::var_os("TOOLWAY_TEST_LONG").is_some() { 300 } else { 20 }
}

#[tokio::test]
async fn two_processes_with_eight_calls_each_refresh_an_expired_token_once() {
    let home = SharedHome::new().await;
    home.sign_in_with_expired_token().await;
    home.login.set_quirks([Quirk::Late(Endpoint::Refresh, Duration::from_millis(200))]);
    let outputs = join_all((0..2).map(|_| home.process(&["calls:8"]).output())).await;
    for output in outputs {
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said, format!("ready\n{}", "Ok(\"hello ada\")\n".repeat(8)));
    }
    assert_eq!((home.login.count(Endpoint::Refresh), home.server.calls()), (1, 16));
}

/// Stored credential after a process was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Left {
    /// Nothing was changed.
    Old,
    /// The new token is stored.
    New,
    /// The old token is invalid, and the new one was not stored.
    Lost,
}

/// When a process is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// It has sent the refresh request.
    Asking,
    /// It has received the new token.
    Calling,
    /// A random moment.
    Any,
}

impl Moment {
    async fn wait(self, home: &SharedHome, process: &mut Calls, chance: &mut SeededRandom) {
        let (renewals, called) = (home.login.count(Endpoint::Refresh), home.server.called());
        let late = match self {
            Self::Asking => A_WHILE,
            Self::Calling => Duration::ZERO,
            Self::Any => Duration::from_millis(chance.below(30)),
        };
        home.login.set_quirks([Quirk::Late(Endpoint::Refresh, late)]);
        process.ready().await;
        match self {
            Self::Asking => timeout(LONG, home.login.until(Endpoint::Refresh, renewals + 1)).await.unwrap(),
            Self::Calling => timeout(LONG, home.server.until_called(called + 1)).await.unwrap(),
            Self::Any => sleep(Duration::from_micros(chance.below(60_000))).await,
        }
    }
}

#[tokio::test]
async fn process_killed_during_a_refresh_leaves_a_complete_credential() {
    let (home, mut chance, mut left) =
        (SharedHome::new().await, SeededRandom::seeded_by("TOOLWAY_RENEWAL_SEED"), BTreeSet::new());
    for round in 0..rounds() {
        home.sign_in_with_expired_token().await;
        let before = home.stored().await.tokens.unwrap().refresh.unwrap();
        let mut process = home.process(&["calls:2"]);
        let moment = [Moment::Asking, Moment::Calling, Moment::Any][round % 3];
        moment.wait(&home, &mut process, &mut chance).await;
        process.kill();
        home.login.set_quirks([]);
        // Requests of the killed process may still be in transit.
        timeout(LONG, home.login.until_idle()).await.unwrap().unwrap();

        let kept = home.stored().await.tokens.unwrap().refresh.unwrap();
        let newest = home.login.newest_refresh().unwrap();
        assert!(kept == before || kept.expose() == newest, "round {round}: half a credential");
        let state = match (kept == before, kept.expose() == newest) {
            (true, true) => Left::Old,
            (false, _) => Left::New,
            (true, false) => Left::Lost,
        };
        left.insert(state);
        check_use(&home, state).await;
        assert_no_lock(&home).await;
    }
    assert!(left.contains(&Left::Lost) && left.contains(&Left::New), "not all moments were met: {left:?}");
}

/// The remaining credential can be used or requires sign-in, once; the lock of the killed process is released.
async fn check_use(home: &SharedHome, state: Left) {
    let renewals = home.login.count(Endpoint::Refresh);
    let called = timeout(LONG, home.caller(None).call("hello")).await;
    let called = called.unwrap_or_else(|_| panic!("a lock was not released"));
    if state != Left::Lost {
        assert_eq!(called.unwrap(), "hello ada", "{state:?}");
        return;
    }
    assert!(called.unwrap_err().contains("`files` requires sign-in"));
    assert!(home.caller(None).call("hello").await.unwrap_err().contains("`files` requires sign-in"));
    assert_eq!(home.login.count(Endpoint::Refresh), renewals + 1, "the refresh was repeated");
    assert_eq!(home.caller(Some(TestUser::named("ada"))).call("hello").await.unwrap(), "hello ada");
}

/// The lock file may outlive a killed process; the lock does not.
async fn assert_no_lock(home: &SharedHome) {
    let vault = home.vault();
    for key in vault.keys().await.unwrap() {
        let turn = timeout(SOON, vault.lock(&key)).await;
        drop(turn.unwrap_or_else(|_| panic!("a lock was not released")).unwrap());
    }
}
