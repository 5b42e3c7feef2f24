//! Strings, and the hosts that are found in them.

use toolway_wire::json::Raw;

use super::*;

fn search() -> HostSearch<'static> {
    HostSearch { schema: None, bare: Bare::ByFormat, configured: &[], seen: None }
}

/// The hosts, sorted; `?` for what cannot be read, `!` for what is too large.
fn hosts(found: Vec<FoundHost>) -> String {
    let mut hosts: Vec<String> = found
        .into_iter()
        .map(|found| match found.status {
            HostStatus::New => found.host,
            HostStatus::Configured => format!("{} configured", found.host),
            HostStatus::Seen => format!("{} seen", found.host),
            HostStatus::Unreadable => "?".to_owned(),
            HostStatus::TooLarge => "!".to_owned(),
        })
        .collect();
    hosts.sort();
    hosts.dedup();
    hosts.join(" ")
}

fn in_text(text: &str) -> String {
    hosts(search().find(Some(&Raw::of(&serde_json::json!({ "x": text })))))
}

/// A string, and the hosts in it.
const TABLE: &[(&str, &str)] = &[
    // Absolute URLs, anywhere in a text.
    ("https://evil.example/x", "evil.example"),
    ("HTTPS://EVIL.Example", "evil.example"),
    ("see https://a.example/x and http://b.example.", "a.example b.example"),
    ("(https://a.example)", "a.example"),
    ("[a](https://a.example/x),[b](https://b.example/y)", "a.example b.example"),
    ("<img src=\"https://a.example/x.png\">", "a.example"),
    ("'https://a.example'", "a.example"),
    ("ssh://git@host.example:22/x", "host.example"),
    ("git+https://host.example/x", "host.example"),
    ("view-source:https://a.example", "a.example"),
    ("jdbc:postgresql://db.example:5432/x", "db.example"),
    ("s3://bucket/key", "bucket"),
    ("wss://a.example/socket", "a.example"),
    ("xhttps://a.example", "a.example"),
    ("https://a.example/https://b.example/", "a.example b.example"),
    ("https://a.example/?u=http://b.example/", "a.example b.example"),
    // Scheme-relative and special-scheme URLs.
    ("//evil.example/x", "evil.example"),
    ("//evil", "evil"),
    ("\\\\evil.example\\share", "evil.example"),
    ("\\\\server\\share", "server"),
    ("/\\evil.example", "evil.example"),
    ("<img src=//evil/x>", "evil"),
    ("look at //evil.example/x", "evil.example"),
    ("look at //evil/x", "evil"),
    ("https:evil.example/x", "evil.example"),
    ("https:/evil.example/x", "evil.example"),
    ("https:///evil.example/x", "evil.example"),
    ("https:\\\\evil.example", "evil.example"),
    ("https:\\/\\/evil.example\\/x", "evil.example"),
    ("http:/\\evil.example", "evil.example"),
    ("go to https:evil.example", "evil.example"),
    ("ftp:evil.example", "evil.example"),
    // One spelling of a host.
    ("https://2130706433/", "127.0.0.1"),
    ("https://0x7f000001/", "127.0.0.1"),
    ("https://0177.1/", "127.0.0.1"),
    ("https://127.1:8080/", "127.0.0.1"),
    ("https://[::ffff:127.0.0.1]/", "127.0.0.1"),
    ("https://[::ffff:7f00:1]/", "127.0.0.1"),
    ("https://[::1]:80/", "[::1]"),
    ("https://bücher.example/", "xn--bcher-kva.example"),
    ("https://XN--BCHER-KVA.example/", "xn--bcher-kva.example"),
    ("https://ｅｖｉｌ．example/", "evil.example"),
    ("https://evil。example/", "evil.example"),
    ("https://ev\u{ad}il.example/", "evil.example"),
    ("https://evil.example./", "evil.example"),
    ("https://evil.example:443/", "evil.example"),
    ("https://%65vil.example/", "evil.example"),
    // Control characters, line breaks and spaces.
    ("\u{1}https://evil.example", "evil.example"),
    (" \t//evil.example", "evil.example"),
    ("ht\ntps://evil.example/", "evil.example"),
    ("https:\n//evil.example/", "evil.example"),
    ("\u{200b}https://evil.example", "evil.example"),
    ("https://good.example\n", "good.example"),
    // User names that look like hosts.
    ("https://good.example@evil.example/", "evil.example"),
    ("https://good.example:x@evil.example/", "evil.example"),
    ("https://good.example%2F@evil.example/", "evil.example good.example"),
    ("https://good.example\\@evil.example/", "evil.example good.example"),
    ("https://good.example#@evil.example/", "good.example"),
    ("https://good.example'@evil.example/", "evil.example"),
    ("https://good.example @evil.example/", "evil.example good.example"),
    ("open https://:x@evil.example/ now", "evil.example"),
    ("open https://;@evil.example/ now", "evil.example"),
    ("open https://'@evil.example/ now", "evil.example"),
    ("open https://.@evil.example/ now", "evil.example"),
    ("open https://.evil.example/ now", ".evil.example"),
    ("open https://'\\@evil.example/ now", "' evil.example"),
    ("open https://\u{1}@evil.example/ now", "evil.example"),
    ("open https://'secret.evil.example/ now", "'secret.evil.example secret.evil.example"),
    ("(https://good.example)@evil.example/", "evil.example good.example"),
    ("'https://good.example'@evil.example/", "evil.example good.example"),
    ("[https://good.example]@evil.example/", "evil.example good.example"),
    ("x https://good.example\u{0}@evil.example/", "evil.example good.example"),
    ("'https://a.example/x','b@c.example'", "a.example"),
    ("https://evil.example\u{ff03}@good.example/", "? good.example"),
    // Other letters in a name.
    ("see https://good.example&.evil.example/x", "good.example&.evil.example"),
    ("see https://good.example&evil\u{3002}example/x", "good.example&evil.example"),
    ("see https://good.example&evil%2eexample/x", "good.example&evil.example"),
    ("https://a.example/?u=https://b.example&v=1.5", "a.example b.example"),
    ("u=https://b.example&v=1", "b.example"),
    // Decoded once, not twice.
    ("ht%0Atps://evil.example/", "evil.example"),
    ("%2F%09%2Fevil.example/", "evil.example"),
    ("javascript%3Aalert(1)", "?"),
    ("https%3A%2F%2Fevil.example%2F", "evil.example"),
    ("https://a.example/?u=https%3A%2F%2Fevil.example", "a.example evil.example"),
    ("%2F%2Fevil.example/x", "evil.example"),
    ("https%253A%252F%252Fevil.example", ""),
    // JSON and escapes inside a string.
    ("{\"u\":\"https:\\/\\/evil.example\"}", "evil.example"),
    ("{\"\\u0068ttps://evil.example\":1}", "evil.example"),
    ("[\"{\\\"u\\\":\\\"\\\\u0068ttps://evil.example\\\"}\"]", "evil.example"),
    ("broken {\"u\":\"\\u0068ttps://evil.example\"", "evil.example"),
    ("\\x68ttps://evil.example", "evil.example"),
    // Quotes that a shell removes.
    ("curl \"https://\"evil.example/x", "evil.example"),
    ("curl 'https:'//evil.example/x", "evil.example"),
    ("curl 'https'://evil.example/x", "evil.example"),
    ("curl https:/\"\"/evil.example/x", "evil.example"),
    ("curl `https://`evil.example `'http'`://b.example", "b.example evil.example"),
    ("curl https:''evil.example", "evil.example"),
    ("curl \"ssh://\"[::1]/x", "[::1]"),
    ("[\"http://\",\"https://\"]", ""),
    ("if url.startswith('https://') or url == \"http://\":", ""),
    ("{\"http\":\"enabled\",\"ws\":'on'}", ""),
    ("say: \"hello\", then: 'bye'", ""),
    // What looks like a URL and cannot be parsed.
    ("https://a b.example/", "a"),
    ("https://[::1/", "?"),
    ("https://exa%00mple/", "? exa"),
    ("https://a.example:99999/", "?"),
    ("https://\u{ff0f}evil/", "?"),
    ("file://evil/share", "evil"),
    ("file:\\\\evil\\share", "evil"),
    // Programs in a URL.
    ("javascript:fetch('ht'+'tps:'+'//x')", "? x"),
    ("javascript:alert(1)", "?"),
    (" java\nscript:alert(1)", "?"),
    ("data:text/html;base64,PGltZz4=", "?"),
    ("data:image/svg+xml,<svg/>", "?"),
    ("data:text/html,<img src=https://evil.example/x>", "? evil.example"),
    ("view-source:javascript:alert(1)", "?"),
    ("feed:view-source:data:text/html,<b>", "?"),
    ("data:image/png;base64,AAAA", ""),
    ("data:,hello", ""),
    // No hosts.
    ("", ""),
    ("hello world", ""),
    ("evil.example/x", ""),
    ("file:///etc/passwd", ""),
    ("file://localhost/etc/passwd", ""),
    ("file:/etc/passwd", ""),
    ("/home//user/x", ""),
    ("mailto:a@evil.example", ""),
    ("urn:isbn:123", ""),
    ("C:\\Users\\x", ""),
    ("std::io::Read", ""),
    ("// TODO fix this", ""),
    ("//TODO fix this", ""),
    ("a // b", ""),
    ("https://", ""),
    ("https: the protocol", ""),
    ("https://...", ""),
    ("12:30", ""),
    ("note: x", ""),
    ("\\\\d+ and \\\\w", ""),
];

