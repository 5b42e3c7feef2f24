//! What a server's process is given, and what is said when it cannot be started.

use std::collections::BTreeMap;

use tokio::io::AsyncReadExt;
use toolway_host::connection::{LastWords, Program};
use toolway_wire::up::stdio::OpenStreams;

use super::{LEGACY, pid, scripted};
use crate::stage::{Stage, within};

#[tokio::test]
async fn a_server_sees_the_short_list_and_what_its_entry_names() {
    for stage in Stage::either_way() {
        let program =
            Program { variables: [("API_KEY".into(), "for this server".into())].into(), ..Program::new("env") };
        let output = output_of(&stage, program).await;
        let seen: BTreeMap<&str, &str> = output.lines().filter_map(|line| line.split_once('=')).collect();
        let names: Vec<&str> = seen.keys().copied().collect();
        assert_eq!(names, ["API_KEY", "HOME", "LANG", "PATH", "TMPDIR"], "{output}");
        assert_eq!(seen["API_KEY"], "for this server");
    }
}

#[tokio::test]
async fn a_server_runs_where_its_entry_says_and_no_shell_reads_its_arguments() {
    for stage in Stage::either_way() {
        let folder = stage.make_folder("somewhere else");
        let pwd = Program { directory: Some(folder.clone()), ..Program::new("/bin/pwd") };
        assert_eq!(output_of(&stage, pwd).await.trim_end(), folder.to_str().unwrap());

        let words = ["$HOME", "a b", "*", "`id`", "; echo", ""].map(str::to_owned);
        let printf = Program { arguments: [&["<%s>".to_owned()], &words[..]].concat(), ..Program::new("printf") };
        assert_eq!(output_of(&stage, printf).await, "<$HOME><a b><*><`id`><; echo><>");
    }
}

#[tokio::test]
async fn a_server_has_a_process_group_of_its_own() {
    for stage in Stage::either_way() {
        let peer = stage.try_dial(scripted(&stage, "", LEGACY, ""), None).await.0.unwrap();
        let server = pid(&stage, "pid");
        assert_eq!(rustix::process::getpgid(Some(server)).unwrap(), server);
        within("the end", peer.close()).await;
    }
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_named() {
    for stage in Stage::either_way() {
        let secret = vec!["--key".to_owned(), "s3cret".to_owned()];
        let missing = Program { arguments: secret, ..Program::new("no-such-program") };
        let error = stage.try_dial(missing, None).await.0.unwrap_err();
        assert_eq!(error.code(), "unreachable");
        assert_eq!(error.to_string(), "cannot reach `no-such-program`: there is no such program in its PATH");

        let nowhere = Program { directory: Some("/no/such/folder".into()), ..Program::new("sh") };
        let error = stage.try_dial(nowhere, None).await.0.unwrap_err();
        assert_eq!(error.to_string(), "cannot reach `sh`: /no/such/folder is not a directory");
    }
}

#[tokio::test]
async fn a_flood_on_standard_error_holds_nothing_up() {
    for stage in Stage::either_way() {
        let flood = "yes noise upon noise | head -n 1000000 >&2; echo and that was that >&2";
        let (peer, last_words) = stage.try_dial(scripted(&stage, flood, LEGACY, ""), None).await;
        let peer = peer.unwrap();
        within("a ping", peer.ping()).await.unwrap_err();
        // The two streams are read side by side: what is in the pipe may come in later than an answer.
        let heard = async {
            while last_words.lines().last().is_none_or(|line| line != "and that was that") {
                tokio::task::yield_now().await;
            }
        };
        within("its last words", heard).await;
        let kept: usize = last_words.lines().iter().map(String::len).sum();
        assert!((32 * 1024..=64 * 1024).contains(&kept), "{kept} bytes are kept");
        within("the end", peer.close()).await;
    }
}

/// All that a program writes on its standard output.
async fn output_of(stage: &Stage, program: Program) -> String {
    let mut streams = stage.launcher(program, LastWords::default()).open().await.unwrap();
    let mut output = String::new();
    within("its output", streams.read.read_to_string(&mut output)).await.unwrap();
    output
}
