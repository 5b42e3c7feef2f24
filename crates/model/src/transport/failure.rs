//! What a vendor's refusal means: an HTTP status with headers and a body.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode, header};
use serde_json::Value;

use crate::{
    ModelErrorKind,
    wire::{kind_of_word, text},
};

/// The body of a refusal.
pub(super) struct Refusal {
    /// The vendor's message: `error.message` of a JSON object, or the text itself.
    pub(super) message: Option<String>,
    error: Value,
}

impl Refusal {
    /// Reads a body, which may be cut. Gemini sends a list of one object where it was asked for a stream.
    pub(super) fn read(body: &[u8]) -> Self {
        let whole = String::from_utf8_lossy(body).trim().to_owned();
        let Ok(json) = serde_json::from_str::<Value>(&whole) else {
            return Self { message: (!whole.is_empty()).then_some(whole), error: Value::Null };
        };
        let json = if json.is_array() { json[0].clone() } else { json };
        let error = if json["error"].is_null() { json } else { json["error"].clone() };
        let message = error["message"].as_str().or(error.as_str()).unwrap_or(&whole).to_owned();
        Self { message: Some(message), error }
    }

    /// The kind of the error.
    pub(super) fn kind(&self, status: StatusCode) -> ModelErrorKind {
        let number = status.as_u16();
        match number {
            401 | 403 => ModelErrorKind::Unauthorized { status: number },
            429 => ModelErrorKind::RateLimited,
            408 | 500.. => ModelErrorKind::Unavailable { status: number },
            _ => self.kind_of_words(number),
        }
    }

    /// The kind by the words of the vendor. Gemini refuses an invalid key with 400.
    fn kind_of_words(&self, status: u16) -> ModelErrorKind {
        let message = self.message.as_deref().unwrap_or_default();
        let words = [text(&self.error, "code"), text(&self.error, "type"), message];
        let kinds = words.iter().map(|word| kind_of_word(word, status));
        let mut telling = kinds.filter(|kind| {
            matches!(kind, ModelErrorKind::ContextExceeded)
                || (matches!(kind, ModelErrorKind::Unauthorized { .. })
                    && message.to_ascii_lowercase().contains("api key"))
        });
        telling.next().unwrap_or(ModelErrorKind::InvalidRequest { status })
    }

    /// How long to wait: `retry-after-ms`, `retry-after` in seconds or as a date, or Gemini's `RetryInfo` in the body.
    pub(super) fn retry_after(&self, headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
        let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
        let of_headers = number("retry-after-ms").map(|millis| millis / 1_000.0).or_else(|| number("retry-after"));
        let details = self.error["details"].as_array();
        let delays = details.into_iter().flatten().filter_map(|detail| detail["retryDelay"].as_str());
        let mut of_body = delays.filter_map(|delay| delay.strip_suffix('s')?.parse::<f64>().ok());
        // Negative and absurd values are no durations.
        let seconds = of_headers.or_else(|| date(headers, now)).or_else(|| of_body.next());
        seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    }
}

/// The seconds until the date in `retry-after`; none if it has passed.
fn date(headers: &HeaderMap, now: SystemTime) -> Option<f64> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    let then = httpdate::parse_http_date(text.trim()).ok()?;
    Some(then.duration_since(now).unwrap_or_default().as_secs_f64())
}

/// The media type of a body in lower case, without parameters; empty if it is not given.
pub(super) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}
