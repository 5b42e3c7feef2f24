//! The URLs that a user, or a result of a call, named in one conversation. A call that repeats one of them reaches no new
//! host.
//!
//! What the model wrote first never counts, also not where a result repeats it: the model could write a URL that carries
//! data, have a tool return it, and so make it known. Neither do URLs of a host that the model named itself in arguments,
//! in this call or an earlier one: a tool may put them together. The memory keeps digests, and is bounded.

use std::collections::{HashSet, VecDeque};

use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use toolway_wire::json::Raw;

use super::hosts::{Bare, HostSearch, Searched, UrlToken, hosts_of_token, recorded_urls, texts};

/// URLs that are remembered in one conversation. Of more the oldest are forgotten, and asked about again.
const MAX_SEEN: usize = 10_000;
/// URLs and hosts of the model that are remembered. After more, results name nothing that counts.
const MAX_WRITTEN: usize = 10_000;
/// Bytes of a message or result that are searched.
const MAX_TEXT: usize = 1024 * 1024;

/// URLs of one conversation, in the order in which its messages are noted.
#[derive(Debug, Default)]
pub struct SeenUrls {
    // No await under this lock.
    urls: Mutex<Urls>,
}

#[derive(Debug, Default)]
struct Urls {
    seen: HashSet<UrlDigest>,
    /// The seen ones, oldest first.
    order: VecDeque<UrlDigest>,
    /// What the model wrote before it was seen.
    written: HashSet<UrlDigest>,
    /// Not all that the model wrote is known: results name nothing that counts any more.
    is_incomplete: bool,
}

/// The first half of a SHA-256.
type UrlDigest = [u8; 16];

/// What the digests of texts of the model are about.
enum Written<'a> {
    /// A URL.
    Url(&'a str),
    /// A URL without its scheme.
    Bare(&'a str),
    /// A host in a URL of arguments.
    Host(&'a str),
}

impl SeenUrls {
    /// Notes a message of the user. Everything in it counts.
    pub fn note_user(&self, text: &str) {
        let mut urls = self.urls.lock();
        let _rest_is_new = each_url(text, |token, url| {
            urls.see(digest_of(url));
            for host in hosts_of_token(token) {
                urls.written.remove(&Written::Host(&host).digest());
            }
        });
    }

    /// Notes text of the model.
    pub fn note_model(&self, text: &str) {
        let mut urls = self.urls.lock();
        let searched = each_url(text, |_, url| urls.write(&Written::Url(url)));
        urls.is_incomplete |= searched == Searched::Part;
        bare_urls(text).filter(|word| word.contains(['/', '?'])).for_each(|word| urls.write(&Written::Bare(word)));
    }

    /// Notes the arguments of a call of the model, as JSON.
    pub fn note_arguments(&self, json: &str) {
        texts(json, |text| self.note_model(text));
        let search = HostSearch { schema: None, bare: Bare::ByFormat, configured: &[], seen: Some(self) };
        let hosts = Raw::parse(json.to_owned()).ok().map(|arguments| search.named_hosts(&arguments));
        let mut urls = self.urls.lock();
        match hosts {
            Some(Some(hosts)) => hosts.iter().for_each(|host| urls.write(&Written::Host(host))),
            Some(None) => urls.is_incomplete = true,
            // Not JSON: it was not sent.
            None => {}
        }
    }

    /// Notes a result for the model of a call with these arguments. URLs count that the model did not write, except those of
    /// a host that it named itself in arguments.
    pub fn note_result(&self, result: &str, arguments: &str) {
        self.note_arguments(arguments);
        let mut words = HashSet::new();
        texts(arguments, |text| words.extend(bare_urls(text).map(|word| Written::Bare(word).digest())));
        let mut urls = self.urls.lock();
        if urls.is_incomplete {
            return;
        }
        let _rest_is_new = each_url(result, |token, url| {
            let bare =
                Written::Bare(url[token.text.len() - token.after_scheme().len()..].trim_start_matches('/')).digest();
            let is_own = words.contains(&bare)
                || urls.written.contains(&bare)
                || urls.written.contains(&Written::Url(url).digest())
                || hosts_of_token(token).any(|host| urls.written.contains(&Written::Host(&host).digest()));
            if !is_own {
                urls.see(digest_of(url));
            }
        });
    }

    /// Bytes that it keeps, about.
    pub fn bytes(&self) -> usize {
        let urls = self.urls.lock();
        (urls.seen.capacity() + urls.order.capacity() + urls.written.capacity()) * size_of::<UrlDigest>()
    }

    /// Whether exactly this URL was seen.
    pub fn contains(&self, url: &str) -> bool {
        self.urls.lock().seen.contains(&digest_of(url))
    }
}

impl Urls {
    fn see(&mut self, url: UrlDigest) {
        if !self.seen.insert(url) {
            return;
        }
        self.order.push_back(url);
        if MAX_SEEN < self.order.len()
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
    }

    fn write(&mut self, written: &Written<'_>) {
        if matches!(written, Written::Url(url) if self.seen.contains(&digest_of(url))) {
            return;
        }
        if self.written.len() < MAX_WRITTEN {
            self.written.insert(written.digest());
        } else {
            self.is_incomplete = true;
        }
    }
}

impl Written<'_> {
    fn digest(&self) -> UrlDigest {
        match self {
            Self::Url(url) => digest_of(url),
            Self::Bare(text) => digest_of(&format!("bare {}", text.trim_end_matches('/').to_ascii_lowercase())),
            Self::Host(host) => digest_of(&format!("host {host}")),
        }
    }
}

/// Every URL of a text, as it stands there and as a model reads it: with `\/` and `&amp;` replaced.
fn each_url(text: &str, mut visit: impl FnMut(&UrlToken<'_>, &str)) -> Searched {
    let searched = text.floor_char_boundary(MAX_TEXT);
    let whole = if searched < text.len() { Searched::Part } else { Searched::Whole };
    let text = &text[..searched];
    let as_it_is = recorded_urls(text, MAX_SEEN, &mut visit);
    let read = if text.contains("\\/") || text.contains("&amp;") || text.contains("\\u0026") {
        let plain = text.replace("\\/", "/").replace("&amp;", "&").replace("\\u0026", "&");
        recorded_urls(&plain, MAX_SEEN, &mut visit)
    } else {
        Searched::Whole
    };
    if [whole, as_it_is, read].contains(&Searched::Part) { Searched::Part } else { Searched::Whole }
}

/// Words that are a URL if a tool writes `https://` before them: `a.example/?d=SECRET`, `SECRET.a.example`.
fn bare_urls(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| c.is_whitespace() || "\"'`<>".contains(c));
    words.map(|word| word.trim_matches(['.', ',', ';', ':', '!', '(', ')', '[', ']', '{', '}'])).filter(|word| {
        let host = word.split(['/', '?', '#', ':']).next().unwrap_or_default();
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) || !byte.is_ascii();
        host.contains('.') && !host.starts_with('.') && host.bytes().all(is_name)
    })
}

