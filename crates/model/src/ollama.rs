//! Finds Ollama on its port, so that its models can be used without configuration.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use serde_json::Value;
use toolway_wire::up::{client::HttpClient, fetch::FetchLimits};
use url::Url;

/// Where Ollama listens unless `OLLAMA_HOST` says otherwise.
const DEFAULT_PORT: u16 = 11_434;
/// An answer on loopback takes milliseconds; a host that does not answer must not delay a command.
const LIMITS: FetchLimits = FetchLimits { bytes: 1024 * 1024, time: Duration::from_millis(500), redirects: 0 };

/// A running Ollama with a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ollama {
    /// Base URL of its Chat Completions (`…/v1`).
    pub base_url: Url,
    /// Its models that can chat, most recently changed first; never empty.
    pub models: Vec<String>,
}

impl Ollama {
    /// Asks Ollama for its models. `host` is the value of `OLLAMA_HOST`. `None` if it is not running or has no model.
    pub async fn find(host: Option<&str>, client: &HttpClient) -> Option<Self> {
        let root = address(host.unwrap_or_default())?;
        let mut request = Request::new(Bytes::new());
        *request.method_mut() = Method::GET;
        *request.uri_mut() = format!("{root}/api/tags").parse().ok()?;
        let response = client.fetch(request, LIMITS).await.ok().filter(|response| response.status().is_success())?;
        let listed: Value = serde_json::from_slice(response.body()).ok()?;
        let mut listed: Vec<&Value> = listed["models"].as_array()?.iter().collect();
        // Dates in RFC 3339; those without one keep their order.
        listed.sort_by(|one, other| other["modified_at"].as_str().cmp(&one["modified_at"].as_str()));
        let names = listed.into_iter().filter_map(|model| model["name"].as_str());
        // Embedding models cannot chat.
        let models: Vec<String> = names.filter(|name| !name.contains("embed")).map(str::to_owned).collect();
        let base_url = format!("{root}/v1").parse().ok()?;
        (!models.is_empty()).then_some(Self { base_url, models })
    }
}

/// The origin that `OLLAMA_HOST` means: a host, a port or both, with or without a scheme.
fn address(host: &str) -> Option<String> {
    let host = host.trim().trim_end_matches('/');
    let (scheme, rest) = host.split_once("://").unwrap_or(("http", host));
    let rest = if rest.starts_with(':') || rest.is_empty() { format!("127.0.0.1{rest}") } else { rest.to_owned() };
    let mut url: Url = format!("{scheme}://{rest}").parse().ok()?;
    // The address of all interfaces is one to listen at, not to connect to.
    if matches!(url.host_str(), Some("0.0.0.0" | "[::]")) {
        url.set_host(Some("127.0.0.1")).ok()?;
    }
    let has_port = rest.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if !has_port && scheme == "http" {
        url.set_port(Some(DEFAULT_PORT)).ok()?;
    }
    Some(url.as_str().trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn every_form_of_ollama_host_is_understood() {
        for (host, expected) in [
            ("", "http://127.0.0.1:11434"),
            ("localhost", "http://localhost:11434"),
            ("0.0.0.0", "http://127.0.0.1:11434"),
            ("0.0.0.0:8080", "http://127.0.0.1:8080"),
            (":8080", "http://127.0.0.1:8080"),
            ("box:8080", "http://box:8080"),
            ("http://box:8080/", "http://box:8080"),
            ("http://box", "http://box:11434"),
            ("https://ollama.example.com", "https://ollama.example.com"),
            ("[::1]:8080", "http://[::1]:8080"),
        ] {
            assert_eq!(address(host).as_deref(), Some(expected), "{host}");
        }
        assert_eq!(address("not a host"), None);
    }
}
