//! `server-filesystem`: requests roots after the handshake and then allows access to these folders only.

use std::path::Path;

use serde_json::json;
use toolway_wire::{exchange::Outcome, json::Raw, up::EraChoice};

use crate::{
    peers,
    stage::{ScriptedUser, Server, Stage, within},
};

#[tokio::test]
async fn server_filesystem_allows_the_roots_we_give() {
    let stage = Stage::new();
    let (on_command_line, given) = (stage.make_folder("on command line"), stage.make_folder("given"));
    std::fs::write(on_command_line.join("note.txt"), "not for you").unwrap();
    std::fs::write(given.join("note.txt"), "first line\r\nsecond\tline\n").unwrap();
    let root = url::Url::from_directory_path(&given).unwrap().to_string();
    let user = ScriptedUser::with_roots(vec![root]);

    let server = stage.start_with_user(peers::filesystem(&[&on_command_line]), EraChoice::Auto, user).await;
    assert_eq!(server.revision(), "2025-11-25");
    server.user.wait_for_request("roots/list").await;
    // It processes the roots asynchronously.
    within("the new root", async { while !allowed(&server).await.contains(path(&given)) {} }).await;
    assert!(!allowed(&server).await.contains(path(&on_command_line)));

    let read = |folder: &Path| server.call("read_text_file", json!({ "path": folder.join("note.txt") }));
    assert_eq!(read(&given).await.text(), "first line\r\nsecond\tline\n");
    let refused = read(&on_command_line).await.result();
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(refused["content"][0]["text"].as_str().unwrap().contains("Access denied"), "{refused}");
}

#[tokio::test]
async fn server_filesystem_requests_no_roots_of_a_client_without_them() {
    let stage = Stage::new();
    let folder = stage.make_folder("on command line");
    let (peer, stderr_tail) = stage.try_dial(peers::filesystem(&[&folder]), None).await;
    let peer = peer.unwrap_or_else(|error| panic!("{error}: {:#?}", stderr_tail.lines()));
    let call = peer.call_tool("list_allowed_directories", Some(Raw::empty_object())).unwrap();
    let Outcome::Answered(result) = within("the folders", call.outcome()).await else { panic!("an answer") };
    assert!(result.text().contains(path(&folder)), "{result}");
}

async fn allowed(server: &Server) -> String {
    server.call("list_allowed_directories", json!({})).await.text()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}
