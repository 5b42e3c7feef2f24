//! The keeper process, and the status without one.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use toolway_host::{
    connection::{Program, StderrTail},
    keeper::{CleanupGuarantee, Descent, KeeperHandle, ShutdownTimeouts},
};
use toolway_wire::up::stdio::StreamOpener;

use super::{LEGACY, gone, is_alive, pid, scripted, written};
use crate::stage::{Stage, embedding, within};

#[tokio::test]
async fn processes_in_their_own_session_end_with_their_server_only() {
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
async fn detached_processes_of_a_server_descend_from_the_keeper() {
    let stage = Stage::new();
    // One leaves session and parents; one also tries to raise its limits, which root may do.
    let detach = r#"sleep="exec sleep 600"
        (setsid sh -c "(sh -c 'echo \$\$ > detached; $sleep' &)" </dev/null >/dev/null 2>&1 &)
        (setsid bash -c "ulimit -Hx unlimited; ulimit -x unlimited; echo \$\$ > raised; $sleep" </dev/null >/dev/null 2>&1 &)
        until [ -s detached ] && [ -s raised ]; do sleep 0.01; done"#;
    let peer = stage.try_dial(scripted(&stage, detach, LEGACY, ""), None).await.0.unwrap();
    let descent = |file| Descent::of(pid(&stage, file).as_raw_nonzero().get().unsigned_abs());
    assert_eq!(descent("pid"), Descent::Marked);
    assert_eq!(descent("detached"), Descent::Marked);
    assert!(matches!(descent("raised"), Descent::Marked | Descent::Ancestor { .. }), "{:?}", descent("raised"));
    assert_eq!(Descent::own(), Descent::Independent);
    within("the end", peer.close()).await;
    assert_eq!(descent("pid"), Descent::Unknown, "it has ended");
}

#[tokio::test]
async fn child_processes_of_a_crashed_server_are_ended() {
    let stage = Stage::new();
    let first = "sleep 600 & echo $! > worker; echo no such database >&2; exit 3";
    let began = Instant::now();
    let error = stage.try_dial(scripted(&stage, first, LEGACY, ""), None).await.0.unwrap_err();
    let sentence = "the connection ended: the server exited with status 3; last stderr output: no such database";
    assert_eq!(error.to_string(), sentence);
    assert!(began.elapsed() < Duration::from_secs(5), "the worker was not awaited: {:?}", began.elapsed());
    gone(pid(&stage, "worker")).await;
}

#[tokio::test]
async fn server_continues_after_its_first_process_exits_with_status_zero() {
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
async fn ended_keeper_does_not_affect_another_one() {
    let stage = Stage::new();
    let peer = stage.try_dial(scripted(&stage, "", LEGACY, ""), None).await.0.unwrap();
    for _ in 0..10 {
        // Its keeper ends while the other one starts programs.
        let other = Stage::new();
        let gone = other.launcher(Program::new("cat"), StderrTail::default()).open().await.unwrap();
        drop((gone, other));
        for _ in 0..20 {
            within("a start", stage.launcher(Program::new("true"), StderrTail::default()).open()).await.unwrap();
        }
    }
    assert!(is_alive(pid(&stage, "pid")));
    within("the end", peer.close()).await;
}

#[tokio::test]
async fn long_lived_host_waits_longer_before_sigterm() {
    let stage = Stage::new();
    let first = "trap 'echo terminated >> events' TERM";
    let program = scripted(&stage, first, "", "sleep 1; echo exited by itself >> events");
    let launcher = stage.launcher(program, StderrTail::default());
    let launcher = launcher.with_keeper(KeeperHandle::with_executable(embedding()), ShutdownTimeouts::LONG_LIVED);
    let mut streams = launcher.open().await.unwrap();
    streams.write.shutdown().await.unwrap();
    drop(streams.write);
    within("the end", streams.process.unwrap().close()).await;
    assert_eq!(written(&stage, "events"), ["exited by itself"]);
}

#[tokio::test]
async fn status_without_keeper_gives_the_reason() {
    let reason = |keeper: &KeeperHandle| match keeper.cleanup() {
        CleanupGuarantee::Full => panic!("a keeper is available"),
        CleanupGuarantee::BestEffort { reason } => reason,
    };
    assert_eq!(
        reason(&KeeperHandle::default()),
        "this program does not call `toolway_host::keeper::run_if_keeper()` first in `main`"
    );
    assert_eq!(reason(&KeeperHandle::disabled()), "the keeper process is disabled");

    let stage = Stage::new();
    for (executable, why) in [
        ("/no/such/program", "the keeper process cannot be started: No such file or directory (os error 2)"),
        ("/bin/true", "the keeper process cannot be started: the keeper process exited at startup"),
    ] {
        let keeper = KeeperHandle::with_executable(executable);
        let echo = Program { arguments: vec!["output".into()], ..Program::new("echo") };
        let launcher =
            stage.launcher(echo, StderrTail::default()).with_keeper(keeper.clone(), ShutdownTimeouts::default());
        let (mut streams, mut output) = (launcher.open().await.unwrap(), String::new());
        within("its output", streams.read.read_to_string(&mut output)).await.unwrap();
        assert_eq!((output.as_str(), reason(&keeper).as_str()), ("output\n", why));
    }
}