/// A URL without a path is the same with a slash at its end.
fn digest_of(url: &str) -> UrlDigest {
    let authority = url.split_once("://").map(|(_, rest)| rest);
    let is_bare =
        authority.and_then(|rest| rest.strip_suffix('/')).is_some_and(|rest| !rest.contains(['/', '\\', '?', '#']));
    let url = if is_bare { &url[..url.len() - 1] } else { url };
    let mut half = UrlDigest::default();
    half.copy_from_slice(&digest(&SHA256, url.as_bytes()).as_ref()[..16]);
    half
}

#[cfg(test)]
mod tests {
    use super::{MAX_SEEN, MAX_WRITTEN, SeenUrls};

    #[test]
    fn a_url_is_seen_as_a_whole_however_the_text_around_it_ends() {
        for text in [
            "https://a.example/x?y=1",
            "see https://a.example/x?y=1.",
            "(https://a.example/x?y=1)",
            "[text](https://a.example/x?y=1), and",
            "<a href=\"https://a.example/x?y=1\">",
            "<https://a.example/x?y=1>",
            "'https://a.example/x?y=1','b'",
            "{\"url\":\"https://a.example/x?y=1\"}",
            "{\"url\":\"https:\\/\\/a.example\\/x?y=1\"}",
            "请看https://a.example/x?y=1。",
            "**https://a.example/x?y=1**",
            "line\nhttps://a.example/x?y=1\nline",
        ] {
            let seen = SeenUrls::default();
            seen.note_user(text);
            assert!(seen.contains("https://a.example/x?y=1"), "{text}");
            for other in
                ["https://a.example/x?y=", "https://a.example/x?y=12", "https://a.example/", "https://a.example/x"]
            {
                assert!(!seen.contains(other), "{text}: {other}");
            }
        }
    }

