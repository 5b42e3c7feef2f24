//! Requests that a vendor refuses, and vendors that cannot be reached.

use std::time::Duration;

use toolway_model::{ModelError, ModelErrorKind, ModelRequest, Vendor};
use toolway_testkit::vendor::{Reply, VendorKind};

use crate::stage::{KEY, answer, build, error, hello, listen, model, options};

#[tokio::test]
async fn a_rate_limit_is_waited_for() {
    for kind in VendorKind::ALL {
        let replies =
            vec![Reply::rate_limited(0), Reply::refusal(429, "slow").header("retry-after-ms", "5"), Reply::text("hi")];
        let (vendor, model) = model(kind, replies).await;
        assert_eq!(answer(&model, hello()).await.0.text, "hi");
        assert_eq!(vendor.requests().len(), 3, "{kind:?}");
    }
}

#[tokio::test]
async fn a_long_rate_limit_is_reported_with_its_time() {
    for kind in VendorKind::ALL {
        let (vendor, model) = model(kind, vec![Reply::rate_limited(61)]).await;
        let error = error(&model).await;
        assert_eq!((&error.kind, error.retry_after), (&ModelErrorKind::RateLimited, Some(Duration::from_secs(61))));
        assert_eq!(error.vendor_message.as_deref(), Some("Rate limit reached for requests"), "{kind:?}");
        assert!(error.is_retryable());
        assert_eq!(vendor.requests().len(), 1, "{kind:?}");
    }
}

#[tokio::test]
async fn a_rate_limit_may_name_a_date() {
    let date = |ahead: u64| httpdate::fmt_http_date(std::time::SystemTime::now() + Duration::from_secs(ahead));
    for kind in VendorKind::ALL {
        let busy = |date: &str| Reply::refusal(429, "slow").header("retry-after", date);
        let passed = busy("Sun, 06 Nov 1994 08:49:37 GMT");
        let (vendor, model) = model(kind, vec![passed, Reply::text("hi"), busy(&date(3_600))]).await;
        assert_eq!(answer(&model, hello()).await.0.text, "hi");
        let wait = error(&model).await.retry_after.unwrap().as_secs();
        assert!((3_000..=3_600).contains(&wait) && vendor.requests().len() == 3, "{kind:?}: {wait}");
    }
}

#[tokio::test]
async fn a_failing_vendor_is_asked_three_times() {
    for kind in VendorKind::ALL {
        for status in [500, 503, 529] {
            let (vendor, model) = model(kind, vec![Reply::refusal(status, "down"); 3]).await;
            let error = error(&model).await;
            assert_eq!(error.kind, ModelErrorKind::Unavailable { status }, "{kind:?}");
            assert_eq!(error.to_string(), format!("model `m`: the vendor is unavailable (HTTP {status}): down"));
            assert_eq!(vendor.requests().len(), 3, "{kind:?}");
        }
    }
}

#[tokio::test]
async fn a_refused_key_is_told_apart_and_never_shown() {
    for kind in VendorKind::ALL {
        let message = format!("Incorrect API key provided: {KEY}.");
        let (vendor, model) = model(kind, vec![Reply::refusal(401, &message), Reply::text("hi")]).await;
        let error = error(&model).await;
        assert_eq!(error.kind, ModelErrorKind::Unauthorized { status: 401 }, "{kind:?}");
        assert_eq!(error.vendor_message.as_deref(), Some("Incorrect API key provided: [hidden]."));
        assert!(!error.is_retryable() && vendor.requests().len() == 1, "{kind:?}");
        assert!(!format!("{model:?} {error:?} {error}").contains(KEY));
        assert!(!format!("{:?}", options(kind, &vendor.base_url())).contains(KEY));
    }
}

