//! Writes request heads and parses response heads: the part of HTTP/1.1 (RFC 9112) that this client needs.
//!
//! Header lines are parsed by `httparse`, as in hyper. If the length of a body is ambiguous, its connection is not reused:
//! different interpretations of two parties are how requests get smuggled.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use crate::error::WireError;

/// Header fields parsed without an allocation.
const USUAL: usize = 32;
/// Start of every response.
const OPENING: &[u8] = b"HTTP/1.";

/// Limits of a response head.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadLimits {
    /// Largest size in bytes.
    pub(super) bytes: usize,
    /// Largest number of header fields.
    pub(super) count: usize,
}

/// Parsed head of a response.
#[derive(Debug)]
pub(super) struct ResponseHead {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body_length: BodyLength,
    /// Whether the connection can be reused after the body.
    pub(super) keep_alive: bool,
}

/// Length of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyLength {
    /// This many bytes.
    Sized(u64),
    /// Chunked transfer coding.
    Chunked,
    /// Until the server closes the connection.
    UntilClose,
}

/// Headers that define the length of a request or the use of its connection; only [`write()`] may set them.
const FRAMING: [HeaderName; 8] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
    header::TE,
    header::TRAILER,
    header::EXPECT,
];

/// Writes one header field, unless it is reserved for [`write()`].
pub(crate) fn write_field(fields: &mut Vec<u8>, name: &HeaderName, value: &HeaderValue) {
    if !FRAMING.contains(name) {
        put(fields, name, value);
    }
}

fn put(fields: &mut Vec<u8>, name: &HeaderName, value: &HeaderValue) {
    fields.extend_from_slice(name.as_str().as_bytes());
    fields.extend_from_slice(b": ");
    fields.extend_from_slice(value.as_bytes());
    fields.extend_from_slice(b"\r\n");
}

