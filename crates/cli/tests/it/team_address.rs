//! How a team reaches a gateway: its public URL, certificates, and what the start and the log say about it.

use std::{
    io::{BufRead, BufReader, Read},
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    gateway::{Answer, Serving},
    home::{Home, Ran, Running},
};

const PATIENCE: Duration = Duration::from_secs(20);

/// Writes a new certificate for `localhost` with its key.
fn write_certificate(home: &Home) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    for (name, text) in [("key.pem", made.signing_key.serialize_pem()), ("cert.pem", made.cert.pem())] {
        home.write(&format!("{name}.new"), &text);
        std::fs::rename(home.path(&format!("{name}.new")), home.path(name)).unwrap();
    }
}

fn with_tls(home: &Home, more: &Value) {
    let mut gateway = json!({ "tls": { "cert": home.path("cert.pem"), "key": home.path("key.pem") } });
    gateway.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    home.configure(&json!({ "gateway": gateway }).to_string());
}

/// A client that trusts exactly the certificate in this file.
fn ping(home: &Home, serving: &Serving, trusted: &str) -> Ran {
    let port = serving.authority.rsplit_once(':').unwrap().1;
    let (url, header) = (format!("https://localhost:{port}/mcp"), format!("Authorization: Bearer {}", serving.key()));
    let trusted = home.path(trusted);
    let words = ["ping", "--url", &url, "--header", &header];
    home.run_with(&words, &[("SSL_CERT_FILE", trusted.to_str().unwrap())], "")
}

#[test]
fn gateway_serves_https_and_uses_a_renewed_certificate_without_a_restart() {
    let home = Home::new();
    write_certificate(&home);
    with_tls(&home, &json!({}));
    std::fs::copy(home.path("cert.pem"), home.path("first.pem")).unwrap();
    let serving = Serving::start(&home, &[]);
    assert!(serving.said["listening"].as_str().unwrap().starts_with("https://127.0.0.1:"), "{}", serving.said);
    let first = ping(&home, &serving, "first.pem");
    assert_eq!(first.code, 0, "{}", first.talk);
    let plain = Answer::of(serving.send("GET", "/health", &[], ""));
    assert_eq!((plain.status, plain.body.trim()), (400, "this address speaks HTTPS; use an https:// URL"));

    write_certificate(&home);
    let began = Instant::now();
    while ping(&home, &serving, "cert.pem").code != 0 {
        assert!(began.elapsed() < PATIENCE, "the new certificate is not used");
        thread::sleep(Duration::from_millis(100));
    }
    assert_ne!(ping(&home, &serving, "first.pem").code, 0, "the old certificate is no longer used");
}

#[test]
fn certificate_that_cannot_be_used_stops_the_start_with_its_file() {
    let home = Home::new();
    with_tls(&home, &json!({}));
    let ran = home.run(&["serve", "--listen", "127.0.0.1:0", "--console", "off"]);
    assert_eq!(ran.code, 2, "{}", ran.talk);
    assert!(ran.talk.contains("cert.pem") && ran.talk.contains("gateway.tls"), "{}", ran.talk);
}

#[test]
fn public_url_is_in_every_snippet_and_its_host_is_accepted() {
    let home = Home::new();
    home.configure(r#"{"gateway": {"publicUrl": "https://tools.example"}}"#);
    let serving = Serving::start(&home, &["--log", "json"]);
    assert_eq!(serving.said["url"], "https://tools.example/mcp");
    let added = Ran::of(&home.command(&["clients", "add", "editor", "-o", "human"]).output().unwrap());
    let lines = added.talk.lines().filter(|line| line.contains("://")).count();
    assert_eq!(added.talk.matches("https://tools.example/mcp").count(), lines, "{}", added.talk);
    let get = |host: &str| {
        let port = serving.authority.rsplit_once(':').unwrap().1;
        let head = format!("GET /ready HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
        let mut stream = std::net::TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        let request = format!("{head}authorization: Bearer {}\r\n\r\n", serving.key());
        std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
        Answer::of(stream).status
    };
    assert_ne!(get("tools.example"), 403);
    assert_eq!(get("other.example:8080"), 403);
    assert_eq!(Answer::of(serving.send("GET", "/servers", &[], "")).status, 401);

    let talk = serving.stop();
    let refused: Vec<Value> = talk
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(|line: &Value| line["event"] == "refused")
        .collect();
    let reason = "host not allowed: `other.example:8080`; to accept it, add `other.example` to `gateway.hosts`";
    assert_eq!(refused[0]["reason"], reason, "{talk}");
    assert_eq!(refused[1]["reason"], "the request has no key; see `toolway clients list`");
}

/// Starts `serve` with the configured address, stops it, and returns what it wrote to stderr.
fn start_and_stop(home: &Home, words: &[&str]) -> String {
    let mut command = home.command(&["serve"]);
    let mut child = Running::start(command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped()));
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let mut stderr = child.stderr.take().unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let mut talk = String::new();
    stderr.read_to_string(&mut talk).unwrap();
    assert!(line.contains("listening"), "{line}{talk}");
    talk
}

#[test]
fn start_on_an_address_of_other_machines_says_what_is_missing() {
    let home = Home::new();
    home.configure(r#"{"gateway": {"listen": "0.0.0.0:0"}}"#);
    let talk = start_and_stop(&home, &["--console", "off"]);
    for expected in ["set `gateway.publicUrl`", "`toolway clients add NAME`", "set `gateway.tls`"] {
        assert!(talk.contains(expected), "{expected}: {talk}");
    }
    write_certificate(&home);
    with_tls(&home, &json!({ "listen": "0.0.0.0:0", "publicUrl": "https://localhost:7717" }));
    assert_eq!(home.run(&["clients", "add", "editor"]).code, 0);
    let talk = start_and_stop(&home, &["--console", "off"]);
    assert!(!talk.contains("warning"), "{talk}");
    with_tls(&home, &json!({ "listen": "0.0.0.0:0", "publicUrl": "https://tools.example" }));
    let talk = start_and_stop(&home, &["--console", "off"]);
    assert!(talk.contains("the certificate of `gateway.tls` is not for `tools.example`"), "{talk}");
}

#[test]
fn console_listens_on_an_address_of_other_machines_with_tls_only() {
    let home = Home::new();
    let refused = home.run(&["serve", "--listen", "127.0.0.1:0", "--console", "0.0.0.0:0"]);
    assert_eq!(refused.code, 2);
    assert!(refused.talk.contains("set `gateway.tls`"), "{}", refused.talk);
    write_certificate(&home);
    with_tls(&home, &json!({ "publicUrl": "https://localhost" }));
    let serving = Serving::start(&home, &["--console", "0.0.0.0:0"]);
    let link = home.run(&["console", "--no-open"]);
    let link: Value = serde_json::from_str(&link.out).unwrap();
    let link = link["console"].as_str().unwrap();
    assert!(link.starts_with("https://localhost:") && link.contains("/login?token="), "{link}");
    let page = std::process::Command::new("curl")
        .args(["-s", "-i", "--cacert", home.path("cert.pem").to_str().unwrap(), link])
        .output()
        .unwrap();
    let page = Answer::read(&String::from_utf8_lossy(&page.stdout));
    assert_eq!(page.status, 303, "{page:?}");
    assert!(page.head.contains("HttpOnly; Secure"), "{page:?}");
    serving.stop();
}
