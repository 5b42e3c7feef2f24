//! Response heads: too many lines, lines that are too long or endless, and informational responses.

use toolway_testkit::odd::http::{Act, RecordedRequest, Reply};

use super::{check, pinned};

fn with_lines(lines: &str) -> Reply {
    Reply::bare()
        .say(format!("HTTP/1.1 200 OK\r\n{lines}Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}"))
}

#[tokio::test]
async fn too_many_or_too_long_header_lines_fail_their_call() {
    check("200 lines", |_: &RecordedRequest| with_lines(&"X-Flood: x\r\n".repeat(200)), pinned, "too_large").await;
    check(
        "one long line",
        |_: &RecordedRequest| with_lines(&format!("X-Long: {}\r\n", "x".repeat(200_000))),
        pinned,
        "too_large",
    )
    .await;
    let many = |_: &RecordedRequest| with_lines(&format!("X-Long: {}\r\n", "x".repeat(1_000)).repeat(120));
    check("many long lines", many, pinned, "too_large").await;
    let for_ever = |_: &RecordedRequest| {
        Reply::bare().say("HTTP/1.1 200 OK\r\n").then(Act::SayForEver(b"X-Flood: x\r\n".repeat(100)))
    };
    check("no end of lines", for_ever, pinned, "too_large").await;
    let line = |_: &RecordedRequest| {
        Reply::bare().say("HTTP/1.1 200 OK\r\nX-Flood: ").then(Act::SayForEver(vec![b'x'; 1_000]))
    };
    check("no end of a line", line, pinned, "too_large").await;
}

#[tokio::test]
async fn invalid_head_fails_its_call() {
    for (name, text) in [
        ("another protocol", "SSH-2.0-OpenSSH_9.9\r\n\r\n"),
        ("another version", "HTTP/9.9 200 OK\r\n\r\n"),
        ("no status", "HTTP/1.1 OK\r\n\r\n"),
        ("invalid header name", "HTTP/1.1 200 OK\r\n: x\r\n\r\n"),
        ("a NUL", "HTTP/1.1 200 OK\r\nX: \0\r\n\r\n"),
    ] {
        check(name, move |_: &RecordedRequest| Reply::bare().say(text).then(Act::Close), pinned, "protocol").await;
    }
}

#[tokio::test]
async fn endless_informational_responses_fail_their_call() {
    let wait = |_: &RecordedRequest| Reply::bare().then(Act::SayForEver(b"HTTP/1.1 103 Early Hints\r\n\r\n".to_vec()));
    check("early hints", wait, pinned, "too_large").await;
}
