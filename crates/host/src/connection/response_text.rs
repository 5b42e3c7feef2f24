//! What the text of an HTTP response says about a server that is not connected.

use toolway_wire::error::WireError;

/// Remote text is truncated to this many characters.
const SHOWN: usize = 300;

/// What the URL answers, if the error shows that it is not an MCP endpoint: a wrong path, or a web page.
pub(super) fn not_of_an_endpoint(error: &WireError) -> Option<String> {
    let WireError::Status { status, body } = error else { return None };
    let (code, is_page) = (status.as_u16(), is_page(body));
    match code {
        // A proxy in front of a server that is starting answers with a page, too.
        500.. => None,
        _ if is_page => Some(format!("HTTP {code}, a web page")),
        404 | 405 => Some(format!("HTTP {code}")),
        _ => None,
    }
}

/// Remote text as one short line.
pub(super) fn one_line(text: &str) -> String {
    let line: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    line.trim().chars().take(SHOWN).collect()
}

fn is_page(body: &str) -> bool {
    let body = body.trim_start();
    let starts_with = |tag: &str| body.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag));
    starts_with("<!doctype html") || starts_with("<html")
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use toolway_wire::error::WireError;

    use super::{not_of_an_endpoint, one_line};

    fn answer(status: u16, body: &str) -> Option<String> {
        let status = StatusCode::from_u16(status).unwrap();
        not_of_an_endpoint(&WireError::Status { status, body: body.to_owned() })
    }

    #[test]
    fn wrong_path_and_web_page_are_recognised() {
        assert_eq!(answer(404, "").as_deref(), Some("HTTP 404"));
        assert_eq!(answer(405, "{}").as_deref(), Some("HTTP 405"));
        assert_eq!(answer(200, "\n<!DOCTYPE HTML>").as_deref(), Some("HTTP 200, a web page"));
        assert_eq!(answer(400, "<html lang=en>").as_deref(), Some("HTTP 400, a web page"));
        assert_eq!((answer(400, "bad"), answer(503, "<html>"), answer(429, "")), (None, None, None));
    }

    #[test]
    fn remote_text_is_one_short_line() {
        assert_eq!(one_line(" a\r\n\u{1b}[2Jb "), "a   [2Jb");
        assert_eq!(one_line(&"x".repeat(1000)).len(), 300);
    }
}