#[test]
fn hosts_are_found_in_every_spelling() {
    let wrong: Vec<String> = TABLE
        .iter()
        .filter(|(text, expected)| in_text(text) != *expected)
        .map(|(text, expected)| format!("{text:?}: expected `{expected}`, found `{}`", in_text(text)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(TABLE.len() >= 60);
}

#[test]
fn member_names_lists_and_members_of_the_same_name_are_searched() {
    let found = |json: &str| hosts(search().find(Some(&Raw::parse(json.to_owned()).unwrap())));
    assert_eq!(found(r#"{"https://a.example":1}"#), "a.example");
    assert_eq!(found(r#"{"a":[{"b":["https://a.example"]}]}"#), "a.example");
    assert_eq!(found(r#"{"a":"https://a.example","a":"x"}"#), "a.example");
    assert_eq!(found(r#""https://a.example""#), "a.example");
    let pointer = search().find(Some(&Raw::parse(r#"{"a/b":["x","//c.example"]}"#).unwrap()));
    assert_eq!(pointer[0].pointer, "/a~1b/1");
}

#[test]
fn a_name_that_the_caller_chooses_can_be_a_host() {
    let schema = Raw::of(&serde_json::json!({
        "properties": { "a.example": {}, "by_host": { "propertyNames": { "format": "hostname" } } },
    }));
    let found = |bare, json: &str| {
        let search = HostSearch { schema: Some(&schema), bare, ..search() };
        hosts(search.find(Some(&Raw::parse(json.to_owned()).unwrap())))
    };
    assert_eq!(found(Bare::Everywhere, r#"{"a.example":{"evil.example":1}}"#), "evil.example");
    assert_eq!(found(Bare::Everywhere, r#"{"b":["{\"evil.example/x\":1}"]}"#), "evil.example");
    assert_eq!(found(Bare::ByFormat, r#"{"b":{"evil.example":1}}"#), "");
    assert_eq!(found(Bare::ByFormat, r#"{"by_host":{"evil":1,"2130706433":2}}"#), "127.0.0.1 evil");
}

/// A URI of a resource, and the hosts in it.
const URIS: &[(&str, &str)] = &[
    ("page:evil.example/x?d=1", "evil.example"),
    ("page:evil.example", "evil.example"),
    ("page:///evil.example/x", "evil.example"),
    ("page:get?u=evil.example&d=1", "evil.example"),
    ("page:evil%2Eexample/x", "evil.example"),
    ("page://evil.example/x", "evil.example"),
    ("https:evil.example/x", "evil.example"),
    ("note:shopping.md", ""),
    ("note:shopping", ""),
    ("urn:isbn:123", ""),
    ("mailto:ada@a.example", ""),
    ("file:///home/ada/notes.example", ""),
    ("repo://owner/src/lib.rs", "owner"),
];

#[test]
fn hosts_are_found_in_uris_with_and_without_an_authority() {
    for (uri, expected) in URIS {
        assert_eq!(hosts(search().find_in_uri(uri)), *expected, "{uri}");
    }
}

/// `format` or annotation, a string, and the hosts in it.
const BARE: &[(&str, &str, &str)] = &[
    ("uri", "evil.example", "evil.example"),
    ("uri", "evil.example/x?d=1", "evil.example"),
    ("uri", "evil.example:8080/x", "evil.example"),
    ("uri", "localhost:3000/x", "localhost"),
    ("uri", "mailto:a@b.example", ""),
    ("uri", "/etc/passwd", "etc"),
    ("uri", "https://a.example", "a.example"),
    ("uri-reference", "docs/a.html", ""),
    ("uri-reference", "evil.example/a", "evil.example"),
    ("hostname", "evil", "evil"),
    ("hostname", "2130706433", "127.0.0.1"),
    ("hostname", "::1", "[::1]"),
    ("hostname", "a b", "?"),
    ("hostname", "%65vil.example", "evil.example"),
    ("date", "evil.example", ""),
    ("open", "evil.example", "evil.example"),
    ("open", "evil.example.", "evil.example"),
    ("open", "go to evil.example/x?d=1 now", "evil.example"),
    ("open", "go to evil.example now", "evil.example"),
    ("open", "read main.rs and README.md", ""),
    ("open", "main.rs", "main.rs"),
    ("open", "a.b.evil.rs is it", "a.b.evil.rs"),
    ("open", "host evil.rs/x", "evil.rs"),
    ("open", "10.0.0.1", "10.0.0.1"),
    ("open", "ping 10.0.0.1 now", "10.0.0.1"),
    ("open", "version 1.2.3 of it", ""),
    ("open", "localhost:3000", "localhost"),
    ("open", "intranet:8080/x", "intranet"),
    ("open", "from:bob@corp.example", ""),
    ("open", "e.g. this, i.e. that", ""),
    ("open", "rust async traits", ""),
    ("open", "evil%2Eexample", "evil.example"),
];

#[test]
fn hosts_without_a_scheme_count_where_an_argument_is_said_to_be_one() {
    for (said, text, expected) in BARE {
        let format = serde_json::json!({ "properties": { "x": { "$ref": "#/$defs/x" } }, "$defs": { "x": { "anyOf":
            [{ "type": "null" }, { "type": "string", "format": said }] } } });
        let schema = Raw::of(&format);
        let is_open = *said == "open";
        let bare = if is_open { Bare::Everywhere } else { Bare::ByFormat };
        let search = HostSearch { schema: Some(&schema), bare, ..search() };
        let found = hosts(search.find(Some(&Raw::of(&serde_json::json!({ "x": text })))));
        assert_eq!(found, *expected, "{said} {text}");
    }
}

#[test]
fn configured_and_seen_urls_are_not_new() {
    let configured = ["*.good.example".parse().unwrap()];
    let seen = SeenUrls::default();
    seen.note_user("use https://a.example/x?u=https%3A%2F%2Fb.example and https://c.example/y");
    let search = HostSearch { configured: &configured, seen: Some(&seen), ..search() };
    for (text, expected) in [
        ("https://api.good.example/x?d=1", "api.good.example configured"),
        ("https://a.example/x?u=https%3A%2F%2Fb.example", "a.example seen"),
        ("https://a.example/x", "a.example"),
        ("https://a.example/x?u=https%3A%2F%2Fb.example&d=SECRET", "a.example b.example"),
        ("https://c.example/y https://a.example/x?u=https%3A%2F%2Fb.example", "a.example seen c.example seen"),
        ("please fetch https://c.example/y.", "c.example seen"),
        ("https://c.example/y ?d=SECRET", "c.example c.example seen"),
        ("https://c.example/y)SECRET", "c.example"),
        ("see https://c.example/y)SECRET", "c.example"),
        ("https://c.example/y\n?d=SECRET", "c.example c.example seen"),
        ("HTTPS://c.example/y", "c.example"),
        ("https://c.example\\@evil.example/y", "c.example evil.example"),
        ("[\"https://c.example/y\"]", "c.example seen"),
        ("['https://c.example/y','https://c.example/y']", "c.example seen"),
        ("总结（https://c.example/y）的内容", "c.example seen"),
        ("(https://c.example/y)SECRET", "c.example"),
        ("(https://c.example/y),SECRET", "c.example"),
        ("'https://c.example/y'?d=SECRET", "c.example"),
        ("https://c.example/y\u{1}?d=SECRET", "c.example"),
    ] {
        let found = hosts(search.find(Some(&Raw::of(&serde_json::json!({ "x": text })))));
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn a_long_list_of_links_without_spaces_is_searched() {
    let links: String = (0..300).map(|n| format!("[{n}](https://a.example/{}),", "x".repeat(80))).collect();
    assert_eq!(in_text(&links), "a.example");
}

#[test]
fn arguments_beyond_a_bound_count_as_new() {
    assert_eq!(in_text(&"x".repeat(MAX_ARGUMENTS)), "!");
    let many: String = (0..=MAX_URLS).map(|_| "https://a.example ").collect();
    assert_eq!(in_text(&many), "! a.example");
    let mut nested = "x".to_owned();
    (0..=MAX_NESTED).for_each(|_| nested = serde_json::json!([nested]).to_string());
    assert_eq!(in_text(&nested), "!");
    let hosts: String = (0..=MAX_HOSTS).map(|n| format!("https://h{n}.example ")).collect();
    assert!(in_text(&hosts).starts_with('!'));
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    assert!(search().find(Some(&Raw::parse(deep).unwrap())).iter().any(|found| found.status == HostStatus::TooLarge));
}

#[test]
fn hostile_arguments_are_searched_in_bounded_time() {
    let began = std::time::Instant::now();
    for unit in [
        "https:",
        "//a",
        "https://a/",
        "a:",
        ")",
        "%2F%2F",
        "\\u002f",
        "[\"",
        "https://a.example)",
        "a.b ",
        "(//x:/",
        "x://(",
        "http:(",
        "//a'",
    ] {
        in_text(&unit.repeat(250_000 / unit.len()));
    }
    assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { failure_persistence: None, ..proptest::test_runner::Config::with_cases(1_000) })]

    /// What the `url` crate finds in a word of a sentence is found, or the word cannot be read.
    #[test]
    fn no_host_of_the_url_standard_is_missed(
        scheme in "(https?|HTTP|wss?|ftp)",
        slashes in "(://|:///)",
        rest in "[a-z0-9.@:;&'()\\[\\]{}|%_~!$*+,=#?/\\\\\u{3002}\u{ff0e}\u{ad}\u{1}-]{1,12}",
        host in "(evil\\.example|2130706433|\\[::1\\]|ev\u{ad}il\\.example)",
        tail in "[a-z0-9.@:&'(){}/?#\\\\-]{0,6}",
        before in "(|see |\"|=)",
    ) {
        for url in [format!("{scheme}{slashes}{rest}{host}{tail}"), format!("{scheme}{slashes}{host}{rest}{tail}")] {
            let Ok(parsed) = url::Url::parse(&url) else { continue };
            let Some(expected) = parsed.host_str().and_then(toolway_config::canonical_host) else { continue };
            let found = search().find(Some(&Raw::of(&serde_json::json!({ "x": format!("{before}{url} now") }))));
            // No name is punctuation only, or ends with the next parameter of a query.
            let is_below = |rest: &str| rest.trim_end_matches(|c: char| !c.is_ascii_alphanumeric()).contains('.');
            let is_name = expected.contains(|c: char| c.is_ascii_alphanumeric());
            if !is_name || expected.split_once('&').is_some_and(|(_, rest)| !is_below(rest)) {
                continue;
            }
            // Punctuation that ends a sentence.
            let plain = |host: &str| {
                let host = host.trim_end_matches(['.', ',', ';', ':', '!', '\'', '*', '_', ')', '}']);
                toolway_config::canonical_host(host).unwrap_or_default()
            };
            let is_found = found.iter().any(|found| match found.status {
                HostStatus::New => found.host == expected || plain(&found.host) == plain(&expected),
                HostStatus::Unreadable | HostStatus::TooLarge => true,
                HostStatus::Configured | HostStatus::Seen => false,
            });
            proptest::prop_assert!(is_found, "{before}{url}: expected {expected}, found {found:?}");
        }
    }
}
