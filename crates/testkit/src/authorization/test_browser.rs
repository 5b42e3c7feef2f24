//! A minimal browser of a user who agrees to everything: it follows redirects until one leads to the redirect URI.

use std::io;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use url::Url;

use super::page::WHO;

/// Maximum number of redirects.
const MAX_REDIRECTS: usize = 5;
/// Maximum length of a response head in bytes.
const MAX_HEAD: usize = 64 * 1024;

/// Opens a URL as this user; returns the final redirect URL without opening it.
pub async fn visit(address: &str, who: &str) -> io::Result<String> {
    let mut place = parsed(address)?;
    let back = place.query_pairs().find(|(name, _)| name == "redirect_uri").map(|(_, value)| value.into_owned());
    let back = back.ok_or_else(|| io::Error::other("the URL has no redirect_uri"))?;
    for _ in 0..MAX_REDIRECTS {
        let head = head_at(&place, who).await?;
        let mut headers = head.lines().filter_map(|line| line.split_once(": "));
        let location = headers.find(|(name, _)| name.eq_ignore_ascii_case("location")).map(|(_, value)| value);
        let location = location.ok_or_else(|| io::Error::other(first_line(&head)))?;
        if location.starts_with(&back) {
            return Ok(location.to_owned());
        }
        place = place.join(location).map_err(io::Error::other)?;
    }
    Err(io::Error::other("too many redirects"))
}

/// Opens a URL and reads the head of the response.
pub async fn open(address: &str, who: &str) -> io::Result<String> {
    head_at(&parsed(address)?, who).await
}

async fn head_at(place: &Url, who: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(place.socket_addrs(|| None)?.as_slice()).await?;
    let query = place.query().map(|query| format!("?{query}")).unwrap_or_default();
    let request = format!(
        "GET {}{query} HTTP/1.1\r\nHost: {}\r\nCookie: {WHO}={who}\r\nConnection: close\r\n\r\n",
        place.path(),
        place.authority()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut head = Vec::new();
    while !head.windows(4).any(|four| four == b"\r\n\r\n") && head.len() < MAX_HEAD {
        if stream.read_buf(&mut head).await? == 0 {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

fn parsed(address: &str) -> io::Result<Url> {
    Url::parse(address).map_err(io::Error::other)
}

fn first_line(head: &str) -> String {
    format!("no redirect: {}", head.lines().next().unwrap_or("no answer"))
}