/// Writes the head of a request around header fields that are already encoded.
pub(super) fn write(out: &mut Vec<u8>, method: &Method, path: &str, host: &HeaderValue, fields: &[u8], size: usize) {
    out.clear();
    out.extend_from_slice(method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(path.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    put(out, &header::HOST, host);
    out.extend_from_slice(fields);
    if *method == Method::POST || size != 0 {
        out.extend_from_slice(b"content-length: ");
        decimal(out, size);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

fn decimal(out: &mut Vec<u8>, number: usize) {
    let (from, mut rest) = (out.len(), number);
    loop {
        out.push(b"0123456789"[rest % 10]);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out[from..].reverse();
}

/// Parses a head at the front of `input`; `None` while it is incomplete. `seen` is the number of bytes already searched.
pub(super) fn read(
    input: &mut BytesMut,
    seen: &mut usize,
    bound: HeadLimits,
) -> Result<Option<ResponseHead>, WireError> {
    let opening = input.len().min(OPENING.len());
    if input[..opening] != OPENING[..opening] {
        return Err(invalid_http("it does not start with `HTTP/1.`"));
    }
    let too_large = || WireError::TooLarge { what: "response header", limit: bound.bytes };
    let Some(end) = end(input, *seen) else {
        *seen = input.len();
        return if bound.bytes <= input.len() { Err(too_large()) } else { Ok(None) };
    };
    if bound.bytes < end {
        return Err(too_large());
    }
    *seen = 0;
    let text = input.split_to(end).freeze();
    parse(&text, bound).map(Some)
}

/// Returns the end of the first empty line; the first `seen` bytes contain none.
fn end(bytes: &[u8], seen: usize) -> Option<usize> {
    let from = seen.saturating_sub(b"\n\r".len());
    memchr::memchr_iter(b'\n', &bytes[from..]).map(|at| from + at).find_map(|at| match bytes[at + 1..] {
        [b'\n', ..] => Some(at + 2),
        [b'\r', b'\n', ..] => Some(at + 3),
        _ => None,
    })
}

fn parse(text: &Bytes, bound: HeadLimits) -> Result<ResponseHead, WireError> {
    let mut usual = [httparse::EMPTY_HEADER; USUAL];
    let room = bound.count.min(USUAL);
    let mut response = httparse::Response::new(&mut usual[..room]);
    match response.parse(text) {
        Err(httparse::Error::TooManyHeaders) if USUAL < bound.count => {
            let mut many = vec![httparse::EMPTY_HEADER; bound.count];
            let mut response = httparse::Response::new(&mut many);
            let parsed = response.parse(text);
            build_head(text, parsed, &response, bound)
        }
        parsed => build_head(text, parsed, &response, bound),
    }
}

fn build_head(
    text: &Bytes,
    parsed: httparse::Result<usize>,
    response: &httparse::Response<'_, '_>,
    bound: HeadLimits,
) -> Result<ResponseHead, WireError> {
    match parsed {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Err(invalid_http("incomplete header")),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(WireError::TooLarge { what: "number of response headers", limit: bound.count });
        }
        Err(error) => return Err(invalid_http(&error.to_string())),
    }
    let status = StatusCode::from_u16(response.code.unwrap_or_default())
        .map_err(|_| invalid_http("status code out of range"))?;
    let mut headers = HeaderMap::with_capacity(response.headers.len());
    for line in &*response.headers {
        let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|_| invalid_http("invalid header name"))?;
        let value = HeaderValue::from_maybe_shared(text.slice_ref(line.value));
        headers.append(name, value.map_err(|_| invalid_http("invalid header value"))?);
    }
    let (body_length, clear) = body_length(status, &headers)?;
    let keep_alive = clear && response.version == Some(1) && body_length != BodyLength::UntilClose && !closes(&headers);
    Ok(ResponseHead { status, headers, body_length, keep_alive })
}

/// Returns the length of the body, and whether it is unambiguous.
fn body_length(status: StatusCode, headers: &HeaderMap) -> Result<(BodyLength, bool), WireError> {
    let size = content_length(headers)?;
    let codings = headers.get_all(header::TRANSFER_ENCODING);
    if codings.iter().any(|coding| !coding.as_bytes().is_ascii()) {
        // Readers differ in where such a response ends.
        return Err(invalid_http("invalid `Transfer-Encoding`"));
    }
    let mut codings = codings.iter();
    let (first, last) = (codings.next(), codings.next_back());
    if status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
        return Ok((BodyLength::Sized(0), first.is_none() && size.unwrap_or_default() == 0));
    }
    match last.or(first) {
        Some(coding) => {
            let mut names = coding.as_bytes().rsplit(|byte| *byte == b',');
            let chunked = names.next().is_some_and(|name| name.trim_ascii().eq_ignore_ascii_case(b"chunked"));
            let alone = last.is_none() && names.next().is_none() && size.is_none();
            Ok((if chunked { BodyLength::Chunked } else { BodyLength::UntilClose }, alone))
        }
        None => Ok((size.map_or(BodyLength::UntilClose, BodyLength::Sized), true)),
    }
}

/// Returns the `Content-Length`; repeated values must be equal.
fn content_length(headers: &HeaderMap) -> Result<Option<u64>, WireError> {
    let mut announced = None;
    for text in
        headers.get_all(header::CONTENT_LENGTH).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
    {
        let size = number(text.trim_ascii()).ok_or_else(|| invalid_http("invalid `Content-Length`"))?;
        if announced.is_some_and(|before| before != size) {
            return Err(invalid_http("conflicting `Content-Length` values"));
        }
        announced = Some(size);
    }
    Ok(announced)
}

/// Parses ASCII digits only.
fn number(digits: &[u8]) -> Option<u64> {
    let digit = |digit: &u8| digit.is_ascii_digit().then(|| u64::from(digit - b'0'));
    let add = |number: u64, next| number.checked_mul(10)?.checked_add(digit(next)?);
    (!digits.is_empty()).then_some(())?;
    digits.iter().try_fold(0, add)
}

fn closes(headers: &HeaderMap) -> bool {
    let tokens =
        headers.get_all(header::CONNECTION).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    tokens.into_iter().any(|token| token.trim_ascii().eq_ignore_ascii_case(b"close"))
}

/// The error for a response that is not valid HTTP.
pub(super) fn invalid_http(what: &str) -> WireError {
    WireError::protocol(format!("invalid HTTP response: {what}"))
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use http::{HeaderName, HeaderValue, Method, StatusCode, header};

    use super::{BodyLength, HeadLimits, ResponseHead, read, write, write_field};
    use crate::error::WireError;

    const BOUND: HeadLimits = HeadLimits { bytes: 1024, count: 50 };

    fn head(text: &str) -> Result<Option<ResponseHead>, WireError> {
        read(&mut BytesMut::from(text), &mut 0, BOUND)
    }

    /// The head of a 200 response with these headers.
    fn good(headers: &str) -> ResponseHead {
        head(&format!("HTTP/1.1 200 OK\r\n{headers}\r\n")).unwrap().unwrap()
    }

    #[test]
    fn a_request_is_written_with_host_and_size() {
        let (mut out, host) = (b"left over".to_vec(), HeaderValue::from_static("localhost:80"));
        write(&mut out, &Method::POST, "/mcp?x=1", &host, b"accept: a\r\n", 1_230);
        let text = "POST /mcp?x=1 HTTP/1.1\r\nhost: localhost:80\r\naccept: a\r\ncontent-length: 1230\r\n\r\n";
        assert_eq!(out, text.as_bytes());
        write(&mut out, &Method::GET, "/", &host, b"", 0);
        assert_eq!(out, b"GET / HTTP/1.1\r\nhost: localhost:80\r\n\r\n");
        write(&mut out, &Method::POST, "/", &host, b"", 0);
        assert_eq!(out, b"POST / HTTP/1.1\r\nhost: localhost:80\r\ncontent-length: 0\r\n\r\n");
    }

    #[test]
    fn framing_headers_cannot_be_set() {
        let mut fields = Vec::new();
        for name in
            ["x-own", "host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect"]
        {
            write_field(&mut fields, &HeaderName::from_static(name), &HeaderValue::from_static("5"));
        }
        assert_eq!(fields, b"x-own: 5\r\n");
    }

    #[test]
    fn head_is_parsed_once_it_is_complete() {
        let text = "HTTP/1.1 404 Not Found\r\nX-One: a\r\nx-one: b\r\nContent-Length: 3\r\n\r\nabc";
        let end = text.len() - 3;
        let (mut input, mut seen) = (BytesMut::new(), 0);
        for size in 0..end {
            assert!(read(&mut input, &mut seen, BOUND).unwrap().is_none(), "after {size} bytes");
            input.extend_from_slice(&text.as_bytes()[size..=size]);
        }
        input.extend_from_slice(&text.as_bytes()[end..]);
        let found = read(&mut input, &mut seen, BOUND).unwrap().unwrap();
        assert_eq!(seen, 0, "the next head starts at zero");
        assert_eq!(
            (found.status, found.body_length, found.keep_alive),
            (StatusCode::NOT_FOUND, BodyLength::Sized(3), true)
        );
        assert_eq!(found.headers.get_all("x-one").iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(input, "abc");
        let bare = head(&text.replace("\r\n", "\n")).unwrap().unwrap();
        assert_eq!(bare.headers, found.headers, "bare LF is accepted");
    }

    #[test]
    fn body_length_and_reuse_follow_from_the_headers() {
        let rows = [
            ("content-length: 5\r\n", BodyLength::Sized(5), true),
            ("content-length: 5\r\ncontent-length: 5\r\n", BodyLength::Sized(5), true),
            ("content-length: 5, 5\r\n", BodyLength::Sized(5), true),
            ("content-length: 5\r\nconnection: x, Close\r\n", BodyLength::Sized(5), false),
            ("transfer-encoding: Chunked\r\n", BodyLength::Chunked, true),
            ("transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n", BodyLength::Chunked, false),
            ("transfer-encoding: gzip, chunked\r\n", BodyLength::Chunked, false),
            ("transfer-encoding: chunked, chunked\r\n", BodyLength::Chunked, false),
            ("transfer-encoding: chunked, gzip\r\n", BodyLength::UntilClose, false),
            ("transfer-encoding: chunked\r\ncontent-length: 5\r\n", BodyLength::Chunked, false),
            ("", BodyLength::UntilClose, false),
        ];
        for (headers, body_length, keep_alive) in rows {
            let head = good(headers);
            assert_eq!((head.body_length, head.keep_alive), (body_length, keep_alive), "{headers}");
        }
        let old = head("HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\n").unwrap().unwrap();
        assert_eq!((old.body_length, old.keep_alive), (BodyLength::Sized(5), false));
        for status in [100, 204, 304] {
            let none = head(&format!("HTTP/1.1 {status} x\r\ncontent-length: 5\r\n\r\n")).unwrap().unwrap();
            assert_eq!(
                (none.body_length, none.keep_alive),
                (BodyLength::Sized(0), false),
                "{status} has no body despite its headers"
            );
            let none = head(&format!("HTTP/1.1 {status} x\r\n\r\n")).unwrap().unwrap();
            assert_eq!((none.body_length, none.keep_alive), (BodyLength::Sized(0), true));
        }
    }

    #[test]
    fn ambiguous_or_invalid_heads_are_refused() {
        let sizes = ["+5", "5x", "", "-1", "5, 6", "99999999999999999999999"];
        let mut rows: Vec<String> =
            sizes.iter().map(|size| format!("HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n")).collect();
        let others = [
            "SSH-2.0",
            "\r\nHTTP/1.1 200 OK\r\n\r\n",
            "HTTP/2.0 200 OK\r\n\r\n",
            "HTTP/1.1 99 x\r\n\r\n",
            "HTTP/1.1 200 OK\r\n folded\r\n\r\n",
            "HTTP/1.1 200 OK\r\nname : x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nx: a\0b\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzi\u{98}p, chunked\r\n\r\n",
        ];
        rows.extend(others.map(str::to_owned));
        for text in rows {
            let refused = head(&text).map(|head| head.is_some());
            assert!(matches!(refused, Err(WireError::Protocol(_))), "{text:?}: {refused:?}");
        }
    }

    #[test]
    fn head_limits_are_enforced() {
        let headers = |count: usize| (0..count).map(|number| format!("x{number}: y\r\n")).collect::<String>();
        assert_eq!(good(&headers(BOUND.count)).headers.len(), BOUND.count);
        let many = head(&format!("HTTP/1.1 200 OK\r\n{}\r\n", headers(BOUND.count + 1)));
        assert!(matches!(many, Err(WireError::TooLarge { limit: 50, .. })), "{many:?}");
        for text in [
            format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(BOUND.bytes)),
            format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(BOUND.bytes)),
        ] {
            assert!(matches!(head(&text), Err(WireError::TooLarge { what: "response header", limit: 1024 })));
        }
        assert!(good("content-type: text/plain\r\n").headers.contains_key(header::CONTENT_TYPE));
    }
}
