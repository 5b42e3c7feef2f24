//! HTTP listener for the OAuth redirect of an interactive sign-in.
//!
//! Listens on loopback and accepts one callback: a GET of one path, for one host, with one state. All other requests
//! are refused, within limits on size, time and number. [`crate::authorize`] validates the callback; the browser waits
//! for the result and shows it.

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use subtle::ConstantTimeEq;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{sleep, timeout},
};
use toolway_config::Secret;
use url::{Host, Url};

use crate::dialer::is_this_machine;

/// A listener for one callback.
#[derive(Debug)]
pub struct CallbackListener {
    listener: TcpListener,
    redirect: Url,
}

/// A callback, and the browser connection that waits for its result.
#[derive(Debug)]
pub struct ReceivedCallback {
    /// Complete redirect URL with its query.
    pub address: Secret,
    /// `None` if the user pasted the URL.
    browser: Option<TcpStream>,
    /// Page of ours that the browser is offered afterwards.
    back: Option<Url>,
}

/// Result of a callback, as shown in the browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallbackOutcome {
    /// The sign-in succeeded.
    SignedIn,
    /// The sign-in failed; the reason is reported to the program that started it.
    NotSignedIn,
}

/// Path of the redirect URL, unless the operator configures another one.
pub const PATH: &str = "/callback";
/// Maximum length of a request head in bytes.
const MAX_HEAD: usize = 16 * 1024;
/// Maximum number of open connections; further ones wait.
const MAX_OPEN: usize = 16;
/// Time limit for reading a request and for sending a response.
const IO_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay after `accept` failed, for example because too many files are open.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

impl CallbackListener {
    /// Listens on this port of 127.0.0.1, or on any free port.
    pub async fn bind(port: Option<u16>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await?;
        let redirect = format!("http://{}{PATH}", listener.local_addr()?);
        let redirect = Url::parse(&redirect).map_err(io::Error::other)?;
        Ok(Self { listener, redirect })
    }

    /// Listens on the port of the previous redirect URL if it is free, otherwise on any free port.
    pub async fn bind_again(before: Option<&Url>) -> io::Result<Self> {
        match before.filter(|before| before.host_str() == Some("127.0.0.1")).and_then(Url::port) {
            Some(port) => match Self::bind(Some(port)).await {
                Ok(bound) => Ok(bound),
                Err(_) => Self::bind(None).await,
            },
            None => Self::bind(None).await,
        }
    }

    /// Listens at this redirect URL. It is http on this machine, see [`is_local`].
    pub async fn bind_at(redirect: &Url) -> io::Result<Self> {
        let host = match redirect.host() {
            Some(Host::Ipv4(address)) => IpAddr::V4(address),
            Some(Host::Ipv6(address)) => IpAddr::V6(address),
            // `localhost`; a browser tries both addresses.
            _ => IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        if !is_local(redirect) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the redirect URI is not on this machine"));
        }
        let listener = TcpListener::bind((host, redirect.port_or_known_default().unwrap_or_default())).await?;
        Ok(Self { listener, redirect: redirect.clone() })
    }

    /// Redirect URL of this listener.
    pub fn redirect(&self) -> &Url {
        &self.redirect
    }

    /// Waits for the callback with this state. The caller sets the time limit.
    pub async fn callback(&self, state: &Secret) -> ReceivedCallback {
        let mut open: JoinSet<Option<ReceivedCallback>> = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if open.len() < MAX_OPEN => match accepted {
                    Ok((stream, _)) => {
                        open.spawn(answer(stream, self.redirect.clone(), state.clone()));
                    }
                    // A connection that was closed early, or a lack of descriptors or memory, does not end the sign-in.
                    Err(_) => sleep(ACCEPT_RETRY_DELAY).await,
                },
                Some(answered) = open.join_next() => {
                    if let Ok(Some(arrival)) = answered {
                        return arrival;
                    }
                }
            }
        }
    }
}