#[tokio::test]
async fn gemini_refuses_an_invalid_key_with_400() {
    let reply = Reply::refusal(400, "API key not valid. Please pass a valid API key.");
    let (_vendor, model) = model(VendorKind::Gemini, vec![reply]).await;
    assert_eq!(error(&model).await.kind, ModelErrorKind::Unauthorized { status: 400 });
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_told_apart() {
    for (kind, message) in [
        (VendorKind::Anthropic, "prompt is too long: 210000 tokens > 200000 maximum"),
        (
            VendorKind::Openai,
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
        ),
        (
            VendorKind::OpenaiChat,
            "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.",
        ),
        (VendorKind::OpenaiChat, "the request exceeds the available context size, try increasing it"),
        (VendorKind::Gemini, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
    ] {
        let (_vendor, model) = model(kind, vec![Reply::refusal(400, message)]).await;
        let error = error(&model).await;
        assert_eq!(error.kind, ModelErrorKind::ContextExceeded, "{message}");
        assert!(!error.is_retryable());
    }
}

#[tokio::test]
async fn other_refusals_have_the_vendor_s_message() {
    for kind in VendorKind::ALL {
        let (vendor, model) = model(kind, vec![Reply::refusal(400, "tools.0: \u{1b}[31mname\u{7} is bad")]).await;
        let error = error(&model).await;
        assert_eq!(
            error.to_string(),
            "model `m`: the vendor refused the request (HTTP 400): tools.0: [31mname is bad",
            "{kind:?}"
        );
        assert!(!error.is_retryable() && vendor.requests().len() == 1);
    }
}

#[tokio::test]
async fn a_huge_error_body_is_cut() {
    for kind in VendorKind::ALL {
        let (_vendor, model) = model(kind, vec![Reply::huge_error(400, 20 * 1024 * 1024)]).await;
        let error = error(&model).await;
        assert_eq!(error.kind, ModelErrorKind::InvalidRequest { status: 400 });
        assert_eq!(error.vendor_message.unwrap().chars().count(), 501, "{kind:?}");
    }
}

#[tokio::test]
async fn bodies_of_refusals_in_every_form_are_read() {
    for (body, expected) in [
        (r#"[{"error": {"code": 400, "message": "in a list", "status": "X"}}]"#, Some("in a list")),
        (r#"{"error": "a word"}"#, Some("a word")),
        (r#"{"message": "at the top"}"#, Some("at the top")),
        ("<html>no</html>", Some("<html>no</html>")),
        (r#"{"detail": 7}"#, Some(r#"{"detail": 7}"#)),
        ("", None),
    ] {
        let (_vendor, model) = model(VendorKind::OpenaiChat, vec![Reply::whole(422, "text/plain", body)]).await;
        assert_eq!(error(&model).await.vendor_message.as_deref(), expected);
    }
}

#[tokio::test]
async fn a_page_instead_of_a_stream_is_an_invalid_answer() {
    for kind in VendorKind::ALL {
        let (vendor, model) =
            model(kind, vec![Reply::whole(200, "text/html; charset=utf-8", "<h1>Sign in</h1>")]).await;
        let error = error(&model).await;
        assert_eq!(
            error.to_string(),
            "model `m`: invalid answer: `text/html` instead of an event stream: <h1>Sign in</h1>"
        );
        assert_eq!(vendor.requests().len(), 1, "{kind:?}");
    }
}

#[tokio::test]
async fn a_connection_that_is_closed_without_an_answer_is_tried_again() {
    for kind in VendorKind::ALL {
        let (_vendor, model) = model(kind, vec![Reply::closed(), Reply::text("hi")]).await;
        assert_eq!(answer(&model, hello()).await.0.text, "hi", "{kind:?}");
    }
}

#[tokio::test]
async fn a_vendor_that_cannot_be_reached_is_named_without_secrets() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let authority = listener.local_addr().unwrap().to_string();
    drop(listener);
    for kind in VendorKind::ALL {
        let model = build(options(kind, &format!("http://user:{KEY}@{authority}/base?token={KEY}")));
        let error = error(&model).await;
        assert_eq!(error.kind, ModelErrorKind::Unreachable { url: format!("http://{authority}/base") });
        assert!(error.is_retryable() && !format!("{error:?}").contains(KEY), "{error:?}");
    }
}

#[tokio::test]
async fn a_key_that_no_header_can_carry_is_an_error_before_anything_is_sent() {
    let (vendor, _) = model(VendorKind::Openai, Vec::new()).await;
    let mut options = options(VendorKind::Openai, &vendor.base_url());
    options.key = Some(toolway_config::Secret::new("two\nlines"));
    let error = error(&build(options)).await;
    assert_eq!(
        error.to_string(),
        "model `m`: the vendor refused the key: it contains characters that are not valid in an HTTP header"
    );
    assert!(vendor.requests().is_empty());
}

#[tokio::test]
async fn a_vendor_that_repeats_a_configured_header_does_not_reveal_it() {
    let reply = Reply::refusal(400, "bad header `Bearer sk-proxy-0123`, with x-trace: on");
    let (vendor, _) = model(VendorKind::OpenaiChat, vec![reply]).await;
    let mut options = options(VendorKind::OpenaiChat, &vendor.base_url());
    options.headers.insert("authorization", "Bearer sk-proxy-0123".parse().unwrap());
    options.headers.insert("x-trace", "on".parse().unwrap());
    let message = error(&build(options)).await.vendor_message.unwrap();
    assert_eq!(message, "bad header `Bearer [hidden]`, with x-trace: on");
}

#[tokio::test]
async fn a_server_without_a_key_gets_no_key_header() {
    let (vendor, _) = model(VendorKind::OpenaiChat, vec![Reply::text("hi")]).await;
    let mut options = options(VendorKind::OpenaiChat, &vendor.base_url());
    options.key = None;
    answer(&build(options), hello()).await;
    assert_eq!(vendor.requests()[0].header("authorization"), None);
}

#[tokio::test]
async fn a_script_has_no_http_wire() {
    let mut options = options(VendorKind::Openai, "http://127.0.0.1:9");
    options.vendor = Vendor::Scripted;
    let (_, error) = listen(&build(options), ModelRequest::default()).await;
    let expected = ModelErrorKind::InvalidAnswer("this model is not reached over HTTP".to_owned());
    assert_eq!(error, Some(ModelError::new("m", expected)));
}
