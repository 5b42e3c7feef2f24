//! One document or token: a request that is no message, and its whole reply.
//!
//! For whoever has to ask more than the server itself, such as where to sign in. The same connections, guard and proxies as
//! for messages; a redirect is followed within its origin, and only where nothing was sent.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use url::Url;

use super::{
    client::{HttpClient, HttpRequest, HttpResponse, write_field},
    redirect,
};
use crate::error::{TimeoutKind, WireError};

/// What one fetch may take.
#[derive(Clone, Copy, Debug)]
pub struct FetchLimits {
    /// Bytes of the reply's body.
    pub bytes: usize,
    /// From the first dial to the last byte.
    pub time: Duration,
    /// Redirects in a row.
    pub redirects: usize,
}

impl HttpClient {
    /// Sends a request with an absolute address; gives the reply with its whole body, whatever its status.
    pub async fn fetch(&self, request: Request<Bytes>, portion: FetchLimits) -> Result<Response<Bytes>, WireError> {
        match tokio::time::timeout(portion.time, self.follow(request, portion)).await {
            Ok(fetched) => fetched,
            Err(_) => Err(WireError::TimedOut { kind: TimeoutKind::Total, limit: portion.time }),
        }
    }

    async fn follow(&self, request: Request<Bytes>, portion: FetchLimits) -> Result<Response<Bytes>, WireError> {
        let unreadable = |_| WireError::Unreachable { target: "it".to_owned(), reason: "not an address".to_owned() };
        let mut url: Url = request.uri().to_string().parse().map_err(unreadable)?;
        let (parts, body) = request.into_parts();
        let mut fields = Vec::new();
        parts.headers.iter().for_each(|(name, value)| write_field(&mut fields, name, value));
        for _ in 0..=portion.redirects {
            let message = HttpRequest { method: &parts.method, fields: &fields, body: &body };
            let reply = self.send(&self.target(&url)?, message, None).await?;
            if !reply.status().is_redirection() || reply.status() == StatusCode::NOT_MODIFIED {
                return whole(reply, portion.bytes).await;
            }
            url = redirect::target(&url, &reply)?;
            if parts.method != Method::GET {
                return Err(redirect::refused(&url, "what was sent is not sent again"));
            }
        }
        Err(redirect::refused(&url, "too many in a row"))
    }
}

async fn whole(mut reply: HttpResponse, limit: usize) -> Result<Response<Bytes>, WireError> {
    let too_large = || WireError::TooLarge { what: "document", limit };
    if reply.size().is_some_and(|size| (limit as u64) < size) {
        return Err(too_large());
    }
    let mut body = Vec::new();
    while let Some(chunk) = reply.chunk().await.transpose()? {
        if limit < body.len() + chunk.len() {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = reply.status();
    *response.headers_mut() = reply.headers().clone();
    Ok(response)
}
