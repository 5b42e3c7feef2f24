//! The one request that a browser makes to this machine when somebody has signed in.
//!
//! Listens on 127.0.0.1 only and takes one callback: a GET of the one path, for the one host, with the one state.
//! Everything else that comes along is refused, within bounds of size, time and number. Whether the callback is any good
//! is judged in [`crate::authorize`]; the browser waits for that, and shows what came of it.

use std::{io, net::Ipv4Addr, time::Duration};

use subtle::ConstantTimeEq;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{sleep, timeout},
};
use toolway_config::Secret;
use url::Url;

/// A place on this machine that a browser can be sent back to.
#[derive(Debug)]
pub struct CallbackListener {
    listener: TcpListener,
    redirect: Url,
}

/// A callback, and the browser that brought it and waits.
#[derive(Debug)]
pub struct Arrival {
    /// The whole address that the browser was sent back to.
    pub address: Secret,
    /// None where a person brought it.
    browser: Option<TcpStream>,
}

/// What came of a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Somebody is signed in.
    SignedIn,
    /// Nobody is; why is said where the sign-in was asked for.
    NotSignedIn,
}

/// The path a browser is sent back to.
pub const PATH: &str = "/callback";
/// A request whose head is longer is no callback.
const MAX_HEAD: usize = 16 * 1024;
/// Connections that are read at the same time; a further one waits.
const MAX_OPEN: usize = 16;
/// A browser sends its request at once.
const PATIENCE: Duration = Duration::from_secs(10);
/// After a connection could not be taken, for this process or the system has too many: soon there may be fewer.
const PAUSE: Duration = Duration::from_millis(100);

impl CallbackListener {
    /// Listens at this port of 127.0.0.1, or at any that is free.
    pub async fn bind(port: Option<u16>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await?;
        let redirect = format!("http://{}{PATH}", listener.local_addr()?);
        let redirect = Url::parse(&redirect).map_err(io::Error::other)?;
        Ok(Self { listener, redirect })
    }

    /// Listens where the browser was sent back to before, or else at any port that is free.
    pub async fn bind_again(before: Option<&Url>) -> io::Result<Self> {
        match before.filter(|before| before.host_str() == Some("127.0.0.1")).and_then(Url::port) {
            Some(port) => match Self::bind(Some(port)).await {
                Ok(bound) => Ok(bound),
                Err(_) => Self::bind(None).await,
            },
            None => Self::bind(None).await,
        }
    }

    /// Where the browser is to be sent back to.
    pub fn redirect(&self) -> &Url {
        &self.redirect
    }

