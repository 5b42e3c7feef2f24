//! A JSON-RPC error, as it came or as we make it.

use std::fmt;

use serde::Serialize;

use crate::json::Raw;

/// The error of a response. Read leniently; relayed byte for byte.
#[derive(Clone, PartialEq, Eq)]
pub struct RpcError(Raw);

#[derive(Serialize)]
struct Written<'a, D: Serialize> {
    code: i64,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<D>,
}

impl RpcError {
    /// The text was not JSON.
    pub const PARSE: i64 = -32700;
    /// The JSON was no request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// Nobody here knows the method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters are wrong, or name something unknown.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The answering side failed.
    pub const INTERNAL: i64 = -32603;
    /// Legacy: no such resource.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// Modern: header and body disagree.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// Modern: the caller did not declare a capability that is needed.
    pub const MISSING_CAPABILITY: i64 = -32021;
    /// Modern: not a revision this server speaks.
    pub const UNSUPPORTED_VERSION: i64 = -32022;
    /// 2025-11-25: a page must be opened first.
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// Legacy: a person rejected a sampling request.
    pub const REJECTED_BY_USER: i64 = -1;

    /// An error of our own.
    pub fn new(code: i64, message: &str) -> Self {
        Self(Raw::of(&Written { code, message, data: None::<()> }))
    }

    /// An error of our own with data.
    pub fn with_data<D: Serialize>(code: i64, message: &str, data: D) -> Self {
        Self(Raw::of(&Written { code, message, data: Some(data) }))
    }

    /// The error a peer sent.
    pub fn from_raw(raw: Raw) -> Self {
        Self(raw)
    }

    /// As it stands on the wire.
    pub fn raw(&self) -> &Raw {
        &self.0
    }

    /// The code, also when spelled `-32601.0`; 0 where the peer sent none that fits.
    pub fn code(&self) -> i64 {
        let Some(code) = self.0.get("code") else { return 0 };
        let text = code.text();
        text.strip_suffix(".0").unwrap_or(&text).parse().unwrap_or_default()
    }

    /// The message, or the whole error where it has none.
    pub fn message(&self) -> String {
        match self.0.get("message").as_ref().and_then(Raw::as_str) {
            Some(message) => message.into_owned(),
            None => self.0.to_string(),
        }
    }

    /// The data, if any.
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
    fn a_code_is_read_however_it_is_spelled() {
        for (code, read) in [("-32601", -32601), ("-32601.0", -32601), ("1e400", 0), ("\"-32601\"", 0), ("null", 0)] {
            let error = RpcError::from_raw(Raw::parse(format!(r#"{{"code":{code}}}"#)).unwrap());
            assert_eq!(error.code(), read, "{code}");
        }
    }
}
