//! Environment, working directory and arguments of server processes, and start errors.

use std::collections::BTreeMap;

use tokio::io::AsyncReadExt;
use toolway_host::connection::{Program, StderrTail};
use toolway_wire::up::stdio::StreamOpener;

use super::{LEGACY, pid, scripted};
use crate::stage::{Stage, within};

#[tokio::test]
async fn server_sees_allowed_variables_and_those_of_its_entry() {
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
async fn server_has_its_working_directory_and_unmodified_arguments() {
    for stage in Stage::either_way() {
        let folder = stage.make_folder("somewhere else");
        let pwd = Program { directory: Some(folder.clone()), ..Program::new("/bin/pwd") };
        assert_eq!(output_of(&stage, pwd).await.trim_end(), folder.to_str().unwrap());

        let arguments = ["$HOME", "a b", "*", "`id`", "; echo", ""].map(str::to_owned);
        let printf = Program { arguments: [&["<%s>".to_owned()], &arguments[..]].concat(), ..Program::new("printf") };
        assert_eq!(output_of(&stage, printf).await, "<$HOME><a b><*><`id`><; echo><>");
    }
}

#[tokio::test]
async fn server_has_its_own_process_group() {
    for stage in Stage::either_way() {
        let peer = stage.try_dial(scripted(&stage, "", LEGACY, ""), None).await.0.unwrap();
        let server = pid(&stage, "pid");
        assert_eq!(rustix::process::getpgid(Some(server)).unwrap(), server);
        within("the end", peer.close()).await;
    }
}

#[tokio::test]
async fn missing_program_or_directory_is_reported() {
    for stage in Stage::either_way() {
        let secret = vec!["--key".to_owned(), "s3cret".to_owned()];
        let missing = Program { arguments: secret, ..Program::new("no-such-program") };
        let error = stage.try_dial(missing, None).await.0.unwrap_err();
        assert_eq!(error.code(), "unreachable");
        assert_eq!(error.to_string(), "cannot reach `no-such-program`: program not found in `PATH`");

        let nowhere = Program { directory: Some("/no/such/folder".into()), ..Program::new("sh") };
        let error = stage.try_dial(nowhere, None).await.0.unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot reach `sh`: working directory `/no/such/folder` does not exist or is not a directory"
        );
    }
}

#[tokio::test]
async fn large_stderr_output_does_not_block() {
    for stage in Stage::either_way() {
        let flood = "yes noise upon noise | head -n 1000000 >&2; echo and that was that >&2";
        let (peer, stderr_tail) = stage.try_dial(scripted(&stage, flood, LEGACY, ""), None).await;
        let peer = peer.unwrap();
        within("a ping", peer.ping()).await.unwrap_err();
        // Both streams are read concurrently: stderr output may arrive after the response.
        let received = async {
            while stderr_tail.lines().last().is_none_or(|line| line != "and that was that") {
                tokio::task::yield_now().await;
            }
        };
        within("its last stderr output", received).await;
        let kept: usize = stderr_tail.lines().iter().map(String::len).sum();
        assert!((32 * 1024..=64 * 1024).contains(&kept), "{kept} bytes are kept");
        within("the end", peer.close()).await;
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn environment_of_the_keeper_is_empty() {
    let script = "cat /proc/$PPID/comm; cat /proc/$PPID/environ 2>/dev/null; echo end";
    let program = Program { arguments: ["-c", script].map(str::to_owned).to_vec(), ..Program::new("sh") };
    assert_eq!(output_of(&Stage::new(), program).await, "mcp-keeper\nend\n");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn inherited_descriptors_do_not_reach_servers() {
    let stage = Stage::new();
    let path = stage.path("inherited-secret");
    std::fs::write(&path, "hunter2").unwrap();
    let file = std::fs::File::open(&path).unwrap();
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
    let list = Program { arguments: vec!["-l".into(), "/proc/self/fd".into()], ..Program::new("ls") };
    let output = output_of(&stage, list).await;
    assert!(output.contains("0 -> pipe:"), "{output}");
    assert!(!output.contains("inherited-secret"), "{output}");
    drop(file);
}

/// The stdout output of a program.
async fn output_of(stage: &Stage, program: Program) -> String {
    let mut streams = stage.launcher(program, StderrTail::default()).open().await.unwrap();
    let mut output = String::new();
    within("its output", streams.read.read_to_string(&mut output)).await.unwrap();
    output
}