impl ReceivedCallback {
    /// A callback that the user pasted; there is no browser connection.
    pub fn pasted(address: Secret) -> Self {
        Self { address, browser: None, back: None }
    }

    /// The same with a link to a page of ours below the result.
    #[must_use]
    pub fn with_way_back(self, back: Option<Url>) -> Self {
        Self { back, ..self }
    }

    /// Shows the result in the browser. A closed connection is ignored.
    pub async fn respond(self, ending: CallbackOutcome) {
        let page = match ending {
            CallbackOutcome::SignedIn => SIGNED_IN,
            CallbackOutcome::NotSignedIn => NOT_SIGNED_IN,
        };
        if let Some(mut browser) = self.browser {
            let _answered = timeout(IO_TIMEOUT, send(&mut browser, page, self.back.as_ref())).await;
        }
    }
}

/// Whether a callback to this redirect URL arrives on this machine, over http.
pub fn is_local(redirect: &Url) -> bool {
    redirect.scheme() == "http" && is_this_machine(redirect)
}

/// Answers one connection, unless it carries the callback.
async fn answer(mut stream: TcpStream, redirect: Url, state: Secret) -> Option<ReceivedCallback> {
    let head = timeout(IO_TIMEOUT, read_head(&mut stream)).await.ok()??;
    match check_request(&head, &redirect, &state) {
        Ok(address) => Some(ReceivedCallback { address, browser: Some(stream), back: None }),
        Err(page) => {
            let _answered = timeout(IO_TIMEOUT, send(&mut stream, page, None)).await;
            None
        }
    }
}

/// Status line and text of a page.
type Page = (&'static str, &'static str);

// No page contains text from a request.
const SIGNED_IN: Page = ("200 OK", "You are signed in. You can close this page.");
const NOT_SIGNED_IN: Page =
    ("400 Bad Request", "You are not signed in. The program that started the sign-in shows the reason.");
const UNREADABLE: Page = ("400 Bad Request", "This is not a valid callback.");
const OTHER_HOST: Page = ("421 Misdirected Request", "This host name is not accepted.");
const OTHER_METHOD: Page = ("405 Method Not Allowed", "This is not a valid callback.");
const OTHER_PATH: Page = ("404 Not Found", "Not found.");
const OTHER_STATE: Page = ("400 Bad Request", "This callback belongs to another sign-in.");

/// Nothing may be loaded, run, framed or cached, and no referrer is sent.
const HEADERS: &str = "Content-Type: text/html; charset=utf-8\r\n\
    Content-Security-Policy: default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\
    Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n\
    X-Frame-Options: DENY\r\nCross-Origin-Opener-Policy: same-origin\r\nConnection: close\r\n";

/// Returns the callback URL, or the page to answer with. The host check defeats DNS rebinding.
fn check_request(head: &str, redirect: &Url, state: &Secret) -> Result<Secret, Page> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(UNREADABLE);
    };
    let mut hosts = lines.filter_map(|line| line.split_once(':')).filter(|(name, _)| name.eq_ignore_ascii_case("host"));
    let (host, second) = (hosts.next().map(|(_, value)| value.trim()), hosts.next());
    if !version.starts_with("HTTP/1.") || second.is_some() {
        return Err(UNREADABLE);
    }
    if host != Some(redirect.authority()) {
        return Err(OTHER_HOST);
    }
    if method != "GET" {
        return Err(OTHER_METHOD);
    }
    if target.split('?').next() != Some(redirect.path()) {
        return Err(OTHER_PATH);
    }
    let callback = redirect.join(target).map_err(|_| UNREADABLE)?;
    let said = callback.query_pairs().find(|(name, _)| name == "state").map(|(_, value)| value.into_owned());
    if !bool::from(said.unwrap_or_default().as_bytes().ct_eq(state.expose().as_bytes())) {
        return Err(OTHER_STATE);
    }
    Ok(Secret::new(callback))
}

