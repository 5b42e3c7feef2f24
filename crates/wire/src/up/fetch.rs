//! Plain HTTP requests outside MCP, such as metadata documents, token requests and requests to model vendors.
//!
//! They use the same connections, address guard and proxies as MCP messages. Redirects are followed within the origin,
//! and only for GET.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use url::Url;

use super::{
    client::{HttpClient, HttpRequest, HttpResponse, write_field},
    redirect,
};
use crate::error::{TimeoutKind, WireError};

/// Bounds of one fetch.
#[derive(Clone, Copy, Debug)]
pub struct FetchLimits {
    /// Largest response body in bytes.
    pub bytes: usize,
    /// Timeout from the first dial to the last byte.
    pub time: Duration,
    /// Largest number of redirects.
    pub redirects: usize,
}

/// A response whose body arrives in pieces. Dropping it before its end closes the connection.
#[derive(Debug)]
pub struct StreamedResponse {
    response: HttpResponse,
}

impl StreamedResponse {
    /// HTTP status.
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// Header fields.
    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The next piece of the body; `None` after the last one. The caller bounds the size and the time.
    pub async fn chunk(&mut self) -> Option<Result<Bytes, WireError>> {
        self.response.chunk().await
    }
}

impl HttpClient {
    /// Sends a request with an absolute URL and returns its response as soon as the head has arrived. Redirects are not
    /// followed.
    pub async fn open(&self, request: Request<Bytes>) -> Result<StreamedResponse, WireError> {
        let target = request.uri().to_string();
        let url: Url =
            target.parse().map_err(|_| WireError::Unreachable { target, reason: "invalid URL".to_owned() })?;
        let (parts, body) = request.into_parts();
        let mut fields = Vec::new();
        parts.headers.iter().for_each(|(name, value)| write_field(&mut fields, name, value));
        let message = HttpRequest { method: &parts.method, fields: &fields, body: &body, mark: None };
        Ok(StreamedResponse { response: self.send(&self.target(&url)?, message, None).await? })
    }

    /// Sends a request with an absolute URL; returns the response with its whole body, for any status.
    pub async fn fetch(&self, request: Request<Bytes>, limits: FetchLimits) -> Result<Response<Bytes>, WireError> {
        match tokio::time::timeout(limits.time, self.follow(request, limits)).await {
            Ok(fetched) => fetched,
            Err(_) => Err(WireError::TimedOut { kind: TimeoutKind::Total, limit: limits.time }),
        }
    }

    async fn follow(&self, request: Request<Bytes>, limits: FetchLimits) -> Result<Response<Bytes>, WireError> {
        let target = request.uri().to_string();
        let mut url: Url =
            target.parse().map_err(|_| WireError::Unreachable { target, reason: "invalid URL".to_owned() })?;
        let (parts, body) = request.into_parts();
        let mut fields = Vec::new();
        parts.headers.iter().for_each(|(name, value)| write_field(&mut fields, name, value));
        for _ in 0..=limits.redirects {
            let message = HttpRequest { method: &parts.method, fields: &fields, body: &body, mark: None };
            let response = self.send(&self.target(&url)?, message, None).await?;
            if !response.status().is_redirection() || response.status() == StatusCode::NOT_MODIFIED {
                return read_body(response, limits.bytes).await;
            }
            url = redirect::target(&url, &response)?;
            if parts.method != Method::GET {
                return Err(redirect::refused(&url, "only GET requests follow redirects"));
            }
        }
        Err(redirect::refused(&url, "too many redirects"))
    }
}

async fn read_body(mut received: HttpResponse, limit: usize) -> Result<Response<Bytes>, WireError> {
    let too_large = || WireError::TooLarge { what: "document", limit };
    if received.size().is_some_and(|size| (limit as u64) < size) {
        return Err(too_large());
    }
    let mut body = Vec::new();
    while let Some(chunk) = received.chunk().await.transpose()? {
        if limit < body.len() + chunk.len() {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = received.status();
    *response.headers_mut() = received.headers().clone();
    Ok(response)
}
