//! What the keeper does beyond ending what it is told to, and what is said where there is none.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use toolway_host::{
    connection::{LastWords, Program},
    keeper::{Custodian, Custody, Patience},
};
use toolway_wire::up::stdio::OpenStreams;

use super::{LEGACY, gone, is_alive, pid, scripted, written};
use crate::stage::{Stage, embedding, within};

#[tokio::test]
async fn what_a_server_hid_in_a_session_of_its_own_ends_with_it_and_not_with_others() {
    let hide = "(setsid sleep 600 </dev/null >/dev/null 2>&1 & echo $! > hidden)";
    let (stage, other) = (Stage::new(), Stage::new());
    let peer = stage.try_dial(scripted(&stage, hide, LEGACY, ""), None).await.0.unwrap();
    let neighbour = stage.try_dial(scripted(&other, hide, LEGACY, ""), None).await.0.unwrap();
    let (hidden, of_neighbour) = (pid(&stage, "hidden"), pid(&other, "hidden"));
    within("the end", peer.close()).await;
    assert!(!is_alive(hidden));
    assert!(is_alive(of_neighbour));
    within("the end", neighbour.close()).await;
    assert!(!is_alive(of_neighbour));
}

#[tokio::test]
async fn a_server_that_crashes_takes_along_what_holds_its_streams() {
    let stage = Stage::new();
    let first = "sleep 600 & echo $! > worker; echo no such database >&2; exit 3";
    let began = Instant::now();
    let error = stage.try_dial(scripted(&stage, first, LEGACY, ""), None).await.0.unwrap_err();
    let sentence = "the connection ended: it exited with status 3; its last words: no such database";
    assert_eq!(error.to_string(), sentence);
    assert!(began.elapsed() < Duration::from_secs(5), "nobody waited for the worker: {:?}", began.elapsed());
    gone(pid(&stage, "worker")).await;
}

#[tokio::test]
async fn a_server_whose_first_process_leaves_in_peace_goes_on() {
    let stage = Stage::new();
    let mut program = scripted(&stage, "", LEGACY, "");
    program.arguments.insert(0, "sh".to_owned());
    program.command = "setsid".to_owned();
    let peer = stage.try_dial(program, None).await.0.unwrap();
    let server = pid(&stage, "pid");
    within("a ping", peer.ping()).await.unwrap_err();
    assert!(is_alive(server));
    within("the end", peer.close()).await;
    assert!(!is_alive(server));
}

#[tokio::test]
async fn a_keeper_that_is_gone_does_not_take_its_successor_along() {
    let stage = Stage::new();
    let peer = stage.try_dial(scripted(&stage, "", LEGACY, ""), None).await.0.unwrap();
    for _ in 0..10 {
        // Its keeper leaves while the other one starts programs.
        let other = Stage::new();
        let gone = other.launcher(Program::new("cat"), LastWords::default()).open().await.unwrap();
        drop((gone, other));
        for _ in 0..20 {
            within("a start", stage.launcher(Program::new("true"), LastWords::default()).open()).await.unwrap();
        }
    }
    assert!(is_alive(pid(&stage, "pid")));
    within("the end", peer.close()).await;
}

#[tokio::test]
async fn a_long_lived_host_has_more_patience() {
    let stage = Stage::new();
    let first = "trap 'echo hurried >> manners' TERM";
    let program = scripted(&stage, first, "", "sleep 1; echo left by itself >> manners");
    let launcher = stage.launcher(program, LastWords::default());
    let launcher = launcher.kept_by(Custodian::played_by(embedding()), Patience::LONG_LIVED);
    let mut streams = launcher.open().await.unwrap();
    streams.write.shutdown().await.unwrap();
    drop(streams.write);
    within("the end", streams.keeper.unwrap().close()).await;
    assert_eq!(written(&stage, "manners"), ["left by itself"]);
}

#[tokio::test]
async fn where_there_is_no_keeper_the_status_says_so() {
    let weaker = |custodian: &Custodian| match custodian.custody() {
        Custody::Kept => panic!("nobody keeps"),
        Custody::Weaker { why } => why,
    };
    assert_eq!(
        weaker(&Custodian::default()),
        "this program does not lend its executable to a keeper (`toolway_host::keeper::lend()` in `main`)"
    );
    assert_eq!(weaker(&Custodian::nobody()), "no keeper was asked for");

    let stage = Stage::new();
    for (executable, why) in [
        ("/no/such/program", "the keeper cannot be started: No such file or directory (os error 2)"),
        ("/bin/true", "the keeper cannot be started: the keeper ended at once"),
    ] {
        let custodian = Custodian::played_by(executable);
        let echo = Program { arguments: vec!["all the same".into()], ..Program::new("echo") };
        let launcher = stage.launcher(echo, LastWords::default()).kept_by(custodian.clone(), Patience::default());
        let (mut streams, mut output) = (launcher.open().await.unwrap(), String::new());
        within("its output", streams.read.read_to_string(&mut output)).await.unwrap();
        assert_eq!((output.as_str(), weaker(&custodian).as_str()), ("all the same\n", why));
    }
}