/// Reads the head of a request; `None` if it does not end within the limit.
async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut piece = [0; 2048];
    while head.len() <= MAX_HEAD {
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            head.truncate(end);
            return String::from_utf8(head).ok();
        }
        match stream.read(&mut piece).await.ok()? {
            0 => return None,
            read => head.extend_from_slice(&piece[..read]),
        }
    }
    None
}

async fn send(stream: &mut TcpStream, (status, text): Page, back: Option<&Url>) -> io::Result<()> {
    // A URL has no quotes or angle brackets.
    let back =
        back.map(|back| format!("<p><a href=\"{}\">Back to Toolway</a></p>\n", back.as_str().replace('&', "&amp;")));
    let page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Toolway</title>\n<p>{text}</p>\n{}</html>\n",
        back.unwrap_or_default()
    );
    let reply = format!("HTTP/1.1 {status}\r\n{HEADERS}Content-Length: {}\r\n\r\n{page}", page.len());
    stream.write_all(reply.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
        task::JoinSet,
    };
    use toolway_config::Secret;
    use url::Url;

    use super::{CallbackListener, CallbackOutcome, IO_TIMEOUT, MAX_HEAD, MAX_OPEN};

    /// Status line of the response to `request`.
    async fn status_line(redirect: &Url, request: &str) -> String {
        exchange(redirect, request).await.lines().next().unwrap_or_default().to_owned()
    }

    async fn exchange(redirect: &Url, request: &str) -> String {
        let mut stream = TcpStream::connect(redirect.socket_addrs(|| None).unwrap()[0]).await.unwrap();
        // The listener may close the connection before everything is written.
        let _written = stream.write_all(request.as_bytes()).await;
        let mut reply = String::new();
        let _read = stream.read_to_string(&mut reply).await;
        reply
    }

    #[tokio::test]
    async fn accepts_one_callback_and_refuses_other_requests() {
        let listener = CallbackListener::bind(None).await.unwrap();
        let redirect = listener.redirect().clone();
        let host = redirect.authority().to_owned();
        let mut waiting = JoinSet::new();
        waiting.spawn(async move { listener.callback(&Secret::new("st4te")).await });
        for (request, answer) in [
            ("GET /callback?state=st4te&code=evil HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_owned(), "421"),
            ("GET /callback?state=st4te&code=evil HTTP/1.1\r\n\r\n".to_owned(), "421"),
            (format!("GET /callback?state=st4te HTTP/1.1\r\nHost: {host}\r\nHost: {host}\r\n\r\n"), "400"),
            (format!("POST /callback?state=st4te&code=evil HTTP/1.1\r\nHost: {host}\r\n\r\n"), "405"),
            (format!("GET /favicon.ico HTTP/1.1\r\nHost: {host}\r\n\r\n"), "404"),
            (format!("GET /callback?state=guess&code=evil HTTP/1.1\r\nHost: {host}\r\n\r\n"), "400"),
            (format!("GET /callback?code=evil HTTP/1.1\r\nHost: {host}\r\n\r\n"), "400"),
            (format!("GET //evil.example/callback?state=st4te HTTP/1.1\r\nHost: {host}\r\n\r\n"), "404"),
            ("\r\n\r\n".to_owned(), "400"),
        ] {
            assert!(status_line(&redirect, &request).await.starts_with(&format!("HTTP/1.1 {answer}")), "{request}");
        }
        assert_eq!(status_line(&redirect, &"x".repeat(MAX_HEAD + 4096)).await, "", "too long, so it is not answered");
        assert!(waiting.try_join_next().is_none());
        let good = format!("GET /callback?state=st4te&code=c0de HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let mut browser = TcpStream::connect(redirect.socket_addrs(|| None).unwrap()[0]).await.unwrap();
        browser.write_all(good.as_bytes()).await.unwrap();
        let arrival = waiting.join_next().await.unwrap().unwrap();
        assert_eq!(arrival.address.expose(), format!("{redirect}?state=st4te&code=c0de"));
        let early = tokio::time::timeout(Duration::from_millis(100), browser.read(&mut [0; 1])).await;
        assert!(early.is_err(), "the browser waits for the result");
        arrival.respond(CallbackOutcome::SignedIn).await;
        let mut page = String::new();
        browser.read_to_string(&mut page).await.unwrap();
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
        assert!(page.ends_with("<p>You are signed in. You can close this page.</p>\n</html>\n"), "{page}");
        assert!(!page.contains("c0de") && !page.contains("st4te"), "{page}");
        for header in ["default-src 'none'", "frame-ancestors 'none'", "no-store", "no-referrer", "nosniff"] {
            assert!(page.contains(header), "{page}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silent_connections_delay_the_callback_only_until_they_time_out() {
        let listener = CallbackListener::bind(None).await.unwrap();
        let redirect = listener.redirect().clone();
        let address = redirect.socket_addrs(|| None).unwrap()[0];
        let mut silent = Vec::new();
        for _ in 0..MAX_OPEN {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let mut waiting = JoinSet::new();
        waiting.spawn(
            async move { listener.callback(&Secret::new("s")).await.respond(CallbackOutcome::NotSignedIn).await },
        );
        let good = format!("GET /callback?state=s&code=c HTTP/1.1\r\nHost: {}\r\n\r\n", redirect.authority());
        let began = tokio::time::Instant::now();
        let answered = tokio::time::timeout(2 * IO_TIMEOUT, status_line(&redirect, &good)).await.unwrap();
        assert_eq!(answered, "HTTP/1.1 400 Bad Request");
        assert!(IO_TIMEOUT <= began.elapsed(), "all connection slots were taken");
    }

    #[tokio::test]
    async fn configured_redirect_uri_is_the_only_host_and_path() {
        let free = CallbackListener::bind(None).await.unwrap().redirect().port().unwrap();
        let redirect = Url::parse(&format!("http://localhost:{free}/oauth/back")).unwrap();
        let listener = CallbackListener::bind_at(&redirect).await.unwrap();
        assert_eq!(listener.redirect(), &redirect);
        let at = Url::parse(&format!("http://127.0.0.1:{free}")).unwrap();
        let mut waiting = JoinSet::new();
        waiting.spawn(async move { listener.callback(&Secret::new("s")).await.address });
        for (target, host, answer) in [("/callback", "localhost", "404"), ("/oauth/back", "127.0.0.1", "421")] {
            let request = format!("GET {target}?state=s&code=c HTTP/1.1\r\nHost: {host}:{free}\r\n\r\n");
            assert!(status_line(&at, &request).await.starts_with(&format!("HTTP/1.1 {answer}")), "{request}");
        }
        let good = format!("GET /oauth/back?state=s&code=c HTTP/1.1\r\nHost: localhost:{free}\r\n\r\n");
        exchange(&at, &good).await;
        assert_eq!(waiting.join_next().await.unwrap().unwrap().expose(), format!("{redirect}?state=s&code=c"));
        for elsewhere in ["https://localhost:1/x", "http://192.0.2.1:1/x", "https://example.org/x"] {
            assert!(CallbackListener::bind_at(&Url::parse(elsewhere).unwrap()).await.is_err(), "{elsewhere}");
        }
    }

    #[tokio::test]
    async fn previous_port_is_reused_if_it_is_free() {
        let first = CallbackListener::bind(None).await.unwrap();
        let before = first.redirect().clone();
        let other = CallbackListener::bind_again(Some(&before)).await.unwrap();
        assert_ne!(other.redirect(), &before, "taken");
        drop(first);
        let again = CallbackListener::bind_again(Some(&before)).await.unwrap();
        assert_eq!(again.redirect(), &before);
        assert!(before.as_str().starts_with("http://127.0.0.1:"));
    }
}
