//! Finding Ollama.

use toolway_model::Ollama;
use toolway_testkit::{
    odd::http::{OddHttp, Reply as HttpReply},
    vendor::{MockVendor, OLLAMA_MODEL, Reply, VendorKind},
};
use toolway_wire::{
    limit::Limits,
    up::{client::HttpClient, connector::HttpOptions},
};

use crate::stage::{answer, build, hello, options};

fn client() -> HttpClient {
    HttpClient::new(HttpOptions::default(), &Limits::default())
}

#[tokio::test]
async fn a_running_ollama_is_found_and_answers() {
    let vendor = MockVendor::start(VendorKind::OpenaiChat, vec![Reply::text("hi")]).await.unwrap();
    let ollama = Ollama::find(Some(&vendor.authority()), &client()).await.unwrap();
    assert_eq!(
        (ollama.base_url.as_str(), &*ollama.models),
        (&*vendor.base_url(), &[OLLAMA_MODEL.to_owned(), "mock-old:latest".to_owned()][..])
    );
    let mut options = options(VendorKind::OpenaiChat, ollama.base_url.as_str());
    options.key = None;
    assert_eq!(answer(&build(options), hello()).await.0.text, "hi");
}

#[tokio::test]
async fn other_servers_and_closed_ports_are_not_ollama() {
    for body in ["<html>", "{}", r#"{"models": []}"#, r#"{"models": [{"name": "nomic-embed-text:latest"}]}"#] {
        let other = OddHttp::start(move |_| HttpReply::body(200, "application/json", body)).await.unwrap();
        assert_eq!(Ollama::find(Some(&other.authority()), &client()).await, None, "{body}");
    }
    let refusing = OddHttp::start(|_| HttpReply::empty(404)).await.unwrap();
    assert_eq!(Ollama::find(Some(&refusing.authority()), &client()).await, None);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    assert_eq!(Ollama::find(Some(&closed), &client()).await, None);
}
