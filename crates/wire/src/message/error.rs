//! A JSON-RPC error, received or our own.

use std::fmt;

use serde::Serialize;

use crate::json::Raw;

/// Error of a response. Parsed leniently, relayed byte for byte.
#[derive(Clone, PartialEq, Eq)]
pub struct RpcError(Raw);

#[derive(Serialize)]
struct ErrorObject<'a, D: Serialize> {
    code: i64,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<D>,
}

impl RpcError {
    /// The text was not JSON.
    pub const PARSE: i64 = -32700;
    /// The JSON was not a valid request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// Unknown method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters are invalid or name something unknown.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The server failed.
    pub const INTERNAL: i64 = -32603;
    /// Legacy: resource not found.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// Modern: a header does not match the body.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// Modern: the client did not declare a required capability.
    pub const MISSING_CAPABILITY: i64 = -32021;
    /// Modern: the server does not support this revision.
    pub const UNSUPPORTED_VERSION: i64 = -32022;
    /// 2025-11-25: a URL elicitation is required first.
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// Legacy: the user rejected a sampling request.
    pub const REJECTED_BY_USER: i64 = -1;

    /// Member of `data` with the milliseconds after which the request may be sent again.
    pub const RETRY_AFTER: &str = "retryAfterMs";

    /// Creates an error.
    pub fn new(code: i64, message: &str) -> Self {
        Self(Raw::of(&ErrorObject { code, message, data: None::<()> }))
    }

    /// Creates an error with data.
    pub fn with_data<D: Serialize>(code: i64, message: &str, data: D) -> Self {
        Self(Raw::of(&ErrorObject { code, message, data: Some(data) }))
    }

    /// Wraps the error that a peer sent.
    pub fn from_raw(raw: Raw) -> Self {
        Self(raw)
    }

    /// The error object as on the wire.
    pub fn raw(&self) -> &Raw {
        &self.0
    }

    /// Error code, also if spelled `-32601.0`; 0 if there is no valid one.
    pub fn code(&self) -> i64 {
        let Some(code) = self.0.get("code") else { return 0 };
        let text = code.text();
        text.strip_suffix(".0").unwrap_or(&text).parse().unwrap_or_default()
    }

    /// Error message, or the whole error object if it has none.
    pub fn message(&self) -> String {
        match self.0.get("message").as_ref().and_then(Raw::as_str) {
            Some(message) => message.into_owned(),
            None => self.0.to_string(),
        }
    }

    /// Seconds after which the request may be sent again, rounded up; `None` if the data does not say.
    pub fn retry_after(&self) -> Option<u64> {
        let millis: u64 = self.data()?.get(Self::RETRY_AFTER)?.read().ok()?;
        Some(millis.div_ceil(1_000))
    }

    /// Error data, if any.
    pub fn data(&self) -> Option<Raw> {
        self.0.get("data")
    }
}

impl fmt::Debug for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.message(), self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::RpcError;
    use crate::json::Raw;

    #[test]
    fn code_is_read_in_every_valid_spelling() {
        for (code, read) in [("-32601", -32601), ("-32601.0", -32601), ("1e400", 0), ("\"-32601\"", 0), ("null", 0)] {
            let error = RpcError::from_raw(Raw::parse(format!(r#"{{"code":{code}}}"#)).unwrap());
            assert_eq!(error.code(), read, "{code}");
        }
    }
}