    /// Waits for the callback with this state. How long that may take is the caller's to say.
    pub async fn callback(&self, state: &Secret) -> Arrival {
        let mut open: JoinSet<Option<Arrival>> = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if open.len() < MAX_OPEN => match accepted {
                    Ok((stream, _)) => {
                        open.spawn(answer(stream, self.redirect.clone(), state.clone()));
                    }
                    // Somebody who left, or a want of descriptors or memory: none of it ends a sign-in.
                    Err(_) => sleep(PAUSE).await,
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

impl Arrival {
    /// A callback that a person brought; nobody waits to see a page.
    pub fn brought(address: Secret) -> Self {
        Self { address, browser: None }
    }

    /// Shows the browser what came of it. It may be gone, which changes nothing.
    pub async fn told(self, ending: Ending) {
        let page = match ending {
            Ending::SignedIn => SIGNED_IN,
            Ending::NotSignedIn => NOT_SIGNED_IN,
        };
        if let Some(mut browser) = self.browser {
            let _answered = timeout(PATIENCE, send(&mut browser, page)).await;
        }
    }
}

/// Answers one connection, unless it brought the callback.
async fn answer(mut stream: TcpStream, redirect: Url, state: Secret) -> Option<Arrival> {
    let head = timeout(PATIENCE, read_head(&mut stream)).await.ok()??;
    match judge(&head, &redirect, &state) {
        Ok(address) => Some(Arrival { address, browser: Some(stream) }),
        Err(page) => {
            let _answered = timeout(PATIENCE, send(&mut stream, page)).await;
            None
        }
    }
}

/// A status and what people read.
type Page = (&'static str, &'static str);

// None has a word of a stranger's in it.
const SIGNED_IN: Page = ("200 OK", "You are signed in. You can close this page.");
const NOT_SIGNED_IN: Page = ("400 Bad Request", "You are not signed in. The program that asked for it says why.");
const UNREADABLE: Page = ("400 Bad Request", "This is no callback.");
const OTHER_HOST: Page = ("421 Misdirected Request", "This is not the host you are looking for.");
const OTHER_METHOD: Page = ("405 Method Not Allowed", "This is no callback.");
const OTHER_PATH: Page = ("404 Not Found", "There is nothing here.");
const OTHER_STATE: Page = ("400 Bad Request", "This callback belongs to another sign-in.");

/// Nothing may be loaded, run, framed or kept, and nobody is told where the browser was.
const HEADERS: &str = "Content-Type: text/html; charset=utf-8\r\n\
    Content-Security-Policy: default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\
    Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n\
    X-Frame-Options: DENY\r\nCross-Origin-Opener-Policy: same-origin\r\nConnection: close\r\n";

/// The callback's address, or what to answer instead. A name that was made to lead here is not our host.
fn judge(head: &str, redirect: &Url, state: &Secret) -> Result<Secret, Page> {
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
    if target.split('?').next() != Some(PATH) {
        return Err(OTHER_PATH);
    }
    let callback = redirect.join(target).map_err(|_| UNREADABLE)?;
    let said = callback.query_pairs().find(|(name, _)| name == "state").map(|(_, value)| value.into_owned());
    if !bool::from(said.unwrap_or_default().as_bytes().ct_eq(state.expose().as_bytes())) {
        return Err(OTHER_STATE);
    }
    Ok(Secret::new(callback))
}

/// The head of a request; none where there is no end of it within the bound.
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

async fn send(stream: &mut TcpStream, (status, text): Page) -> io::Result<()> {
    let page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Toolway</title>\n<p>{text}</p>\n</html>\n"
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

    use super::{CallbackListener, Ending, MAX_HEAD, MAX_OPEN, PATIENCE};

    /// The first line of what is answered.
    async fn said(redirect: &Url, request: &str) -> String {
        whole(redirect, request).await.lines().next().unwrap_or_default().to_owned()
    }

    async fn whole(redirect: &Url, request: &str) -> String {
        let mut stream = TcpStream::connect(redirect.socket_addrs(|| None).unwrap()[0]).await.unwrap();
        // A listener that has heard enough closes before everything is written.
        let _written = stream.write_all(request.as_bytes()).await;
        let mut reply = String::new();
        let _read = stream.read_to_string(&mut reply).await;
        reply
    }

    #[tokio::test]
    async fn one_callback_is_taken_and_everything_else_refused() {
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
            assert!(said(&redirect, &request).await.starts_with(&format!("HTTP/1.1 {answer}")), "{request}");
        }
        assert_eq!(said(&redirect, &"x".repeat(MAX_HEAD + 4096)).await, "", "too long, and not answered");
        assert!(waiting.try_join_next().is_none());
        let good = format!("GET /callback?state=st4te&code=c0de HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let mut browser = TcpStream::connect(redirect.socket_addrs(|| None).unwrap()[0]).await.unwrap();
        browser.write_all(good.as_bytes()).await.unwrap();
        let arrival = waiting.join_next().await.unwrap().unwrap();
        assert_eq!(arrival.address.expose(), format!("{redirect}?state=st4te&code=c0de"));
        let early = tokio::time::timeout(Duration::from_millis(100), browser.read(&mut [0; 1])).await;
        assert!(early.is_err(), "the browser is told nothing before something came of it");
        arrival.told(Ending::SignedIn).await;
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
    async fn connections_that_say_nothing_do_not_keep_the_callback_out_for_long() {
        let listener = CallbackListener::bind(None).await.unwrap();
        let redirect = listener.redirect().clone();
        let address = redirect.socket_addrs(|| None).unwrap()[0];
        let mut silent = Vec::new();
        for _ in 0..MAX_OPEN {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let mut waiting = JoinSet::new();
        waiting.spawn(async move { listener.callback(&Secret::new("s")).await.told(Ending::NotSignedIn).await });
        let good = format!("GET /callback?state=s&code=c HTTP/1.1\r\nHost: {}\r\n\r\n", redirect.authority());
        let began = tokio::time::Instant::now();
        let answered = tokio::time::timeout(2 * PATIENCE, said(&redirect, &good)).await.unwrap();
        assert_eq!(answered, "HTTP/1.1 400 Bad Request");
        assert!(PATIENCE <= began.elapsed(), "there was room for one more");
    }

    #[tokio::test]
    async fn the_port_of_before_is_taken_again_if_it_is_free() {
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
