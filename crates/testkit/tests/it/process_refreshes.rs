//! Several processes with one sign-in, and some that are killed while they renew it.
//!
//! `TOOLWAY_TEST_LONG=1` kills many more; `TOOLWAY_RENEWAL_SEED` makes the choices of an earlier run.

use std::{collections::BTreeSet, time::Duration};

use futures_util::future::join_all;
use tokio::time::{sleep, timeout};
use toolway_testkit::{
    authorization::{Endpoint, Person, Quirk},
    chance::Chance,
};

use crate::signed_in::{Calls, LONG, SharedHome};

/// A turn that nobody holds is there at once.
const SOON: Duration = Duration::from_secs(5);

/// Long enough to kill a process that waits for it.
const A_WHILE: Duration = Duration::from_millis(200);

fn rounds() -> usize {
    if std::env::var_os("TOOLWAY_TEST_LONG").is_some() { 300 } else { 20 }
}

#[tokio::test]
async fn two_processes_with_eight_calls_each_renew_an_ended_token_once() {
    let home = SharedHome::new().await;
    home.sign_in_for_a_moment().await;
    home.login.told([Quirk::Late(Endpoint::Renewal, Duration::from_millis(200))]);
    let outputs = join_all((0..2).map(|_| home.process(&["calls:8"]).output())).await;
    for output in outputs {
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said, format!("ready\n{}", "Ok(\"hello ada\")\n".repeat(8)));
    }
    assert_eq!((home.login.count(Endpoint::Renewal), home.server.calls()), (1, 16));
}

/// What is there after a process was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Left {
    /// Nothing had happened yet.
    Old,
    /// Everything had.
    New,
    /// The old one is good for nothing any more, and the new one was not kept.
    Lost,
}

/// When it is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// It has asked for a new token and not heard.
    Asking,
    /// It has the new token.
    Calling,
    /// Whenever it is.
    Any,
}

impl Moment {
    async fn wait(self, home: &SharedHome, process: &mut Calls, chance: &mut Chance) {
        let (renewals, called) = (home.login.count(Endpoint::Renewal), home.server.called());
        let late = match self {
            Self::Asking => A_WHILE,
            Self::Calling => Duration::ZERO,
            Self::Any => Duration::from_millis(chance.below(30)),
        };
        home.login.told([Quirk::Late(Endpoint::Renewal, late)]);
        process.ready().await;
        match self {
            Self::Asking => timeout(LONG, home.login.until(Endpoint::Renewal, renewals + 1)).await.unwrap(),
            Self::Calling => timeout(LONG, home.server.until_called(called + 1)).await.unwrap(),
            Self::Any => sleep(Duration::from_micros(chance.below(60_000))).await,
        }
    }
}

#[tokio::test]
async fn a_process_killed_in_a_renewal_leaves_the_old_or_the_new_sign_in_whole() {
    let (home, mut chance, mut left) =
        (SharedHome::new().await, Chance::seeded_by("TOOLWAY_RENEWAL_SEED"), BTreeSet::new());
    for round in 0..rounds() {
        home.sign_in_for_a_moment().await;
        let before = home.kept().await.tokens.unwrap().refresh.unwrap();
        let mut process = home.process(&["calls:2"]);
        let moment = [Moment::Asking, Moment::Calling, Moment::Any][round % 3];
        moment.wait(&home, &mut process, &mut chance).await;
        process.kill();
        home.login.told([]);
        // What it had sent may still be on its way.
        timeout(LONG, home.login.left_alone()).await.unwrap().unwrap();

        let kept = home.kept().await.tokens.unwrap().refresh.unwrap();
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

/// What is left can be used, or needs a person, once; nobody waits for whoever was killed.
async fn check_use(home: &SharedHome, state: Left) {
    let renewals = home.login.count(Endpoint::Renewal);
    let called = timeout(LONG, home.caller(None).call("hello")).await;
    let called = called.unwrap_or_else(|_| panic!("a lock stayed behind"));
    if state != Left::Lost {
        assert_eq!(called.unwrap(), "hello ada", "{state:?}");
        return;
    }
    assert!(called.unwrap_err().contains("files needs a sign-in"));
    assert!(home.caller(None).call("hello").await.unwrap_err().contains("files needs a sign-in"));
    assert_eq!(home.login.count(Endpoint::Renewal), renewals + 1, "it was tried again and again");
    assert_eq!(home.caller(Some(Person::named("ada"))).call("hello").await.unwrap(), "hello ada");
}

/// The file of a turn may outlive whoever was killed, until the next turn; its lock does not.
async fn assert_no_lock(home: &SharedHome) {
    let vault = home.vault();
    for key in vault.keys().await.unwrap() {
        let turn = timeout(SOON, vault.turn(&key)).await;
        drop(turn.unwrap_or_else(|_| panic!("a lock stayed behind")).unwrap());
    }
}
