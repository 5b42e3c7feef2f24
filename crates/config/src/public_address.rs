//! How clients on other machines reach the gateway: `gateway.publicUrl` and `gateway.tls`.

use std::path::PathBuf;

use url::Url;

use crate::{
    error::ConfigError,
    shape::{Field, Shape},
};

/// The URL under which clients reach the gateway, without the path of the endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl(Url);

/// Certificate chain and private key, both in PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by those of the authorities between it and the root.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Keys of `gateway.tls`.
pub(crate) const TLS: &[(&str, Shape)] = &[("cert", Shape::Text), ("key", Shape::Text)];
/// Path of the endpoint for all servers.
const ENDPOINT: &str = "/mcp";
const EXPECTED: &str = "an http or https URL with a host and without a query, such as `https://tools.example.com`";

// === impl PublicUrl ===

impl PublicUrl {
    /// `None` if the text is no URL of a gateway. A path is the prefix that a proxy removes; a final `/mcp` is ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let mut url = Url::parse(text).ok()?;
        let is_plain = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() || !is_plain || url.password().is_some() {
            return None;
        }
        let path = url.path().trim_end_matches('/');
        let prefix = path.strip_suffix(ENDPOINT).unwrap_or(path).to_owned();
        url.set_path(&prefix);
        Some(Self(url))
    }

    /// URL of the endpoint for all servers.
    pub fn endpoint(&self) -> String {
        format!("{self}{ENDPOINT}")
    }

    /// The host as in a `Host` header, without the port.
    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    /// Whether clients use TLS.
    pub fn is_https(&self) -> bool {
        self.0.scheme() == "https"
    }
}

impl std::fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

pub(crate) fn read_url(field: &Field<'_>) -> Result<PublicUrl, ConfigError> {
    PublicUrl::parse(field.text()?).ok_or_else(|| field.expected(EXPECTED))
}

pub(crate) fn read_tls(field: &Field<'_>) -> Result<TlsFiles, ConfigError> {
    let mut cert = None;
    let mut key = None;
    for (name, member) in field.members()? {
        match name {
            "cert" => cert = Some(absolute(&member)?),
            "key" => key = Some(absolute(&member)?),
            _ => return Err(member.unknown(TLS.iter().map(|(key, _)| *key))),
        }
    }
    match (cert, key) {
        (Some(cert), Some(key)) => Ok(TlsFiles { cert, key }),
        _ => Err(field.expected("an object with `cert` and `key`, the paths of two PEM files")),
    }
}

fn absolute(field: &Field<'_>) -> Result<PathBuf, ConfigError> {
    let path = PathBuf::from(field.text()?);
    if path.is_absolute() { Ok(path) } else { Err(field.expected("an absolute path")) }
}

#[cfg(test)]
mod tests {
    use super::PublicUrl;
    use crate::{Config, document::Document};

    #[test]
    fn endpoint_is_below_the_public_url() {
        for (text, endpoint, host) in [
            ("https://tools.example.com", "https://tools.example.com/mcp", "tools.example.com"),
            ("https://tools.example.com/mcp/", "https://tools.example.com/mcp", "tools.example.com"),
            ("http://10.0.0.5:7717/", "http://10.0.0.5:7717/mcp", "10.0.0.5"),
            ("https://example.com/tools/", "https://example.com/tools/mcp", "example.com"),
            ("http://[fd00::1]:80", "http://[fd00::1]/mcp", "[fd00::1]"),
        ] {
            let url = PublicUrl::parse(text).unwrap();
            assert_eq!((url.endpoint().as_str(), url.host()), (endpoint, host), "{text}");
        }
        for wrong in ["tools.example.com", "ftp://x", "https://user@x", "https://x/?a=1", "https://x/#a", ""] {
            assert_eq!(PublicUrl::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn tls_needs_two_absolute_paths() {
        let settings = |text: &str| {
            let document = Document::of("/x/toolway.json".as_ref(), text).map_err(|error| error.to_string())?;
            Config::of(&document, None).map(|config| config.settings.gateway).map_err(|error| error.to_string())
        };
        let both = settings(r#"{"gateway": {"tls": {"cert": "/c.pem", "key": "/k.pem"}}}"#).unwrap();
        assert_eq!(both.tls.value.unwrap().key, std::path::Path::new("/k.pem"));
        for (text, expected) in [
            (r#"{"gateway": {"tls": {"cert": "/c.pem"}}}"#, "`gateway.tls` must be an object with `cert` and `key`"),
            (r#"{"gateway": {"tls": {"cert": "c.pem", "key": "/k"}}}"#, "`gateway.tls.cert` must be an absolute path"),
            (r#"{"gateway": {"tls": {"crt": "/c.pem"}}}"#, "did you mean `cert`"),
            (r#"{"gateway": {"publicUrl": "tools"}}"#, "`gateway.publicUrl` must be an http or https URL"),
        ] {
            let error = settings(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