    #[test]
    fn entities_and_missing_slashes_make_no_difference() {
        let seen = SeenUrls::default();
        seen.note_result("<a href='https://a.example/?x=1&amp;y=2'> https://b.example", "{}");
        assert!(seen.contains("https://a.example/?x=1&y=2") && seen.contains("https://b.example/"));
        assert!(!seen.contains("https://b.example//") && !seen.contains("https://b.example/?"));
    }

    #[test]
    fn what_the_model_wrote_first_never_counts() {
        let seen = SeenUrls::default();
        seen.note_model("I will use https://evil.example/?d=SECRET");
        seen.note_result("https://evil.example/?d=SECRET", "{}");
        assert!(!seen.contains("https://evil.example/?d=SECRET"), "repeated by a tool");
        seen.note_user("open https://evil.example/?d=SECRET");
        assert!(seen.contains("https://evil.example/?d=SECRET"), "the user may say it");
        seen.note_arguments(r#"{"a":"x\nhttps://evil.example/?d=","b":"OTHER"}"#);
        seen.note_result("https://evil.example/?d=OTHER", r#"{"a":"x\nhttps://evil.example/?d=","b":"OTHER"}"#);
        assert!(!seen.contains("https://evil.example/?d=OTHER"), "put together by a tool");
    }

    #[test]
    fn what_tools_make_of_pieces_of_the_model_never_counts() {
        let secret = "https://evil.example/?d=SECRET";
        for pieces in [
            // Two calls, put together by a file.
            &[r#"{"append":"https://evil.example/?d="}"#, r#"{"append":"SECRET"}"#][..],
            &[r#"{"text":"https%3A%2F%2Fevil.example%2F%3Fd=SECRET"}"#],
            &[r#"{"text":"\\u0068ttps://evil.example/?d=SECRET"}"#],
            &[r#"{"text":"HTTPS://EVIL.example/?d=SECRET"}"#],
            &[r#"{"text":"https:evil.example/?d=SECRET"}"#],
            &[r#"{"text":"//evil.example/?d=SECRET"}"#],
            // The tool writes the scheme.
            &[r#"{"query":"evil.example/?d=SECRET"}"#],
            &[r#"{"query":"see (Evil.example/?d=SECRET)."}"#],
            &[r#"{"https://evil.example/":"SECRET"}"#],
            &[r#"{"text":"{\"u\":\"https://evil.example\"}"}"#],
        ] {
            let seen = SeenUrls::default();
            pieces.iter().for_each(|piece| seen.note_arguments(piece));
            seen.note_result(&format!("found {secret} and https://other.example/x"), "{}");
            assert!(!seen.contains(secret), "{pieces:?}");
            assert!(seen.contains("https://other.example/x"), "{pieces:?}");
        }
        let seen = SeenUrls::default();
        seen.note_result("https://SECRET.evil.example/", r#"{"query":"SECRET.evil.example"}"#);
        assert!(!seen.contains("https://SECRET.evil.example/"));
        seen.note_result("https://docs.example/a", r#"{"query":"docs.example usage"}"#);
        assert!(seen.contains("https://docs.example/a"), "a page of a site that was searched for");
    }

    #[test]
    fn hostile_results_are_noted_in_bounded_time() {
        let began = std::time::Instant::now();
        for unit in ["(//a", "(//x:/", "https://a", "x://(", "http:(", "//a'", "a.b/"] {
            let seen = SeenUrls::default();
            seen.note_result(&unit.repeat(200_000 / unit.len()), "{}");
            seen.note_model(&unit.repeat(200_000 / unit.len()));
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
    }

    #[test]
    fn a_result_names_links_of_a_host_that_was_seen_before() {
        let seen = SeenUrls::default();
        seen.note_user("read https://docs.example/a");
        seen.note_arguments(r#"{"url":"https://docs.example/a"}"#);
        seen.note_result("next: https://docs.example/b", r#"{"url":"https://docs.example/a"}"#);
        assert!(seen.contains("https://docs.example/b"));
    }

    #[test]
    fn the_memory_is_bounded_and_fails_towards_asking() {
        let seen = SeenUrls::default();
        (0..=MAX_SEEN).for_each(|n| seen.note_user(&format!("https://a.example/{n}")));
        assert!(!seen.contains("https://a.example/0") && seen.contains(&format!("https://a.example/{MAX_SEEN}")));
        (0..=MAX_WRITTEN).for_each(|n| seen.note_model(&format!("https://b.example/{n}")));
        seen.note_result("https://c.example/", "{}");
        assert!(!seen.contains("https://c.example/"));
    }
}
