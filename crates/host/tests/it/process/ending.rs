//! How servers end: by themselves, when their input ends, when asked, when made to; and nothing of them stays.

use std::time::{Duration, Instant};

use serde_json::json;
use toolway_host::connection::Program;
use toolway_wire::{exchange::Outcome, json::Raw};

use super::{LEGACY, gone, is_alive, pid, scripted, written};
use crate::stage::{Stage, within};

#[tokio::test]
async fn a_server_that_exits_at_once_says_how_and_why() {
    for stage in Stage::either_way() {
        let script = "echo reading the configuration >&2; echo API_KEY is not set >&2; exit 3";
        let program = Program { arguments: vec!["-c".into(), script.into()], ..Program::new("sh") };
        let error = stage.try_dial(program, None).await.0.unwrap_err();
        assert_eq!(error.code(), "ended");
        assert_eq!(
            error.to_string(),
            "the connection ended: it exited with status 3; its last words: reading the configuration / API_KEY is not set"
        );
    }
}

#[tokio::test]
async fn a_server_that_dies_in_the_middle_of_a_call_fails_it_with_the_reason() {
    for stage in Stage::either_way() {
        let answers = format!("*'tools/call'*) echo out of memory >&2; kill -9 $$ ;;\n{LEGACY}");
        let peer = stage.try_dial(scripted(&stage, "", &answers, ""), None).await.0.unwrap();
        let call = peer.call_tool("any", Some(Raw::of(&json!({})))).unwrap();
        let Outcome::Failed(error) = within("the end of the call", call.outcome()).await else { panic!("it fails") };
        let sentence = "the connection ended: it was ended by signal 9 (SIGKILL); its last words: out of memory";
        assert_eq!(error.to_string(), sentence);
        assert_eq!(within("the end", peer.closed()).await.to_string(), sentence);
    }
}

#[tokio::test]
async fn a_server_that_closes_its_output_and_stays_is_ended_with_the_connection() {
    for stage in Stage::either_way() {
        let answers = format!("*'tools/call'*) exec >&-; sleep 600 ;;\n{LEGACY}");
        let peer = stage.try_dial(scripted(&stage, "", &answers, ""), None).await.0.unwrap();
        let call = peer.call_tool("any", Some(Raw::of(&json!({})))).unwrap();
        let Outcome::Failed(error) = within("the end of the call", call.outcome()).await else { panic!("it fails") };
        assert_eq!(error.to_string(), "the connection ended: it closed its output but goes on running");
        assert!(is_alive(pid(&stage, "pid")));
        within("the end", peer.close()).await;
        gone(pid(&stage, "pid")).await;
    }
}

#[tokio::test]
async fn a_server_that_leaves_when_its_input_ends_is_not_hurried() {
    for stage in Stage::either_way() {
        let first = "trap 'echo hurried >> manners' TERM";
        let last = "echo left by itself >> manners";
        let peer = stage.try_dial(scripted(&stage, first, LEGACY, last), None).await.0.unwrap();
        within("the end", peer.close()).await;
        assert_eq!(written(&stage, "manners"), ["left by itself"]);
        assert!(!is_alive(pid(&stage, "pid")));
    }
}

#[tokio::test]
async fn a_server_that_stays_is_asked_to_leave() {
    for stage in Stage::either_way() {
        let first = "trap 'echo asked >> manners; exit' TERM";
        let last = "echo stays >> manners; while :; do sleep 0.05; done";
        let peer = stage.try_dial(scripted(&stage, first, LEGACY, last), None).await.0.unwrap();
        within("the end", peer.close()).await;
        assert_eq!(written(&stage, "manners"), ["stays", "asked"]);
        assert!(!is_alive(pid(&stage, "pid")));
    }
}

#[tokio::test]
async fn a_server_that_does_not_listen_is_killed() {
    for stage in Stage::either_way() {
        let last = "echo stays >> manners; while :; do sleep 0.05; done";
        let peer = stage.try_dial(scripted(&stage, "trap '' TERM HUP INT", LEGACY, last), None).await.0.unwrap();
        let began = Instant::now();
        within("the end", peer.close()).await;
        assert!(Duration::from_secs(1) <= began.elapsed(), "it was given its time: {:?}", began.elapsed());
        assert_eq!(written(&stage, "manners"), ["stays"]);
        assert!(!is_alive(pid(&stage, "pid")));
    }
}

#[tokio::test]
async fn what_a_server_started_ends_with_it() {
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
async fn a_peer_that_is_dropped_leaves_nothing_behind() {
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
fn a_runtime_that_is_dropped_leaves_nothing_behind() {
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
