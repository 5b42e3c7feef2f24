//! How servers end: by themselves, when stdin closes, after SIGTERM, after SIGKILL; no process remains.

use std::time::{Duration, Instant};

use serde_json::json;
use toolway_host::connection::Program;
use toolway_wire::{exchange::Outcome, json::Raw};

use super::{LEGACY, gone, is_alive, pid, scripted, written};
use crate::stage::{Stage, within};

#[tokio::test]
async fn exit_at_startup_is_reported_with_stderr_output() {
    for stage in Stage::either_way() {
        let script = "echo reading the configuration >&2; echo API_KEY is not set >&2; exit 3";
        let program = Program { arguments: vec!["-c".into(), script.into()], ..Program::new("sh") };
        let error = stage.try_dial(program, None).await.0.unwrap_err();
        assert_eq!(error.code(), "ended");
        assert_eq!(
            error.to_string(),
            "the connection ended: the server exited with status 3; last stderr output: reading the configuration / API_KEY is not set"
        );
    }
}

#[tokio::test]
async fn call_fails_with_the_reason_when_its_server_is_killed() {
    for stage in Stage::either_way() {
        let answers = format!("*'tools/call'*) echo out of memory >&2; kill -9 $$ ;;\n{LEGACY}");
        let peer = stage.try_dial(scripted(&stage, "", &answers, ""), None).await.0.unwrap();
        let call = peer.call_tool("any", Some(Raw::of(&json!({})))).unwrap();
        let Outcome::Failed(error) = within("the end of the call", call.outcome()).await else { panic!("it fails") };
        let sentence =
            "the connection ended: the server was killed by signal 9 (SIGKILL); last stderr output: out of memory";
        assert_eq!(error.to_string(), sentence);
        assert_eq!(within("the end", peer.closed()).await.to_string(), sentence);
    }
}

#[tokio::test]
async fn server_that_closes_stdout_is_ended_with_the_connection() {
    for stage in Stage::either_way() {
        let answers = format!("*'tools/call'*) exec >&-; sleep 600 ;;\n{LEGACY}");
        let peer = stage.try_dial(scripted(&stage, "", &answers, ""), None).await.0.unwrap();
        let call = peer.call_tool("any", Some(Raw::of(&json!({})))).unwrap();
        let Outcome::Failed(error) = within("the end of the call", call.outcome()).await else { panic!("it fails") };
        assert_eq!(error.to_string(), "the connection ended: the server closed stdout but is still running");
        assert!(is_alive(pid(&stage, "pid")));
        within("the end", peer.close()).await;
        gone(pid(&stage, "pid")).await;
    }
}

#[tokio::test]
async fn server_that_exits_when_stdin_closes_gets_no_signal() {
    for stage in Stage::either_way() {
        let first = "trap 'echo terminated >> events' TERM";
        let last = "echo exited by itself >> events";
        let peer = stage.try_dial(scripted(&stage, first, LEGACY, last), None).await.0.unwrap();
        within("the end", peer.close()).await;
        assert_eq!(written(&stage, "events"), ["exited by itself"]);
        assert!(!is_alive(pid(&stage, "pid")));
    }
}

#[tokio::test]
async fn server_that_stays_gets_sigterm() {
    for stage in Stage::either_way() {
        let first = "trap 'echo terminated >> events; exit' TERM";
        let last = "echo stays >> events; while :; do sleep 0.05; done";
        let peer = stage.try_dial(scripted(&stage, first, LEGACY, last), None).await.0.unwrap();
        within("the end", peer.close()).await;
        assert_eq!(written(&stage, "events"), ["stays", "terminated"]);
        assert!(!is_alive(pid(&stage, "pid")));
    }
}

#[tokio::test]
async fn server_that_ignores_sigterm_is_killed() {
    for stage in Stage::either_way() {
        let last = "echo stays >> events; while :; do sleep 0.05; done";
        let peer = stage.try_dial(scripted(&stage, "trap '' TERM HUP INT", LEGACY, last), None).await.0.unwrap();
        let began = Instant::now();
        within("the end", peer.close()).await;
        assert!(Duration::from_secs(1) <= began.elapsed(), "it had the full time: {:?}", began.elapsed());
        assert_eq!(written(&stage, "events"), ["stays"]);
        assert!(!is_alive(pid(&stage, "pid")));
    }
}

#[tokio::test]
async fn child_processes_end_with_their_server() {
    for streams in ["", "</dev/null >/dev/null 2>&1"] {
        for trap in ["", "trap '' TERM;"] {
            for stage in Stage::either_way() {
                let first = format!("({trap} exec sleep 600) {streams} & echo $! > grandchild");
                let peer = stage.try_dial(scripted(&stage, &first, LEGACY, ""), None).await.0.unwrap();
                let grandchild = pid(&stage, "grandchild");
                assert!(is_alive(grandchild));
                within("the end", peer.close()).await;
                gone(grandchild).await;
            }
        }
    }
}

#[tokio::test]
async fn dropped_peer_leaves_no_process() {
    for stage in Stage::either_way() {
        let first = "trap '' TERM; sleep 600 & echo $! > grandchild";
        let peer = stage.try_dial(scripted(&stage, first, LEGACY, "wait"), None).await.0.unwrap();
        let (server, grandchild) = (pid(&stage, "pid"), pid(&stage, "grandchild"));
        drop(peer);
        gone(server).await;
        gone(grandchild).await;
    }
}

#[test]
fn dropped_runtime_leaves_no_process() {
    for stage in Stage::either_way() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let first = "sleep 600 & echo $! > grandchild";
        let peer = runtime.block_on(stage.try_dial(scripted(&stage, first, LEGACY, "wait"), None)).0.unwrap();
        let (server, grandchild) = (pid(&stage, "pid"), pid(&stage, "grandchild"));
        drop(runtime);
        drop(peer);
        let after = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        after.block_on(gone(server));
        after.block_on(gone(grandchild));
    }
}
